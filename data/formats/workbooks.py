"""Excel workbooks (.xlsx) become a table."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any
from zipfile import BadZipFile, ZipFile

import openpyxl
from openpyxl.utils.escape import unescape

from data.formats.columns import guess_columns
from data.formats.tables import CellError, RawRow, Table, column_names, is_blank, shown
from data.formats.text import check_size
from data.problems import DataError, ProblemCode

MAX_UNPACKED_BYTES = 2**30
MAX_ROWS = 2**20  # Excel's own limit; a file may claim more
MAX_COLUMNS = 256
MAX_SHEETS = 100
_UNPACKED_TIMES = 200  # texts are a tenth of their size in a workbook; a few bytes that say one thing for ever are less
_ALWAYS_UNPACKED = 2**25

warnings.filterwarnings("ignore", module="openpyxl")  # of styles and extensions, which are not read


def is_workbook(content: bytes) -> bool:
    """Whether a zip archive holds a workbook.

    Raises `DataError` where it claims to unpack to too much, or a part of it does not have the checksum noted for it.
    """
    most = min(MAX_UNPACKED_BYTES, max(_ALWAYS_UNPACKED, _UNPACKED_TIMES * len(content)))
    with _broken_told(), ZipFile(BytesIO(content)) as archive:
        entries = archive.infolist()
        check_size(sum(entry.file_size for entry in entries), "unpacked bytes", most)
        if not any(entry.filename == "xl/workbook.xml" for entry in entries):
            return False
        if (damaged := archive.testzip()) is not None:  # who reads rows stops before a checksum is looked at
            raise BadZipFile(f"Bad CRC-32 for file {damaged!r}")
        return True


def workbook_table(content: bytes) -> Table:
    """Read the first sheet whose first filled row names question and context, else the first filled sheet.

    Raises `DataError` where the workbook is broken, empty or larger than a workbook can be.
    """
    with _broken_told():
        return _best_table(openpyxl.load_workbook(BytesIO(content), read_only=True, data_only=True))


@contextmanager
def _broken_told() -> Iterator[None]:
    try:
        yield
    except (DataError, MemoryError):
        raise
    except Exception as error:  # openpyxl lets through whatever a broken part causes
        reason = shown(str(error) or type(error).__name__, 200)
        raise DataError.of(ProblemCode.BROKEN_WORKBOOK, reason=reason) from error


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
    return Table(names, (RawRow(number, dict(zip(names, row, strict=False))) for number, row in rows))


def _filled_rows(sheet: Any, width: int) -> Iterator[tuple[int, list[Any]]]:
    """Yield sheet row numbers and cells, without blank rows and without blank cells at the end."""
    with _broken_told():
        for number, cells in enumerate(sheet.iter_rows(max_col=width), start=1):
            check_size(number, "rows", MAX_ROWS)
            row = [_value(cell) for cell in cells]
            filled = [place for place, value in enumerate(row, start=1) if not is_blank(value)]
            if filled:
                yield number, row[: filled[-1]]


def _value(cell: Any) -> Any:
    value = cell.value
    if not isinstance(value, str):
        return value
    # a text may look like an error and be none; a carriage return is kept as _x000D_
    return CellError(value) if cell.data_type == "e" else unescape(value)
