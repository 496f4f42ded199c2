"""Passages in one cell: texts, objects, [title, sentences] pairs, and the dict of lists that Hugging Face writes."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mrc_workbench.data.formats.columns import plain_name
from mrc_workbench.data.formats.tables import CellError, as_text, is_blank, is_collection, parsed


class ListedPassage(NamedTuple):
    """One passage of a list. `is_relevant` comes from a mark in its entry and is None without one."""

    id: str
    title: str
    text: str
    is_relevant: bool | None = None


# Compared as `plain_name` makes them, the best name first.
ID_NAMES = (
    "docid", "passageid", "psgid", "pid", "contextid", "paragraphid", "chunkid", "documentid", "nodeid",
    "wikipediaid", "corpusid", "id", "문서id", "문서번호",
)  # fmt: skip
TITLE_NAMES = (
    "title", "doctitle", "documenttitle", "wikipediatitle", "wikipediapagetitle", "pagetitle", "wikititle", "headline",
    "docname", "documentname", "제목", "문서제목", "문서명",
)  # fmt: skip
TEXT_NAMES = (
    "text", "passagetext", "paragraphtext", "evidencetext", "pagecontent", "contexttext", "chunktext", "snippettext",
    "contents", "content", "context", "passage", "paragraph", "chunk", "snippet", "body", "wikicontext",
    "searchcontext", "sentences", "paragraphs", "sentence", "texts", "passages", "chunks", "document",
    "본문", "지문", "문단", "내용", "텍스트",
)  # fmt: skip
MARK_NAMES = (
    "isselected", "issupporting", "isrelevant", "relevant", "relevance", "ispositive", "isgold", "isanswer",
    "hasanswer", "label", "관련여부", "관련도",
)  # fmt: skip
_UNCLEAR_NAMES = ("passages", "documents", "docs", "paragraphs", "ctxs", "context", "문단목록", "문서목록")
_POSITION_NAMES = ("id",)  # may number the entries of one list
# in lower case but O and X, which mark right and wrong in Korea and Japan as ○ and × do
_TRUE = (
    "true", "yes", "y", "positive", "relevant", "correct", "entailment", "O", "○", "◯", "〇", "✓", "✔", "예", "네",
    "참", "관련", "관련있음", "적합", "正解", "はい", "相关", "是", "ja",
)  # fmt: skip
_FALSE = (
    "false", "no", "n", "negative", "irrelevant", "incorrect", "X", "×", "✕", "✗", "아니오", "아니요", "거짓", "무관",
    "관련없음", "부적합", "不正解", "いいえ", "不相关", "否", "nein",
)  # fmt: skip
_MARKS = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}
_NOT = re.compile(r"not?[\s_-]+|non[\s_-]*")  # before a mark: "not relevant", "not_entailment", "non-relevant"
_MAX_DEPTH = 4
_LONGEST_TITLE = 200  # characters; a longer first text of a pair is no title


def passages_in(cell: object) -> list[ListedPassage]:
    """Return the passages of a cell, in order; none for what holds no text.

    Takes a text, a list of texts, objects with a text (and id, title, mark), [title, sentences] pairs, a dict of
    equally long lists, an object of passages by id, and the JSON or Python text of any of these.
    """
    value = _value(cell)
    entries = list(_entries(value, _MAX_DEPTH))
    numbers = [entry.id for entry, id_name in entries if id_name in _POSITION_NAMES]
    count = len(entries)
    is_numbered = count > 1 and numbers in ([*map(str, range(count))], [*map(str, range(1, count + 1))])
    return [entry._replace(id="") if is_numbered else entry for entry, _ in entries]


def joined_text(value: object, depth: int = _MAX_DEPTH) -> str:
    """Return the text of a passage that may be a list of sentences or paragraphs."""
    value = plain_value(value)
    if isinstance(value, (list, tuple)):
        parts = [joined_text(part, depth - 1) for part in value] if depth else []
        return " ".join(filter(None, parts))
    return "" if isinstance(value, (dict, set, CellError, bool)) else as_text(value)


def first_value(cells: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Return the first filled cell whose name is one of the plain `names`, in their order."""
    name = name_of(cells, names)
    return None if name is None else cells[name]


