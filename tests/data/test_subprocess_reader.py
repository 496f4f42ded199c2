"""Tests of reading in a subprocess: the same results as in this process, limits, and crashes."""

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from mrc_workbench.data import subprocess_reader
from mrc_workbench.data.formats.columns import PairColumns, QuestionColumns
from mrc_workbench.data.formats.encodings import EncodingCandidate
from mrc_workbench.data.formats.opening import Proposal
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.pairs import PairKind
from mrc_workbench.data.pairs import store as pair_store
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions import read as reading
from mrc_workbench.data.questions.read import read, read_paths_in_subprocess
from mrc_workbench.data.split import Part
from mrc_workbench.data.subprocess_reader import ReadingLimits, UnusableFileError, preload_server
from mrc_workbench.data.workspace import workspace
from tests.data.sample_files import FILES, read_in_subprocess
from tests.doubles import raises_failure

needs_fork = pytest.mark.skipif(sys.platform != "linux", reason="copies processes")

TABLE = "질문,지문,유형\n수도는?,서울은 수도이다.,가\n강은?,,나\n=1+1,\n".encode()
UNKNOWN = "가,나,제목\n수도는?,서울,도시\n".encode()
ROWS = [f"가 {row}\t나 {row}\t{row % 6}" for row in range(12)]
PAIR_FILES = [
    ("\n".join(["sentence1\tsentence2\tscore", "\t나\t1", *ROWS]).encode(), "sts-train.tsv"),
    ("\n".join(["문장1\t문장2\t점수", *ROWS, "가\t나\t많이"]).encode(), "sts-test.tsv"),
]
OPTIONS = pair_store.PairReadOptions({"part": None}, PairKind.SCORED, (0, 6), (None, Part.TEST))


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "linux":
        pytest.skip("copies processes")
    monkeypatch.setattr(subprocess_reader, "start_process", subprocess_reader.fork_process)
    monkeypatch.setattr(subprocess_reader, "_NICENESS", 0)


@pytest.fixture(params=["fork_process", "fork_from_server", "start_new_process"])
def started(request: pytest.FixtureRequest, forked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess_reader, "start_process", getattr(subprocess_reader, request.param))


@pytest.fixture(autouse=True, scope="module")
def _server_ends() -> Iterator[None]:
    yield
    for server in subprocess_reader._server:
        server.kill()
        server.wait()
    subprocess_reader._server.clear()


def check_pairs(options: pair_store.PairReadOptions | None) -> None:
    separate = pair_store.read_pairs_in_subprocess(PAIR_FILES, options)
    direct = pair_store.read_pairs(PAIR_FILES, options)
    assert separate.files == direct.files
    for actual, expected in zip(separate.files, direct.files, strict=True):
        assert actual.rejected.equals(expected.rejected)
    assert separate.pairs.name == direct.pairs.name == "sts"
    assert separate.pairs.fingerprint == direct.pairs.fingerprint
    assert separate.left_out == 2
    assert list(workspace().iterdir()) == []


@pytest.mark.parametrize("options", [None, OPTIONS], ids=["guessed", "given"])
def test_reads_the_same_pairs_in_a_subprocess(options: pair_store.PairReadOptions | None) -> None:
    check_pairs(options)


@pytest.mark.slow
@pytest.mark.usefixtures("started")
def test_reads_the_same_by_every_start_method() -> None:
    check_pairs(OPTIONS)
    separate = read_in_subprocess(TABLE, "set.csv")
    direct = read(TABLE, "set.csv")
    assert separate == direct
    assert separate.rejected.equals(direct.rejected)
    assert (separate.left_out, separate.problem_count) == (2, 2)
    assert list(workspace().iterdir()) == []
    with pytest.raises(UnusableFileError, match="No context column found") as exc_info:
        read_in_subprocess(UNKNOWN, "set.csv")
    first = {"가": "수도는?", "나": "서울", "제목": "도시"}
    columns = QuestionColumns("가", "나", title="제목")
    guess = replace(columns, context=None)
    assert exc_info.value.proposal == Proposal(guess, ("가", "나", "제목"), (first,), (columns,))
    assert read_in_subprocess(UNKNOWN, "set.csv", {"context": "나"}).columns == columns


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("name", FILES)
def test_reads_every_format_the_same_in_a_subprocess(name: str) -> None:
    assert read_in_subprocess(FILES[name], "set") == read(FILES[name], "set")


