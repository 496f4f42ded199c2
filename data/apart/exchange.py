"""The folder through which files are read: what is asked, and what came of it.

It holds `request.json`, and the bytes that lie in no file; then columns, as the kind of reading writes them, and,
written last, `reading.json`, or `failure.json`. Where neither is there, the process came to an end that nobody told.
"""

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import pandas as pd

from data.apart.limits import Limits
from data.files.cells import shown
from data.files.content import Content
from data.files.opening import Proposal
from data.problems import DataError, Problem, ProblemCode
from data.workspace import read_json, workspace, write_json, write_text

logger = logging.getLogger(__name__)

WORKS = {"questions": "data.apart.questions", "pairs": "data.pairs.apart"}  # each has a `WORK`

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
    asked = {
        "work": work.name,
        "files": [{"path": str(_path(folder, place, file)), "name": file.name} for place, file in enumerate(files)],
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
        _leave_failure(folder, UnusableFileError(limits_of(folder).memory_needed(), Proposal(work.columns())))
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
        error = DataError(problem_of(failure["problem"]), list(map(problem_of, failure["others"])))
        columns, first_rows = work.columns(**failure["columns"]), tuple(failure["first_rows"])
        raise UnusableFileError(error, Proposal(columns, tuple(failure["available"]), first_rows))
    if not found:
        with suppress(OSError):
            logger.error("reading ended: %s", (folder / "log.txt").read_text(encoding="utf-8", errors="replace"))
        raise UnusableFileError(limits.died(), Proposal(work.columns()))
    return work.open(folder, found)


def problem_of(told: dict[str, Any]) -> Problem:
    """Return a problem that was left as JSON."""
    return Problem(ProblemCode(told["code"]), told["row"], told["details"])


def table_left(rejected: pd.DataFrame) -> dict[str, Any]:
    """Return a table as JSON can hold it, by the words in which `DataFrame` takes it."""
    return {"columns": list(rejected.columns), "data": rejected.to_numpy().tolist()}


def _path(folder: Path, place: int, file: File) -> Path:
    if isinstance(file.content.source, Path):
        return file.content.source.absolute()
    path = folder / f"content {place}"
    path.write_bytes(file.content.source)
    return path


def _read(work: Work[R], files: Sequence[File], options: Mapping[str, Any]) -> R:
    try:
        return work.read(files, options)
    except DataError as error:
        raise UnusableFileError(error, _proposed(work, files)) from error
    except OSError as error:
        details = {"path": shown(error.filename or ""), "reason": error.strerror or str(error)}
        unreadable = DataError.of(ProblemCode.UNREADABLE_FILE, **details)
        raise UnusableFileError(unreadable, Proposal(work.columns())) from error


def _proposed(work: Work[R], files: Sequence[File]) -> Proposal[Any]:
    try:
        return work.propose(files)
    except DataError:
        return Proposal(work.columns())


def _leave_failure(folder: Path, error: UnusableFileError) -> None:
    content = {
        "problem": asdict(error.problem),
        "others": [asdict(problem) for problem in error.others],
        "columns": asdict(error.proposal.columns),
        "available": error.proposal.available,
        "first_rows": error.proposal.first_rows,
    }
    write_json(folder / "failure.json", content)
