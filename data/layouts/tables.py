"""Turns tables with objects or lists of passages in their cells into tables with plain cells.

HotpotQA marks its passages by title in another column, KILT nests them in its outputs, and TriviaQA has two lists: such
columns are joined into a single list of marked passages, which the reader of rows supports.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from typing import Any

from mrc_workbench.data.formats.columns import NAMES, is_known, plain_name
from mrc_workbench.data.formats.opening import preview_table
from mrc_workbench.data.formats.tables import RawTable, is_blank, is_collection, parsed
from mrc_workbench.data.layouts import PASSAGE_KEYS, QUESTION_KEYS, WORDS
from mrc_workbench.data.layouts.cells import (
    TEXT_NAMES,
    TITLE_NAMES,
    ListedPassage,
    Opener,
    Sample,
    is_list_text,
    is_unclear,
    joined_text,
    list_items,
    objects_in_list,
    passages_in,
    plain_value,
)
from mrc_workbench.data.layouts.roles import assign_columns, find_question_column, holds_texts

PARAGRAPH_ID = "paragraph_id"
IMPOSSIBLE = "is_impossible"
SPLIT = "split"
_QUESTION_KEYS = {"start": NAMES["start"], **QUESTION_KEYS}
_PASSAGE_TITLES = (*TITLE_NAMES, *(name for name in NAMES["title"] if name not in TITLE_NAMES))
_PASSAGE_KEYS = {"title": _PASSAGE_TITLES, **PASSAGE_KEYS}
_ANSWER_TEXTS = WORDS["answer_text"]
_ANSWER_STARTS = WORDS["answer_start"]
Node = Mapping[str, Any]
key_name = lru_cache(maxsize=4_096)(plain_name)  # the same few keys in every object


def question_roles(node: Node) -> Mapping[str, str]:
    """Return the keys of an object that asks a question, by role."""
    return _roles(tuple(node), is_question=True)


def passage_roles(node: Node) -> Mapping[str, str]:
    """Return the keys of an object that encloses questions, by role."""
    return _roles(tuple(node), is_question=False)


@lru_cache(maxsize=512)
def _roles(names: tuple[str, ...], *, is_question: bool) -> Mapping[str, str]:
    by_plain = {key_name(name): name for name in reversed(names)}
    keys: dict[str, str] = {}
    for role, known_names in (_QUESTION_KEYS if is_question else _PASSAGE_KEYS).items():
        matches = [by_plain[known_name] for known_name in known_names if known_name in by_plain]
        unused = [name for name in matches if name not in keys.values()]
        if unused:
            keys[role] = unused[0]
    return keys


def has_question(node: object) -> bool:
    """Whether an object asks a question itself."""
    if not isinstance(node, dict):
        return False
    key = question_roles(node).get("question")
    return key is not None and bool(question_text(node[key]))


def objects_in(value: Any) -> list[Any]:
    """Return the objects of a list, of a dict of equally long lists, or the single object that asks a question."""
    value = plain_value(value)
    if isinstance(value, list):
        return value if value and any(isinstance(item, dict) for item in value) else []
    if not isinstance(value, dict) or not value:
        return []
    if has_question(value):
        return [value]
    lists = [plain_value(cell) for cell in value.values()]
    if not all(isinstance(cell, list) and len(cell) == len(lists[0]) for cell in lists):
        return []
    return [dict(zip(value, cells, strict=True)) for cells in zip(*lists, strict=True)]


def context_key(node: Node) -> str | None:
    """Return the key that holds the passage of an object: a known name with a value that is no object."""
    for name in _context_keys(tuple(node)):
        value = node[name]
        if type(value) is str and value.strip():
            return name
        if not (is_blank(value) or isinstance(value, dict) or objects_in_list(value)):
            return name
    return None


@lru_cache(maxsize=512)
def _context_keys(names: tuple[str, ...]) -> tuple[str, ...]:
    by_plain = {key_name(name): name for name in reversed(names)}
    return tuple(by_plain[name] for name in _PASSAGE_KEYS["context"] if name in by_plain)


def question_text(value: Any) -> Any:
    """Return the question in a cell, which may be an object with a text."""
    if isinstance(value, dict):
        return next((value[name] for name in ("text", "stem") if isinstance(value.get(name), str)), "")
    return "" if isinstance(value, list) or is_blank(value) else value


def normalize_answers(value: Any) -> Any:
    """Return answers in the form that `answers_in` accepts: objects with the keys `text` and `answer_start`."""
    value = plain_value(value)
    if isinstance(value, list):
        return value if all(map(_is_plain_answer, value)) else [normalize_answers(item) for item in value]
    if not isinstance(value, dict) or _is_plain_answer(value):
        return value
    by_plain = {key_name(name): cell for name, cell in reversed([*value.items()])}
    known = {name: by_plain.get(name) for name in (*_ANSWER_TEXTS, *_ANSWER_STARTS)}
    filled = {name: cell for name, cell in known.items() if cell is not None and cell not in ("", [])}
    text = next((filled[name] for name in _ANSWER_TEXTS if name in filled), None)
    start = next((filled[name] for name in _ANSWER_STARTS if name in filled), None)
    aliases = by_plain.get("aliases")
    if isinstance(aliases, list) and not isinstance(text, list):
        return [text, *aliases]
    return {"text": text} if start is None else {"text": text, "answer_start": start}


def _is_plain_answer(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and value.keys() <= {"text", "answer_start"})


def with_parsed_cells(cells: Node) -> dict[str, Any]:
    """Return the cells of a row; JSON or Python text of objects is parsed."""
    row = {name: plain_value(cell) for name, cell in cells.items()}
    texts = {name: cell for name, cell in row.items() if is_list_text(cell) and "{" in cell[:1_000]}
    values = {name: parsed(text.strip()) for name, text in texts.items()}
    return row | {name: value for name, value in values.items() if isinstance(value, (list, dict))}


Cells = dict[str, object]
CellTransform = Callable[[Mapping[str, Any]], Cells]  # maps the cells of a row
_SUPPORTING_FACTS = ("supportingfacts", "supportingfact", "supportingtitles")
_ADDRESS = re.compile(r"(https?://|www\.)\S+", re.IGNORECASE)
_PROVENANCE = "provenance"
_SAMPLE_ROWS = 50
_NOT_FLATTENED = {
    *("metadata", "meta"),
    *(name for role in ("context", "positives", "negatives", "answers", "title") for name in NAMES[role]),
} - {"expectedoutput"}  # an object of Langfuse
_SENTENCES = (*TEXT_NAMES, "abstract")


def with_passage_columns(table: RawTable, sample: Sample) -> tuple[RawTable, Sample]:
    """Return a table and its sample with the roles of its lists of passages; related lists are joined."""
    rows = sample[:_SAMPLE_ROWS]
    outputs = next((name for name in table.names if any(any(_provenance(row.get(name))) for row in rows)), None)
    if outputs is not None:
        given = {"answers": "answers", "positives": _PROVENANCE, "context": None}
        return _join_columns(table, sample, [outputs], partial(_with_output, outputs), given)
    lists_by_name = {name: _passage_lists(name, sample) for name in table.names}
    lists = {name: passage_lists for name, passage_lists in lists_by_name.items() if passage_lists}
    if lists and assign_columns(table.names, sample, table.roles).question is None:
        question_column = find_question_column(table.names, rows)
        table = table if question_column is None else replace(table, roles={**table.roles, "question": question_column})
    if not lists or assign_columns(table.names, sample, table.roles).question is None:
        return table, sample
    facts = next((name for name in table.names if plain_name(name) in _SUPPORTING_FACTS), None)
    titled = next((name for name in lists if name != facts and any(map(_are_titled, lists[name]))), None)
    if facts is not None and titled is not None:
        given = {"candidates": titled, "context": None}
        return _join_columns(table, sample, [facts], partial(_with_marks, titled, "title", facts, _titles), given)
    for name in (name for name, passage_lists in lists.items() if _list_role(name, passage_lists) != "candidates"):
        for id_column in (other for other in table.names if _names_entries(other, name, sample)):
            given = {"candidates": name, "context": None}
            return _join_columns(table, sample, [id_column], partial(_with_marks, name, "id", id_column, _ids), given)
    roles: dict[str, list[str]] = {}
    for name, passage_lists in lists.items():
        if role := _list_role(name, passage_lists):
            roles.setdefault(role, []).append(name)
    columns = assign_columns(table.names, sample, table.roles)
    has_text = columns.context is not None and columns.context not in lists
    if has_text or "candidates" in roles:
        roles.pop("positives", None)  # quotations
        roles.pop("unclear", None)
    unclear = roles.pop("unclear", [])
    if roles and not has_text:
        table = replace(table, roles={**table.roles, "context": None})
    for role, names in roles.items():
        table, sample = _join_columns(table, sample, names[1:], partial(_with_merged_lists, names), {role: names[0]})
    if unclear and not roles and columns.positives is None and columns.context in (None, *unclear):
        table = replace(table, roles={**table.roles, "context": None})
    return table, sample


def _passage_lists(name: str, sample: Sample) -> list[list[ListedPassage]]:
    if not holds_texts(name, sample):
        return []
    cells = [cell for row in sample[:_SAMPLE_ROWS] if not is_blank(cell := row.get(name))]
    lists = [passages_in(cell) for cell in cells if is_collection(cell) or is_list_text(cell)]
    texts = [passage.text for passages in lists for passage in passages]
    addresses = sum(_ADDRESS.fullmatch(text) is not None for text in texts)
    return lists if texts and 2 * len(lists) > len(cells) and 2 * addresses < len(texts) else []


def _are_titled(passages: list[ListedPassage]) -> bool:
    return bool(passages) and all(passage.title for passage in passages)


def _list_role(name: str, lists: list[list[ListedPassage]]) -> str | None:
    """Return the role of a list: by its marks, then by its name; "unclear" if it may hold retrieved passages."""
    if any(passage.is_relevant is not None for passages in lists for passage in passages):
        return "candidates"
    if plain_name(name) in WORDS["positive_lists"]:
        return "positives"
    return "unclear" if is_unclear(name, lists) else None


def _join_columns(
    table: RawTable, sample: Sample, names: Sequence[str], transform: CellTransform, roles: dict[str, str | None]
) -> tuple[RawTable, Sample]:
    """Return a table without the columns `names`; `transform` moves their content to the columns of `roles`."""
    roles = {**table.roles, **roles}
    if not names:
        return replace(table, roles=roles), sample
    columns = [name for name in table.names if name not in names]
    columns += [name for name in roles.values() if name is not None and name not in columns]
    joined = replace(_map_cells(table, columns, transform), joined=(*table.joined, *names), roles=roles)
    return joined, [transform(row) for row in sample]


def mapped_cells_opener(opener: Opener, names: Iterable[str], transform: CellTransform) -> Opener:
    """Return an opener of a table with other columns, which `transform` computes from the cells of a row."""
    return lambda: _map_cells(opener(), names, transform)


def _map_cells(table: RawTable, names: Iterable[str], transform: CellTransform) -> RawTable:
    rows = (row if row.problem else row._replace(cells=transform(row.cells)) for row in table.rows)
    return replace(table, names=tuple(names), rows=rows)


def _with_merged_lists(names: Sequence[str], row: Node) -> Cells:
    passages = [passage for name in names for passage in passages_in(row.get(name))]
    return {**row, names[0]: [_as_object(passage) for passage in passages]}


def _with_marks(name: str, field: str, column: str, referenced_in: Callable[[Any], set[str]], row: Node) -> Cells:
    """Mark the passages by their `field` being among the values of another column, if that has any values."""
    referenced = referenced_in(row.get(column))
    passages = passages_in(row.get(name))
    if referenced:
        passages = [passage._replace(is_relevant=getattr(passage, field) in referenced) for passage in passages]
    return {**row, name: [_as_object(passage) for passage in passages]}


def _names_entries(column: str, name: str, sample: Sample) -> bool:
    rows = [(ids, row.get(name)) for row in sample[:_SAMPLE_ROWS] if column != name and (ids := _ids(row.get(column)))]
    return bool(rows) and all(ids <= {passage.id for passage in passages_in(cell)} for ids, cell in rows)


def _ids(cell: Any) -> set[str]:
    return {text for item in list_items(cell) if (text := joined_text(item))}


def _titles(facts: Any) -> set[str]:
    """Return the titles of supporting facts: pairs of title and sentence, texts, or a dict of lists."""
    facts = plain_value(parsed(facts) if isinstance(facts, str) else facts)
    if isinstance(facts, dict):
        facts = plain_value(next((cell for key, cell in facts.items() if plain_name(key) in ("title", "titles")), None))
    if not isinstance(facts, (list, tuple)):
        return set()
    items = [plain_value(fact) for fact in facts]
    return {joined_text(item[0] if isinstance(item, (list, tuple)) and item else item) for item in items}


def _provenance(output: Any) -> list[list[ListedPassage]]:
    items = objects_in_list(plain_value(output))
    return [passages_in(item[_PROVENANCE]) for item in items if item.get(_PROVENANCE)]


def _with_output(name: str, row: Node) -> Cells:
    """Move the answers and the passages of KILT's outputs into separate columns."""
    items = objects_in_list(plain_value(row.get(name)))
    passages = [_as_object(passage) for output_passages in _provenance(items) for passage in output_passages]
    return {**row, "answers": [item.get("answer") for item in items], _PROVENANCE: passages}


