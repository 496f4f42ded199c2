"""Excel workbooks (.xlsx) become a table."""

import warnings
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from zipfile import BadZipFile, ZipFile

import openpyxl
from openpyxl.cell.cell import ERROR_CODES
from openpyxl.utils.escape import unescape

from data.files.cells import CellError, is_blank, shown
from data.files.columns import guess_columns
from data.files.content import check_size
from data.files.tables import RawRow, Table, column_names
from data.problems import DataError, ProblemCode

MAX_UNPACKED_BYTES = 2**30
MAX_ROWS = 2**20  # Excel's own limit; a file may claim more
MAX_COLUMNS = 256
MAX_SHEETS = 100
_ERRORS = {*ERROR_CODES, "#SPILL!", "#CALC!", "#GETTING_DATA"}


def is_workbook(content: bytes) -> bool:
    """Whether a zip archive holds a workbook. Raises `DataError` where it claims to unpack to too much."""
    try:
        with ZipFile(BytesIO(content)) as archive:
            entries = archive.infolist()
    except (BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise DataError.of(ProblemCode.BROKEN_WORKBOOK, reason=_reason(error)) from error
    check_size(sum(entry.file_size for entry in entries), "unpacked bytes", MAX_UNPACKED_BYTES)
    return any(entry.filename == "xl/workbook.xml" for entry in entries)


def workbook_table(content: bytes) -> Table:
    """Read the first sheet whose first filled row names question and context, else the first filled sheet.

    Raises `DataError` where the workbook is broken, empty or larger than a workbook can be.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            workbook = openpyxl.load_workbook(BytesIO(content), read_only=True, data_only=True)
            return _best_table(workbook)
    except DataError:
        raise
    except Exception as error:  # openpyxl lets through whatever a broken part causes
        raise DataError.of(ProblemCode.BROKEN_WORKBOOK, reason=_reason(error)) from error


def _best_table(workbook: Any) -> Table:
    best: tuple[Any, tuple[str, ...]] | None = None
    for sheet in workbook.worksheets[:MAX_SHEETS]:
        sheet.reset_dimensions()  # some writers note a wrong size, which would hide rows
        names = column_names(next(_filled_rows(sheet, MAX_COLUMNS), (0, []))[1])
        columns = guess_columns(names)
        if columns.question and columns.context:
            return _table(sheet, names)
        if names and best is None:
            best = sheet, names
    if best is None:
        raise DataError.of(ProblemCode.EMPTY_FILE)
    return _table(*best)


def _table(sheet: Any, names: tuple[str, ...]) -> Table:
    rows = _filled_rows(sheet, len(names))
    next(rows)
    return Table(names, [RawRow(number, dict(zip(names, map(_cell, row), strict=False))) for number, row in rows])


def _filled_rows(sheet: Any, width: int) -> Iterator[tuple[int, list[Any]]]:
    """Yield sheet row numbers and cells, without blank rows and without blank cells at the end."""
    for number, row in enumerate(sheet.iter_rows(max_col=width, values_only=True), start=1):
        check_size(number, "rows", MAX_ROWS)
        filled = [place for place, cell in enumerate(row, start=1) if not is_blank(cell)]
        if filled:
            yield number, list(row[: filled[-1]])


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return CellError(value) if value in _ERRORS else unescape(value)  # a carriage return is kept as _x000D_


def _reason(error: Exception) -> str:
    return shown(str(error) or type(error).__name__, 200)
