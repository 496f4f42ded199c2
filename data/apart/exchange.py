"""The folder through which a file is read: what is asked, and what came of it.

It holds `request.json`, and `content` where the bytes lie in no file; then passages and questions as columns and,
written last, `reading.json`, or `failure.json`. Where neither is there, the process came to an end that nobody told.
"""

import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from data.apart.limits import Limits
from data.files.cells import shown
from data.files.columns import Columns
from data.files.content import Content
from data.files.formats import Format
from data.passage_file import open_passages, write_passages
from data.problems import DataError, Problem, ProblemCode
from data.question_file import open_questions, write_questions
from data.read import Proposal, Reading, propose_columns, read
from data.records import QuestionSet
from data.workspace import read_json, workspace, write_json, write_text

logger = logging.getLogger(__name__)


class UnusableFileError(DataError):
    """A file that cannot be used as it is, and what could be chosen of it."""

    def __init__(self, error: DataError, proposal: Proposal | None = None) -> None:
        super().__init__(error.problem, error.others)
        self.proposal = proposal or Proposal()


def ask(folder: Path, content: Content, name: str, chosen: Mapping[str, str | None], limits: Limits) -> None:
    """Write what is asked. Raises `OSError` where the disk is full."""
    if isinstance(content.source, bytes):
        (folder / "content").write_bytes(content.source)
    path = content.source.absolute() if isinstance(content.source, Path) else folder / "content"
    asked = {"path": str(path), "name": name, "chosen": dict(chosen), "limits": asdict(limits)}
    write_text(folder / "request.json", json.dumps(asked))  # names of files may hold what is no UTF-8


def limits_of(folder: Path) -> Limits:
    """Return what the reading may take."""
    return Limits(**read_json(folder / "request.json")["limits"])


def carry_out(folder: Path) -> None:
    """Read what the folder asks for, and leave there what came of it: also that memory or the disk ran out."""
    asked = read_json(folder / "request.json")
    try:
        _leave(folder, _read(asked))
    except UnusableFileError as error:
        _leave_failure(folder, error)
    except MemoryError:
        _leave_failure(folder, UnusableFileError(limits_of(folder).memory_needed()))
    except OSError as error:
        for path in folder.glob("*s.*"):  # the columns, so that there is place for the reason
            path.unlink()
        write_json(folder / "failure.json", {"errno": error.errno})


def outcome(folder: Path, limits: Limits) -> Reading:
    """Return what was read; raises `UnusableFileError`, and `OSError` where the disk was full."""
    failure, found = read_json(folder / "failure.json"), read_json(folder / "reading.json")
    if "errno" in failure:
        raise OSError(failure["errno"], os.strerror(failure["errno"]), str(workspace()))
    if failure:
        error = DataError(_problem(failure["problem"]), list(map(_problem, failure["others"])))
        columns, available, first_rows = Columns(**failure["columns"]), failure["available"], failure["first_rows"]
        raise UnusableFileError(error, Proposal(columns, tuple(available), tuple(first_rows)))
    if not found:
        with suppress(OSError):
            logger.error("reading ended: %s", (folder / "log.txt").read_text(encoding="utf-8", errors="replace"))
        raise UnusableFileError(limits.died())
    question_set = QuestionSet(found.pop("name"), open_passages(folder), open_questions(folder))
    columns, rejected = found.pop("columns"), found.pop("rejected")
    return Reading(
        question_set=question_set,
        format=Format(found.pop("format")),
        columns=None if columns is None else Columns(**columns),
        available_columns=tuple(found.pop("available_columns")),
        first_rows=tuple(found.pop("first_rows")),
        problems=tuple(map(_problem, found.pop("problems"))),
        rejected=pd.DataFrame(rejected["data"], columns=rejected["columns"]),
        **found,
    )


def _problem(told: dict[str, Any]) -> Problem:
    return Problem(ProblemCode(told["code"]), told["row"], told["details"])


def _read(asked: dict[str, Any]) -> Reading:
    content = Content(Path(asked["path"]))
    try:
        return read(content, asked["name"], _columns(content, asked["chosen"]))
    except DataError as error:
        raise UnusableFileError(error, _proposed(content)) from error
    except OSError as error:
        details = {"path": shown(asked["path"]), "reason": error.strerror or str(error)}
        raise UnusableFileError(DataError.of(ProblemCode.UNREADABLE_FILE, **details)) from error


def _columns(content: Content, chosen: Mapping[str, str | None]) -> Columns | None:
    if not chosen:
        return None
    if chosen.keys() == {field.name for field in fields(Columns)}:
        return Columns(**chosen)
    return replace(propose_columns(content).columns, **chosen)


def _proposed(content: Content) -> Proposal:
    try:
        return propose_columns(content)
    except DataError:
        return Proposal()


def _leave(folder: Path, reading: Reading) -> None:
    question_set = reading.question_set
    write_passages(folder, question_set.passages)
    write_questions(folder, question_set.questions)
    content = {
        "name": question_set.name,
        "format": reading.format,
        "encoding": reading.encoding,
        "columns": asdict(reading.columns) if reading.columns else None,
        "available_columns": reading.available_columns,
        "first_rows": reading.first_rows,
        "problems": [asdict(problem) for problem in reading.problems],
        "problem_count": reading.problem_count,
        "left_out": reading.left_out,
        "row_count": reading.row_count,
        "paragraph_count": reading.paragraph_count,
        "rejected": {"columns": list(reading.rejected.columns), "data": reading.rejected.to_numpy().tolist()},
    }
    write_json(folder / "reading.json", content)


def _leave_failure(folder: Path, error: UnusableFileError) -> None:
    content = {
        "problem": asdict(error.problem),
        "others": [asdict(problem) for problem in error.others],
        "columns": asdict(error.proposal.columns),
        "available": error.proposal.available,
        "first_rows": error.proposal.first_rows,
    }
    write_json(folder / "failure.json", content)
