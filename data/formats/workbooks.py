"""Reads spreadsheets: Excel workbooks (.xlsx), old and binary ones (.xls, .xlsb) and OpenDocument (.ods)."""

import re
import warnings
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from itertools import islice, zip_longest
from operator import attrgetter
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile, is_zipfile

from mrc_workbench.data.formats import tables
from mrc_workbench.data.formats.columns import find_header, guess_columns, is_known, title_problems, without_notes
from mrc_workbench.data.formats.text import check_size, unpacked_limit
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

_MAX_SHEET_ROWS = 2**20  # Excel's limit; files may declare more
_MAX_SHEET_COLUMNS = 256
_MAX_SHEETS = 100
_MAX_MERGES = 100_000
_SAMPLE_ROWS = 120
_MAX_SAMPLED = 1_000
_XLSX = "xl/workbook.xml"
_XLSB = "xl/workbook.bin"
_ODS = b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet"
_MERGE = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?ref="([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})"')
_PART = 1 << 20

warnings.filterwarnings("ignore", module="openpyxl")  # about styles and extensions


class Merge(NamedTuple):
    """A range of merged cells; rows and columns are counted from 1, the last ones are included."""

    first_row: int
    first_column: int
    last_row: int
    last_column: int


@dataclass(frozen=True)
class _Sheet:
    """A sheet; each call of `rows` yields the numbers and cells of the rows, with a maximum number of columns."""

    name: str
    is_visible: bool
    rows: Callable[[int], Iterator[tuple[int, list[Any]]]] = field(repr=False)
    merges: Callable[[], Sequence[Merge]] = field(repr=False)


@dataclass(frozen=True)
class Workbook:
    """The sheet of a workbook with the table, its header and problems."""

    sheet: _Sheet = field(repr=False)
    names: tuple[str, ...]
    known_count: int  # of known names
    row_count: int  # below the header, in the sample
    top: int  # the last row of the header
    merges: tuple[Merge, ...]  # below the header
    problems: tuple[Problem, ...]
    sheets: "Mapping[str, Workbook]" = field(default_factory=dict, repr=False)  # by name, if several have data

    @property
    def merged(self) -> frozenset[str]:
        return frozenset(self.names[merge.first_column - 1] for merge in self.merges)

    @property
    def score(self) -> tuple[bool, int, bool, bool]:
        columns = guess_columns(self.names)
        is_table = len(self.names) > 1 and self.row_count > 0
        return bool(columns.question and columns.context), min(self.known_count, 2), is_table, self.sheet.is_visible

    def table(self) -> tables.RawTable:
        rows = (tables.RawRow(number, dict(zip(self.names, row, strict=False))) for number, row in self._rows())
        return tables.RawTable(self.names, without_notes(rows, self.names))

    def _rows(self) -> Iterator[tuple[int, list[Any]]]:
        with tables.wrap_errors(ProblemCode.BROKEN_WORKBOOK):
            rows = (row for row in self.sheet.rows(len(self.names)) if row[0] > self.top)
            yield from _filled_rows(_with_merged(rows, self.merges))


def is_workbook(content: bytes, name: str = "") -> bool:
    """Whether a zip archive is a workbook. Raises `DataError` if it is broken or too large."""
    parts = (_XLSX, _XLSB)
    is_named = content[30:].startswith(_ODS) or any(part.encode() in content for part in parts)
    if not is_named and (name.lower().endswith(".zip") or is_zipfile(BytesIO(content))):
        return False  # an unreadable archive is a broken workbook, unless its name ends in .zip
    with tables.wrap_errors(ProblemCode.BROKEN_WORKBOOK), ZipFile(BytesIO(content)) as archive:
        entries = archive.infolist()
        check_size(sum(entry.file_size for entry in entries), "unpacked bytes", unpacked_limit(len(content)))
        if not content[30:].startswith(_ODS) and not any(entry.filename in parts for entry in entries):
            return False
        if (damaged := archive.testzip()) is not None:  # reading rows does not verify checksums
            raise BadZipFile(f"Bad CRC-32 for file {damaged!r}")
        return True


