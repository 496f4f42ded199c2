"""Tables of numbered rows with named cells, the result of every reader; conversion of cells to text and answers."""

import ast
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, time
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from mrc_workbench.data.problems import DataError, Problem, ProblemCode

IsKnownName = Callable[[str], bool]  # whether a column has a known name
MAX_COLUMNS = 2**14  # Excel's own limit
MAX_CHARACTERS = 1_000_000  # of one text: a thick book
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# invalid in XML 1.0 (https://www.w3.org/TR/xml/#charsets), so also in spreadsheets, pages and pictures: the libraries
# that write these crash the process
_INVALID_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_INVALID_XML_BYTES = bytes({*range(32)} - set(b"\t\n\r"))
_LINE_BREAK_REPLACEMENTS = {"\x0b": "\n", "\x0c": "\n"}  # the line breaks of text copied from slides


class RawRow(NamedTuple):
    """One row of a file. In SQuAD files, paragraphs precede their questions; in other formats each row is both."""

    number: int  # from 1
    cells: Mapping[str, object]
    problem: Problem | None = None  # why the row could not be read
    is_question: bool = True
    is_paragraph: bool = True


@dataclass(frozen=True)
class RawTable:
    """The rows of a file and the names of their columns."""

    names: tuple[str, ...]
    rows: Iterable[RawRow]  # can be iterated once
    first: tuple[dict[str, str], ...] = ()  # the first rows as text, for a preview
    skipped: tuple[str, ...] = ()  # names of other content of the file
    joined: tuple[str, ...] = ()  # columns that were joined into others
    roles: Mapping[str, str | None] = field(default_factory=dict)  # columns by role, if the file defines roles


class CellError(str):
    """The error of a formula in a cell, such as #N/A; not a text."""

    __slots__ = ()


def column_names(header: Iterable[object]) -> tuple[str, ...]:
    """Make distinct names from header cells: a blank cell is "column 3", a second "text" is "text (2)"."""
    names: dict[str, None] = {}
    copies: Counter[str] = Counter()
    for number, cell in enumerate(header, start=1):
        name = base_name = display_text(cell) or f"column {number}"
        while name in names:
            copies[base_name] += 1
            name = f"{base_name} ({copies[base_name] + 1})"
        names[name] = None
    return tuple(names)


def is_valid_xml(text: str) -> bool:
    """Whether `text` contains only characters of XML 1.0: no control characters, no lone surrogates."""
    if text.isprintable():  # several times faster; neither control characters nor surrogates are printable
        return True
    if "\ufffe" in text or "\uffff" in text:
        return False
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        return False
    return len(encoded.translate(None, _INVALID_XML_BYTES)) == len(encoded)  # faster than the regular expression


def mend_text(text: str) -> str:
    """Replace characters that are invalid in XML 1.0 by U+FFFD, and vertical tabs and form feeds by line breaks."""
    if is_valid_xml(text):
        return text
    return _INVALID_XML.sub(lambda match: _LINE_BREAK_REPLACEMENTS.get(match[0], REPLACEMENT), text)


def is_blank(value: object) -> bool:
    """Whether a cell is None, NaN, NaT or white space."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (not is_collection(value) and bool(value != value))  # noqa: PLR0124 (NaN, NaT)


def is_collection(value: object) -> bool:
    """Whether a cell contains several values."""
    return isinstance(value, (dict, list, tuple, set, np.ndarray))


def as_text(value: object) -> str:
    """Return the text of a single value, stripped: "" for blanks, "3" for 3.0, ISO dates, bytes as UTF-8."""
    if isinstance(value, str):
        return value.strip()
    if is_blank(value):
        return ""
    if isinstance(value, (float, np.floating)) and math.isfinite(value) and value == int(value):
        return str(int(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip()
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    return value.isoformat() if isinstance(value, (date, time)) else str(value).strip()


def display_text(value: object, limit: int | None = None) -> str:
    """Return a value as printable text, truncated to `limit` characters with an ellipsis."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=_json_default) if is_collection(value) else as_text(value)
    except (RecursionError, ValueError, TypeError):
        text = describe_kind(value)
    text = mend_text(text)
    return text if limit is None or len(text) <= limit else text[: limit - 1] + "…"


def _json_default(value: Any) -> object:
    return value.tolist() if isinstance(value, np.ndarray) else str(value)


def describe_kind(value: object) -> str:
    """Return the kind of a value in words."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, dict):
        return "an object"
    if is_collection(value):
        return "a list"
    if isinstance(value, (str, bytes)):
        return "a text or number"  # numbers in JSON are read as text
    return "true or false" if isinstance(value, (bool, np.bool_)) else "a number"


@contextmanager
def wrap_errors(code: ProblemCode, *, first_line: bool = False, **details: str) -> Iterator[None]:
    """Raise errors of a broken file as `DataError` with the reason, or with the first line of the reason."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except BaseException as error:  # a broken file may raise any error in a library
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of calamine
            raise
        reason = str(error).partition("\n")[0] if first_line else str(error)
        raise DataError.from_code(code, **details, reason=display_text(reason or type(error).__name__, 200)) from error


