"""Blocks of vectors on disk, of an encoder whose vectors can be told from the texts, and what texts cost."""

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
from mrc_workbench.models.vectors import RecentVectors, Share, StoredVectors, VectorBlocks, read_vectors, reading_costs

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
module.blocks(Slow()).kept(Path(sys.argv[1]))
"""
# milliseconds a text of so many Korean characters took multilingual-e5-small in bfloat16, 8 to 256 of them together
MEASURED = {15: 1.34, 30: 2.0, 60: 3.4, 120: 6.31, 250: 14.55, 500: 32.42, 800: 63.96}


class Counting:
    """A text's number and its length; remembers what it was asked for, a list a block."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.loads = 0

    def __call__(self, texts: list[str]) -> np.ndarray:
        self.asked.append(texts)
        return np.array([[int(text.split()[0]), len(text)] for text in texts], dtype=np.float32)

    def load(self) -> None:
        self.loads += 1


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_blocks, "BLOCK", 4)


def blocks(encode: Counting, texts: Sequence[str] = TEXTS) -> VectorBlocks:
    return VectorBlocks(texts, encode, encode.load, lambda _: None)


def assert_all(kept: StoredVectors) -> None:
    assert kept.vectors.dtype == np.float32
    assert kept.vectors.tolist() == [[row, len(text)] for row, text in enumerate(TEXTS)]


def test_vectors_come_in_the_order_of_the_texts_and_are_mapped(tmp_path: Path) -> None:
    encode = Counting()
    kept = blocks(encode).kept(tmp_path / "vectors.npy")
    assert_all(kept)
    assert isinstance(kept.vectors, np.memmap)
    assert [len(block) for block in encode.asked] == [4] * 12 + [2]
    lengths = [len(text) for block in encode.asked for text in block]
    assert lengths == sorted(lengths, reverse=True)
    assert {path.name for path in tmp_path.iterdir()} == {"vectors.npy", "vectors.json"}  # no parts are left
    assert_all(blocks(Counting()).computed())


def test_what_is_kept_is_neither_loaded_nor_encoded_again(tmp_path: Path) -> None:
    first = blocks(Counting()).kept(tmp_path / "vectors.npy")
    again = Counting()
    kept = blocks(again).kept(tmp_path / "vectors.npy")
    assert_all(kept)
    assert (again.asked, again.loads) == ([], 0)
    assert (kept.seconds, kept.load_seconds) == (first.seconds, first.load_seconds)
    assert kept.seconds > 0


def test_an_end_in_the_middle_loses_no_block(tmp_path: Path) -> None:
    class Ending(Counting):
        def __call__(self, texts: list[str]) -> np.ndarray:
            if len(self.asked) == 5:
                raise KeyboardInterrupt
            return super().__call__(texts)

    with pytest.raises(KeyboardInterrupt):
        blocks(Ending()).kept(tmp_path / "vectors.npy")
    rest = Counting()
    assert_all(blocks(rest).kept(tmp_path / "vectors.npy"))
    assert len(rest.asked) == 13 - 5


@pytest.mark.slow
def test_a_process_that_is_killed_is_followed_by_one_that_goes_on(tmp_path: Path) -> None:
    place = tmp_path / "vectors.npy"
    process = subprocess.Popen([sys.executable, "-c", SLOW, str(place)], cwd=PROJECT)
    end = time.monotonic() + 60
    while len(list(tmp_path.glob("vectors.parts/*.npz"))) < 3:
        assert time.monotonic() < end
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not place.exists()
    done = len(list(tmp_path.glob("vectors.parts/*.npz")))
    rest = Counting()
    assert_all(blocks(rest).kept(place))
    assert len(rest.asked) == 13 - done


def test_a_torn_part_and_a_torn_file_are_made_anew(tmp_path: Path) -> None:
    place, parts = tmp_path / "vectors.npy", tmp_path / "vectors.parts"
    blocks(Counting()).kept(place, Share(1, 2))
    torn = parts / f"{1:08}.npz"
    torn.write_bytes(torn.read_bytes()[:60])
    second = Counting()
    assert_all(blocks(second).kept(place))
    assert len(second.asked) == 7 + 1
    place.write_bytes(place.read_bytes()[:100])
    third = Counting()
    assert_all(blocks(third).kept(place))
    assert len(third.asked) == 13
    assert read_vectors(place) is not None


