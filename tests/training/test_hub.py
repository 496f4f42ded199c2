"""Both trainings from the hub ids that are the defaults, served by the stand-in hub with the real ones' quirks."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from data.split import SplitOptions
from data.store import find, keep
from retrieval.models import BiEncoder, CrossEncoderScorer
from tests.doubles import small_set
from tests.hub import (
    BI_ENCODER,
    CROSS_ENCODER_BASE,
    build_bi_encoder,
    build_cross_encoder_base,
    hub_environment,
    hub_server,
)
from tests.training.worlds import PROJECT, logged, source_of
from training.material import Material
from training.runs import Run, State

pytestmark = pytest.mark.slow
TRAIN_BOTH = """
import sys
from training.__main__ import main

data, out = sys.argv[1:]
shares = ["--data", data, "--validation-share", "0.25", "--test-share", "0.25", "--split-seed", "1"]
often = ["--logging-steps", "1", "--epochs", "3", "--learning-rate", "0.001"]
bi, cross = (["--base", base] for base in ("snunlp/KR-SBERT-V40K-klueNLI-augSTS", "klue/roberta-base"))
assert main(["bi-encoder", *bi, *shares, *often, "--mini-batch-size", "2", "--out", f"{out}/bi"]) == 0
assert main(["cross-encoder", *cross, *shares, *often, "--out", f"{out}/cross"]) == 0
"""


class Runs(NamedTuple):
    bi_encoder: Run
    cross_encoder: Run

    def material(self) -> Material:
        return Material.of(self.bi_encoder.plan(), find(self.bi_encoder.plan().data))


@pytest.fixture(scope="module")
def hub_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hub-trainings")


@pytest.fixture(scope="module")
def _runs(hub_workspace: Path) -> Runs:
    models = hub_workspace / "hub"
    build_bi_encoder(models / BI_ENCODER)
    build_cross_encoder_base(models / CROSS_ENCODER_BASE, segment_types=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(hub_workspace))
        key = keep(small_set()).key
    with hub_server(models) as url:
        environment = hub_environment(url, hub_workspace / "home") | {"MRC_WORKSPACE": str(hub_workspace)}
        done = subprocess.run(
            [sys.executable, "-c", TRAIN_BOTH, key, str(hub_workspace)],
            cwd=PROJECT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr
    return Runs(Run(hub_workspace / "bi"), Run(hub_workspace / "cross"))


@pytest.fixture
def runs(_runs: Runs, hub_workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setenv("MRC_WORKSPACE", str(hub_workspace))
    return _runs


def test_both_are_done_with_the_defaults_of_a_pretrained_base(runs: Runs) -> None:
    for run, base in zip(runs, (BI_ENCODER, CROSS_ENCODER_BASE), strict=True):
        assert run.status().state is State.DONE
        assert (run.plan().options.base, run.plan().split) == (base, SplitOptions(0.25, 0.25, 1))
        assert len(logged(run, "loss")) == run.status().total_steps > 0
        assert np.isfinite(logged(run, "loss")).all()
    assert runs.bi_encoder.plan().options.batch_size == 64
    assert runs.cross_encoder.plan().options.batch_size == 16


def test_weights_are_safetensors_only(runs: Runs) -> None:
    for run in runs:
        names = {path.name for path in run.model_folder.rglob("*") if path.is_file()}
        assert "model.safetensors" in names
        assert not [name for name in names if name.endswith((".bin", ".pt", ".pth", ".pkl"))]


def test_the_trained_bi_encoder_is_a_plain_sentence_transformer(runs: Runs) -> None:
    from sentence_transformers import SentenceTransformer

    material = runs.material()
    plain = SentenceTransformer(str(runs.bi_encoder.model_folder), device="cpu")
    vectors = plain.encode(material.texts, normalize_embeddings=True)
    ours = BiEncoder(source_of(runs.bi_encoder), material.texts)
    np.testing.assert_allclose(vectors, ours.encode_passages(material.texts), atol=1e-6)

    questions = [question.text for question in material.validation.questions]
    order = np.argsort(-plain.encode(questions, normalize_embeddings=True) @ vectors.T, axis=1, kind="stable")
    wanted = [{material.question_set.row_of_passage[id_] for id_ in q.relevant} for q in material.validation.questions]
    recall = np.mean([len(rows & {int(order[i, 0])}) / len(rows) for i, rows in enumerate(wanted)])
    assert runs.bi_encoder.scores()["after"]["recall@1"] == pytest.approx(recall, abs=1e-9)

    untrained = SentenceTransformer(str(runs.bi_encoder.folder.parent / "hub" / BI_ENCODER), device="cpu")
    assert np.abs(untrained.encode(material.texts, normalize_embeddings=True) - vectors).max() > 1e-3


def test_the_trained_cross_encoder_is_a_plain_cross_encoder(runs: Runs) -> None:
    from sentence_transformers import CrossEncoder

    material = runs.material()
    pairs = [(question.text, text) for question in material.validation.questions for text in material.texts]
    logits = CrossEncoderScorer(source_of(runs.cross_encoder), material.texts).score(pairs)
    plain = CrossEncoder(str(runs.cross_encoder.model_folder), device="cpu").predict(pairs)
    assert len(np.unique(plain.round(6))) > len(pairs) // 2
    np.testing.assert_allclose(plain, 1 / (1 + np.exp(-logits)), atol=1e-6)
