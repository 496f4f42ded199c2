"""Objects in the cells of a table, as exports of tools write them, and passages written as lists of sentences."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from mrc_workbench.data.formats.columns import NAMES, is_known, plain_name
from mrc_workbench.data.formats.opening import looked_at
from mrc_workbench.data.formats.tables import Table, is_blank
from mrc_workbench.data.layouts.nested.passage_lists import TEXT_NAMES, TITLE_NAMES, joined_text, plain_value
from mrc_workbench.data.layouts.nested.tree_nodes import question_text, with_parsed_cells

Cells = Mapping[str, Any]

_NOT_SPREAD = {
    *("metadata", "meta"),
    *(name for role in ("context", "positives", "negatives", "answers", "title") for name in NAMES[role]),
} - {"expectedoutput"}  # an object of Langfuse
_SENTENCES = (*TEXT_NAMES, "abstract")


def with_flat_cells(
    opener: Callable[[], Table], table: Table, sample: list[Cells]
) -> tuple[Callable[[], Table], Table, list[Cells]]:
    """Return what opens a table with plain cells, the open table and some of its rows, all as given if they are plain.

    A question that is an object becomes its text, other objects with keys of known names become columns, and in a
    table of documents a list of sentences becomes one text.
    """
    rows = [with_parsed_cells(row) for row in sample]
    by_plain = {plain_name(name): name for name in reversed(table.names)}
    objects = [name for name in table.names if _all_are(name, rows, dict)]
    asked = next((by_plain[name] for name in NAMES["question"] if name in by_plain), None)
    texts = [name for name in objects if name == asked and all(question_text(row.get(name)) for row in rows)]
    inner: dict[str, list[str]] = {}
    if asked is None or (asked in objects and asked not in texts):
        keys_of = {name: _keys_of(name, rows) for name in objects if plain_name(name) not in _NOT_SPREAD}
        if any(plain_name(key) in NAMES["question"] for keys in keys_of.values() for key in keys):
            inner = {name: keys for name, keys in keys_of.items() if any(map(is_known, keys))}
    joined: list[str] = []
    if asked is None and not inner and any(name in by_plain for name in (*TITLE_NAMES, "id", "docid")):
        joined = [name for name in table.names if plain_name(name) in _SENTENCES and _has_texts(name, rows)]
    if not (texts or inner or joined):
        return opener, table, sample
    names = [name for name in table.names if name not in inner]
    new_names = {
        (name, key): key if key not in table.names else f"{name}.{key}" for name, keys in inner.items() for key in keys
    }
    names += dict.fromkeys(new_names.values())

    def flat(cells: Cells) -> dict[str, Any]:
        row = dict(cells) if not (texts or inner) else with_parsed_cells(cells)
        row |= {name: question_text(row[name]) for name in texts if isinstance(row.get(name), dict)}
        row |= {name: joined_text(row[name]) for name in joined if isinstance(plain_value(row.get(name)), list)}
        for name in inner:
            value = row.pop(name, None)
            row |= (
                {new_names[name, key]: cell for key, cell in value.items() if (name, key) in new_names} if value else {}
            )
        return row

    def opened() -> Table:
        table = opener()
        rows = (row if row.problem else row._replace(cells=flat(row.cells)) for row in table.rows)
        return replace(table, names=tuple(names), rows=rows)

    return (opened, *looked_at(opened()))


def _all_are(name: str, rows: Sequence[Cells], kind: type) -> bool:
    values = [plain_value(value) for row in rows if not is_blank(value := row.get(name))]
    return bool(values) and all(isinstance(value, kind) for value in values)


def _keys_of(name: str, rows: Iterable[Cells]) -> list[str]:
    values = (row.get(name) for row in rows)
    return list(dict.fromkeys(chain.from_iterable(value for value in values if isinstance(value, dict))))


def _has_texts(name: str, rows: Sequence[Cells]) -> bool:
    lists = [plain_value(row.get(name)) for row in rows]
    return _all_are(name, rows, list) and all(isinstance(item, str) for items in lists if items for item in items)
