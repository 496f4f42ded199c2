"""The public way in: the bytes of a file become a question set, and a list of what was wrong with them."""

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path, PurePath
from stat import S_ISREG
from typing import Any, NamedTuple

import pandas as pd

from data.files.cells import as_text, mend, shown
from data.files.columns import NAMES, Columns, guess_columns
from data.files.content import Content
from data.files.delimited import delimited_table
from data.files.formats import Format, RecognisedFile, recognise
from data.files.json_rows import json_table, jsonl_table
from data.files.parquet import parquet_table
from data.files.plain_text import plain_text_table
from data.files.squad import SQUAD_COLUMNS, squad_articles, squad_lines, squad_rows
from data.files.tables import RawRow, Table, column_names
from data.problems import DataError, Problem, ProblemCode
from data.records import QuestionSet
from data.rows.assembly import Assembly

__all__ = ["Columns", "Format", "Proposal", "Reading", "file_content", "propose_columns", "read", "read_file"]

_SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".xlsx", ".parquet")
_SAMPLE_ROWS = 200
_SHOWN_COLUMNS = 100  # rows of JSON can each name columns of their own
_LOOKED_AT, _CELL = 3, 150  # rows that tell what is in the columns, and letters of a cell


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


def file_content(path: Path) -> Content:
    """Return the content of a file. Raises `DataError` where it cannot be opened, or could be read for ever."""
    try:
        told = path.stat()  # before it is opened: a pipe would wait for its writer
        if not S_ISREG(told.st_mode):
            raise DataError.of(ProblemCode.NO_REGULAR_FILE, path=shown(str(path)))
        if not told.st_size:  # also what the system makes up while it is read, such as another process's memory
            raise DataError.of(ProblemCode.EMPTY_FILE)
        with path.open("rb"):
            return Content(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError.of(ProblemCode.UNREADABLE_FILE, path=shown(str(path)), reason=reason) from error


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
    with _collector_paused():
        assembly = Assembly(used)
        for problem in recognised.problems:
            assembly.problems.add(problem)
        assembly.add_all(table.rows)
        question_set = assembly.question_set(_set_name(name))
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
        rejected=_rejected(assembly.rejected),
    )


def _rejected(rows: list[tuple[Problem, dict[str, str]]]) -> pd.DataFrame:
    names = list(dict.fromkeys(chain.from_iterable(cells for _, cells in rows)))[:_SHOWN_COLUMNS]
    records = [[problem.row, problem.message, *(cells.get(name, "") for name in names)] for problem, cells in rows]
    return pd.DataFrame(records, columns=list(column_names(["row", "problem", *names])))


class Proposal(NamedTuple):
    """What a file offers to choose from: the best guess, the names of its columns, and its first rows as text."""

    columns: Columns = Columns()
    available: tuple[str, ...] = ()
    first_rows: tuple[dict[str, str], ...] = ()


def propose_columns(content: bytes | Content) -> Proposal:
    """Return what can be chosen, also where `read` misses a column; no columns for SQuAD files.

    Raises `DataError` where the file cannot be read.
    """
    content = Content.of(content)
    table, guess = _table_and_guess(content, recognise(content))
    return Proposal(guess, table.names, table.first)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Rows make no cycles, yet looking for some takes a third of the time of a large file."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _table_and_guess(content: Content, recognised: RecognisedFile) -> tuple[Table, Columns]:
    if recognised.format is Format.SQUAD:
        return Table((), squad_rows(_articles(recognised))), SQUAD_COLUMNS
    table = _table(content, recognised)
    rows = iter(table.rows)
    first = list(islice(rows, _SAMPLE_ROWS))
    guess = guess_columns(table.names, [row.cells for row in first if row.problem is None])
    return Table(table.names, chain(first, rows), _to_look_at(table.names, first)), guess


def _to_look_at(names: Sequence[str], rows: Sequence[RawRow]) -> tuple[dict[str, str], ...]:
    whole = [row.cells for row in rows if row.problem is None][:_LOOKED_AT]
    return tuple({name: shown(as_text(cells.get(name)), _CELL) for name in names} for cells in whole)


def _articles(recognised: RecognisedFile) -> Iterable[Any]:
    if recognised.value is None and recognised.text is not None:
        return squad_lines(recognised.text)
    return squad_articles(recognised.value) or []


def _table(content: Content, recognised: RecognisedFile) -> Table:
    text = recognised.text or ""
    match recognised.format:
        case Format.EXCEL:
            from data.files.workbooks import workbook_table  # openpyxl: only who reads a workbook waits for it

            return workbook_table(content.whole)
        case Format.PARQUET:
            return parquet_table(content)
        case Format.JSONL:
            return jsonl_table(text)
        case Format.JSON:
            return json_table(recognised.value)
        case Format.TEXT:
            return plain_text_table(text)
        case _:
            return delimited_table(text, recognised.delimiter)


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


def _set_name(name: str) -> str:
    plain = "".join(c for c in mend(PurePath(name.replace("\\", "/")).name) if c.isprintable()).strip()
    suffix = next((suffix for suffix in _SUFFIXES if plain.lower().endswith(suffix)), "")
    return plain[: len(plain) - len(suffix)] or "questions"
