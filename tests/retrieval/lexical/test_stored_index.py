"""Indexes on the disk: built once, shared, and repaired."""

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mrc_workbench.data.workspace import PROJECT, workspace
from mrc_workbench.retrieval import lexical
from mrc_workbench.retrieval.lexical import Segment, index
from mrc_workbench.retrieval.lexical.index import Postings, mapped_postings
from tests.retrieval.compared import assert_equal_rankings
from tests.retrieval.lexical.postings import (
    postings_with,
    query_arrays,
    segments_with,
)

DOCUMENTS = [[1, 2], [2, 3, 3], [], [4, 1, 1], [5], [2, 2, 6]] * 8
SIZE = 10
_KILLED = """
import sys, time
from tests.retrieval.lexical.postings import segments_with
from tests.retrieval.lexical.test_stored_index import DOCUMENTS, SIZE
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
from tests.retrieval.lexical.postings import query_arrays, segments_with
from mrc_workbench.retrieval.lexical.index import mapped_postings
from pathlib import Path

rng = np.random.default_rng(0)
documents = [rng.integers(0, 7, 40).tolist() for _ in range(3000)]
postings = mapped_postings("key", len(documents), lambda: segments_with(documents, 0.9, 0.4, 1000), 1000)
questions = query_arrays([[2], [1, 6, 3], [0]] * 20)
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
    results = postings.search(*questions, 9)
    assert (results.indices == expected.indices).all() and (results.scores == expected.scores).all()
    searches += ended.is_set() or searches < 5
again = mapped_postings("key", len(documents), lambda: segments_with(documents, 0.9, 0.4, 1000), 1000)
assert (again.search(*questions, 9).scores == expected.scores).all()
print("searched", {path.stat().st_size for path in Path(sys.argv[1]).glob("*/*")} != {0})
"""


class CountingSegments:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> Iterator[Segment]:
        self.times += 1
        return segments_with(DOCUMENTS, 0.9, 0.4, SIZE)


def index_root() -> Path:
    return workspace() / "cache" / "postings"


def folder() -> Path:
    (index_folder,) = (path for path in index_root().iterdir() if path.is_dir())
    return index_folder


def set_age_of_newest(seconds: int) -> None:
    newest = max(index_root().glob("*[!k]"), key=lambda path: path.stat().st_mtime)
    os.utime(newest, (seconds, seconds))


def opened(segments: CountingSegments) -> Postings:
    return mapped_postings("key", len(DOCUMENTS), segments, SIZE)


def assert_finds_the_same(postings: Postings) -> None:
    questions = query_arrays([[2], [1, 6, 3], [0]])
    expected = postings_with(DOCUMENTS, size=SIZE).search(*questions, 9)
    assert_equal_rankings(postings.search(*questions, 9), expected)


def test_builds_index_once_and_then_maps_it() -> None:
    segments = CountingSegments()
    for _ in range(2):
        postings = opened(segments)
        assert_finds_the_same(postings)
        assert isinstance(postings.lists.rows.base, np.memmap)
    assert segments.times == 1


def test_key_and_size_identify_index() -> None:
    segments = CountingSegments()
    opened(segments)
    mapped_postings("another", len(DOCUMENTS), segments, SIZE)
    assert segments.times == 2


def flip_bits(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "damage"),
    [*((name, flip_bits) for name in ("rows", "weights", "terms", "about.json")), ("entries", Path.unlink)],
)
def test_rebuilds_damaged_index(name: str, damage: Callable[[Path], None]) -> None:
    segments = CountingSegments()
    opened(segments)
    damage(folder() / name)
    assert_finds_the_same(opened(segments))
    assert segments.times == 2


def test_failed_build_leaves_no_files() -> None:
    def broken() -> Iterator[Segment]:
        yield next(segments_with(DOCUMENTS, 0.9, 0.4, SIZE))
        raise RuntimeError("no more tokens")

    with pytest.raises(RuntimeError, match="no more tokens"):
        mapped_postings("key", len(DOCUMENTS), broken, SIZE)
    assert [path.name for path in index_root().iterdir() if path.suffix != ".lock"] == []
    assert_finds_the_same(opened(CountingSegments()))


@pytest.mark.slow
def test_restarts_killed_build_and_removes_leftovers() -> None:
    process = subprocess.Popen([sys.executable, "-c", _KILLED], cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "half way\n"
    assert any(path.name.startswith(".") for path in index_root().iterdir())
    process.send_signal(signal.SIGKILL)
    process.wait()
    segments = CountingSegments()
    assert_finds_the_same(opened(segments))
    assert segments.times == 1
    assert not any(path.name.startswith(".") for path in index_root().iterdir())


def _search_in_a_process(build_log: str) -> list[int]:
    class Slow(CountingSegments):
        def __call__(self) -> Iterator[Segment]:
            Path(build_log, str(os.getpid())).touch()
            time.sleep(1)
            return super().__call__()

    rows: list[int] = opened(Slow()).search(*query_arrays([[2]]), 3).indices[0].tolist()
    return rows


@pytest.mark.slow
def test_concurrent_processes_build_index_once(tmp_path: Path) -> None:
    build_log = tmp_path / "made"
    build_log.mkdir()
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as processes:
        counts = list(processes.map(_search_in_a_process, [str(build_log)] * 2))
    expected = postings_with(DOCUMENTS, size=SIZE).search(*query_arrays([[2]]), 3).indices[0].tolist()
    assert counts == [expected, expected]
    assert len(list(build_log.iterdir())) == 1


@pytest.mark.parametrize(
    ("module", "function", "number"),
    [
        (lexical, "write_arrays", errno.ENOSPC),
        (os, "copy_file_range", errno.ENOSPC),
        (os, "copy_file_range", errno.EXDEV),
    ],
    ids=["full disk", "disk that is full when the index is opened", "other disks"],
)
def test_survives_disk_errors(module: ModuleType, function: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(module, function, fail, raising=False)
    assert_finds_the_same(opened(CountingSegments()))


def test_removes_least_recently_used_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_MAX_STORED_INDEXES", 2)
    segments = CountingSegments()
    for number, key in enumerate(("a", "b")):
        mapped_postings(key, len(DOCUMENTS), segments, SIZE)
        set_age_of_newest(number)
    mapped_postings("a", len(DOCUMENTS), segments, SIZE)  # "b" is now the one not used for longest
    held = mapped_postings("b", len(DOCUMENTS), segments, SIZE)
    set_age_of_newest(2)
    mapped_postings("c", len(DOCUMENTS), segments, SIZE)
    assert_finds_the_same(held)  # who has it open keeps it
    mapped_postings("a", len(DOCUMENTS), segments, SIZE)
    assert segments.times == 3
    mapped_postings("b", len(DOCUMENTS), segments, SIZE)
    assert segments.times == 4


@pytest.mark.slow
def test_truncated_files_do_not_kill_process() -> None:
    words = [sys.executable, "-c", _CUT_WHILE_SEARCHING, str(index_root())]
    done = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "searched True\n"), done.stderr


def test_process_copies_index_once() -> None:
    first = opened(CountingSegments())
    second = opened(CountingSegments())
    assert first is second
    names = {path.name for path in index_root().iterdir()}
    assert len(names) == 2, names  # the index and its lock: the copy has no name
