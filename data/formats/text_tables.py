"""Text becomes a table, told by content: CSV and TSV, JSON and JSONL; and tables become CSV for spreadsheets."""

import csv
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import chain, islice
from typing import Any, NamedTuple, NoReturn

import pandas as pd

from mrc_workbench.data.formats.columns import find_header, guess_columns, is_known, title_problems, without_notes
from mrc_workbench.data.formats.tables import (
    MAX_CHARACTERS,
    MAX_COLUMNS,
    RawRow,
    RawTable,
    column_names,
    describe_kind,
    display_text,
    is_valid_xml,
)
from mrc_workbench.data.formats.text import EncodedText, check_size, lines_of
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

# the usual ones first: they win where several make an equally good table
DELIMITERS = ("\t", ",", ";", "||", "|", "^", "~", "::", "\x01", "\x1f")
RULED = "ruled"  # in place of a delimiter: | between cells, and lines of dashes, as in Markdown and consoles
_COMMON_DELIMITERS = ("\t", ",", ";")
_RULE = re.compile(r"[|+]?\s*:?[-=]{2}[-=:|+\s]*")
_PIPE = re.compile(r"(?<!\\)\|")
_STAND_IN = "\x1f"  # for a delimiter of several characters while records are parsed
_SAMPLE_CHARACTERS = 200_000
_SAMPLE_RECORDS = 100
_MIN_SAME_WIDTH = 0.9  # fraction of the records that have as many fields as the header, if no name of a column is known
_MAX_RECORD_CHARACTERS = 4 * MAX_CHARACTERS  # over several lines: a quotation mark that never closes swallows no more
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # the wide ones, too, for East Asian ones

csv.field_size_limit(2**31 - 1)  # the default refuses fields over 128 KiB

# number of its first line; fields, or that line where quotation marks do not close
Record = tuple[int, list[str] | str]
Text = str | EncodedText


class Delimited(NamedTuple):
    """How a text is a table: what separates its fields, and how many filled records stand above the header."""

    delimiter: str
    titles: int = 0
    problems: tuple[Problem, ...] = ()


def find_table(text: str, is_known_name: Callable[[str], bool] = is_known) -> Delimited | None:
    """Return the delimiter and the header that make the text most like a table of questions, None if none does.

    `knows` tells whether a name is one of a column. Commas of prose precede a space, and most lines have another number
    of them than the first. Delimiters other than tab, comma and semicolon need a known name, or equally many fields in
    nearly every line.
    """
    head = text[:_SAMPLE_CHARACTERS]
    best = None
    best_score = (False, 0.0, 0)
    has_rules = "|" in head and any(_RULE.fullmatch(line.strip()) for line in head[:20_000].splitlines())
    for delimiter in (RULED, *DELIMITERS) if has_rules else DELIMITERS:
        if delimiter != RULED and delimiter not in head:
            continue
        if best is not None and best.delimiter == RULED:
            break  # its bars would make a wider table, of blank outer columns
        read = islice(_records(head, delimiter), _SAMPLE_RECORDS)
        records = [fields for _, fields in read if not isinstance(fields, str) and any(map(str.strip, fields))]
        titles = find_header(records, is_known_name)
        header, below = (records[titles], records[titles:]) if records else ([], [])
        width = len(header)
        columns = guess_columns(column_names(header[:MAX_COLUMNS]))
        same_width = sum(len(fields) == width for fields in below) / max(len(below), 1)
        score = (bool(columns.question and columns.context), same_width, width)
        if width > 1 and score > best_score and _is_table(header, below, same_width, delimiter, is_known_name):
            best = Delimited(delimiter, titles, title_problems(records[:titles]))
            best_score = score
    return best


def _is_table(
    header: list[str], records: list[list[str]], same_width: float, delimiter: str, is_known_name: Callable[[str], bool]
) -> bool:
    if any(map(is_known_name, header)):
        return True
    if delimiter in _COMMON_DELIMITERS:
        return same_width >= 0.5 and not all(field.startswith(" ") for field in header[1:])
    return same_width >= _MIN_SAME_WIDTH and len(records) > 2


