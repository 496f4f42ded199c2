"""CSV and TSV text becomes a table, told by content; and tables become CSV that a spreadsheet opens as it is."""

import csv
import re
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice

import pandas as pd

from data.formats.columns import guess_columns, is_known
from data.formats.tables import MAX_COLUMNS, MOST_CHARACTERS, RawRow, Table, column_names
from data.formats.text import EncodedText, check_size, lines_of
from data.problems import DataError, Problem, ProblemCode

DELIMITERS = ("\t", ",", ";")
_SAMPLE_CHARACTERS = 200_000
_SAMPLE_RECORDS = 100
_LONGEST_RECORD = 4 * MOST_CHARACTERS  # over several lines: a quotation mark that never closes swallows no more
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # the wide ones, too, for East Asian ones

csv.field_size_limit(2**31 - 1)  # the default refuses fields over 128 KiB

# number of its first line; fields, or that line where quotation marks do not close
Record = tuple[int, list[str] | str]
Text = str | EncodedText


def find_delimiter(text: str, knows: Callable[[str], bool] = is_known) -> str | None:
    """Return the delimiter that makes the text most like a table of questions, None where none does.

    `knows` tells whether a name is one of a column. Commas of prose stand before a space, and where they like:
    most of its lines have another number of them than the first.
    """
    best, best_score = None, (False, 0.0, 0)
    for delimiter in DELIMITERS:
        read = islice(_records(text[:_SAMPLE_CHARACTERS], delimiter), _SAMPLE_RECORDS)
        records = [fields for _, fields in read if fields and not isinstance(fields, str)]
        width = len(records[0]) if records else 0
        columns = guess_columns(column_names(records[0][:MAX_COLUMNS] if records else ()))
        alike = sum(len(fields) == width for fields in records) / max(len(records), 1)
        score = (bool(columns.question and columns.context), alike, width)
        spaced = all(field.startswith(" ") for field in (records[0][1:] if records else ()))
        is_prose = (alike < 0.5 or spaced) and not any(map(knows, records[0] if records else ()))
        if width > 1 and not is_prose and score > best_score:
            best, best_score = delimiter, score
    return best


def delimited_tables(text: Text, delimiter: str) -> Callable[[], Table]:
    """Tell how delimited text is to be read, and return what reads it anew at each call.

    The first line that is not blank names the columns. A row with another number of fields, or with quotation marks
    that do not close, is a row with a problem. Both raise `DataError` where the header itself is broken.
    """
    quoted = partial(_records, text, delimiter)
    if delimiter != "\t" or not _may_be_literal(text):
        return lambda: _table(quoted())

    def literal() -> Iterator[Record]:
        return ((number, line.rstrip("\r\n").split("\t")) for number, line in enumerate(_lines(text), start=1))

    def misfits(records: Callable[[], Iterator[Record]]) -> int:
        return sum(row.problem is not None for row in _table(records()).rows)

    ways: tuple[Callable[[], Iterator[Record]], ...] = (quoted, literal)  # some writers never quote
    best = min(ways, key=misfits)
    return lambda: _table(best())


def _may_be_literal(text: Text) -> bool:
    lines = _lines(text)
    if '"' in next(lines):
        return False
    quoted = False
    for line in lines:
        if '""' in line:
            return False
        quoted = quoted or '"' in line
    return quoted


def _lines(text: Text) -> Iterator[str]:
    lines = lines_of(text, "")
    first = next(lines)
    return chain(["\n" if re.fullmatch(r"sep=.\s*", first) else first], lines)  # a note to Excel is no header


def _records(text: Text, delimiter: str) -> Iterator[Record]:
    """Yield the records. A quotation mark that never closes costs one line: reading goes on at the next."""
    lines, rereads_left = _Rereadable(_lines(text)), -1
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        lines.begin_record()
        try:
            yield lines.first_number, next(reader)
        except StopIteration:
            return
        except csv.Error:
            yield lines.first_number, lines.record[0]
            if rereads_left < 0:  # every line at most twice on the whole
                rereads_left = sum(1 for _ in _lines(text))
            swallowed = len(lines.record) - 1
            if 0 < swallowed <= rereads_left:
                rereads_left -= swallowed
                lines.go_back()
                reader = csv.reader(lines, delimiter=delimiter, strict=True)


class _Rereadable(Iterator[str]):
    """Lines that can be read again from the second of the record at hand."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self._again = lines, deque[str]()
        self.first_number, self.record, self._length = 1, list[str](), 0

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else next(self._lines)
        self.record.append(line)
        self._length += len(line)
        if self._length > _LONGEST_RECORD and len(self.record) > 1:
            raise csv.Error("a record without an end")
        return line

    def begin_record(self) -> None:
        self.first_number += len(self.record)
        self.record, self._length = [], 0

    def go_back(self) -> None:
        self._again.extendleft(reversed(self.record[1:]))
        self.record = self.record[:1]


def _table(records: Iterator[Record]) -> Table:
    filled = ((number, fields) for number, fields in records if isinstance(fields, str) or any(map(str.strip, fields)))
    number, header = next(filled, (0, []))
    if header == []:
        raise DataError.of(ProblemCode.EMPTY_FILE)
    if isinstance(header, str):
        raise DataError.of(ProblemCode.BROKEN_QUOTES, number)
    check_size(len(header), "columns", MAX_COLUMNS)
    names = column_names(header)
    return Table(names, (_row(number, fields, names) for number, fields in filled))


def _row(number: int, fields: list[str] | str, names: tuple[str, ...]) -> RawRow:
    if isinstance(fields, str):
        return RawRow(number, {"line": fields}, Problem.of(ProblemCode.BROKEN_QUOTES, number))
    if len(fields) > len(names) and not any(fields[len(names) :]):
        fields = fields[: len(names)]
    cells = dict(zip(names, fields, strict=False))
    if len(fields) == len(names):
        return RawRow(number, cells)
    further = fields[len(names) : MAX_COLUMNS]
    more = {f"column {place}": field for place, field in enumerate(further, start=len(names) + 1)}
    found, expected = len(fields), len(names)
    problem = Problem.of(ProblemCode.FIELD_COUNT, number, found=found, expected=expected)
    return RawRow(number, cells | more, problem)


def csv_bytes(table: pd.DataFrame) -> bytes:
    """Return a table as CSV in UTF-8 with a byte order mark, without its index.

    A text that a spreadsheet would run as a formula is led by an apostrophe, in cells and in column names.
    """
    safe = table.rename(columns=_harmless)
    for place, kind in enumerate(safe.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            safe.isetitem(place, [_harmless(value) for value in safe.iloc[:, place]])
    return bytes(safe.to_csv(index=False, lineterminator="\r\n").encode("utf-8-sig"))


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value