def name_of(cells: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Return the name of the first filled cell whose plain name is one of `names`, in their order."""
    by_plain = {plain_name(name): name for name, value in reversed([*cells.items()]) if not _is_empty(value)}
    return next((by_plain[name] for name in names if name in by_plain), None)


def _entries(value: Any, depth: int) -> Iterator[tuple[ListedPassage, str]]:
    """Yield passages, each with the plain name of the key that its id comes from."""
    if depth == 0 or is_blank(value) or isinstance(value, (bool, CellError)):
        return
    if isinstance(value, dict):
        yield from _object_entries(value, depth)
    elif not isinstance(value, (list, tuple, set)):
        yield ListedPassage("", "", as_text(value)), ""
    elif (pair := _pair(value)) is not None:
        if pair.text:
            yield pair, ""
    else:
        for item in value:
            yield from _entries(_value(item, only_objects=True), depth - 1)


def _object_entries(value: dict[str, Any], depth: int) -> Iterator[tuple[ListedPassage, str]]:
    columns = {name: plain_value(cell) for name, cell in value.items()}
    text_name = name_of(columns, TEXT_NAMES)
    if text_name is None:
        yield from _by_id(columns, depth)
    elif (rows := _transposed(columns, text_name)) is not None:
        for row in rows:
            yield from _object_entries(row, depth - 1) if depth > 1 else ()
    elif text := joined_text(columns[text_name]):
        id_name = name_of(columns, ID_NAMES)
        id_ = "" if id_name is None else joined_text(columns[id_name])
        yield ListedPassage(id_, _title(columns), text, _mark(columns)), plain_name(id_name or "")


def _by_id(columns: dict[str, Any], depth: int) -> Iterator[tuple[ListedPassage, str]]:
    """Read an object of passages by id, where every value is an object with a text."""
    values = columns.values()
    if not all(isinstance(value, dict) and name_of(value, TEXT_NAMES) for value in values):
        return
    for id_, value in columns.items():
        for entry, _ in _object_entries(value, depth - 1) if depth > 1 else ():
            yield entry._replace(id=entry.id or as_text(id_)), "key"


def _transposed(columns: dict[str, Any], text_name: str) -> list[dict[str, Any]] | None:
    """Return the objects of a dict of equally long lists, None where it is none."""
    lists = {name: value for name, value in columns.items() if value is not None}
    if not all(isinstance(value, list) for value in lists.values()):
        return None
    count = len(columns[text_name])
    if any(len(value) != count for value in lists.values()):
        return None
    is_list_name = len(lists) == 1 and plain_name(text_name) in ("sentences", "paragraphs")
    return None if is_list_name else [{name: value[row] for name, value in lists.items()} for row in range(count)]


def _title(columns: dict[str, Any]) -> str:
    title = joined_text(first_value(columns, TITLE_NAMES))
    metadata = columns.get("metadata")
    return title or (joined_text(first_value(metadata, TITLE_NAMES)) if isinstance(metadata, dict) else "")


def _pair(value: Iterable[Any]) -> ListedPassage | None:
    """Return the passage of [title, list of sentences], None for any other list."""
    items = [plain_value(item) for item in value]
    if len(items) != 2 or not isinstance(items[0], str) or not isinstance(items[1], list):
        return None
    if len(items[0]) > _LONGEST_TITLE or not all(isinstance(part, str) for part in items[1]):
        return None
    return ListedPassage("", items[0].strip(), joined_text(items[1]))


def _mark(columns: dict[str, Any]) -> bool | None:
    """Return what the first readable mark of an entry says."""
    for name in MARK_NAMES:
        mark = is_marked(first_value(columns, (name,)))
        if mark is not None:
            return mark
    return None


def is_marked(value: object) -> bool | None:
    """Return what a mark says: a flag, a yes or no, or a number that is relevant from 1; None for anything else."""
    if is_collection(value) or is_blank(value):
        return None
    text = as_text(value)
    if text in _MARKS:
        return _MARKS[text]
    text = text.lower()
    if not_ := _NOT.match(text):
        mark = _MARKS.get(text[not_.end() :])
        return None if mark is None else not mark
    if (plain := "".join(text.split())) in _MARKS:
        return _MARKS[plain]
    try:
        return float(text) >= 1
    except ValueError:
        return None


def is_unclear(name: str, lists: Sequence[Sequence[ListedPassage]]) -> bool:
    """Whether the lists of a column, one a row, may hold passages of which nothing says that they answer."""
    passages = [passage for row in lists for passage in row]
    if plain_name(name) not in _UNCLEAR_NAMES or any(passage.is_relevant is not None for passage in passages):
        return False
    is_plural = any(len(row) > 1 for row in lists)
    return is_plural and (plain_name(name) != "context" or any(passage.title for passage in passages))


def is_unclear_list(name: str, sample: Sequence[Mapping[str, object]]) -> bool:
    """Whether a column of these rows holds such lists."""
    cells = [row.get(name) for row in sample[:50]]
    return is_unclear(name, [passages_in(cell) for cell in cells if is_collection(cell) or isinstance(cell, str)])


def _value(cell: object, *, only_objects: bool = False) -> Any:
    """Return the cell, its text parsed where it is JSON or Python."""
    brackets = ("{",) if only_objects else ("[", "{")
    if isinstance(cell, bytes):
        cell = as_text(cell)
    if isinstance(cell, str) and cell.lstrip()[:1] in brackets:
        value = parsed(cell.strip())
        is_text = only_objects and not isinstance(value, dict)
        return cell if is_text or _holds_numbers(value) else value
    return plain_value(cell)


def _holds_numbers(value: Any) -> bool:
    """Whether a value is a list of numbers alone, such as the mark of a citation."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) and item.isdigit() for item in value)


def plain_value(value: Any) -> Any:
    """Return a value as Python keeps it: an array as a list."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def _is_empty(value: Any) -> bool:
    value = plain_value(value)
    return not value if is_collection(value) else is_blank(value)
