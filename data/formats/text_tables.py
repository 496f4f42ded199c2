"""Reads CSV, TSV, JSON and JSONL as tables, and writes tables as CSV for spreadsheets."""

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

from mrc_workbench.data.formats import tables
from mrc_workbench.data.formats.columns import find_header, guess_columns, is_known, title_problems, without_notes
from mrc_workbench.data.formats.text import EncodedText, check_size, lines_of
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

# common ones first: of several equally good tables the first is used
DELIMITERS = ("\t", ",", ";", "||", "|", "^", "~", "::", "\x01", "\x1f")
RULED = "ruled"  # instead of a delimiter: | between cells, and lines of dashes, as in Markdown
_COMMON_DELIMITERS = ("\t", ",", ";")
_RULE = re.compile(r"[|+]?\s*:?[-=]{2}[-=:|+\s]*")
_PIPE = re.compile(r"(?<!\\)\|")
_STAND_IN = "\x1f"  # replaces a delimiter of several characters during parsing
_SAMPLE_CHARACTERS = 200_000
_SAMPLE_RECORDS = 100
_MIN_SAME_WIDTH = 0.9  # fraction of the records with as many fields as the header, if no column has a known name
_MAX_RECORD_CHARACTERS = 4 * tables.MAX_CHARACTERS  # of several lines, for an unclosed quotation mark
_FORMULA_STARTS = tuple("=+-@\t\r＝＋－＠")  # full-width ones are valid in East Asian Excel

csv.field_size_limit(2**31 - 1)  # the default rejects fields over 128 KiB

# number of the first line, and the fields, or the first line if a quotation mark is not closed
Record = tuple[int, list[str] | str]
Text = str | EncodedText


class Delimited(NamedTuple):
    """The delimiter of a table, the number of non-blank records above its header, and problems."""

    delimiter: str
    titles: int = 0
    problems: tuple[Problem, ...] = ()


def find_table(text: str, is_known_name: tables.IsKnownName = is_known) -> Delimited | None:
    """Return the delimiter and the header of the best table of questions in a text, None if it is not a table.

    `is_known_name` checks names of columns. Commas in prose precede spaces, and their number varies between lines.
    Delimiters other than tab, comma and semicolon require a known name, or equally many fields in nearly every line.
    """
    head = text[:_SAMPLE_CHARACTERS]
    best = None
    best_score = (False, 0.0, 0)
    has_rules = "|" in head and any(_RULE.fullmatch(line.strip()) for line in head[:20_000].splitlines())
    for delimiter in (RULED, *DELIMITERS) if has_rules else DELIMITERS:
        if delimiter != RULED and delimiter not in head:
            continue
        if best is not None and best.delimiter == RULED:
            break  # splitting at the bars would add blank outer columns
        read = islice(_records(head, delimiter), _SAMPLE_RECORDS)
        records = [fields for _, fields in read if not isinstance(fields, str) and any(map(str.strip, fields))]
        titles = find_header(records, is_known_name)
        header, below = (records[titles], records[titles:]) if records else ([], [])
        width = len(header)
        columns = guess_columns(tables.column_names(header[: tables.MAX_COLUMNS]))
        same_width = sum(len(fields) == width for fields in below) / max(len(below), 1)
        score = (bool(columns.question and columns.context), same_width, width)
        if width > 1 and score > best_score and _is_table(header, below, same_width, delimiter, is_known_name):
            best = Delimited(delimiter, titles, title_problems(records[:titles]))
            best_score = score
    return best


def _is_table(
    header: list[str], records: list[list[str]], same_width: float, delimiter: str, is_known_name: tables.IsKnownName
) -> bool:
    if any(map(is_known_name, header)):
        return True
    if delimiter in _COMMON_DELIMITERS:
        return same_width >= 0.5 and not all(field.startswith(" ") for field in header[1:])
    return same_width >= _MIN_SAME_WIDTH and len(records) > 2


def delimited_tables(text: Text, delimiter: str, titles: int = 0) -> Callable[[], tables.RawTable]:
    """Return a function that reads delimited text at each call. Both raise `DataError` if the header is broken.

    The header is after `titles` records. Rows with a wrong number of fields or unclosed quotation marks have a problem.
    """
    quoted = partial(_records, text, delimiter)
    if delimiter != "\t" or not _may_be_literal(text):
        return lambda: _table(quoted(), titles)

    def literal() -> Iterator[Record]:  # some programs never quote fields
        return ((number, line.rstrip("\r\n").split("\t")) for number, line in enumerate(_lines(text), start=1))

    def problem_count(records: Callable[[], Iterator[Record]]) -> int:
        return sum(row.problem is not None for row in _table(records(), titles).rows)

    best = literal if problem_count(literal) < problem_count(quoted) else quoted
    return lambda: _table(best(), titles)