def _as_object(passage: ListedPassage) -> Cells:
    entry: Cells = {"id": passage.id, "title": passage.title, "text": passage.text}
    return entry if passage.is_relevant is None else {**entry, "is_relevant": passage.is_relevant}


def flatten_cells(opener: Opener, table: RawTable, sample: list[Node]) -> tuple[Opener, RawTable, list[Node]]:
    """Return an opener of a table with plain cells instead of objects and lists, the open table and a sample."""
    rows = [with_parsed_cells(row) for row in sample]
    by_plain = {plain_name(name): name for name in reversed(table.names)}
    objects = [name for name in table.names if _all_have_type(name, rows, dict)]
    question_column = next((by_plain[name] for name in NAMES["question"] if name in by_plain), None)
    texts = [name for name in objects if name == question_column and all(question_text(row.get(name)) for row in rows)]
    keys_by_object: dict[str, list[str]] = {}
    if question_column is None or (question_column in objects and question_column not in texts):
        expandable = [name for name in objects if plain_name(name) not in _NOT_FLATTENED]
        values = {name: [row[name] for row in rows if isinstance(row.get(name), dict)] for name in expandable}
        keys_of = {name: [*dict.fromkeys(chain.from_iterable(cells))] for name, cells in values.items()}
        if any(plain_name(key) in NAMES["question"] for keys in keys_of.values() for key in keys):
            keys_by_object = {name: keys for name, keys in keys_of.items() if any(map(is_known, keys))}
    joined: list[str] = []
    has_documents = any(name in by_plain for name in (*TITLE_NAMES, "id", "docid"))
    if question_column is None and not keys_by_object and has_documents:
        joined = [name for name in table.names if plain_name(name) in _SENTENCES and _has_texts(name, rows)]
    if not (texts or keys_by_object or joined):
        return opener, table, sample
    names = [name for name in table.names if name not in keys_by_object]
    objects_and_keys = [(name, key) for name, keys in keys_by_object.items() for key in keys]
    new_names = {(name, key): f"{name}.{key}" if key in table.names else key for name, key in objects_and_keys}
    names += dict.fromkeys(new_names.values())

    def flatten(cells: Mapping[str, Any]) -> dict[str, Any]:
        row = dict(cells) if not (texts or keys_by_object) else with_parsed_cells(cells)
        row |= {name: question_text(row[name]) for name in texts if isinstance(row.get(name), dict)}
        row |= {name: joined_text(row[name]) for name in joined if isinstance(plain_value(row.get(name)), list)}
        for name in keys_by_object:
            value = row.pop(name, None) or {}
            row |= {new_names[name, key]: cell for key, cell in value.items() if (name, key) in new_names}
        return row

    opener = mapped_cells_opener(opener, names, flatten)
    return (opener, *preview_table(opener()))


def _all_have_type(name: str, rows: Sequence[Mapping[str, Any]], kind: type) -> bool:
    values = [plain_value(value) for row in rows if not is_blank(value := row.get(name))]
    return bool(values) and all(isinstance(value, kind) for value in values)


def _has_texts(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    lists = [plain_value(row.get(name)) for row in rows]
    return _all_have_type(name, rows, list) and all(isinstance(item, str) for items in lists if items for item in items)