def delimited_tables(text: Text, delimiter: str, titles: int = 0) -> Callable[[], RawTable]:
    """Return what reads delimited text anew at each call. Both raise `DataError` if the header is broken.

    The header follows so many `titles`. A row with another number of fields or open quotation marks has a problem.
    """
    quoted = partial(_records, text, delimiter)
    if delimiter != "\t" or not _may_be_literal(text):
        return lambda: _table(quoted(), titles)

    def literal() -> Iterator[Record]:  # some writers never quote
        return ((number, line.rstrip("\r\n").split("\t")) for number, line in enumerate(_lines(text), start=1))

    def misfits(records: Callable[[], Iterator[Record]]) -> int:
        return sum(row.problem is not None for row in _table(records(), titles).rows)

    ways: tuple[Callable[[], Iterator[Record]], ...] = (quoted, literal)
    best = min(ways, key=misfits)
    return lambda: _table(best(), titles)


def _ruled_records(text: Text) -> Iterator[Record]:
    """Yield the cells between bars; a bar with a backslash before it is text."""
    for number, line in enumerate(_lines(text), start=1):
        row = line.strip()
        if _RULE.fullmatch(row):
            continue
        if "|" in row:
            row = row.removeprefix("|")
            row = row[:-1] if row.endswith("|") and not row.endswith("\\|") else row
        yield number, [cell.strip().replace("\\|", "|") for cell in _PIPE.split(row)]


def _may_be_literal(text: Text) -> bool:
    lines = _lines(text)
    is_quoted = False
    if '"' in next(lines):
        return False
    for line in lines:
        if '""' in line:
            return False
        is_quoted = is_quoted or '"' in line
    return is_quoted


def _lines(text: Text) -> Iterator[str]:
    lines = lines_of(text, "")
    first = next(lines)
    return chain(["\n" if re.fullmatch(r"sep=.\s*", first) else first], lines)  # a note to Excel is no header


def _records(text: Text, delimiter: str) -> Iterator[Record]:
    """Yield the records. A quotation mark that never closes costs one line: reading goes on at the next."""
    if delimiter == RULED:
        yield from _ruled_records(text)
    elif len(delimiter) == 1:
        yield from _parsed(text, _lines(text), delimiter)
    else:
        lines = (line.replace(delimiter, _STAND_IN) for line in _lines(text))
        for number, fields in _parsed(text, lines, _STAND_IN):
            if isinstance(fields, str):
                yield number, fields.replace(_STAND_IN, delimiter)
            else:
                yield number, [field.replace(_STAND_IN, delimiter) for field in fields]


def _parsed(text: Text, raw_lines: Iterator[str], delimiter: str) -> Iterator[Record]:
    lines = _Rereadable(raw_lines)
    rereads_left = -1
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
        self._lines = lines
        self._again = deque[str]()
        self.first_number = 1
        self.record = list[str]()
        self._length = 0

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else next(self._lines)
        self.record.append(line)
        self._length += len(line)
        if self._length > _MAX_RECORD_CHARACTERS and len(self.record) > 1:
            raise csv.Error("a record without an end")
        return line

    def begin_record(self) -> None:
        self.first_number += len(self.record)
        self.record = []
        self._length = 0

    def go_back(self) -> None:
        self._again.extendleft(reversed(self.record[1:]))
        self.record = self.record[:1]


def _table(records: Iterator[Record], titles: int) -> RawTable:
    filled = ((number, fields) for number, fields in records if isinstance(fields, str) or any(map(str.strip, fields)))
    number, header = next(islice(filled, titles, None), (0, []))
    if header == []:
        raise DataError.from_code(ProblemCode.EMPTY_FILE)
    if isinstance(header, str):
        raise DataError.from_code(ProblemCode.BROKEN_QUOTES, number)
    check_size(len(header), "columns", MAX_COLUMNS)
    names = column_names(header)
    return RawTable(names, without_notes((_row(number, fields, names) for number, fields in filled), names))