def open_workbook(content: bytes, is_known_name: tables.IsKnownName = is_known) -> Workbook:
    """Return the sheet with a table of questions, else one with known columns, else any sheet.

    Hidden sheets are used only if no visible one has a known column. Raises `DataError`.
    """
    with tables.wrap_errors(ProblemCode.BROKEN_WORKBOOK):
        is_xlsx = content.startswith(b"PK") and _XLSX.encode() in content
        sheets = list(islice(_xlsx_sheets(content) if is_xlsx else _other_sheets(content), _MAX_SHEETS))
        candidates = [_read_sheet(sheet, is_known_name) for sheet in sheets]
        opened = [candidate for candidate in candidates if candidate is not None]
        if not opened:
            raise DataError.from_code(ProblemCode.EMPTY_FILE)
        visible = [candidate for candidate in opened if candidate.sheet.is_visible and candidate.known_count]
        best = max(visible or opened, key=lambda candidate: candidate.score)

        def is_data(sheet: Workbook) -> bool:
            completes_best = sheet.score[0] if best.score[0] else sheet.known_count > 1
            return completes_best or set(sheet.names) == set(best.names)

        data_sheets = list(filter(is_data, visible)) if best in visible else [best]
        workbook = _report_other_sheets(best, opened, [best])
        if len(data_sheets) == 1:
            return workbook
        others = {candidate.sheet.name: candidate for candidate in data_sheets}
        return replace(workbook, sheets=others | {best.sheet.name: _report_other_sheets(best, opened, data_sheets)})


def _report_other_sheets(best: Workbook, opened: Sequence[Workbook], data: Sequence[Workbook]) -> Workbook:
    others = [candidate.sheet for candidate in opened if candidate not in data]
    if not others:
        return best
    names = (other.name + ("" if other.is_visible else " (hidden)") for other in others)
    used = ", ".join(candidate.sheet.name for candidate in data)
    details = {"name": tables.display_text(used, 100), "others": tables.display_text(", ".join(names), 200)}
    return replace(best, problems=(*best.problems, Problem.from_code(ProblemCode.OTHER_SHEETS, **details)))


def _read_sheet(sheet: _Sheet, is_known_name: tables.IsKnownName) -> Workbook | None:
    beginning = islice(sheet.rows(_MAX_SHEET_COLUMNS), _MAX_SAMPLED)  # a file may have a million blank rows
    sample = list(islice(_filled_rows(beginning), _SAMPLE_ROWS))
    if not sample:
        return None
    position = find_header([cells for _, cells in sample], is_known_name)
    titles = [cells for _, cells in sample[:position]]
    number, header = sample[position]
    merges = sheet.merges()
    header_end = max((merge.last_row for merge in merges if merge.first_row == number < merge.last_row), default=number)
    header_end = header_end if header_end < number + 3 else number  # cells merged over more rows are no header
    below = [cells for row, cells in sample if number < row <= header_end]
    names = tables.column_names(_header(header, below, [merge for merge in merges if merge.first_row == number]))
    id_ = guess_columns(names).id  # ids are not copied to other rows
    merges = [
        merge
        for merge in merges
        if header_end < merge.first_row < merge.last_row
        and merge.first_column <= len(names)
        and names[merge.first_column - 1] != id_
    ]
    problems = title_problems(titles)
    if merges:
        columns = dict.fromkeys(names[merge.first_column - 1] for merge in merges)
        column_list = tables.display_text(", ".join(columns), 200)
        problems += (Problem.from_code(ProblemCode.MERGED_CELLS, columns=column_list, count=len(merges)),)
    known = sum(map(is_known_name, names))
    return Workbook(sheet, names, known, len(sample) - position - 1 - len(below), header_end, tuple(merges), problems)


def _header(header: Sequence[Any], below: Sequence[Sequence[Any]], merges: Sequence[Merge]) -> list[Any]:
    """Join the names of a header of several rows; a name over several columns precedes each of their names."""
    if not below:
        return list(header)
    upper = [*header, *[None] * (max(map(len, below)) - len(header))]
    for merge in merges:
        for column in range(merge.first_column, min(merge.last_column, len(upper))):
            upper[column] = upper[merge.first_column - 1]
    columns = zip_longest(upper, *below)
    return [" ".join(tables.display_text(part) for part in column if not tables.is_blank(part)) for column in columns]


