"""The folder through which files are read, what is asked there and what came of it, and what reading may take.

It holds `request.json`, and the bytes that lie in no file; then columns, as the kind of reading writes them, and,
written last, `reading.json`, or `failure.json`. Where neither is there, the process came to an end that nobody told.
Limits are told in advance, and held to by the system."""

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from math import ceil
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import psutil
from pydantic import TypeAdapter

from data.formats.opening import Proposal
from data.formats.tables import shown
from data.formats.text import Content
from data.problems import DataError, Problem, ProblemCode
from data.workspace import read_json, workspace, write_json, write_text

TIMES_AS_LONG = 10  # by the clock: others may be at work, too
_MEMORY, _MEMORY_TIMES = 2**29, 8  # bytes, and how often the size of the text
_SECONDS, _BYTES_A_SECOND = 10.0, 5_000_000  # a tenth of the pace at which rows are read
# texts are a tenth of their size in a workbook or another archive, or in Parquet
_PACKED, _PACKED_TIMES = (b"PK\x03\x04", b"PAR1", b"\x1f\x8b"), 10
_SHARE_OF_FREE_MEMORY = 0.8
_promised: list[int] = []  # bytes, of the readings at work
_changed = threading.Condition()


@dataclass(frozen=True)
class Limits:
    """What reading a file may take: bytes of memory, and seconds of a processor."""

    memory: int
    seconds: int

    @classmethod
    def of(cls, *contents: Content) -> "Limits":
        """Return those for some files: they grow with them, and never beyond the memory that is free."""
        size = sum(one.size * (_PACKED_TIMES if one.start.startswith(_PACKED) else 1) for one in contents)
        memory = min(_MEMORY + _MEMORY_TIMES * size, max(_MEMORY, _memory_to_use()))
        return cls(memory, ceil(_SECONDS + size / _BYTES_A_SECOND))

    @contextmanager
    def held_free(self) -> Iterator[None]:
        """Wait until other readings of this process leave as much memory free, and keep it so within the block.

        Many large files at once would each be promised the same free memory; small ones go on beside them.
        """
        with _changed:
            _changed.wait_for(lambda: not _promised or sum(_promised) + self.memory <= _memory_to_use())
            _promised.append(self.memory)
        try:
            yield
        finally:
            with _changed:
                _promised.remove(self.memory)
                _changed.notify_all()

    def exceeded(self, code: ProblemCode) -> DataError:
        """Return the error for a file that needs more time or memory, or whose process ended without a word."""
        if code is ProblemCode.NEEDS_TIME:
            return DataError.of(code, seconds=self.seconds)
        return DataError.of(code, memory=f"{self.memory / 2**30:.1f} GiB")

    def hold(self) -> None:
        """Let the system end this process where it takes too much, also when nobody is left to watch it."""
        if sys.platform == "win32":
            return
        import resource
        import signal

        signal.alarm(self.seconds * TIMES_AS_LONG + 1)
        spent = ceil(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (spent + self.seconds + 1, spent + self.seconds + 2))
        if sys.platform == "linux":  # elsewhere the system does not hold to it, and whoever watches does
            told = Path("/proc/self/status").read_text(encoding="utf-8")
            own = int(told.partition("VmData:")[2].split()[0]) * 1024  # bytes, as the limit counts them
            most = own + self.memory
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _memory_to_use() -> int:
    return int(_SHARE_OF_FREE_MEMORY * psutil.virtual_memory().available)


logger = logging.getLogger(__name__)

WORKS = {"questions": "data.questions.read", "pairs": "data.pairs.reading"}  # each has a `WORK`
_PROBLEM, _PROBLEMS = TypeAdapter(Problem), TypeAdapter(list[Problem])

R = TypeVar("R")


class File(NamedTuple):
    """The content of a file, and what it is called."""

    content: Content
    name: str


@dataclass(frozen=True)
class Work(Generic[R]):
    """One kind of reading: how files are read, and how what was read is left in a folder and opened again.

    `columns` are a dataclass of names of columns by role. `read` raises `DataError`; then `propose` tells what there is
    to choose from. `leave` writes what is large, and returns the rest for `open`, as JSON can hold it.
    """

    name: str
    columns: Callable[..., Any]
    read: Callable[[Sequence[File], Mapping[str, Any]], R]
    propose: Callable[[Sequence[File]], Proposal[Any]]
    leave: Callable[[Path, R], dict[str, Any]]
    open: Callable[[Path, dict[str, Any]], R]


