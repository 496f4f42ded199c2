"""JSON and JSONL become a table."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any, NoReturn

from mrc_workbench.data.formats.columns import guess_columns
from mrc_workbench.data.formats.tables import MAX_COLUMNS, RawRow, Table, is_fit, kind_of, shown
from mrc_workbench.data.formats.text import EncodedText, check_size, lines_of
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

_WORDS = ("true", "false", "null")  # of JSON, which may be cut themselves
_MOST_PARTS = 2_000_000
# Numbers stay as written ("1.10"), NaN is a blank, raw line breaks inside texts pass.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda _: None, strict=False)


def parse_json(text: str) -> Any:
    """Parse a whole JSON text, numbers as text. Raises `DataError` with the line and column of a break.

    Empty lists and objects take twenty times their size in memory, so more of them than any text needs are refused.
    """
    check_size(text.count("{") + text.count("["), "lists and objects", max(_MOST_PARTS, len(text) // 16))
    try:
        return _decoded(text)
    except json.JSONDecodeError as error:
        rest = text[error.pos : error.pos + 10].strip()
        if error.msg.startswith("Unterminated string") or any(word.startswith(rest) for word in _WORDS):
            raise DataError.of(ProblemCode.CUT_JSON, line=text.count("\n") + 1) from error
        raise DataError.of(ProblemCode.BROKEN_JSON, line=error.lineno, column=error.colno, reason=error.msg) from error
    except RecursionError as error:
        raise DataError.of(ProblemCode.NESTED_TOO_DEEP) from error


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


def jsonl_opener(text: str | EncodedText) -> Callable[[], Table]:
    """Return what reads one object a line anew at each call; a broken line is a row with a problem.

    The lines are read once for the names, and once for each table.
    """
    return item_opener(lambda: json_lines(text))


def json_lines(text: str | EncodedText) -> Iterator[tuple[int, Any, str]]:
    """Yield number, value and text of each line that is not blank; the value is a `Problem` where it is no JSON."""
    lines = (line.removesuffix("\n") for line in lines_of(text, "\n"))
    return ((number, _parse_line(number, line), line) for number, line in enumerate(lines, start=1) if line.strip())


def json_table(value: Any) -> Table:
    """Read a list of objects, an object that holds one such list, or a single object that is a row.

    Raises `DataError` for any other shape.
    """
    items = value if isinstance(value, list) else _only_list(value)
    if not any(isinstance(item, dict) for item in items):
        _refuse("an empty list" if not items else f"a list whose first item is {kind_of(items[0])}")
    table = item_opener(lambda: ((number, item, item) for number, item in enumerate(items, start=1)))()
    if isinstance(value, dict) and items[0] is not value:
        return replace(table, skipped=tuple(shown(name) for name in value if value[name] is not items))
    return table


def _only_list(value: Any) -> list[Any]:
    if not isinstance(value, dict):
        _refuse(kind_of(value))
    columns = guess_columns(tuple(value))
    if columns.question and columns.context and isinstance(value[columns.context], str):
        return [value]
    lists = {
        key: items
        for key, items in value.items()
        if isinstance(items, list) and any(isinstance(item, dict) for item in items)
    }
    if not lists:
        _refuse(f"an object without a list of objects (keys: {shown(', '.join(value), 100)})")
    if len(lists) > 1:
        _refuse(f"an object with several lists of objects ({shown(', '.join(lists), 100)})")
    return next(iter(lists.values()))


def _refuse(found: str) -> NoReturn:
    raise DataError.of(ProblemCode.WRONG_SHAPE, found=found)


def _parse_line(number: int, line: str) -> Any:
    """The value of a line, or the problem with it."""
    try:
        return _decoded(line)
    except json.JSONDecodeError as error:
        return Problem.of(ProblemCode.BROKEN_LINE, number, column=error.colno, reason=error.msg)
    except RecursionError:
        return Problem.of(ProblemCode.BROKEN_LINE, number, column=1, reason="nested too deeply")


def item_opener(items: Callable[[], Iterable[tuple[int, Any, object]]]) -> Callable[[], Table]:
    """Return what opens a table of items: number, an object or the `Problem` with it, and what was given."""
    names = cache(lambda: _names(item for _, item, _ in items()))

    def table() -> Table:
        given_names = names()
        rows = (_row(number, item, given) for number, item, given in items())
        if all(map(is_fit, given_names)):
            return Table(given_names, rows)
        mended = (row._replace(cells={shown(name): cell for name, cell in row.cells.items()}) for row in rows)
        return Table(tuple(dict.fromkeys(map(shown, given_names))), mended)

    return table


def _names(items: Iterable[Any]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for item in items:
        if isinstance(item, dict) and not names.keys() >= item.keys():
            names |= dict.fromkeys(item)
            check_size(len(names), "columns", MAX_COLUMNS)
    return tuple(names)


def _row(number: int, item: Any, given: object) -> RawRow:
    if isinstance(item, dict):
        return RawRow(number, item)
    problem = item
    if not isinstance(item, Problem):
        problem = Problem.of(ProblemCode.NOT_AN_OBJECT, number, found=kind_of(item))
    return RawRow(number, {"line": given}, problem)


def squad_articles(value: Any) -> list[Any] | None:
    """Return the articles where `value` has the SQuAD layout, else None."""
    articles = value
    if isinstance(value, dict):
        articles = [value] if "paragraphs" in value else value.get("data")
    if isinstance(articles, list) and any(map(_is_article, articles)):
        return articles
    return None


def _is_article(item: Any) -> bool:
    return isinstance(item, dict) and "paragraphs" in item and "question" not in item