def _ruled_records(text: Text) -> Iterator[Record]:
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
    return chain(["\n" if re.fullmatch(r"sep=.\s*", first) else first], lines)  # Excel's "sep=" line is no header


def _records(text: Text, delimiter: str) -> Iterator[Record]:
    """Yield the records. After an unclosed quotation mark, only its line is skipped."""
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
            if rereads_left < 0:  # in total, each line is read at most twice
                rereads_left = sum(1 for _ in _lines(text))
            further_lines = len(lines.record) - 1
            if 0 < further_lines <= rereads_left:
                rereads_left -= further_lines
                lines.go_back()
                reader = csv.reader(lines, delimiter=delimiter, strict=True)


class _Rereadable(Iterator[str]):
    """Lines that can be read again from the second line of the current record."""

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
            raise csv.Error("unclosed quotation mark")
        return line

    def begin_record(self) -> None:
        self.first_number += len(self.record)
        self.record = []
        self._length = 0

    def go_back(self) -> None:
        self._again.extendleft(reversed(self.record[1:]))
        self.record = self.record[:1]


def _table(records: Iterator[Record], titles: int) -> tables.RawTable:
    filled = ((number, fields) for number, fields in records if isinstance(fields, str) or any(map(str.strip, fields)))
    number, header = next(islice(filled, titles, None), (0, []))
    if header == []:
        raise DataError.from_code(ProblemCode.EMPTY_FILE)
    if isinstance(header, str):
        raise DataError.from_code(ProblemCode.BROKEN_QUOTES, number)
    check_size(len(header), "columns", tables.MAX_COLUMNS)
    names = tables.column_names(header)
    return tables.RawTable(names, without_notes((_row(number, fields, names) for number, fields in filled), names))


def _row(number: int, fields: list[str] | str, names: tuple[str, ...]) -> tables.RawRow:
    if isinstance(fields, str):
        return tables.RawRow(number, {"line": fields}, Problem.from_code(ProblemCode.BROKEN_QUOTES, number))
    if len(fields) > len(names) and not any(fields[len(names) :]):
        fields = fields[: len(names)]
    cells = dict(zip(names, fields, strict=False))
    if len(fields) == len(names):
        return tables.RawRow(number, cells)
    further = enumerate(fields[len(names) : tables.MAX_COLUMNS], start=len(names) + 1)
    cells |= {f"column {position}": field for position, field in further}
    problem = Problem.from_code(ProblemCode.FIELD_COUNT, number, found=len(fields), expected=len(names))
    return tables.RawRow(number, cells, problem)


