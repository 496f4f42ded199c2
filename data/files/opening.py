"""From a file to its rows: what everything that reads tables does first."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path, PurePath
from stat import S_ISREG
from typing import Generic, NamedTuple, TypeVar

from data.files.cells import as_text, mend, shown
from data.files.content import Content
from data.files.delimited import delimited_tables
from data.files.formats import Format, RecognisedFile
from data.files.json_rows import json_table, jsonl_table
from data.files.parquet import parquet_table
from data.files.plain_text import plain_text_table
from data.files.tables import RawRow, Table
from data.problems import DataError, ProblemCode

C = TypeVar("C")

_SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".xlsx", ".parquet")
_SAMPLE_ROWS = 200
_LOOKED_AT, _CELL = 3, 150  # rows that tell what is in the columns, and letters of a cell


class Proposal(NamedTuple, Generic[C]):
    """What a file offers to choose from: the best guess, the names of its columns, and its first rows as text."""

    columns: C
    available: tuple[str, ...] = ()
    first_rows: tuple[dict[str, str], ...] = ()


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


def open_table(content: Content, recognised: RecognisedFile) -> Table:
    """Return the rows of a file of any format but SQuAD's. Raises `DataError` where it is broken."""
    return table_opener(content, recognised)()


def table_opener(content: Content, recognised: RecognisedFile) -> Callable[[], Table]:
    """Return what opens the table of a file anew at each call; see `open_table`."""
    text = recognised.text or ""
    match recognised.format:
        case Format.EXCEL:
            from data.files.workbooks import workbook_table  # openpyxl: only who reads a workbook waits for it

            return lambda: workbook_table(content.whole)
        case Format.PARQUET:
            return partial(parquet_table, content)
        case Format.JSONL:
            return partial(jsonl_table, text)
        case Format.JSON:
            return partial(json_table, recognised.value)
        case Format.TEXT:
            return partial(plain_text_table, text)
        case _:
            return delimited_tables(text, recognised.delimiter)


def looked_at(table: Table) -> tuple[Table, list[Mapping[str, object]]]:
    """Return the table with its first rows to look at, and the cells of its first 200 rows that could be read."""
    rows = iter(table.rows)
    first = list(islice(rows, _SAMPLE_ROWS))
    sample = [row.cells for row in first if row.problem is None]
    whole = chain[RawRow](first, rows)
    to_look_at = ({name: shown(as_text(cells.get(name)), _CELL) for name in table.names} for cells in sample)
    return Table(table.names, whole, tuple(islice(to_look_at, _LOOKED_AT))), sample


def set_name(name: str, otherwise: str) -> str:
    """Return what a set is called by the name of its file."""
    plain = "".join(c for c in mend(PurePath(name.replace("\\", "/")).name) if c.isprintable()).strip()
    suffix = next((suffix for suffix in _SUFFIXES if plain.lower().endswith(suffix)), "")
    return plain[: len(plain) - len(suffix)] or otherwise


@contextmanager
def collector_paused() -> Iterator[None]:
    """Rows make no cycles, yet looking for some takes a third of the time of a large file."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