@pytest.mark.parametrize("processes", [1, 2, 3, 20])
def test_several_processes_encode_the_same_blocks(processes: int, tmp_path: Path) -> None:
    alone = Counting()
    expected = blocks(alone).computed().vectors
    asked = []
    for rank in reversed(range(processes)):  # the first comes last and assembles
        encode = Counting()
        kept = blocks(encode).kept(tmp_path / "vectors.npy", Share(rank, processes))
        assert (len(kept.vectors) == 0) == (rank > 0)
        asked += encode.asked
    assert kept.vectors.tobytes() == expected.tobytes()
    assert sorted(asked) == sorted(alone.asked)


def test_the_first_does_what_another_left_undone(tmp_path: Path) -> None:
    first = Counting()
    assert_all(blocks(first).kept(tmp_path / "vectors.npy", Share(0, 2)))
    assert len(first.asked) == 13
    late = Counting()
    blocks(late).kept(tmp_path / "vectors.npy", Share(1, 2))
    assert late.asked == []


def test_a_part_that_comes_after_the_whole_does_not_stay(tmp_path: Path) -> None:
    class Overtaken(Counting):
        def __call__(self, texts: list[str]) -> np.ndarray:
            if len(self.asked) == 5:  # of 6: the first process takes over what is not there yet
                blocks(Counting()).kept(tmp_path / "vectors.npy", Share(0, 2))
            return super().__call__(texts)

    encode = Overtaken()
    blocks(encode).kept(tmp_path / "vectors.npy", Share(1, 2))
    assert len(encode.asked) == 6
    assert {path.name for path in tmp_path.iterdir()} == {"vectors.npy", "vectors.json"}


def test_parts_that_another_process_takes_away_are_in_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, assembled = tmp_path / "vectors.npy", VectorBlocks._assembled_as

    def overtaken(self: VectorBlocks, to: Path, parts: Path) -> StoredVectors:
        monkeypatch.setattr(VectorBlocks, "_assembled_as", assembled)
        blocks(Counting()).kept(to)  # it assembles, too, and ends first
        assert not parts.exists()
        return assembled(self, to, parts)

    monkeypatch.setattr(VectorBlocks, "_assembled_as", overtaken)
    assert_all(blocks(Counting()).kept(path))


def test_a_disk_that_cannot_be_written_costs_only_the_saving(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("where the folder should be")
    encode = Counting()
    assert_all(blocks(encode).kept(tmp_path / "file" / "vectors.npy"))
    assert len(encode.asked) == 13


def test_the_share_of_the_work_is_told(tmp_path: Path) -> None:
    told: list[float] = []
    encode = Counting()
    VectorBlocks(TEXTS, encode, encode.load, told.append).kept(tmp_path / "vectors.npy")
    costs = reading_costs(np.sort([len(text) or 1 for text in TEXTS]))
    assert told[0] == pytest.approx(costs[-4:].sum() / costs.sum())
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1)


def test_no_texts_have_no_vectors() -> None:
    assert len(blocks(Counting(), texts=[]).computed().vectors) == 0  # the library says `array([])`, as the double does


def test_the_share_is_what_torchrun_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Share.of_environment() == Share(0, 1)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert Share.of_environment() == Share(2, 3)


def test_costs_are_in_the_ratio_of_what_was_measured() -> None:
    costs = dict(zip(MEASURED, reading_costs(np.array([*MEASURED])).tolist(), strict=True))
    a_character = MEASURED[250] / costs[250]
    for length, milliseconds in MEASURED.items():
        assert costs[length] * a_character == pytest.approx(milliseconds, rel=0.12)


def test_what_is_longer_than_a_model_reads_costs_no_more() -> None:
    assert reading_costs(np.array([2000, 2001, 100_000])).tolist() == [2012 + 2000**2 / 1200] * 3
    assert reading_costs(np.zeros(0, dtype=np.int64)).sum() == 0


@given(st.lists(st.lists(st.text("abc", max_size=2), min_size=1, max_size=6), max_size=20), st.integers(1, 5))
def test_vectors_are_those_of_the_encoder_and_few_are_kept(requests: list[list[str]], most: int) -> None:
    recent = RecentVectors(most)

    def encode(texts: list[str]) -> np.ndarray:
        return np.array([[float(len(text)), float(sum(map(ord, text)))] for text in texts], dtype=np.float32)

    for texts in requests:
        np.testing.assert_array_equal(recent.of(texts, encode), encode(texts))
        assert len(recent) <= most


def test_a_text_that_was_asked_last_is_not_encoded_again() -> None:
    recent, encoded = RecentVectors(2), list[str]()

    def encode(texts: list[str]) -> np.ndarray:
        encoded.extend(texts)
        return np.ones((len(texts), 3), dtype=np.float32)

    for texts in (["a"], ["b"], ["a"], ["c"], ["a"], ["b"]):
        recent.of(texts, encode)
    assert encoded == ["a", "b", "c", "b"]
