"""The stand-in hub serves the real libraries: they load the models that are on disk."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest

from mrc_workbench.data.workspace import PROJECT
from tests.hub import BI_ENCODER, CROSS_ENCODER_BASE, hub_environment, running_server
from tests.tiny_models import SENTENCES, build_bi_encoder, build_cross_encoder_base

pytestmark = pytest.mark.slow

# loads both models, then asks for what the hub does not have
SCRIPT = """
import sys, numpy
from huggingface_hub import hf_hub_download
from sentence_transformers import SentenceTransformer
from tests.test_hub import results

numpy.savez(sys.argv[3], *results(sys.argv[1], sys.argv[2]))
attempts = (
    lambda: SentenceTransformer("nobody/no-such-model"),
    lambda: hf_hub_download("nobody/no-such-model", "config.json"),
    lambda: hf_hub_download("klue/roberta-base", "config.json", revision="no-such-branch"),
    lambda: hf_hub_download("klue/roberta-base", "no-such-file.json"),
)
for attempt in attempts:
    try:
        attempt()
    except Exception as error:
        print(type(error).__module__.split(".")[0], type(error).__name__)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub")
    build_bi_encoder(folder / BI_ENCODER)
    build_cross_encoder_base(folder / CROSS_ENCODER_BASE)
    return folder


def results(bi_encoder: str, cross_encoder: str) -> tuple[np.ndarray, np.ndarray]:
    import torch
    from sentence_transformers import CrossEncoder, SentenceTransformer

    vectors = SentenceTransformer(bi_encoder, device="cpu").encode(list(SENTENCES))
    torch.manual_seed(0)  # the classification head is not in the base: it is drawn while loading
    pairs = [(SENTENCES[0], text) for text in SENTENCES]
    scores = CrossEncoder(cross_encoder, num_labels=1, device="cpu").predict(pairs)
    return vectors, scores


@dataclass
class FreshProcess:
    """A process's results from the hub, its output, and its requests."""

    vectors: np.ndarray
    scores: np.ndarray
    printed: list[str]
    requests: list[str]
    unknown: list[str]


@pytest.fixture(scope="module")
def fresh(root: Path, tmp_path_factory: pytest.TempPathFactory) -> FreshProcess:
    folder = tmp_path_factory.mktemp("fresh")
    command = [sys.executable, "-c", SCRIPT, BI_ENCODER, CROSS_ENCODER_BASE, str(folder / "results.npz")]
    with running_server(root) as server:
        environment = hub_environment(server.url, folder / "home")
        done = subprocess.run(
            command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
    assert done.returncode == 0, done.stderr
    with np.load(folder / "results.npz") as file:
        vectors = file["arr_0"]
        scores = file["arr_1"]
    return FreshProcess(vectors, scores, done.stdout.splitlines(), server.requests, server.unknown)


def test_models_from_the_hub_equal_those_on_disk(root: Path, fresh: FreshProcess) -> None:
    assert fresh.unknown == []
    downloads = {line.rpartition("/")[2] for line in fresh.requests if re.match("GET .*/resolve/", line)}
    assert {"modules.json", "config.json", "model.safetensors", "tokenizer.json"} <= downloads
    vectors, scores = results(str(root / BI_ENCODER), str(root / CROSS_ENCODER_BASE))
    assert fresh.vectors.shape == (len(SENTENCES), 32)
    np.testing.assert_allclose(fresh.vectors, vectors, atol=1e-6)
    np.testing.assert_allclose(fresh.scores, scores, atol=1e-6)
    assert len(np.unique(fresh.vectors.round(4), axis=0)) == len(SENTENCES)


def test_missing_files_raise_the_errors_of_the_real_hub(fresh: FreshProcess) -> None:
    errors = ("RepositoryNotFoundError", "RepositoryNotFoundError", "RevisionNotFoundError", "RemoteEntryNotFoundError")
    assert fresh.printed == [f"huggingface_hub {error}" for error in errors]


def test_records_unknown_requests(root: Path) -> None:
    with running_server(root) as server, pytest.raises(HTTPError):
        urlopen(f"{server.url}/api/spaces")
    assert server.unknown == ["GET /api/spaces"]


def test_base_with_a_single_segment_type_rejects_pairs(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(str(build_cross_encoder_base(tmp_path, segment_types=1)), num_labels=1, device="cpu")
    with pytest.raises(IndexError):
        model.predict([SENTENCES[:2]])
    model.tokenizer.model_input_names = ["input_ids", "attention_mask"]
    assert np.isfinite(model.predict([SENTENCES[:2]])).all()