def csv_bytes(table: pd.DataFrame) -> bytes:
    """Return a table as CSV in UTF-8 with a byte order mark; formulas are escaped by an apostrophe."""
    safe = table.rename(columns=_escape_formula)
    for index, kind in enumerate(safe.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            safe.isetitem(index, [_escape_formula(value) for value in safe.iloc[:, index]])
    return bytes(safe.to_csv(index=False, lineterminator="\r\n").encode("utf-8-sig"))


def _escape_formula(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value


_WORDS = ("true", "false", "null")  # of JSON, which may be truncated
_MAX_PARTS = 2_000_000
# numbers stay as written ("1.10"), NaN is None, and line breaks in strings are allowed
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda _: None, strict=False)


def parse_json(text: str) -> Any:
    """Parse a JSON text, numbers as text. Raises `DataError` with the line and column of an error."""
    # empty lists and objects need twenty times their size in memory
    check_size(text.count("{") + text.count("["), "lists and objects", max(_MAX_PARTS, len(text) // 16))
    try:
        return _decoded(text)
    except json.JSONDecodeError as error:
        rest = text[error.pos : error.pos + 10].strip()
        if error.msg.startswith("Unterminated string") or any(word.startswith(rest) for word in _WORDS):
            raise DataError.from_code(ProblemCode.CUT_JSON, line=text.count("\n") + 1) from error
        position = {"line": error.lineno, "column": error.colno}
        raise DataError.from_code(ProblemCode.BROKEN_JSON, **position, reason=error.msg) from error
    except RecursionError as error:
        raise DataError.from_code(ProblemCode.NESTED_TOO_DEEP) from error


def _decoded(text: str) -> Any:
    """Decode a JSON text; a string that contains JSON is decoded, too."""
    value = _DECODER.decode(text)
    return _DECODER.decode(value) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value


def holds_json_text(head: str) -> bool:
    """Whether a text begins with a JSON string that contains an object or a list."""
    first = head.lstrip().partition("\n")[0]
    return first.startswith('"') and isinstance(_parse_line(1, first), (dict, list))


def is_jsonl(text: str) -> bool:
    """Whether invalid JSON has an object per line: in the first line, or most of the first 100."""
    lines = [line for line in text[:1_000_000].split("\n", 200) if line.strip()][:100]
    objects = [isinstance(_parse_line(1, line), dict) for line in lines if line.lstrip().startswith("{")]
    return len(lines) > 1 and bool(objects) and (objects[0] or 2 * sum(objects) > len(lines))


def leading_object(text: str) -> dict[str, Any] | None:
    """Return the object in the first of several lines, as in JSONL; None for other JSON."""
    first, _, rest = text.lstrip().partition("\n")
    value = _parse_line(1, first) if rest.strip() else None
    return value if isinstance(value, dict) else None


def json_lines(text: str | EncodedText) -> Iterator[tuple[int, Any, str]]:
    """Yield number, value and text of each non-blank line; the value is a `Problem` if the line is not JSON."""
    lines = (line.removesuffix("\n") for line in lines_of(text, "\n"))
    return ((number, _parse_line(number, line), line) for number, line in enumerate(lines, start=1) if line.strip())


def json_table(value: Any) -> tables.RawTable:
    """Read a list of objects, an object that contains one, or an object that is a row. Raises `DataError`."""
    items = value if isinstance(value, list) else _only_list(value)
    if not any(isinstance(item, dict) for item in items):
        _refuse("an empty list" if not items else f"a list whose first item is {tables.describe_kind(items[0])}")
    table = item_opener(lambda: ((number, item, item) for number, item in enumerate(items, start=1)))()
    if isinstance(value, dict) and items[0] is not value:
        return replace(table, skipped=tuple(tables.display_text(name) for name in value if value[name] is not items))
    return table


def _only_list(value: Any) -> list[Any]:
    if not isinstance(value, dict):
        _refuse(tables.describe_kind(value))
    columns = guess_columns(tuple(value))
    if columns.question and columns.context and isinstance(value[columns.context], str):
        return [value]
    candidates = {key: items for key, items in value.items() if isinstance(items, list)}
    lists = {key: items for key, items in candidates.items() if any(isinstance(item, dict) for item in items)}
    if not lists:
        _refuse(f"an object without a list of objects (keys: {tables.display_text(', '.join(value), 100)})")
    if len(lists) > 1:
        _refuse(f"an object with several lists of objects ({tables.display_text(', '.join(lists), 100)})")
    return next(iter(lists.values()))


def _refuse(description: str) -> NoReturn:
    raise DataError.from_code(ProblemCode.WRONG_SHAPE, found=description)


def _parse_line(number: int, line: str) -> Any:
    try:
        return _decoded(line)
    except json.JSONDecodeError as error:
        return Problem.from_code(ProblemCode.BROKEN_LINE, number, column=error.colno, reason=error.msg)
    except RecursionError:
        return Problem.from_code(ProblemCode.BROKEN_LINE, number, column=1, reason="nested too deeply")


def item_opener(items: Callable[[], Iterable[tuple[int, Any, object]]]) -> Callable[[], tables.RawTable]:
    """Return a function that opens a table of items: number, an object or its `Problem`, and the original."""
    names = cache(lambda: _names(item for _, item, _ in items()))

    def table() -> tables.RawTable:
        original_names = names()
        rows = (_item_row(*item) for item in items())
        if all(map(tables.is_valid_xml, original_names)):
            return tables.RawTable(original_names, rows)
        mended = (
            row._replace(cells={tables.display_text(name): cell for name, cell in row.cells.items()}) for row in rows
        )
        return tables.RawTable(tuple(dict.fromkeys(map(tables.display_text, original_names))), mended)

    return table


def _names(items: Iterable[Any]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for item in items:
        if isinstance(item, dict) and not names.keys() >= item.keys():
            names |= dict.fromkeys(item)
            check_size(len(names), "columns", tables.MAX_COLUMNS)
    return tuple(names)


def _item_row(number: int, item: Any, line: object) -> tables.RawRow:
    if isinstance(item, dict):
        return tables.RawRow(number, item)
    if not isinstance(item, Problem):
        item = Problem.from_code(ProblemCode.NOT_AN_OBJECT, number, found=tables.describe_kind(item))
    return tables.RawRow(number, {"line": line}, item)


def squad_articles(value: Any) -> list[Any] | None:
    """Return the articles if `value` has the SQuAD layout, else None."""
    articles = value
    if isinstance(value, dict):
        articles = [value] if "paragraphs" in value else value.get("data")
    if not isinstance(articles, list):
        return None
    is_squad = any(isinstance(item, dict) and "paragraphs" in item and "question" not in item for item in articles)
    return articles if is_squad else None
