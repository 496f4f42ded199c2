"""How question sets cross from the process that reads them: passages and questions as columns, the rest as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from data.apart.exchange import File, Work, problem_of, table_left
from data.formats.columns import Columns
from data.formats.opening import Format, Proposal
from data.formats.text import Content
from data.passages import open_passages, write_passages
from data.read import Reading, propose_columns, read
from data.records import QuestionSet, open_questions, write_questions


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
    question_set = reading.question_set
    write_passages(folder, question_set.passages)
    write_questions(folder, question_set.questions)
    return {
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
        "rejected": table_left(reading.rejected),
    }


def _open(folder: Path, found: dict[str, Any]) -> Reading:
    question_set = QuestionSet(found.pop("name"), open_passages(folder), open_questions(folder))
    columns = found.pop("columns")
    return Reading(
        question_set=question_set,
        format=Format(found.pop("format")),
        columns=None if columns is None else Columns(**columns),
        available_columns=tuple(found.pop("available_columns")),
        first_rows=tuple(found.pop("first_rows")),
        problems=tuple(map(problem_of, found.pop("problems"))),
        rejected=pd.DataFrame(**found.pop("rejected")),
        **found,
    )


WORK = Work("questions", Columns, _read, _propose, _leave, _open)
