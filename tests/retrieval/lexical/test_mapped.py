"""Indexes on the disk: made once, opened by several, made anew where they were cut off or damaged."""

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.workspace import PROJECT, workspace
from mrc_workbench.retrieval.lexical import Segment, index
from mrc_workbench.retrieval.lexical.index import Postings, mapped_postings
from tests.retrieval.lexical.postings import asked, postings_with, segments_with

DOCUMENTS = [[1, 2], [2, 3, 3], [], [4, 1, 1], [5], [2, 2, 6]] * 8
SIZE = 10
_KILLED = """
import sys, time
from tests.retrieval.lexical.postings import segments_with
from tests.retrieval.lexical.test_mapped import DOCUMENTS, SIZE
from mrc_workbench.retrieval.lexical.index import mapped_postings

def slow():
    segments = segments_with(DOCUMENTS, 0.9, 0.4, SIZE)
    yield next(segments)
    yield next(segments)
    print("half way", flush=True)
    time.sleep(600)

mapped_postings("key", len(DOCUMENTS), slow, SIZE)
"""
_CUT_WHILE_SEARCHING = """
import os, sys, threading
import numpy as np
from tests.retrieval.lexical.postings import asked, segments_with
from mrc_workbench.retrieval.lexical.index import mapped_postings
from pathlib import Path

drawn = np.random.default_rng(0)
documents = [drawn.integers(0, 7, 40).tolist() for _ in range(3000)]
postings = mapped_postings("key", len(documents), lambda: segments_with(documents, 0.9, 0.4, 1000), 1000)
questions = asked([[2], [1, 6, 3], [0]] * 20)
expected = postings.search(*questions, 9)
ended = threading.Event()

def cut():
    for path in Path(sys.argv[1]).glob("*/*"):
        os.truncate(path, 0)
    ended.set()

cutting = threading.Thread(target=cut)
searches = 0
while searches < 20:
    if searches == 5 and cutting.ident is None:
        cutting.start()
    found = postings.search(*questions, 9)
    assert (found.indices == expected.indices).all() and (found.scores == expected.scores).all()
    searches += ended.is_set() or searches < 5
again = mapped_postings("key", len(documents), lambda: segments_with(documents, 0.9, 0.4, 1000), 1000)
assert (again.search(*questions, 9).scores == expected.scores).all()
print("searched", {path.stat().st_size for path in Path(sys.argv[1]).glob("*/*")} != {0})
"""


