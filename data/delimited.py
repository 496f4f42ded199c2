"""CSV and TSV text becomes a table; the delimiter and the way of quoting are told by content."""

import csv
import re
from collections.abc import Iterable, Iterator
from io import StringIO
from itertools import islice

from data.columns import guess_columns
from data.problems import DataError, Problem, ProblemCode
from data.tables import RawRow, Table, column_names

DELIMITERS = ("\t", ",", ";")
_SAMPLE_CHARACTERS = 200_000
_SAMPLE_RECORDS = 100

csv.field_size_limit(2**31 - 1)  # the default refuses fields over 128 KiB

Record = tuple[int, list[str] | None]  # first line; fields, None where quotation marks do not close


def find_delimiter(text: str) -> str | None:
    """Return the delimiter that makes the text most like a table of questions, None where none does."""
    best, best_score = None, (False, 0.0, 0)
    lines = _lines(text[:_SAMPLE_CHARACTERS])
    for delimiter in DELIMITERS:
        read = islice(_records(lines, delimiter), _SAMPLE_RECORDS)
        records = [fields for _, fields in read if fields]
        width = len(records[0]) if records else 0
        columns = guess_columns(column_names(records[0] if records else ()))
        alike = sum(len(fields) == width for fields in records) / max(len(records), 1)
        score = (bool(columns.question and columns.context), alike, width)
        if width > 1 and score > best_score:
            best, best_score = delimiter, score
    return best


def delimited_table(text: str, delimiter: str) -> Table:
    """Read delimited text whose first line that is not blank names the columns.

    A row with another number of fields, or with quotation marks that do not close, is a row with a problem.
    Raises `DataError` where the header itself is broken.
    """
    lines = _lines(text)
    if delimiter == "\t" and '"' in text and '"' not in lines[0] and '""' not in text:
        return _better_table(lines)
    return _table(_records(lines, delimiter), lines)


def _better_table(lines: list[str]) -> Table:
    """Read tab-separated lines with quoting, or literally where more rows fit so: some writers never quote."""
    literal = ((number, line.rstrip("\r\n").split("\t")) for number, line in enumerate(lines, start=1))
    tables = [_table(records, lines) for records in (_records(lines, "\t"), literal)]
    return min((Table(table.names, list(table.rows)) for table in tables), key=_misfits)


def _lines(text: str) -> list[str]:
    lines = list(StringIO(text, newline=""))  # str.splitlines would break at separators inside texts
    if re.fullmatch(r"sep=.\s*", lines[0]):  # a note to Excel, no header
        lines[0] = "\n"
    return lines


def _records(lines: list[str], delimiter: str) -> Iterator[Record]:
    """Yield the records. A quotation mark that never closes costs one line: reading goes on at the next."""
    start, rereads_left = 0, len(lines)
    while start < len(lines):
        origin = start
        rest = map(lines.__getitem__, range(origin, len(lines)))
        reader = csv.reader(rest, delimiter=delimiter, strict=True)
        while start < len(lines):
            try:
                yield start + 1, next(reader)
            except csv.Error:
                yield start + 1, None
                swallowed = origin + reader.line_num - start - 1
                if 0 < swallowed <= rereads_left:
                    rereads_left -= swallowed
                    start += 1
                    break
            start = origin + reader.line_num


def _table(records: Iterable[Record], lines: list[str]) -> Table:
    filled = ((number, fields) for number, fields in records if fields is None or any(map(str.strip, fields)))
    number, header = next(filled, (0, []))
    if header == []:
        raise DataError.of(ProblemCode.EMPTY_FILE)
    if header is None:
        raise DataError.of(ProblemCode.BROKEN_QUOTES, number)
    names = column_names(header)
    return Table(names, (_row(number, fields, names, lines) for number, fields in filled))


def _row(number: int, fields: list[str] | None, names: tuple[str, ...], lines: list[str]) -> RawRow:
    if fields is None:
        return RawRow(number, {"line": lines[number - 1]}, Problem.of(ProblemCode.BROKEN_QUOTES, number))
    if len(fields) > len(names) and not any(fields[len(names) :]):
        fields = fields[: len(names)]
    cells = dict(zip(names, fields, strict=False))
    if len(fields) == len(names):
        return RawRow(number, cells)
    more = {f"column {place}": field for place, field in enumerate(fields, start=1) if place > len(names)}
    found, expected = len(fields), len(names)
    problem = Problem.of(ProblemCode.FIELD_COUNT, number, found=found, expected=expected)
    return RawRow(number, cells | more, problem)


def _misfits(table: Table) -> int:
    return sum(row.problem is not None for row in table.rows)
