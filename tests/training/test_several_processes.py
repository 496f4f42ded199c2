"""Two processes under torchrun on CPU learn and encode the same as one, and tokenize a text once."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.models.language.masking import IGNORED
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.training.recipes.language_data import MaskedRows
from mrc_workbench.training.runs import Run
from mrc_workbench.training.train import _processes
from mrc_workbench.workbench.cli import main
from tests.retrieval.test_encode import arguments, encoded, expected, model
from tests.tiny_models import build_bi_encoder, build_masked_base
from tests.training.recipes.language_worlds import text_file
from tests.training.worlds import create_planned_run, misleading_set, read_logged, run_python
from tests.two_machines import torchrun_on, two_machines

__all__ = ["arguments", "expected", "model"]  # fixtures
pytestmark = pytest.mark.slow

LEARNING_RATE = 0.0005
FLOAT32 = ["--learning-rate", str(LEARNING_RATE), "--precision", "float32"]
GATHERING_OPTIONS = ["--objective", "multiple-negatives", *FLOAT32]
GATHERING_OPTIONS += ["--batch-size", "28", "--logging-steps", "1", "--epochs", "1"]
DOCUMENTS = {"mlm": 33, "mlm-nsp": 54}  # 112 and 48 rows: complete batches
_original_batch = MaskedRows.batch


def trained(folder: Path) -> Run:
    run = Run(folder)
    assert run.status().state is State.DONE, run.status().message
    return run


def weights(run: Run) -> dict[str, np.ndarray]:
    return dict(load_file(next(run.model_folder.rglob("model.safetensors"))))


def without_dropout(model: Path) -> str:
    """Two processes draw other random numbers than one."""
    config = model / "config.json"
    plain = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config.write_text(json.dumps(json.loads(config.read_text()) | plain))
    return str(model)


def ranking(out: Path, base: str, *options: str) -> list[str]:
    return ["bi-encoder", "--data", "sample", "--out", str(out), "--base", base, *options]


def of_language(out: Path, documents: int, *options: str) -> list[str]:
    short = ["--max-length", "32", "--batch-size", "16", "--epochs", "1", "--logging-steps", "1", *FLOAT32]
    shares = ["--validation-fraction", "0.2", "--test-fraction", "0.1"]
    return ["language-model", "--data", text_file(documents), "--out", str(out), *short, *shares, *options]


@pytest.fixture(scope="module")
def single_and_two_process_runs(arguments: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders `one` and `two` with the same trainings: in this process, and in two under torchrun.

    `two` also holds `new`, a language model with a new tokenizer, and `vectors`, which the second process has encoded
    in part before.
    """
    folder = tmp_path_factory.mktemp("processes")
    tiny = without_dropout(build_bi_encoder(folder / "model"))
    models = {"mlm": build_masked_base(folder / "roberta"), "mlm-nsp": build_bi_encoder(folder / "bert")}
    bases = {objective: without_dropout(model) for objective, model in models.items()}

    def in_both(out: Path) -> list[list[str]]:
        language = [
            of_language(out / objective, DOCUMENTS[objective], "--base", base, "--objective", objective)
            for objective, base in bases.items()
        ]
        starts = (("starter", "starter"), ("tiny", tiny))
        rankings = [ranking(out / name, base, *GATHERING_OPTIONS) for name, base in starts]
        return [["train", *words] for words in (*rankings, *language)]

    vectors = folder / "two" / "vectors"
    encoding = [*arguments, "--out", str(vectors)]
    # the training of Unigram is not deterministic
    new = of_language(folder / "two" / "new", 100, "--tokenizer-kind", "unigram", "--vocabulary", "1000")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(folder / "workspace"))
        with pytest.MonkeyPatch.context() as second:
            second.setenv("RANK", "1")
            second.setenv("WORLD_SIZE", "2")
            assert main(encoding) == 0
        assert [path.name for path in vectors.glob("passages-*.parts/*")] == ["00000001.npz"]
        assert not (vectors / "encoding.json").exists()
        run_in_two_processes([encoding, ["train", *new, "--size", "tiny"], *in_both(folder / "two")], folder)
        patch.setattr(MaskedRows, "batch", batch_in_parts)
        for words in in_both(folder / "one"):
            assert main(words) == 0
    return folder


