"""What every format becomes: numbered rows of named cells; and one cell as text, as a missing value, or as answers."""

import ast
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, time
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from mrc_workbench.data.problems import DataError, Problem, ProblemCode

MAX_COLUMNS = 2**14  # Excel's own limit
MAX_CHARACTERS = 1_000_000  # of one text: a thick book
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# what XML 1.0 forbids (https://www.w3.org/TR/xml/#charsets): no spreadsheet, page or picture may hold it, and the
# libraries that make them end the whole process where they meet it
_INVALID_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_INVALID_XML_BYTES = bytes({*range(32)} - set(b"\t\n\r"))
_LINE_BREAK_REPLACEMENTS = {
    "\x0b": "\n",
    "\x0c": "\n",
}  # the line breaks of slides, which come along when text is copied


class RawRow(NamedTuple):
    """One row as given. A paragraph of SQuAD files precedes its questions; in other formats each row is both."""

    number: int  # as users count
    cells: Mapping[str, object]
    problem: Problem | None = None  # why the row could not be read
    is_question: bool = True
    is_paragraph: bool = True


@dataclass(frozen=True)
class RawTable:
    """The rows of a file and the names of their columns."""

    names: tuple[str, ...]
    rows: Iterable[RawRow]  # to be read once
    first: tuple[dict[str, str], ...] = ()  # a few of them as text, to look at
    skipped: tuple[str, ...] = ()  # names of what the file holds beside its rows
    joined: tuple[str, ...] = ()  # columns whose content stands in other columns now
    roles: Mapping[str, str | None] = field(default_factory=dict)  # columns whose role the file itself tells


class CellError(str):
    """The error a formula left in a cell, such as #N/A: no text, though it looks like one."""

    __slots__ = ()


def column_names(header: Iterable[object]) -> tuple[str, ...]:
    """Make header cells into names that differ: a blank is "column 3", a second "text" is "text (2)"."""
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
    """Whether `text` holds only characters of XML 1.0: no control character, no lone surrogate."""
    if text.isprintable():  # neither control characters nor surrogates are, and it is several times as fast
        return True
    if "\ufffe" in text or "\uffff" in text:
        return False
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        return False
    return len(encoded.translate(None, _INVALID_XML_BYTES)) == len(encoded)  # faster than looking for the expression


def mend_text(text: str) -> str:
    """Return `text` with what XML 1.0 forbids replaced by U+FFFD, and vertical tabs and form feeds by line breaks."""
    return (
        text
        if is_valid_xml(text)
        else _INVALID_XML.sub(lambda match: _LINE_BREAK_REPLACEMENTS.get(match[0], REPLACEMENT), text)
    )


def is_blank(value: object) -> bool:
    """Whether a cell says nothing: None, NaN, NaT, or white space."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (not is_collection(value) and bool(value != value))  # noqa: PLR0124 (NaN, NaT)


def is_collection(value: object) -> bool:
    """Whether a cell holds several values, so that it is no text."""
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
    """Return any value as text that can be printed and saved, cut to `limit` characters with an ellipsis."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=_json_default) if is_collection(value) else as_text(value)
    except (RecursionError, ValueError, TypeError):
        text = describe_kind(value)
    text = mend_text(text)
    return text if limit is None or len(text) <= limit else text[: limit - 1] + "…"


def _json_default(value: Any) -> object:
    return value.tolist() if isinstance(value, np.ndarray) else str(value)


def describe_kind(value: object) -> str:
    """Name what a value is, in plain words."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, dict):
        return "an object"
    if is_collection(value):
        return "a list"
    if isinstance(value, (str, bytes)):
        return "a text or number"  # JSON numbers are read as written
    return "true or false" if isinstance(value, (bool, np.bool_)) else "a number"


@contextmanager
def wrap_errors(code: ProblemCode, *, first_line: bool = False, **details: str) -> Iterator[None]:
    """Let whatever a broken file causes be a `DataError` of its reason, or of the reason's first line."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except BaseException as error:  # a broken part can surface as any error of a library, or as one of Python's
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of calamine
            raise
        reason = str(error).partition("\n")[0] if first_line else str(error)
        raise DataError.from_code(code, **details, reason=display_text(reason or type(error).__name__, 200)) from error


_MISSING = ("nan", "n/a", "<na>", "null", "-", "–", "—")  # what programs write for a missing value, in any case
_EMPTY = frozenset(  # as they are written where a cell may be empty: in passages and questions some may be the text
    {"NaN", "nan", "N/A", "n/a", "#N/A", "<NA>", "NaT", "null", "NULL", "None", "-", "없음", "해당 없음", "해당없음"}
)
# the first with white space around it
_MAX_MISSING_CHARACTERS = 12
_MAX_EMPTY_CHARACTERS = max(map(len, _EMPTY))


def is_missing(value: object) -> bool:
    """Whether a cell is blank or holds the mark of a missing value, such as NaN or N/A."""
    return is_blank(value) or (
        isinstance(value, str) and len(value) < _MAX_MISSING_CHARACTERS and is_missing_mark(value.strip())
    )


def is_missing_mark(text: str) -> bool:
    """Whether a stripped text is the mark of a missing value, whatever it stands for."""
    return len(text) < _MAX_MISSING_CHARACTERS and text.lower() in _MISSING


def is_empty_mark(text: str) -> bool:
    """Whether a stripped text of a cell that may be empty says that it is."""
    return len(text) <= _MAX_EMPTY_CHARACTERS and text in _EMPTY


MAX_ANSWERS = 1_000
UNKNOWN_START = -1  # where nobody said where an answer stands
_MAX_PYTHON_CHARACTERS = 100_000  # characters; reading Python takes a hundred times their size in memory
OTHER_IDS = "other_ids"  # in the metadata of an exported passage: its aliases
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)


def answers_in(cell: object) -> dict[str, int]:
    """Return the distinct answers of a cell, in order, with their `answer_start` in the passage, else `NOWHERE`.

    Takes plain text, a list, a SQuAD-like `{"text": [...]}` or a list of those, arrays, and the JSON or Python text of
    any of them. Of more than `MOST_ANSWERS` answers, one more than that is returned.
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
    """Return the value that a cell's text stands for, JSON or Python, or the text where it stands for itself."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        if len(text) > _MAX_PYTHON_CHARACTERS:
            return text
    # pandas writes arrays as array(['a'], dtype=object) or ['a' 'b'], which Python would read as one text.
    python = re.sub(r"array\((\[[^\[\]]*\])(?:, dtype=\w+)?\)", r"\1", text)
    python = re.sub(r"(['\"])\s+(?=['\"])", r"\1, ", python)
    if re.match(r"\[\s*\[", python):
        python = re.sub(r"\]\s+(?=\[)", "], ", python)
    try:
        return ast.literal_eval(python)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def metadata_in(cell: object) -> dict[str, Any] | None:
    """Return the metadata that a cell holds, also as JSON text; None where it holds no object."""
    value = parsed(cell) if isinstance(cell, str) and cell.lstrip().startswith("{") else cell
    return value if isinstance(value, dict) else None


def other_ids_in(cell: object) -> list[str]:
    """Return the aliases that the metadata of an exported passage list."""
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
        parts = zip(value, starts, strict=True)
        return (
            [answer for item, item_start in parts for answer in _flatten_answers(item, depth - 1, item_start)]
            if depth
            else []
        )
    return [] if isinstance(value, (dict, CellError)) else [(as_text(value), _parse_start(start))]


def with_starts(answers: Any, starts: Any) -> Any:
    """Join answers with the starts of another cell, one or a list of them, into what `answers_in` takes."""
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
