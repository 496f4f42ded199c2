"""A file read in a process of its own comes out as in this one, and what that process does harms nobody."""

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from data import apart
from data.apart import Limits, UnusableFileError, make_ready
from data.formats.columns import Columns
from data.formats.text import Content
from data.problems import DataError, ProblemCode
from data.questions import read as reading
from data.questions.read import read, read_file_apart
from data.workspace import workspace
from tests.data.sample_files import FILES, read_apart

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="copies processes")]

TABLE = "질문,지문,유형\n수도는?,서울은 수도이다.,가\n강은?,,나\n=1+1,\n".encode()


@pytest.fixture(params=["forked", "served", "fresh"])
def started(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "started", getattr(apart, request.param))


@pytest.fixture(autouse=True, scope="module")
def _server_ends() -> Iterator[None]:
    yield
    for server in apart._server:
        server.kill()
        server.wait()
    apart._server.clear()


@pytest.mark.usefixtures("started")
def test_it_is_what_is_read_in_place() -> None:
    there, here = read_apart(TABLE, "set.csv"), read(TABLE, "set.csv")
    assert there == here
    assert there.rejected.equals(here.rejected)
    assert (there.left_out, there.problem_count) == (2, 2)
    assert list(workspace().iterdir()) == []


@pytest.mark.parametrize("name", FILES)
def test_every_format(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "started", apart.forked)
    assert read_apart(FILES[name], "set") == read(FILES[name], "set")


@pytest.mark.usefixtures("started")
def test_a_failure_comes_with_the_columns_to_choose_from() -> None:
    content = "가,나,제목\n수도는?,서울,도시\n".encode()
    with pytest.raises(UnusableFileError, match="No column for the context was found") as told:
        read_apart(content, "set.csv")
    first = {"가": "수도는?", "나": "서울", "제목": "도시"}
    assert told.value.proposal == (Columns("가", title="제목"), ("가", "나", "제목"), (first,))


def test_chosen_columns_stand_beside_those_that_are_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "started", apart.forked)
    chosen = read_apart("가,나,제목\n수도는?,서울,도시\n".encode(), "set.csv", {"context": "나"})
    assert chosen.columns == Columns("가", "나", title="제목")


def child(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object], limits: Limits) -> None:
    """Let the process that reads do something else, under these limits."""
    monkeypatch.setattr(apart, "started", apart.forked)
    monkeypatch.setattr(reading, "read_files", lambda *_: work())
    monkeypatch.setattr(Limits, "of", lambda _: limits)


def test_a_process_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGKILL), Limits(2**30, 10))
    with pytest.raises(DataError, match=r"ended the process that read it.*more than 1\.0 GiB"):
        read_apart(TABLE, "set.csv")


def test_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, lambda: bytearray(2**29), Limits(2**28, 10))
    with pytest.raises(DataError, match=r"needs? more than 0\.2 GiB of memory"):
        read_apart(TABLE, "set.csv")


def test_time_of_the_processor_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, lambda: sum(iter(int, 1)), Limits(2**30, 1))
    with pytest.raises(DataError, match="needs more than 1 seconds of a processor"):
        read_apart(TABLE, "set.csv")


def test_time_by_the_clock_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, lambda: time.sleep(60), Limits(2**30, 0))
    with pytest.raises(DataError, match="needs more than 0 seconds"):
        read_apart(TABLE, "set.csv")


def test_a_full_disk_is_no_fault_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(reading, "write_questions", full)
    monkeypatch.setattr(apart, "started", apart.forked)
    with pytest.raises(OSError, match="No space left") as told:
        read_apart(TABLE, "set.csv")
    assert told.value.errno == errno.ENOSPC
    assert list(workspace().iterdir()) == []


def test_a_server_that_is_gone_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "started", apart.served)
    make_ready()
    apart._server[0].kill()
    apart._server[0].wait()
    assert read_apart(TABLE, "set.csv").row_count == 3


def test_beside_other_threads_nothing_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    asked: list[Path] = []
    monkeypatch.setattr(apart, "served", asked.append)
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    apart.started(Path("folder"))
    end.set()
    other.join()
    assert asked == [Path("folder")]


def test_names_that_are_no_utf8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "started", apart.forked)
    path = tmp_path / os.fsdecode(b"\xff.csv")
    path.write_bytes(TABLE)
    assert read_file_apart(path).question_set.name == "�"


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/full", "pipe", "link"])
def test_what_is_no_regular_file_is_not_opened(path: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    with pytest.raises(DataError, match="is no file that can be read to its end") as told:
        read_file_apart(tmp_path / path)
    assert told.value.code == ProblemCode.NO_REGULAR_FILE


def test_of_a_folder_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "up").symlink_to("..")
    with pytest.raises(DataError, match="holds no file of data"):
        read_file_apart(tmp_path)
    (tmp_path / "set.csv").write_bytes(TABLE)
    assert read_file_apart(tmp_path).row_count == 3


def test_what_the_system_makes_up_is_not_opened() -> None:
    with pytest.raises(DataError, match="The file is empty"):
        read_file_apart(Path("/proc/self/mem"))


def test_limits_grow_with_the_file() -> None:
    small, large = Limits.of(Content(b"a" * 1000)), Limits.of(Content(b"a" * 20_000_000))
    packed = Limits.of(Content(b"PAR1" + b"a" * 2_000_000))
    assert (small.seconds, large.seconds, packed.seconds) == (11, 14, 15)
    assert 2**29 <= small.memory < 2**29 + 10_000
    assert small.memory < large.memory <= 2**29 + 160_000_000