def _with_merged(rows: Iterator[tuple[int, list[Any]]], merges: Sequence[Merge]) -> Iterator[tuple[int, list[Any]]]:
    """Yield rows; the first of merged cells is copied to the other rows of its range that are not blank."""
    by_column: defaultdict[int, list[Merge]] = defaultdict(list)
    for merge in sorted(merges):
        by_column[merge.first_column - 1].append(merge)
    values: dict[int, tuple[Merge, Any]] = {}
    for number, cells in rows:
        is_blank_row = bool(merges) and all(map(tables.is_blank, cells))
        for column, column_merges in by_column.items():
            position = bisect_right(column_merges, number, key=attrgetter("first_row")) - 1
            merge = column_merges[position]
            if position < 0 or column >= len(cells) or number > merge.last_row:
                continue
            if merge.first_row == number:
                values[column] = merge, cells[column]
            elif not is_blank_row and tables.is_blank(cells[column]) and values.get(column, (None,))[0] is merge:
                cells[column] = values[column][1]
        yield number, cells


def _filled_rows(rows: Iterator[tuple[int, list[Any]]]) -> Iterator[tuple[int, list[Any]]]:
    for number, cells in rows:
        check_size(number, "rows", _MAX_SHEET_ROWS)
        filled = [position for position, cell in enumerate(cells, start=1) if not tables.is_blank(cell)]
        if filled:
            yield number, cells[: filled[-1]]


def _xlsx_sheets(content: bytes) -> Iterator[_Sheet]:
    import openpyxl  # only imported if needed
    from openpyxl.utils import column_index_from_string
    from openpyxl.utils.escape import unescape

    workbook = openpyxl.load_workbook(BytesIO(content), read_only=True, data_only=True)

    def value(cell: Any) -> Any:
        if not isinstance(cell.value, str):
            return cell.value
        # a text may look like an error; a carriage return is stored as _x000D_
        return tables.CellError(cell.value) if cell.data_type == "e" else unescape(cell.value)

    def rows(sheet: Any, width: int) -> Iterator[tuple[int, list[Any]]]:
        sheet.reset_dimensions()  # some programs write a wrong size, which would hide rows
        for number, cells in enumerate(sheet.iter_rows(max_col=width), start=1):
            check_size(number, "rows", _MAX_SHEET_ROWS)
            yield number, [value(cell) for cell in cells]

    def merges(sheet: Any) -> list[Merge]:
        ranges = list[Merge]()
        with ZipFile(BytesIO(content)) as archive, archive.open(sheet._worksheet_path.lstrip("/")) as part:
            tail = b""
            while chunk := part.read(_PART):
                for match in _MERGE.finditer(tail + chunk):
                    first, top, last, bottom = match.groups()
                    columns = [column_index_from_string(column.decode()) for column in (first, last)]
                    ranges.append(Merge(int(top), columns[0], int(bottom), columns[1]))
                tail = (tail + chunk)[-100:]
        check_size(len(ranges), "merged ranges", _MAX_MERGES)
        return sorted(set(ranges))

    for sheet in workbook.worksheets:
        visible = sheet.sheet_state == "visible"
        yield _Sheet(sheet.title, visible, partial(rows, sheet), partial(merges, sheet))


def _other_sheets(content: bytes) -> Iterator[_Sheet]:
    import python_calamine as calamine

    workbook = calamine.CalamineWorkbook.from_object(BytesIO(content))

    def rows(sheet: Any, width: int) -> Iterator[tuple[int, list[Any]]]:
        for number, cells in enumerate(sheet.iter_rows(), start=1):
            yield number, [None if cell == "" else cell for cell in cells[:width]]

    def merges(sheet: Any) -> list[Merge]:
        ranges = (sheet.merged_cell_ranges or ())[: _MAX_MERGES + 1]
        check_size(len(ranges), "merged ranges", _MAX_MERGES)
        return sorted({Merge(first[0] + 1, first[1] + 1, last[0] + 1, last[1] + 1) for first, last in ranges})

    for index, metadata in enumerate(workbook.sheets_metadata):
        if metadata.typ != calamine.SheetTypeEnum.WorkSheet:
            continue
        sheet = workbook.get_sheet_by_index(index)
        visible = metadata.visible == calamine.SheetVisibleEnum.Visible
        yield _Sheet(metadata.name, visible, partial(rows, sheet), partial(merges, sheet))
