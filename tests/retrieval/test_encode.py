"""`mrc encode` by one process, and by the rest of two; `test_several_processes` runs both."""

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.jobs.processes import PROGRAM, start_detached
from mrc_workbench.data.store import find
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.sources import find_model
from mrc_workbench.models.windows import WindowOptions
from mrc_workbench.workbench.cli import main
from tests.programs import wait_for_fork_server
from tests.tiny_models import SENTENCES, build_bi_encoder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_bi_encoder(tmp_path_factory.mktemp("model") / "tiny")


def encoded(out: Path) -> dict[str, np.ndarray]:
    metadata = json.loads((out / "encoding.json").read_text(encoding="utf-8"))
    assert not list(out.glob("*.parts"))
    return {name: np.load(out / file) for name, file in metadata["files"].items()}


def words_for(model: Path, folder: Path, texts: Sequence[str]) -> list[str]:
    rows = [json.dumps({"question": f"{text[:200]}?", "context": text}, ensure_ascii=False) for text in texts]
    (folder / "data.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return ["encode", "--data", str(folder / "data.jsonl"), "--model", str(model)]


@pytest.fixture(scope="module")
def arguments(model: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    words = " ".join(SENTENCES).split()
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, length)) for length in rng.integers(5, 40, 700)]
    return words_for(model, tmp_path_factory.mktemp("data"), texts)


@pytest.fixture(scope="module")
def expected(arguments: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    single_process_folder = tmp_path_factory.mktemp("one")
    assert main([*arguments, "--out", str(single_process_folder)]) == 0
    vectors = encoded(single_process_folder)
    assert {name: len(rows) for name, rows in vectors.items()} == {"passages": 700, "questions": 700}
    return vectors


@contextmanager
def as_process(rank: int, count: int = 2) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANK", str(rank))
        patch.setenv("WORLD_SIZE", str(count))
        yield


def test_rerun_continues_killed_process(arguments: list[str], expected: dict[str, np.ndarray], tmp_path: Path) -> None:
    words = [*arguments, "--out", str(tmp_path)]
    wait_for_fork_server()
    with as_process(0):
        first = start_detached(PROGRAM, *words, log=tmp_path / "log")
    end = time.monotonic() + 120
    while not list(tmp_path.glob("*.parts/*.npz")):
        assert time.monotonic() < end
        time.sleep(0.005)
    os.kill(first.pid, signal.SIGKILL)
    first.wait(60)
    with as_process(1):
        assert main(words) == 0
    assert not (tmp_path / "encoding.json").exists()
    assert main(words) == 0
    np.testing.assert_equal(encoded(tmp_path), expected)


def test_comparison_reuses_encoded_vectors(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    words = ["encode", "--data", "sample", "--model", str(model), "--out", str(out), "--precision", "float32"]
    assert main(words) == 0
    metadata = json.loads((out / "encoding.json").read_text(encoding="utf-8"))
    sample = find("sample")
    assert metadata["ids"]["passages"] == [passage.id for passage in sample.passages]
    assert metadata["data_fingerprint"] == sample.fingerprint
    assert f"{len(sample.questions):,} questions, 32 dimensions" in capsys.readouterr().out
    corpus = sample.passages.indexed_texts(title=True)
    encoder = BiEncoder(find_model(str(model)), corpus, precision=Precision(metadata["precision"]))
    np.testing.assert_array_equal(encoder.encode_passages(corpus), np.load(out / metadata["files"]["passages"]))
    assert "model" not in vars(encoder)


def test_reports_missing_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["encode", "--data", "sample", "--model", "no such model!", "--out", str(tmp_path)]) == 2
    assert "no such model!" in capsys.readouterr().err


def test_encodes_windows_that_comparison_reuses(model: Path, tmp_path: Path) -> None:
    words = " ".join(SENTENCES).split()
    texts = [" ".join(np.random.default_rng(n).choice(words, n)) for n in (20, 300, 30)]
    arguments = words_for(model, tmp_path, texts)
    assert main([*arguments, "--out", str(tmp_path / "all")]) == 0
    metadata = json.loads((tmp_path / "all" / "encoding.json").read_text(encoding="utf-8"))
    vectors = encoded(tmp_path / "all")
    passages = find(arguments[2], Path()).passages
    encoder = BiEncoder(find_model(str(model)), passages.indexed_texts(title=True))
    windows = encoder.windows_of(passages.texts, passages.title_lengths(title=True), WindowOptions())
    window_vectors, _ = encoder.encode_windows(passages.texts, windows)
    assert "model" not in vars(encoder)
    np.testing.assert_array_equal(window_vectors, np.concatenate([vectors["passages"], vectors["windows"]]))
    assert [id_ for id_, _, _ in metadata["windows"]] == ["p2"] * len(vectors["windows"])
    assert metadata["windows"][-1][2] == len(texts[1])
    assert main([*arguments, "--no-windows", "--out", str(tmp_path / "beginnings")]) == 0
    assert set(encoded(tmp_path / "beginnings")) == {"passages", "questions"}