def test_pair_error_proposes_columns_and_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "표.tsv"
    path.write_text("가\t나\n1\t2\n", encoding="utf-8")
    with pytest.raises(UnusableFileError, match="No sentence column found") as exc_info:
        pair_store.read_pair_files_in_subprocess([path])
    assert exc_info.value.proposal == Proposal(PairColumns(), ("가", "나"), ({"가": "1", "나": "2"},))
    with pytest.raises(UnusableFileError, match=r"^sts-dev\.tsv: The file is empty") as exc_info:
        pair_store.read_pairs_in_subprocess([*PAIR_FILES, (b" ", "sts-dev.tsv")])
    assert exc_info.value.problem.code is ProblemCode.EMPTY_FILE
    assert exc_info.value.proposal.available == ("sentence1", "sentence2", "score")


def test_error_returns_candidate_columns_and_encodings(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"질문": "수도는?", "답변": "서울", "비고": ""}
    candidates = (QuestionColumns("질문", "답변"), QuestionColumns("질문", "비고"))
    encodings = (EncodingCandidate("shift_jis", "首都は?"), EncodingCandidate("euc_jp", "錣楕は?"))
    proposal = Proposal(QuestionColumns("질문"), ("질문", "답변", "비고"), (row,), candidates, encodings)
    monkeypatch.setattr(subprocess_reader, "start_process", subprocess_reader.run_request)

    def fail(*_: object) -> None:
        raise DataError.from_code(ProblemCode.EMPTY_FILE)

    work = replace(reading.WORK, read=fail, propose=lambda _: proposal)
    monkeypatch.setattr(reading, "WORK", work)
    with pytest.raises(UnusableFileError) as failure:
        subprocess_reader.run_in_subprocess(work, [subprocess_reader.File(Content(b"a"), "a.csv")], {})
    assert failure.value.proposal == proposal


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(
    ("work", "limits", "words"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), ReadingLimits(2**30, 10), r"ended.*more than 1\.0 GiB"),
        # in pieces: memory freed by the collector in the fork does not count
        (lambda: [bytearray(2**26) for _ in range(128)], ReadingLimits(2**28, 10), r"more than 0\.2 GiB of memory"),
        (lambda: sum(iter(int, 1)), ReadingLimits(2**30, 1), "takes more than 1 seconds of CPU time"),
        (lambda: time.sleep(60), ReadingLimits(2**30, 0), "takes more than 0 seconds"),
    ],
    ids=["it dies", "memory", "time of the processor", "time by the clock"],
)
def test_reports_exceeded_limits_and_dead_process(
    work: Callable[[], object], limits: ReadingLimits, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "select_sources", lambda *_: work())
    monkeypatch.setattr(pair_store, "read_pairs", lambda *_: work())
    monkeypatch.setattr(ReadingLimits, "for_contents", lambda *_: limits)
    with pytest.raises(DataError, match=words):
        read_in_subprocess(TABLE, "set.csv")
    with pytest.raises(DataError, match=words):
        pair_store.read_pairs_in_subprocess(PAIR_FILES)


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
def test_raises_os_error_if_the_disk_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(reading, "write_question_set", full)
    with pytest.raises(OSError, match="No space left") as exc_info:
        read_in_subprocess(TABLE, "set.csv")
    assert exc_info.value.errno == errno.ENOSPC
    assert list(workspace().iterdir()) == []