class UnusableFileError(DataError):
    """A file that cannot be used as it is, and what could be chosen of it."""

    def __init__(self, error: DataError, proposal: Proposal[Any]) -> None:
        super().__init__(error.problem, error.others)
        self.proposal = proposal


def ask(folder: Path, work: Work[R], files: Sequence[File], options: Mapping[str, Any], limits: Limits) -> None:
    """Write what is asked. Raises `OSError` where the disk is full."""
    asked_files = []
    for place, (content, name) in enumerate(files):
        path = folder / f"content {place}"
        if isinstance(content.source, Path):
            path = content.source.absolute()
        else:
            path.write_bytes(content.source)
        asked_files.append({"path": str(path), "name": name})
    asked = {
        "work": work.name,
        "files": asked_files,
        "options": dict(options),
        "limits": asdict(limits),
    }
    write_text(folder / "request.json", json.dumps(asked))  # names of files may hold what is no UTF-8


def limits_of(folder: Path) -> Limits:
    """Return what the reading may take."""
    return Limits(**read_json(folder / "request.json")["limits"])


def carry_out(folder: Path) -> None:
    """Read what the folder asks for, and leave there what came of it: also that memory or the disk ran out."""
    asked = read_json(folder / "request.json")
    work: Work[Any] = import_module(WORKS[asked["work"]]).WORK
    try:
        reading = _read(
            work, [File(Content(Path(one["path"])), one["name"]) for one in asked["files"]], asked["options"]
        )
        write_json(folder / "reading.json", work.leave(folder, reading))
    except UnusableFileError as error:
        _leave_failure(folder, error)
    except MemoryError:
        needed = limits_of(folder).exceeded(ProblemCode.NEEDS_MEMORY)
        _leave_failure(folder, UnusableFileError(needed, Proposal(work.columns())))
    except OSError as error:
        for path in folder.glob("*s.*"):  # the columns, so that there is place for the reason
            path.unlink()
        write_json(folder / "failure.json", {"errno": error.errno})


def outcome(folder: Path, work: Work[R], limits: Limits) -> R:
    """Return what was read; raises `UnusableFileError`, and `OSError` where the disk was full."""
    failure, found = read_json(folder / "failure.json"), read_json(folder / "reading.json")
    if "errno" in failure:
        raise OSError(failure["errno"], os.strerror(failure["errno"]), str(workspace()))
    if failure:
        error = DataError(_PROBLEM.validate_python(failure["problem"]), _PROBLEMS.validate_python(failure["others"]))
        columns, first_rows = work.columns(**failure["columns"]), tuple(failure["first_rows"])
        raise UnusableFileError(error, Proposal(columns, tuple(failure["available"]), first_rows))
    if not found:
        with suppress(OSError):
            logger.error("reading ended: %s", (folder / "log.txt").read_text(encoding="utf-8", errors="replace"))
        raise UnusableFileError(limits.exceeded(ProblemCode.READING_DIED), Proposal(work.columns()))
    return work.open(folder, found)


def _read(work: Work[R], files: Sequence[File], options: Mapping[str, Any]) -> R:
    try:
        return work.read(files, options)
    except DataError as error:
        proposal = Proposal(work.columns())
        with suppress(DataError):
            proposal = work.propose(files)
        raise UnusableFileError(error, proposal) from error
    except OSError as error:
        details = {"path": shown(error.filename or ""), "reason": error.strerror or str(error)}
        unreadable = DataError.of(ProblemCode.UNREADABLE_FILE, **details)
        raise UnusableFileError(unreadable, Proposal(work.columns())) from error


def _leave_failure(folder: Path, error: UnusableFileError) -> None:
    content = {
        "problem": asdict(error.problem),
        "others": [asdict(problem) for problem in error.others],
        "columns": asdict(error.proposal.columns),
        "available": error.proposal.available,
        "first_rows": error.proposal.first_rows,
    }
    write_json(folder / "failure.json", content)
