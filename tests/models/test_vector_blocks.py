"""Blocks of vectors on disk, of an encoder that derives vectors from texts, and costs of texts."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.models import vectors as vector_blocks

TEXTS = [f"{row} " + "x" * (7 * row % 31) for row in range(50)]
SLOW = """
import sys, time
from pathlib import Path
from tests.models import test_vector_blocks as module
class Slow(module.Counting):
    def __call__(self, texts):
        time.sleep(0.05)
        return super().__call__(texts)
module.vector_blocks.BLOCK = 4
module.blocks(Slow()).load_or_compute(Path(sys.argv[1]))
"""
# milliseconds a text of so many Korean characters took multilingual-e5-small in bfloat16, 8 to 256 of them together
MEASURED = {15: 1.34, 30: 2.0, 60: 3.4, 120: 6.31, 250: 14.55, 500: 32.42, 800: 63.96}


class Counting:
    """Encodes a text as its number and length, and records the texts of each block."""

    def __init__(self) -> None:
        self.encoded_texts: list[list[str]] = []
        self.loads = 0

    def __call__(self, texts: list[str]) -> np.ndarray:
        self.encoded_texts.append(texts)
        return np.array([[int(text.split()[0]), len(text)] for text in texts], dtype=np.float32)

    def load(self) -> None:
        self.loads += 1


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_blocks, "BLOCK", 4)


def blocks(encode: Counting, texts: Sequence[str] = TEXTS) -> vector_blocks.VectorBlocks:
    return vector_blocks.VectorBlocks(texts, encode, encode.load, lambda _: None)


def assert_all(stored: vector_blocks.StoredVectors) -> None:
    assert stored.vectors.dtype == np.float32
    assert stored.vectors.tolist() == [[row, len(text)] for row, text in enumerate(TEXTS)]


def test_maps_and_reuses_vectors_in_text_order(tmp_path: Path) -> None:
    encode = Counting()
    stored = blocks(encode).load_or_compute(tmp_path / "vectors.npy")
    assert_all(stored)
    assert isinstance(stored.vectors, np.memmap)
    assert [len(block) for block in encode.encoded_texts] == [4] * 12 + [2]
    lengths = [len(text) for block in encode.encoded_texts for text in block]
    assert lengths == sorted(lengths, reverse=True)
    assert {path.name for path in tmp_path.iterdir()} == {"vectors.npy", "vectors.json"}  # no parts are left
    assert_all(blocks(Counting()).computed())
    assert len(blocks(Counting(), texts=[]).computed().vectors) == 0  # the library says `array([])`, as the double does
    again = Counting()
    reused = blocks(again).load_or_compute(tmp_path / "vectors.npy")
    assert_all(reused)
    assert (again.encoded_texts, again.loads) == ([], 0)
    assert (reused.seconds, reused.load_seconds) == (stored.seconds, stored.load_seconds)
    assert reused.seconds > 0


def test_interruption_loses_no_finished_block(tmp_path: Path) -> None:
    class Ending(Counting):
        def __call__(self, texts: list[str]) -> np.ndarray:
            if len(self.encoded_texts) == 5:
                raise KeyboardInterrupt
            return super().__call__(texts)

    with pytest.raises(KeyboardInterrupt):
        blocks(Ending()).load_or_compute(tmp_path / "vectors.npy")
    rest = Counting()
    assert_all(blocks(rest).load_or_compute(tmp_path / "vectors.npy"))
    assert len(rest.encoded_texts) == 13 - 5


@pytest.mark.slow
def test_continues_after_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npy"
    process = subprocess.Popen([sys.executable, "-c", SLOW, str(path)], cwd=PROJECT)
    end = time.monotonic() + 60
    while len(list(tmp_path.glob("vectors.parts/*.npz"))) < 3:
        assert time.monotonic() < end
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not path.exists()
    done = len(list(tmp_path.glob("vectors.parts/*.npz")))
    rest = Counting()
    assert_all(blocks(rest).load_or_compute(path))
    assert len(rest.encoded_texts) == 13 - done


def test_recomputes_corrupt_part_and_file(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npy"
    parts = tmp_path / "vectors.parts"
    blocks(Counting()).load_or_compute(path, vector_blocks.ProcessRank(1, 2))
    torn = parts / f"{1:08}.npz"
    torn.write_bytes(torn.read_bytes()[:60])
    second = Counting()
    assert_all(blocks(second).load_or_compute(path))
    assert len(second.encoded_texts) == 7 + 1
    path.write_bytes(path.read_bytes()[:100])
    third = Counting()
    assert_all(blocks(third).load_or_compute(path))
    assert len(third.encoded_texts) == 13
    assert vector_blocks.read_vectors(path) is not None


@pytest.mark.parametrize("processes", [1, 2, 3, 20])
def test_processes_share_blocks(processes: int, tmp_path: Path) -> None:
    alone = Counting()
    expected = blocks(alone).computed().vectors
    encoded_texts = []
    for rank in reversed(range(processes)):  # the first comes last and assembles
        encode = Counting()
        stored = blocks(encode).load_or_compute(tmp_path / "vectors.npy", vector_blocks.ProcessRank(rank, processes))
        assert (len(stored.vectors) == 0) == (rank > 0)
        encoded_texts += encode.encoded_texts
    assert stored.vectors.tobytes() == expected.tobytes()
    assert sorted(encoded_texts) == sorted(alone.encoded_texts)


def test_first_process_encodes_unfinished_blocks(tmp_path: Path) -> None:
    first = Counting()
    assert_all(blocks(first).load_or_compute(tmp_path / "vectors.npy", vector_blocks.ProcessRank(0, 2)))
    assert len(first.encoded_texts) == 13
    late = Counting()
    blocks(late).load_or_compute(tmp_path / "vectors.npy", vector_blocks.ProcessRank(1, 2))
    assert late.encoded_texts == []


def test_removes_part_written_after_merge(tmp_path: Path) -> None:
    class Overtaken(Counting):
        def __call__(self, texts: list[str]) -> np.ndarray:
            if len(self.encoded_texts) == 5:  # of 6: the first process takes over
                blocks(Counting()).load_or_compute(tmp_path / "vectors.npy", vector_blocks.ProcessRank(0, 2))
            return super().__call__(texts)

    encode = Overtaken()
    blocks(encode).load_or_compute(tmp_path / "vectors.npy", vector_blocks.ProcessRank(1, 2))
    assert len(encode.encoded_texts) == 6
    assert {path.name for path in tmp_path.iterdir()} == {"vectors.npy", "vectors.json"}


def test_merging_parts_survives_concurrent_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "vectors.npy"
    assembled = vector_blocks.VectorBlocks._assemble

    def overtaken(self: vector_blocks.VectorBlocks, to: Path, parts: Path) -> vector_blocks.StoredVectors:
        monkeypatch.setattr(vector_blocks.VectorBlocks, "_assemble", assembled)
        blocks(Counting()).load_or_compute(to)  # it assembles, too, and ends first
        assert not parts.exists()
        return assembled(self, to, parts)

    monkeypatch.setattr(vector_blocks.VectorBlocks, "_assemble", overtaken)
    assert_all(blocks(Counting()).load_or_compute(path))


def test_returns_vectors_if_disk_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("where the folder should be")
    encode = Counting()
    assert_all(blocks(encode).load_or_compute(tmp_path / "file" / "vectors.npy"))
    assert len(encode.encoded_texts) == 13


def test_reports_fraction_of_work(tmp_path: Path) -> None:
    progress: list[float] = []
    encode = Counting()
    vector_blocks.VectorBlocks(TEXTS, encode, encode.load, progress.append).load_or_compute(tmp_path / "vectors.npy")
    costs = vector_blocks.reading_costs(np.sort([len(text) or 1 for text in TEXTS]))
    assert progress[0] == pytest.approx(costs[-4:].sum() / costs.sum())
    assert progress == sorted(progress)
    assert progress[-1] == pytest.approx(1)


def test_reads_rank_from_torchrun_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert vector_blocks.ProcessRank.from_environment() == vector_blocks.ProcessRank(0, 1)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert vector_blocks.ProcessRank.from_environment() == vector_blocks.ProcessRank(2, 3)


def test_reading_costs_match_measured_ratios() -> None:
    costs = dict(zip(MEASURED, vector_blocks.reading_costs(np.array([*MEASURED])).tolist(), strict=True))
    a_character = MEASURED[250] / costs[250]
    for length, milliseconds in MEASURED.items():
        assert costs[length] * a_character == pytest.approx(milliseconds, rel=0.12)
    # models read no more of a longer text
    assert vector_blocks.reading_costs(np.array([2000, 2001, 100_000])).tolist() == [2012 + 2000**2 / 1200] * 3
    assert vector_blocks.reading_costs(np.zeros(0, dtype=np.int64)).sum() == 0


@given(st.lists(st.lists(st.text("abc", max_size=2), min_size=1, max_size=6), max_size=20), st.integers(1, 5))
def test_recent_vectors_are_limited(requests: list[list[str]], most: int) -> None:
    recent = vector_blocks.RecentVectors(most)

    def encode(texts: list[str]) -> np.ndarray:
        return np.array([[float(len(text)), float(sum(map(ord, text)))] for text in texts], dtype=np.float32)

    for texts in requests:
        np.testing.assert_array_equal(recent.lookup(texts, encode), encode(texts))
        assert len(recent) <= most


def test_recently_used_text_is_not_encoded_again() -> None:
    recent = vector_blocks.RecentVectors(2)
    encoded = list[str]()

    def encode(texts: list[str]) -> np.ndarray:
        encoded.extend(texts)
        return np.ones((len(texts), 3), dtype=np.float32)

    for texts in (["a"], ["b"], ["a"], ["c"], ["a"], ["b"]):
        recent.lookup(texts, encode)
    assert encoded == ["a", "b", "c", "b"]