class ReadOnly(type(Path())):  # type: ignore[misc]
    """A folder without write permission."""

    def mkdir(self, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("is_there", [True, False])
def test_reads_with_a_read_only_workspace(*, is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(subprocess_reader, "gettempdir", lambda: str(temporary))
    if is_there:
        workspace().mkdir(parents=True, exist_ok=True)
        monkeypatch.setattr(subprocess_reader.os, "access", lambda *_: False)
    else:
        monkeypatch.setattr(subprocess_reader, "workspace", lambda: ReadOnly(tmp_path / "workspace"))
    result = read_in_subprocess(TABLE, "set.csv")
    assert result.question_set.passages.texts == ("서울은 수도이다.",)
    assert list(temporary.iterdir()) == []


@needs_fork
@pytest.mark.slow
def test_restarts_a_killed_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess_reader, "start_process", subprocess_reader.fork_from_server)
    preload_server()
    subprocess_reader._server[0].kill()
    subprocess_reader._server[0].wait()
    assert read_in_subprocess(TABLE, "set.csv").row_count == 3


@needs_fork
@pytest.mark.slow
def test_forks_from_the_server_if_other_threads_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    requested: list[Path] = []
    monkeypatch.setattr(subprocess_reader, "fork_from_server", requested.append)
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    subprocess_reader.start_process(Path("folder"))
    end.set()
    other.join()
    assert requested == [Path("folder")]


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
def test_reads_file_whose_name_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.csv")
    path.write_bytes(TABLE)
    assert read_paths_in_subprocess([path]).question_set.name == "�"


@pytest.fixture
def special(tmp_path: Path) -> Path:
    """A folder with a pipe and a link to a device."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    return tmp_path


@needs_fork
@pytest.mark.parametrize(
    ("path", "code"),
    [
        *((path, ProblemCode.NO_REGULAR_FILE) for path in ("/dev/zero", "/dev/full", "pipe", "link")),
        ("/proc/self/mem", ProblemCode.EMPTY_FILE),
    ],
)
def test_rejects_special_files(path: str, code: ProblemCode, special: Path) -> None:
    with raises_failure(code):
        read_paths_in_subprocess([special / path])


@needs_fork
def test_skips_special_files_of_a_folder(special: Path) -> None:
    (special / "up").symlink_to("..")
    with pytest.raises(DataError, match="contains no data file"):
        read_paths_in_subprocess([special])
    (special / "set.csv").write_bytes(TABLE)
    assert read_paths_in_subprocess([special]).row_count == 3


def test_limits_grow_with_the_file() -> None:
    small = ReadingLimits.for_contents(Content(b"a" * 1000))
    large = ReadingLimits.for_contents(Content(b"a" * 20_000_000))
    packed = ReadingLimits.for_contents(Content(b"PAR1" + b"a" * 2_000_000))
    assert (small.seconds, large.seconds, packed.seconds) == (11, 14, 15)
    assert 2**29 <= small.memory < 2**29 + 10_000
    assert small.memory < large.memory <= 2**29 + 160_000_000


GIB = 2**30


@pytest.fixture
def ten_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=10 * GIB))  # eight may be used


def max_reserved_memory(limits: list[ReadingLimits]) -> int:
    """Return the maximum of bytes reserved at the same time."""
    reserved = 0
    seen = [0]
    lock = threading.Lock()
    going = threading.Event()

    def read(reading_limits: ReadingLimits) -> None:
        nonlocal reserved
        with reading_limits.reserve_memory():
            with lock:
                reserved += reading_limits.memory
                seen.append(reserved)
            going.wait(0.05)
            with lock:
                reserved -= reading_limits.memory

    with ThreadPoolExecutor(len(limits)) as pool:
        list(pool.map(read, limits))
    return max(seen)


@pytest.mark.usefixtures("ten_free")
def test_reading_waits_until_memory_is_free() -> None:
    assert max_reserved_memory([ReadingLimits(3 * GIB, 10)] * 6) <= 8 * GIB
    small = [ReadingLimits(GIB // 2, 10)] * 4
    assert max_reserved_memory([ReadingLimits(6 * GIB, 10), *small]) == 8 * GIB, "small requests run beside a large one"
    assert max_reserved_memory([ReadingLimits(20 * GIB, 10)] * 2) == 20 * GIB, "larger than the memory"


@pytest.mark.usefixtures("ten_free")
def test_failed_reading_releases_its_memory() -> None:
    with pytest.raises(OSError, match="full"), ReadingLimits(8 * GIB, 10).reserve_memory():
        raise OSError("full")
    with ReadingLimits(8 * GIB, 10).reserve_memory():
        pass


@pytest.mark.slow
@pytest.mark.usefixtures("started")
def test_reports_progress_of_many_files(tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    for number in range(300):
        (folder / f"{number}.md").write_text(f"# {number}\n\n" + f"text {number}\n\n" * 300, encoding="utf-8")
    reported: list[tuple[int, int]] = []
    reading = read_paths_in_subprocess([folder], report=lambda read, total: reported.append((read, total)))
    assert len(reading.files) == 300
    assert reported
    assert {total for _, total in reported} == {300}
    assert [read for read, _ in reported] == sorted(read for read, _ in reported)