def _row(number: int, fields: list[str] | str, names: tuple[str, ...]) -> RawRow:
    if isinstance(fields, str):
        return RawRow(number, {"line": fields}, Problem.from_code(ProblemCode.BROKEN_QUOTES, number))
    if len(fields) > len(names) and not any(fields[len(names) :]):
        fields = fields[: len(names)]
    cells = dict(zip(names, fields, strict=False))
    if len(fields) == len(names):
        return RawRow(number, cells)
    further = enumerate(fields[len(names) : MAX_COLUMNS], start=len(names) + 1)
    cells |= {f"column {position}": field for position, field in further}
    return RawRow(
        number, cells, Problem.from_code(ProblemCode.FIELD_COUNT, number, found=len(fields), expected=len(names))
    )


def csv_bytes(table: pd.DataFrame) -> bytes:
    """Return a table as CSV in UTF-8 with a byte order mark; an apostrophe leads what a spreadsheet would run."""
    safe = table.rename(columns=_escape_formula)
    for index, kind in enumerate(safe.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            safe.isetitem(index, [_escape_formula(value) for value in safe.iloc[:, index]])
    return bytes(safe.to_csv(index=False, lineterminator="\r\n").encode("utf-8-sig"))


def _escape_formula(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value


_WORDS = ("true", "false", "null")  # of JSON, which may be cut themselves
_MAX_PARTS = 2_000_000
# Numbers stay as written ("1.10"), NaN is a blank, raw line breaks inside texts pass.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda _: None, strict=False)


def parse_json(text: str) -> Any:
    """Parse a whole JSON text, numbers as text. Raises `DataError` with the line and column of a break.

    More lists and objects than any text needs are refused: empty ones take twenty times their size in memory.
    """
    check_size(text.count("{") + text.count("["), "lists and objects", max(_MAX_PARTS, len(text) // 16))
    try:
        return _decoded(text)
    except json.JSONDecodeError as error:
        rest = text[error.pos : error.pos + 10].strip()
        if error.msg.startswith("Unterminated string") or any(word.startswith(rest) for word in _WORDS):
            raise DataError.from_code(ProblemCode.CUT_JSON, line=text.count("\n") + 1) from error
        raise DataError.from_code(
            ProblemCode.BROKEN_JSON, line=error.lineno, column=error.colno, reason=error.msg
        ) from error
    except RecursionError as error:
        raise DataError.from_code(ProblemCode.NESTED_TOO_DEEP) from error


def _decoded(text: str) -> Any:
    """The value of a JSON text; that of the text inside if it is a string that holds JSON itself."""
    value = _DECODER.decode(text)
    return _DECODER.decode(value) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value


def holds_json_text(head: str) -> bool:
    """Whether a text begins with a JSON string that holds an object or a list."""
    first = head.lstrip().partition("\n")[0]
    return first.startswith('"') and isinstance(_parse_line(1, first), (dict, list))


def is_jsonl(text: str) -> bool:
    """Whether broken JSON is one object a line: the first line is, or most of the first 100."""
    lines = [line for line in text[:1_000_000].split("\n", 200) if line.strip()][:100]
    objects = [isinstance(_parse_line(1, line), dict) for line in lines if line.lstrip().startswith("{")]
    return len(lines) > 1 and bool(objects) and (objects[0] or 2 * sum(objects) > len(lines))


def leading_object(text: str) -> dict[str, Any] | None:
    """The object that the first line is, where others follow it: so begins JSONL, and no other JSON."""
    first, _, rest = text.lstrip().partition("\n")
    value = _parse_line(1, first) if rest.strip() else None
    return value if isinstance(value, dict) else None


def json_lines(text: str | EncodedText) -> Iterator[tuple[int, Any, str]]:
    """Yield number, value and text of each line that is not blank; the value is a `Problem` where it is no JSON."""
    lines = (line.removesuffix("\n") for line in lines_of(text, "\n"))
    return ((number, _parse_line(number, line), line) for number, line in enumerate(lines, start=1) if line.strip())


def json_table(value: Any) -> RawTable:
    """Read a list of objects, an object that holds one, or an object that is a row; others raise `DataError`."""
    items = value if isinstance(value, list) else _only_list(value)
    if not any(isinstance(item, dict) for item in items):
        _refuse("an empty list" if not items else f"a list whose first item is {describe_kind(items[0])}")
    table = item_opener(lambda: ((number, item, item) for number, item in enumerate(items, start=1)))()
    if isinstance(value, dict) and items[0] is not value:
        return replace(table, skipped=tuple(display_text(name) for name in value if value[name] is not items))
    return table


def _only_list(value: Any) -> list[Any]:
    if not isinstance(value, dict):
        _refuse(describe_kind(value))
    columns = guess_columns(tuple(value))
    if columns.question and columns.context and isinstance(value[columns.context], str):
        return [value]
    candidates = {key: items for key, items in value.items() if isinstance(items, list)}
    lists = {key: items for key, items in candidates.items() if any(isinstance(item, dict) for item in items)}
    if not lists:
        _refuse(f"an object without a list of objects (keys: {display_text(', '.join(value), 100)})")
    if len(lists) > 1:
        _refuse(f"an object with several lists of objects ({display_text(', '.join(lists), 100)})")
    return next(iter(lists.values()))


def _refuse(description: str) -> NoReturn:
    raise DataError.from_code(ProblemCode.WRONG_SHAPE, found=description)


def _parse_line(number: int, line: str) -> Any:
    """The value of a line, or the problem with it."""
    try:
        return _decoded(line)
    except json.JSONDecodeError as error:
        return Problem.from_code(ProblemCode.BROKEN_LINE, number, column=error.colno, reason=error.msg)
    except RecursionError:
        return Problem.from_code(ProblemCode.BROKEN_LINE, number, column=1, reason="nested too deeply")


def item_opener(items: Callable[[], Iterable[tuple[int, Any, object]]]) -> Callable[[], RawTable]:
    """Return what opens a table of items: number, an object or the `Problem` with it, and what was given."""
    names = cache(lambda: _names(item for _, item, _ in items()))

    def table() -> RawTable:
        original_names = names()
        rows = (_item_row(*item) for item in items())
        if all(map(is_valid_xml, original_names)):
            return RawTable(original_names, rows)
        mended = (row._replace(cells={display_text(name): cell for name, cell in row.cells.items()}) for row in rows)
        return RawTable(tuple(dict.fromkeys(map(display_text, original_names))), mended)

    return table


def _names(items: Iterable[Any]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for item in items:
        if isinstance(item, dict) and not names.keys() >= item.keys():
            names |= dict.fromkeys(item)
            check_size(len(names), "columns", MAX_COLUMNS)
    return tuple(names)


def _item_row(number: int, item: Any, line: object) -> RawRow:
    if isinstance(item, dict):
        return RawRow(number, item)
    if not isinstance(item, Problem):
        item = Problem.from_code(ProblemCode.NOT_AN_OBJECT, number, found=describe_kind(item))
    return RawRow(number, {"line": line}, item)


def squad_articles(value: Any) -> list[Any] | None:
    """Return the articles where `value` has the SQuAD layout, else None."""
    articles = value
    if isinstance(value, dict):
        articles = [value] if "paragraphs" in value else value.get("data")
    if not isinstance(articles, list):
        return None
    is_squad = any(isinstance(item, dict) and "paragraphs" in item and "question" not in item for item in articles)
    return articles if is_squad else None