_MISSING = ("nan", "n/a", "<na>", "null", "-", "–", "—")  # marks of missing values in lower case
_EMPTY = frozenset(  # marks of empty optional cells; passages and questions may have such texts
    {"NaN", "nan", "N/A", "n/a", "#N/A", "<NA>", "NaT", "null", "NULL", "None", "-", "없음", "해당 없음", "해당없음"}
)
_MAX_MISSING_CHARACTERS = 12  # with white space around the mark
_MAX_EMPTY_CHARACTERS = max(map(len, _EMPTY))


def is_missing(value: object) -> bool:
    """Whether a cell is blank or contains the mark of a missing value, such as NaN or N/A."""
    is_short = isinstance(value, str) and len(value) < _MAX_MISSING_CHARACTERS
    return is_blank(value) or (is_short and is_missing_mark(str(value).strip()))


def is_missing_mark(text: str) -> bool:
    """Whether a stripped text is the mark of a missing value."""
    return len(text) < _MAX_MISSING_CHARACTERS and text.lower() in _MISSING


def is_empty_mark(text: str) -> bool:
    """Whether a stripped text is the mark of an empty optional cell."""
    return len(text) <= _MAX_EMPTY_CHARACTERS and text in _EMPTY


MAX_ANSWERS = 1_000
UNKNOWN_START = -1  # of an answer without a position
_MAX_PYTHON_CHARACTERS = 100_000  # parsing Python needs a hundred times the memory
OTHER_IDS = "other_ids"  # the aliases in the metadata of an exported passage
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)


def answers_in(cell: object) -> dict[str, int]:
    """Return the distinct answers of a cell in order, with their `answer_start` in the passage or `UNKNOWN_START`.

    Accepts plain text, a list, a SQuAD-like `{"text": [...]}` or a list of those, arrays, and the JSON or Python text
    of any of them. Returns at most `MAX_ANSWERS` + 1 answers.
    """
    if isinstance(cell, str):
        text = cell.strip()
        if text[:1] not in ("[", "{"):
            return {text: UNKNOWN_START} if text and not isinstance(cell, CellError) else {}
        cell = parsed(text)
    starts: dict[str, int] = {}
    for text, start in _flatten_answers(cell, depth=4):
        if text and starts.setdefault(text, start) == UNKNOWN_START:
            starts[text] = start
    return starts if len(starts) <= MAX_ANSWERS else dict(islice(starts.items(), MAX_ANSWERS + 1))


def parsed(text: str) -> object:
    """Parse a cell's text as JSON or Python; returns the text if it is neither."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        if len(text) > _MAX_PYTHON_CHARACTERS:
            return text
    # pandas writes arrays as array(['a'], dtype=object) or ['a' 'b'], a single string in Python
    python = re.sub(r"array\((\[[^\[\]]*\])(?:, dtype=\w+)?\)", r"\1", text)
    python = re.sub(r"(['\"])\s+(?=['\"])", r"\1, ", python)
    if re.match(r"\[\s*\[", python):
        python = re.sub(r"\]\s+(?=\[)", "], ", python)
    try:
        return ast.literal_eval(python)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def metadata_in(cell: object) -> dict[str, Any] | None:
    """Return the metadata object in a cell, also as JSON text; None if there is none."""
    value = parsed(cell) if isinstance(cell, str) and cell.lstrip().startswith("{") else cell
    return value if isinstance(value, dict) else None


def other_ids_in(cell: object) -> list[str]:
    """Return the aliases in the metadata of an exported passage."""
    others = (metadata_in(cell) or {}).get(OTHER_IDS)
    listed = others if isinstance(others, list) else []
    return [id_ for id_ in listed if isinstance(id_, str) and id_ and len(id_) <= MAX_CHARACTERS and is_valid_xml(id_)]


def _flatten_answers(value: Any, depth: int, start: Any = None) -> list[tuple[str, int]]:
    if isinstance(value, dict):
        start = _as_list(value.get("answer_start"))
        value = next((value[key] for key in ("text", "texts", "answer", "value") if key in value), None)
    if type(value) is str:
        return [(value.strip(), _parse_start(start))]
    value = _as_list(value)
    if isinstance(value, (list, tuple, set)):
        starts = start if isinstance(start, list) and len(start) == len(value) else [None] * len(value)
        parts = zip(value, starts, strict=True) if depth else ()
        return [answer for item, item_start in parts for answer in _flatten_answers(item, depth - 1, item_start)]
    return [] if isinstance(value, (dict, CellError)) else [(as_text(value), _parse_start(start))]


def with_starts(answers: Any, starts: Any) -> Any:
    """Join answers with the starts in another cell, single values or lists, for `answers_in`."""
    values: list[Any] = []
    for value in (answers, starts):
        is_list_text = isinstance(value, str) and value.lstrip()[:1] in ("[", "{")
        values.append(parsed(value) if is_list_text else _as_list(value))
    if isinstance(values[0], dict) or any(map(is_blank, values)):
        return values[0]
    texts, answer_starts = (list(value) if is_collection(value) else [value] for value in values)
    return {"text": texts, "answer_start": answer_starts}


def _as_list(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _parse_start(start: Any) -> int:
    if start is None:
        return UNKNOWN_START
    text = as_text(start) if isinstance(start, (int, float, str)) and not isinstance(start, bool) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else UNKNOWN_START
