"""The public way in: the bytes of a file become a question set, and a list of what was wrong with them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from data.files.cells import shown
from data.files.columns import NAMES, Columns, guess_columns
from data.files.content import Content
from data.files.formats import Format, RecognisedFile, recognise
from data.files.opening import Proposal, collector_paused, file_content, looked_at, open_table, set_name
from data.files.squad import SQUAD_COLUMNS, squad_articles, squad_lines, squad_rows
from data.files.tables import Table
from data.problems import DataError, Problem, ProblemCode
from data.records import QuestionSet
from data.rows.assembly import Assembly

__all__ = ["Columns", "Format", "Proposal", "Reading", "file_content", "propose_columns", "read", "read_file"]


@dataclass(frozen=True)
class Reading:
    """A question set and what was understood on the way.

    `row_count` counts rows (questions in SQuAD files) with those left out, `paragraph_count` the contexts before equal
    ones were made one. `columns` is None for SQuAD files, whose layout fixes the names; `first_rows` are a few cells of
    every other file's beginning, by column. `problems` are the first of the
    rows left out and the first others; `problem_count` counts all, `left_out` the rows. `rejected` shows the first rows
    left out, `(n_rejected, 2 + columns)`: row, problem, then the row's own content as text.
    """

    question_set: QuestionSet
    format: Format
    encoding: str
    columns: Columns | None
    available_columns: tuple[str, ...]
    first_rows: tuple[dict[str, str], ...] = field(repr=False)
    problems: tuple[Problem, ...]
    problem_count: int
    left_out: int
    row_count: int
    paragraph_count: int
    rejected: pd.DataFrame = field(repr=False, compare=False)


def read_file(path: Path, columns: Columns | None = None) -> Reading:
    """Read a file from disk; see `read`. Raises `DataError`, also where the file cannot be opened."""
    return read(file_content(path), path.name, columns)


def read(content: bytes | Content, name: str, columns: Columns | None = None) -> Reading:
    """Read the content of a file, whose format is told by content; `name` only names the set.

    Columns are guessed unless given. Rows that cannot be used are left out and listed in `problems`. A file without a
    question, or a table without a column of them, is read as passages only. Raises `DataError` where the file cannot be
    read, the column of the passages is missing, or nothing is left.
    """
    content = Content.of(content)
    recognised = recognise(content)
    is_squad = recognised.format is Format.SQUAD
    table, guess = _table_and_guess(content, recognised)
    used = guess if is_squad else _needed(columns or guess, table.names)
    with collector_paused():
        assembly = Assembly(used)
        for problem in recognised.problems:
            assembly.problems.add(problem)
        assembly.add_all(table.rows)
        question_set = assembly.question_set(set_name(name, "questions"))
    return Reading(
        question_set=question_set,
        format=recognised.format,
        encoding=recognised.encoding,
        columns=None if is_squad else used,
        available_columns=table.names,
        first_rows=table.first,
        problems=tuple(assembly.problems.kept),
        problem_count=assembly.problems.total,
        left_out=assembly.problems.left_out,
        row_count=assembly.row_count,
        paragraph_count=assembly.paragraph_count,
        rejected=assembly.rejection.table(),
    )


def propose_columns(content: bytes | Content) -> Proposal[Columns]:
    """Return what can be chosen, also where `read` misses a column; no columns for SQuAD files.

    Raises `DataError` where the file cannot be read.
    """
    content = Content.of(content)
    table, guess = _table_and_guess(content, recognise(content))
    return Proposal(guess, table.names, table.first)


def _table_and_guess(content: Content, recognised: RecognisedFile) -> tuple[Table, Columns]:
    if recognised.format is Format.SQUAD:
        return Table((), squad_rows(_articles(recognised))), SQUAD_COLUMNS
    table, sample = looked_at(open_table(content, recognised))
    return table, guess_columns(table.names, sample)


def _articles(recognised: RecognisedFile) -> Iterable[Any]:
    if recognised.value is None and recognised.text is not None:
        return squad_lines(recognised.text)
    return squad_articles(recognised.value) or []


def _needed(columns: Columns, names: tuple[str, ...]) -> Columns:
    """Return `columns`, if all of them exist, and the one for the context is among them."""
    found = shown(", ".join(names), 300)
    for role in NAMES:
        name = getattr(columns, role)
        if name is not None and name not in names:
            raise DataError.of(ProblemCode.UNKNOWN_COLUMN, role=role, name=shown(name, 80), found=found)
    if columns.context is None:
        korean = [name for name in NAMES["context"] if not name.isascii()]
        wanted = ", ".join([*korean[:3], *NAMES["context"][:3]])
        raise DataError.of(ProblemCode.MISSING_COLUMN, role="context", found=found, wanted=wanted)
    return columns
