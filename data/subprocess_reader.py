"""Reads files in a subprocess, so that a file can neither crash the caller nor exhaust the machine's memory.

The subprocess is a fork of a server that has imported the libraries, or a new process. Caller and subprocess exchange
files in a folder: first `request.json` and uploaded bytes, then the columns, last `reading.json` or `failure.json`. If
both are missing, the process died. The operating system enforces `ReadingLimits`.

`python -m mrc_workbench.data.subprocess_reader FOLDER` runs the request in a folder; `--serve` starts the server.
"""

import errno
import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from math import ceil
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Generic, NamedTuple, TextIO, TypeVar, cast

import psutil
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from mrc_workbench.data.files import remove_leftovers_of, temporary_folder
from mrc_workbench.data.formats.opening import Proposal
from mrc_workbench.data.formats.tables import display_text
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.jobs.processes import start_module
from mrc_workbench.data.problems import DataError, Problem, ProblemCode
from mrc_workbench.data.workspace import read_json, workspace, write_json, write_text

logger = logging.getLogger(__name__)

# modules with a `ReadingTask` called `WORK`
_TASK_MODULES = {"questions": "mrc_workbench.data.questions.read", "pairs": "mrc_workbench.data.pairs.store"}
_FORKS = sys.platform == "linux"  # forking is not safe with the system libraries of macOS
_NICENESS = 10  # pages have priority
_FOLDER_PREFIX = ".reading."  # of the folders that exchange files
_LIBRARIES = ("openpyxl", "markdown_it", "selectolax.lexbor", "pypdfium2", "dochan")
_MODULE = "mrc_workbench.data.subprocess_reader"

_server_lock = threading.Lock()
_server: list["subprocess.Popen[str]"] = []  # at most one

R = TypeVar("R")

_POLL_SECONDS = 0.05
_PROGRESS = "progress.txt"

OnFilesRead = Callable[[int, int], None]  # number of files read, number of files
_progress_file: list[Path] = []  # of the request that this process runs
_last_report = [0.0]  # on the monotonic clock

_WALL_TIME_FACTOR = 10  # wall time per processor time: other processes may be running
_BASE_MEMORY = 2**29  # bytes
_MEMORY_PER_BYTE = 8  # bytes of memory per byte of text
_BASE_SECONDS = 10.0
_BYTES_PER_SECOND = 5_000_000  # a tenth of the measured speed
_SECONDS_PER_FILE = 0.02  # after the first
# workbooks, archives, Parquet and documents, which compress their text to about a tenth
_COMPRESSED_SIGNATURES = (b"PK\x03\x04", b"PAR1", b"\x1f\x8b", b"%PDF-", bytes.fromhex("D0CF11E0"))
_COMPRESSION_FACTOR = 10
_FREE_MEMORY_FRACTION = 0.8

_reserved_bytes: list[int] = []  # of the running requests
_reservations_changed = threading.Condition()


@dataclass(frozen=True)
class ReadingLimits:
    """The memory (bytes) and the processor time (seconds) that a request may use."""

    memory: int
    seconds: int

    @classmethod
    def for_contents(cls, *contents: Content) -> "ReadingLimits":
        size = 0
        for content in contents:
            is_compressed = content.signature.startswith(_COMPRESSED_SIGNATURES)
            size += content.size * (_COMPRESSION_FACTOR if is_compressed else 1)
        memory = min(_BASE_MEMORY + _MEMORY_PER_BYTE * size, max(_BASE_MEMORY, _available_memory()))
        return cls(memory, ceil(_BASE_SECONDS + size / _BYTES_PER_SECOND + _SECONDS_PER_FILE * (len(contents) - 1)))

    @contextmanager
    def reserve_memory(self) -> Iterator[None]:
        """Wait until the memory is available beside that of other requests, and reserve it."""
        with _reservations_changed:
            _reservations_changed.wait_for(
                lambda: not _reserved_bytes or sum(_reserved_bytes) + self.memory <= _available_memory()
            )
            _reserved_bytes.append(self.memory)
        try:
            yield
        finally:
            with _reservations_changed:
                _reserved_bytes.remove(self.memory)
                _reservations_changed.notify_all()

    def exceeded_error(self, code: ProblemCode) -> DataError:
        if code is ProblemCode.NEEDS_TIME:
            return DataError.from_code(code, seconds=self.seconds)
        return DataError.from_code(code, memory=f"{self.memory / 2**30:.1f} GiB")

    def enforce(self) -> None:
        """Have the operating system enforce the limits, even if the parent process ends."""
        if sys.platform == "win32":
            return
        import resource

        signal.alarm(self.seconds * _WALL_TIME_FACTOR + 1)
        used_seconds = ceil(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (used_seconds + self.seconds + 1, used_seconds + self.seconds + 2))
        if sys.platform == "linux":  # other systems do not enforce this limit; there the parent kills the process
            process_status = Path("/proc/self/status").read_text(encoding="utf-8")
            used_kibibytes = int(process_status.partition("VmData:")[2].split()[0])
            limit = used_kibibytes * 1024 + self.memory
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _available_memory() -> int:
    return int(_FREE_MEMORY_FRACTION * psutil.virtual_memory().available)