class Maker:
    """Makes segments, and counts how often it was asked to."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> Iterator[Segment]:
        self.times += 1
        return segments_with(DOCUMENTS, 0.9, 0.4, SIZE)


def folder() -> Path:
    (found,) = (path for path in (workspace() / "cache" / "postings").iterdir() if path.is_dir())
    return found


def opened(maker: Maker) -> Postings:
    return mapped_postings("key", len(DOCUMENTS), maker, SIZE)


def assert_finds_the_same(postings: Postings) -> None:
    questions = asked([[2], [1, 6, 3], [0]])
    found, expected = postings.search(*questions, 9), postings_with(DOCUMENTS, size=SIZE).search(*questions, 9)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_an_index_is_made_once_and_then_mapped() -> None:
    maker = Maker()
    for _ in range(2):
        postings = opened(maker)
        assert_finds_the_same(postings)
        assert isinstance(postings.lists.rows.base, np.memmap)
    assert maker.times == 1


def test_other_keys_and_sizes_are_other_indexes() -> None:
    maker = Maker()
    opened(maker)
    mapped_postings("another", len(DOCUMENTS), maker, SIZE)
    assert maker.times == 2


@pytest.mark.parametrize("name", ["rows", "weights", "terms", "about.json"])
def test_a_damaged_index_is_made_anew(name: str) -> None:
    maker = Maker()
    opened(maker)
    content = bytearray((folder() / name).read_bytes())
    content[len(content) // 2] ^= 0xFF
    (folder() / name).write_bytes(content)
    assert_finds_the_same(opened(maker))
    assert maker.times == 2


def test_an_index_that_lost_a_file_is_made_anew() -> None:
    maker = Maker()
    opened(maker)
    (folder() / "found").unlink()
    assert_finds_the_same(opened(maker))
    assert maker.times == 2


def test_a_build_that_failed_leaves_nothing() -> None:
    def broken() -> Iterator[Segment]:
        yield next(segments_with(DOCUMENTS, 0.9, 0.4, SIZE))
        raise RuntimeError("no more tokens")

    with pytest.raises(RuntimeError, match="no more tokens"):
        mapped_postings("key", len(DOCUMENTS), broken, SIZE)
    left = [path.name for path in (workspace() / "cache" / "postings").iterdir() if path.suffix != ".lock"]
    assert left == []
    assert_finds_the_same(opened(Maker()))


@pytest.mark.slow
def test_a_killed_build_is_begun_again_and_leaves_no_rubbish() -> None:
    process = subprocess.Popen([sys.executable, "-c", _KILLED], cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "half way\n"
    place = workspace() / "cache" / "postings"
    assert any(path.name.startswith(".") for path in place.iterdir())
    process.send_signal(signal.SIGKILL)
    process.wait()
    maker = Maker()
    assert_finds_the_same(opened(maker))
    assert maker.times == 1
    assert not any(path.name.startswith(".") for path in place.iterdir())


def _search_in_a_process(made: str) -> list[int]:
    class Slow(Maker):
        def __call__(self) -> Iterator[Segment]:
            Path(made, str(os.getpid())).touch()
            time.sleep(1)
            return super().__call__()

    rows: list[int] = opened(Slow()).search(*asked([[2]]), 3).indices[0].tolist()
    return rows


@pytest.mark.slow
def test_two_processes_open_one_index_which_one_of_them_makes(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as processes:
        found = list(processes.map(_search_in_a_process, [str(made)] * 2))
    expected = postings_with(DOCUMENTS, size=SIZE).search(*asked([[2]]), 3).indices[0].tolist()
    assert found == [expected, expected]
    assert len(list(made.iterdir())) == 1


def test_where_the_disk_cannot_be_written_it_is_made_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(index, "in_files", full)
    assert_finds_the_same(opened(Maker()))


def test_the_indexes_not_used_for_longest_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_KEPT", 2)
    maker = Maker()
    for number, key in enumerate(("a", "b")):
        mapped_postings(key, len(DOCUMENTS), maker, SIZE)
        place = max((workspace() / "cache" / "postings").glob("*[!k]"), key=lambda path: path.stat().st_mtime)
        os.utime(place, (number, number))
    mapped_postings("a", len(DOCUMENTS), maker, SIZE)  # "b" is now the one not used for longest
    held = mapped_postings("b", len(DOCUMENTS), maker, SIZE)
    os.utime(max((workspace() / "cache" / "postings").glob("*[!k]"), key=lambda path: path.stat().st_mtime), (2, 2))
    mapped_postings("c", len(DOCUMENTS), maker, SIZE)
    assert_finds_the_same(held)  # who has it open keeps it
    mapped_postings("a", len(DOCUMENTS), maker, SIZE)
    assert maker.times == 3
    mapped_postings("b", len(DOCUMENTS), maker, SIZE)
    assert maker.times == 4


@pytest.mark.slow
def test_files_that_shrink_under_a_search_do_not_end_the_process() -> None:
    words = [sys.executable, "-c", _CUT_WHILE_SEARCHING, str(workspace() / "cache" / "postings")]
    done = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "searched True\n"), done.stderr


def test_a_process_copies_an_index_once() -> None:
    first, second = opened(Maker()), opened(Maker())
    assert first is second
    names = {path.name for path in (workspace() / "cache" / "postings").iterdir()}
    assert len(names) == 2, names  # the index and its lock: the copy has no name


def test_an_index_is_mapped_where_copies_cannot_be_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> int:
        raise OSError(errno.EXDEV, "other disks")

    monkeypatch.setattr(os, "copy_file_range", unsupported, raising=False)
    assert_finds_the_same(opened(Maker()))
