"""Files read in a process of its own, what ends it where it takes too much, and how question sets cross from it."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import psutil
from pydantic import TypeAdapter

from data.apart import processes
from data.apart.exchange import TIMES_AS_LONG, File, Limits, UnusableFileError, Work, ask, outcome
from data.formats.columns import Columns
from data.formats.opening import Proposal, file_content
from data.formats.text import Content
from data.passages import open_passages, write_passages
from data.problems import DataError
from data.questions.read import Reading, propose_columns, read
from data.records import QuestionSet, open_questions, write_questions
from data.workspace import workspace

_SECONDS_BETWEEN_LOOKS = 0.05

R = TypeVar("R")


def read_file_apart(path: Path, chosen: Mapping[str, str | None] | None = None) -> Reading:
    """Read a file from disk in a process of its own; see `read_apart`."""
    return read_apart(file_content(path), path.name, chosen)


def read_apart(content: bytes | Content, name: str, chosen: Mapping[str, str | None] | None = None) -> Reading:
    """Read the content of a file as `data.questions.read.read` does, in a process of its own.

    `chosen` names columns by role; those of the other roles are guessed. Raises `UnusableFileError`, also where reading
    takes more than its `Limits` or the process ends, and `OSError` where the disk is full.
    """
    return carried_out(WORK, [File(Content.of(content), name)], chosen or {})


def carried_out(work: Work[R], files: Sequence[File], options: Mapping[str, Any]) -> R:
    """Have one kind of reading done in a process of its own. Raises as `read_apart` does."""
    limits = Limits.of(*(file.content for file in files))
    with limits.held_free(), _folder() as folder:
        ask(folder, work, files, options, limits)
        pid = processes.started(folder)
        if pid is not None:
            try:
                _watch(pid, limits)
            except DataError as error:
                raise UnusableFileError(error, Proposal(work.columns())) from error
        return outcome(folder, work, limits)


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder of the workspace, and not of the system's temporary ones, which may be memory."""
    workspace().mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".reading.", dir=workspace()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # what is mapped stays there until it is not needed


def _watch(pid: int, limits: Limits) -> None:
    """Wait until the process has ended, and end it where it takes too much."""
    end = time.monotonic() + limits.seconds * TIMES_AS_LONG
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        at_first, seconds_at_first = process.memory_info().rss, _seconds(process)
        while True:
            with suppress(psutil.TimeoutExpired):
                process.wait(_SECONDS_BETWEEN_LOOKS)
                return
            if _seconds(process) - seconds_at_first > limits.seconds or time.monotonic() > end:
                _end(process, limits.time_needed())
            if process.memory_info().rss - at_first > limits.memory:
                _end(process, limits.memory_needed())
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)  # it ended before it was looked at


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _end(process: psutil.Process, why: DataError) -> NoReturn:
    process.kill()
    process.wait()
    raise why


def _read(files: Sequence[File], chosen: Mapping[str, str | None]) -> Reading:
    (file,) = files
    return read(file.content, file.name, _columns(file.content, chosen))


def _columns(content: Content, chosen: Mapping[str, str | None]) -> Columns | None:
    if not chosen:
        return None
    if chosen.keys() == {field.name for field in fields(Columns)}:
        return Columns(**chosen)
    return replace(propose_columns(content).columns, **chosen)


def _propose(files: Sequence[File]) -> Proposal[Columns]:
    return propose_columns(files[0].content)


def _leave(folder: Path, reading: Reading) -> dict[str, Any]:
    write_passages(folder, reading.question_set.passages)
    write_questions(folder, reading.question_set.questions)
    told = _READING.dump_python(reading, exclude={"question_set"}, mode="json")
    return {"name": reading.question_set.name, "reading": told}


def _open(folder: Path, found: dict[str, Any]) -> Reading:
    question_set = QuestionSet(found["name"], open_passages(folder), open_questions(folder))
    return _READING.validate_python(found["reading"] | {"question_set": question_set})


_READING = TypeAdapter(Reading)
WORK = Work("questions", Columns, _read, _propose, _leave, _open)