def report_files_read(read: int, total: int) -> None:
    """Report the number of files read to the parent process, if there is one."""
    if _progress_file and (read == total or time.monotonic() - _last_report[0] >= _POLL_SECONDS):
        _last_report[0] = time.monotonic()
        with suppress(OSError):
            _progress_file[0].write_text(f"{read} {total}", encoding="ascii")


class File(NamedTuple):
    """The content of a file, and its name."""

    content: Content
    name: str

    def with_encoding(self, encoding: str) -> "File":
        return File(Content(self.content.source, encoding), self.name)


@dataclass(frozen=True)
class ReadingTask(Generic[R]):
    """A kind of request: how to read files, and how to pass the result to the parent process."""

    name: str
    columns: Callable[..., Any]  # dataclass of column names by role
    read: Callable[[Sequence[File], Mapping[str, Any]], R]  # raises `DataError`
    propose: Callable[[Sequence[File]], Proposal[Any]]  # returns choices for the user after an error
    write: Callable[[Path, R], dict[str, Any]]  # writes the columns into the folder, returns the rest as JSON
    open: Callable[[Path, dict[str, Any]], R]


class UnusableFileError(DataError):
    """The error of a file, with a proposal of choices that might read it."""

    def __init__(self, error: DataError, proposal: Proposal[Any]) -> None:
        super().__init__(error.problem, error.others)
        self.proposal = proposal


def run_in_subprocess(
    work: ReadingTask[R], files: Sequence[File], options: Mapping[str, Any], report: OnFilesRead | None = None
) -> R:
    """Read files in a subprocess. Raises `UnusableFileError`, or `OSError` if the disk is full."""
    limits = ReadingLimits.for_contents(*(file.content for file in files))
    parent = _parent_folder()
    remove_leftovers_of(_FOLDER_PREFIX, parent)
    # files that are mapped into memory stay readable after the folder is removed
    with limits.reserve_memory(), temporary_folder(_FOLDER_PREFIX, parent) as folder:
        file_entries = []
        for number, (content, name) in enumerate(files):
            path = folder / f"content {number}"
            if isinstance(content.source, Path):
                path = content.source.absolute()
            else:
                path.write_bytes(content.whole)
            file_entries.append({"path": str(path), "name": name, "encoding": content.named_encoding})
        request = {"work": work.name, "files": file_entries, "options": dict(options), "limits": asdict(limits)}
        write_text(folder / "request.json", json.dumps(request))  # ASCII: file names may contain lone surrogates
        pid = start_process(folder)
        code = _watch(pid, limits, folder, report) if pid is not None else None
        return _load_result(folder, work, limits, code)


def _parent_folder() -> Path:
    """Return the workspace, or the temporary folder (which may be in memory) if the workspace is read-only."""
    folder = workspace()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return Path(gettempdir())
    return folder if os.access(folder, os.W_OK) else Path(gettempdir())


def _watch(pid: int, limits: ReadingLimits, folder: Path, report: OnFilesRead | None) -> ProblemCode | None:
    """Wait for the process and report its progress. Kills it if it exceeds a limit, and returns that limit's code."""
    end = time.monotonic() + limits.seconds * _WALL_TIME_FACTOR
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        initial_memory = process.memory_info().rss
        initial_seconds = sum(process.cpu_times()[:2])  # user and system time
        while True:
            with suppress(psutil.TimeoutExpired):
                process.wait(_POLL_SECONDS)
                return None
            if report is not None:
                with suppress(OSError, ValueError):  # the file is missing or incomplete
                    read, total = map(int, (folder / _PROGRESS).read_text(encoding="ascii").split())
                    report(read, total)
            if sum(process.cpu_times()[:2]) - initial_seconds > limits.seconds or time.monotonic() > end:
                code = ProblemCode.NEEDS_TIME
            elif process.memory_info().rss - initial_memory > limits.memory:
                code = ProblemCode.NEEDS_MEMORY
            else:
                continue
            process.kill()
            process.wait()
            return code
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)  # the process ended before psutil saw it
    return None


def _load_result(folder: Path, work: ReadingTask[R], limits: ReadingLimits, exceeded: ProblemCode | None) -> R:
    """Return the result. Raises `UnusableFileError`, or `OSError` if the disk was full."""
    if exceeded is not None:
        raise UnusableFileError(limits.exceeded_error(exceeded), Proposal(work.columns()))
    failure = read_json(folder / "failure.json")
    if "errno" in failure:
        raise OSError(failure["errno"], os.strerror(failure["errno"]), str(workspace()))
    if failure:
        problem, *others = TypeAdapter(list[Problem]).validate_python(failure["problems"])
        proposal = TypeAdapter(Proposal[work.columns]).validate_python(failure["proposal"])  # type: ignore[name-defined]
        raise UnusableFileError(DataError(problem, others), proposal)
    reading = read_json(folder / "reading.json")
    if not reading:
        with suppress(OSError):
            logger.error("reading ended: %s", (folder / "log.txt").read_text(encoding="utf-8", errors="replace"))
        raise UnusableFileError(limits.exceeded_error(ProblemCode.READING_DIED), Proposal(work.columns()))
    return work.open(folder, reading)