def run_in_two_processes(commands: list[list[str]], folder: Path) -> None:
    """Run commands under torchrun, on two machines if the system permits that, else on this one."""
    words = ("tests.commands", json.dumps([["mrc_workbench", *command] for command in commands]))
    settings = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROJECT), "MRC_LOCK": str(folder / "lock")}
    try:
        with two_machines() as machines:
            torchrun_on(machines, words, folder, **settings)
    except pytest.skip.Exception:
        torchrun = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", *words)
        done = run_python("-m", *torchrun, environment=os.environ | settings)
        assert done.returncode == 0, done.stderr[-3000:]


def batch_in_parts(hidden: MaskedRows, rows: Sequence[int]) -> dict[str, np.ndarray]:
    half = len(rows) // 2
    if not half:
        return _original_batch(hidden, rows)
    parts = [_original_batch(hidden, rows[:half]), _original_batch(hidden, rows[half:])]
    width = max(part["labels"].shape[1] for part in parts)
    filled = {"labels": IGNORED, "input_ids": hidden.blocks.specials.pad}  # type: ignore[attr-defined]  # as both kinds have

    def padded(name: str, array: np.ndarray) -> np.ndarray:
        missing = width - array.shape[1] if name not in ("shares", "follows") else 0
        return np.pad(array, [(0, 0), (0, missing)], constant_values=filled.get(name, 0))

    return {name: np.concatenate([padded(name, part[name]) for part in parts]) for name in parts[0]}


@pytest.mark.parametrize("base", ["starter", "tiny"])
def test_gathered_negatives_match_single_process(base: str, single_and_two_process_runs: Path) -> None:
    single, two = (trained(single_and_two_process_runs / out / base) for out in ("one", "two"))
    assert_same(single, two)
    assert two.provenance()["processes"] == {"count": 2, "negatives": "gathered"}


def test_two_processes_encode_what_is_left(single_and_two_process_runs: Path, expected: dict[str, np.ndarray]) -> None:
    np.testing.assert_equal(encoded(single_and_two_process_runs / "two" / "vectors"), expected)


def assert_same(single: Run, two: Run) -> None:
    assert two.status().total_steps == single.status().total_steps == 12  # 336 pairs
    assert len(read_logged(single, "loss")) == 12
    assert_learnt_the_same(single, two)
    assert two.scores()["after"]["ndcg@10"] == pytest.approx(single.scores()["after"]["ndcg@10"], abs=0.01)


def assert_learnt_the_same(single: Run, two: Run) -> None:
    assert len(read_logged(single, "loss")) == len(read_logged(two, "loss"))
    np.testing.assert_allclose(read_logged(two, "loss"), read_logged(single, "loss"), rtol=1e-3)
    for name, array in weights(single).items():
        # Adam makes a full step of a gradient that is only rounding: few weights may differ, and by few steps
        difference = np.abs(weights(two)[name] - array)
        assert (difference > 1e-4).mean() < 0.01, name
        assert difference.max() < 3 * LEARNING_RATE, name


def test_warns_about_ungathered_negatives(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    plan = create_planned_run(BI_ENCODER, misleading_set()).plan()
    assert _processes(plan) == {}
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert _processes(plan) == {"processes": {"count": 2, "negatives": "own"}}
    assert "each process uses only the negatives of its part of the batch" in caplog.text


def test_requires_output_folder(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert main(["train", "bi-encoder", "--data", "sample"]) == 2
    assert "need --out" in capsys.readouterr().err


@pytest.mark.parametrize("objective", DOCUMENTS)
def test_language_model_matches_single_process(objective: str, single_and_two_process_runs: Path) -> None:
    single, two = (trained(single_and_two_process_runs / out / objective) for out in ("one", "two"))
    assert two.provenance()["processes"] == {"count": 2, "negatives": "none"}
    assert len(read_logged(single, "loss")) == {"mlm": 7, "mlm-nsp": 3}[objective]
    assert_learnt_the_same(single, two)


def test_processes_share_tokenizer_and_tokens(single_and_two_process_runs: Path) -> None:
    new = trained(single_and_two_process_runs / "two" / "new")
    cache = single_and_two_process_runs / "workspace" / "cache"
    (tokenizer,) = (path for path in (cache / "tokenizers").iterdir() if path.is_dir())
    paths = [folder / "tokenizer.json" for folder in (tokenizer, new.model_folder)]
    stored, saved = (dict(json.loads(path.read_bytes())["model"]["vocab"]) for path in paths)
    assert list(saved) == list(stored)
    assert saved == pytest.approx(stored, abs=1e-9), "of those that read and write it, the last digit"
    assert sum(path.is_dir() for path in (cache / "tokens").iterdir()) == 3, "of three trainings"
