"""What the values of a column look like: texts, file names, addresses, dates, numbers, labels, images and sounds."""

import re
from collections.abc import Iterator, Mapping, Sequence

from mrc_workbench.data.formats.tables import as_text, is_collection, is_missing
from mrc_workbench.data.layouts.columns.cells import list_items
from mrc_workbench.data.layouts.nested.passage_lists import is_marked, passages_in
from mrc_workbench.data.layouts.programs.lines import WHOLE

_FILE_NAME = re.compile(r"[^\n]{1,200}\.(md|txt|pdf|html?|docx?|hwpx?|pptx?|xlsx?|csv|jsonl?|rst|xml)", re.IGNORECASE)
_ADDRESS = re.compile(r"(https?://|www\.|file:|s3:|/|[A-Za-z]:\\)\S+|[\w.+-]+@[\w-]+\.[\w.]+", re.IGNORECASE)
_DATE = re.compile(r"\d{4}[-./년]\s?\d{1,2}[-./월]\s?\d{1,2}.{0,30}|\d{1,2}[-./]\d{1,2}[-./]\d{4}.{0,30}")
_SEVERAL_WORDS = re.compile(r"\S\s+\S|\S[.!?。！？…]$|[\u3040-\u30ff\u4e00-\u9fff\u0e00-\u0e7f]{12}")
_MOST_ITEMS = 5  # of a list that are looked at
_MOST_LABEL = 10  # a larger number is a score of a search engine, or no grade at all

Sample = Sequence[Mapping[str, object]]


def may_hold_passages(name: str, sample: Sample, *, is_sure: bool) -> bool:
    """Whether values can be passages: no lists of numbers, no media; without a sure name no files, addresses, dates."""
    if not is_sure and (holds_locations(name, sample) or _holds(name, sample, _DATE)):
        return False
    values = [row.get(name) for row in sample[:20] if not is_missing(row.get(name))]
    cells = [value for value in values if is_collection(value)]
    items = [item for cell in cells for item in list_items(cell)[:_MOST_ITEMS]]
    if items and all(map(_is_medium, items)):
        return False
    may_be_empty = not any(isinstance(value, dict) for value in values)
    is_numbers = any(is_number(leaf) for cell in cells for leaf in _leaves(cell))
    return (may_be_empty and not is_numbers) or holds_texts(name, sample)


def _is_medium(item: object) -> bool:
    """Whether an object is an image, a sound or a video, as Hugging Face stores them."""
    return isinstance(item, dict) and ({"bytes", "path"} <= item.keys() or {"array", "sampling_rate"} <= item.keys())


def holds_locations(name: str, sample: Sample) -> bool:
    """Whether most filled cells of a column are file names or addresses."""
    return _holds(name, sample, _FILE_NAME) or _holds(name, sample, _ADDRESS)


def _holds(name: str, sample: Sample, pattern: re.Pattern[str]) -> bool:
    """Whether most filled cells of a column, or the items of their lists, match a pattern as a whole."""
    values = [row.get(name) for row in sample[:50] if not is_missing(row.get(name))]
    items = [item for value in values for item in (list_items(value)[:5] if is_collection(value) else [value])]
    return bool(items) and 2 * sum(_matches(item, pattern) for item in items) > len(items)


def _matches(item: object, pattern: re.Pattern[str]) -> bool:
    """Whether a text, or the short text of any key of an object, matches a pattern as a whole."""
    parts = item.values() if isinstance(item, dict) else [item]
    return any(pattern.fullmatch(as_text(part)[:300]) is not None for part in parts if not is_collection(part))


def holds_texts(name: str, sample: Sample) -> bool:
    """Whether most filled cells of a column are lists, or texts of several words, and no ids or names."""
    values = [value for row in sample if not is_missing(value := row.get(name))]
    items = [
        item for value in values for item in (list_items(value)[:_MOST_ITEMS] if is_collection(value) else [value])
    ]
    leaves = [found for item in items if (found := [*_leaves(item)])]
    return 2 * sum(any(map(_is_text, found)) for found in leaves) > len(leaves)


def _is_text(leaf: object) -> bool:
    return isinstance(leaf, dict) or _SEVERAL_WORDS.search(as_text(leaf)[:1000]) is not None


def _leaves(value: object, depth: int = 4) -> Iterator[str | dict[str, object]]:
    """Yield the texts of a cell, which may be a list of lists, and the objects that hold passages."""
    if isinstance(value, dict):
        yield from [value] if passages_in(value) else ()
    elif not is_collection(value):
        yield as_text(value)
    elif depth:
        for item in list_items(value)[:_MOST_ITEMS]:
            yield from _leaves(item, depth - 1)


def is_number(item: object) -> bool:
    """Whether an item of a cell is a number, also as text."""
    try:
        float(as_text(item))
    except (ValueError, TypeError):
        return False
    return not is_collection(item)


def is_label(value: object) -> bool:
    """Whether a value can be the label of a row: a small whole number, or a word such as yes, no, O and X."""
    text = "" if is_collection(value) else as_text(value)
    if WHOLE.fullmatch(text):
        return abs(float(text)) <= _MOST_LABEL
    return is_marked(text) is not None and not any(letter.isdigit() for letter in text)