def preload_server() -> None:
    """Start the server before the first upload, so that reading begins without delay."""
    if _FORKS and not _server and _server_lock.acquire(blocking=False):
        try:
            _start_server()
        finally:
            _server_lock.release()


def start_process(folder: Path) -> int | None:
    """Run a folder's request in a process; returns its pid, or None if the request is done. Raises `OSError`."""
    if not _FORKS:
        return start_new_process(folder)
    return fork_process(folder) if threading.active_count() == 1 else fork_from_server(folder)


def start_new_process(folder: Path) -> int:
    """Run the request in a new process, which imports the libraries."""
    with (folder / "log.txt").open("wb") as log:
        return start_module(_MODULE, str(folder), stdout=log, stderr=log).pid


def fork_process(folder: Path) -> int:
    """Run the request in a fork of this process, which must have only one thread."""
    pid = os.fork()
    if pid:
        return pid
    try:
        log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT, 0o600)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.nice(_NICENESS)
        _limits_of(folder).enforce()
        run_request(folder)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # into the log
    finally:
        os._exit(0)  # the result is in the folder; exit handlers of the parent process must not run here


def fork_from_server(folder: Path) -> int:
    """Run the request in a fork of the server."""
    with _server_lock:
        if _server:
            with suppress(OSError, ValueError):
                return _request_fork(folder)
            _server.pop().kill()  # it does not answer
        _start_server()
        return _request_fork(folder)


def _start_server() -> None:
    """Start the server. It ends with this process, which holds its standard input."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    _server.append(start_module(_MODULE, "--serve", env=environment, text=True, start_new_session=True, **pipes))


def _request_fork(folder: Path) -> int:
    requests = cast("TextIO", _server[0].stdin)
    answers = cast("TextIO", _server[0].stdout)
    requests.write(json.dumps(str(folder)) + "\n")
    requests.flush()
    return int(answers.readline())


def run_request(folder: Path) -> None:
    """Run a folder's request and write the result or the error there, also if memory or the disk is exhausted."""
    request = read_json(folder / "request.json")
    _progress_file[:] = [folder / _PROGRESS]
    work: ReadingTask[Any] = import_module(_TASK_MODULES[request["work"]]).WORK
    files = [File(Content(Path(file["path"]), file["encoding"]), file["name"]) for file in request["files"]]
    try:
        reading = _read_files(work, files, request["options"])
        write_json(folder / "reading.json", work.write(folder, reading))
    except UnusableFileError as error:
        _write_failure(folder, error)
    except MemoryError:
        memory_error = _limits_of(folder).exceeded_error(ProblemCode.NEEDS_MEMORY)
        _write_failure(folder, UnusableFileError(memory_error, Proposal(work.columns())))
    except OSError as error:
        for path in folder.glob("*s.*"):  # the columns: the error needs space on the disk
            path.unlink()
        write_json(folder / "failure.json", {"errno": error.errno})


def _write_failure(folder: Path, error: UnusableFileError) -> None:
    content = {"problems": [error.problem, *error.others], "proposal": error.proposal}
    write_json(folder / "failure.json", to_jsonable_python(content))


def _limits_of(folder: Path) -> ReadingLimits:
    return ReadingLimits(**read_json(folder / "request.json")["limits"])


def _read_files(work: ReadingTask[R], files: Sequence[File], options: Mapping[str, Any]) -> R:
    proposal = Proposal(work.columns())
    try:
        return work.read(files, options)
    except DataError as error:
        with suppress(DataError):
            proposal = work.propose(files)
        raise UnusableFileError(error, proposal) from error
    except OSError as error:
        details = {"path": display_text(error.filename or ""), "reason": error.strerror or str(error)}
        raise UnusableFileError(DataError.from_code(ProblemCode.UNREADABLE_FILE, **details), proposal) from error


def _serve() -> None:
    """Fork for every folder named on the standard input, and write the pid of each fork."""
    for name in (*_TASK_MODULES.values(), *_LIBRARIES):
        import_module(name)
    gc.freeze()  # the garbage collector of a fork must not copy memory pages of the server
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombie processes
    for line in sys.stdin:
        sys.stdout.write(f"{fork_process(Path(json.loads(line)))}\n")
        sys.stdout.flush()


def main(argument: str) -> None:
    """Run the request in a folder, or the server (`--serve`)."""
    if argument == "--serve":
        _serve()
    else:
        _limits_of(Path(argument)).enforce()
        run_request(Path(argument))


if __name__ == "__main__":
    import_module(_MODULE).main(sys.argv[1])  # the same module object that the task modules import
