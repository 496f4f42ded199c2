"""Flat JSON that is no plain list of rows: documents by id, columns of cells by row, several lists, JSON in JSON."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from data.formats.columns import is_known, plain_name
from data.formats.json_rows import item_table, parse_json
from data.formats.tables import Table
from data.layouts.passage_lists import TEXT_NAMES, name_of
from data.problems import DataError

Opener = Callable[[], Table]

_PARTS = {
    "train": "train", "training": "train", "dev": "validation", "validation": "validation", "valid": "validation",
    "val": "validation", "test": "test", "학습": "train", "검증": "validation", "평가": "test",
}  # fmt: skip
_SAMPLE = 50
_LEAST_TEXTS = 2  # of an object of texts by id
_LONG_TEXT = 20  # characters on average: shorter values are settings


def object_openers(value: Any) -> dict[str, Opener] | None:
    """Return what opens the tables of JSON that `json_table` does not read, by part name; None for any other JSON.

    The name is "" if the value is a single table. Raises `DataError` if there are several lists and no evidence which
    holds the data.
    """
    if isinstance(value, list):
        if value and all(isinstance(item, str) and item.lstrip().startswith("{") for item in value[:_SAMPLE]):
            return {"": _opener(_parsed_items(value))}
        return None
    if not isinstance(value, dict):
        return None
    if _is_by_id(value):
        return {"": _opener([_with_id(id_, item) for id_, item in value.items()])}
    if _is_by_column(value):
        return {"": _opener(_transposed(value))}
    lists = {name: items for name, items in value.items() if _is_list_of_objects(items)}
    return _several_lists(value, lists) if len(lists) > 1 else None


def _opener(items: Sequence[Any]) -> Opener:
    return lambda: item_table(lambda: ((number, item, item) for number, item in enumerate(items, start=1)))


def _parsed_items(items: Iterable[str]) -> list[Any]:
    parsed_items: list[Any] = []
    for item in items:
        try:
            parsed_items.append(parse_json(item))
        except DataError:
            parsed_items.append(item)  # a row with a problem
    return parsed_items


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict) for item in value[:_SAMPLE])


def _is_by_id(value: Mapping[str, Any]) -> bool:
    """Whether an object holds documents or rows by id: objects with the same keys, or texts under unknown names."""
    items = [*islice(value.values(), _SAMPLE)]
    if not items or any(map(is_known, islice(value, _SAMPLE))):
        return False
    if all(isinstance(item, dict) for item in items):
        has_texts = sum(_holds_text(item) for item in items)
        return 2 * has_texts > len(items)
    if len(items) < _LEAST_TEXTS or not all(isinstance(item, str) for item in items):
        return False
    numbered = sum(any(letter.isdigit() for letter in id_) for id_ in islice(value, _SAMPLE))
    return 2 * numbered > len(items) and sum(map(len, items)) >= _LONG_TEXT * len(items)


def _holds_text(item: Mapping[str, Any]) -> bool:
    """Whether an object is a row: it has a text, or a column of a known name whose cell is no object."""
    if name_of(item, TEXT_NAMES) is not None:
        return not isinstance(item[name_of(item, TEXT_NAMES) or ""], dict)
    return any(is_known(name) and isinstance(cell, str) for name, cell in item.items())


def _with_id(id_: str, item: Any) -> Any:
    """Return a row with the key under which it is stored as its id."""
    if isinstance(item, str):
        return {"id": id_, "text": item}
    if not isinstance(item, dict):
        return item
    name = "id" if "id" not in item else "_id"
    return {name: id_, **item}


def _is_by_column(value: Mapping[str, Any]) -> bool:
    """Whether an object holds columns, each an object of cells by row, as pandas writes a table."""
    columns = [cells for cells in value.values() if isinstance(cells, dict)]
    if len(columns) < 2 or 2 * len(columns) <= len(value) or not any(map(is_known, value)):
        return False
    rows = set(columns[0])
    return bool(rows) and all(2 * len(rows & set(cells)) > max(len(rows), len(cells)) for cells in columns)


def _transposed(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    columns = {name: cells for name, cells in value.items() if isinstance(cells, dict)}
    rows = dict.fromkeys(row for cells in columns.values() for row in cells)
    return [{name: cells.get(row) for name, cells in columns.items()} for row in rows]


def _several_lists(value: Mapping[str, Any], lists: Mapping[str, list[Any]]) -> dict[str, Opener]:
    """Return the tables of an object with several lists of objects.

    Lists named as parts are one table with a split column. Otherwise the lists are the parts of a collection if their
    names differ in role, and one table if they have the same keys.
    """
    if all(plain_name(name) in _PARTS for name in lists):
        rows = [_with_split(item, _PARTS[plain_name(name)]) for name, items in lists.items() for item in items]
        return {"": _opener(rows)}
    keys = [frozenset(next(item for item in items if isinstance(item, dict))) for items in lists.values()]
    if len(set(keys)) == 1:
        return {"": _opener([item for items in lists.values() for item in items])}
    return {name: _opener(items) for name, items in lists.items()}


def _with_split(item: Any, part: str) -> Any:
    return {**item, "split": part} if isinstance(item, dict) and "split" not in item else item
