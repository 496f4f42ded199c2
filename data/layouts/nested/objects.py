"""Flat JSON that is no plain list of rows: documents by id, columns of cells by row, several lists, JSON in JSON."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from mrc_workbench.data.formats.columns import NAMES, is_known, plain_name
from mrc_workbench.data.formats.opening import Format, RecognisedFile
from mrc_workbench.data.formats.tables import Table, shown
from mrc_workbench.data.formats.text_tables import item_opener, json_lines, parse_json
from mrc_workbench.data.layouts.nested.passage_lists import TEXT_NAMES, name_of
from mrc_workbench.data.layouts.parts import part_of_word
from mrc_workbench.data.problems import DataError, Problem

Opener = Callable[[], Table]

_QUESTION_LISTS = ("questions", "queries", "topics", "질문", "질문목록")
_TEXT_OF_QUESTION = ("body", "text", "content", "title", "내용")
_SAMPLE = 50
_LONG_TEXT = 10  # characters on average: shorter values are settings
_DOCUMENT = "page_content"  # LangChain's name of a document's text


def object_openers(recognised: RecognisedFile) -> dict[str, Opener]:
    """Return what opens the tables of JSON that is no plain list of rows, by part; nothing for any other file.

    The part is "" if the file is a single table.
    """
    value, text = recognised.value, recognised.text
    if recognised.format is Format.JSONL and value is None and text is not None:
        if any(_is_document(item) for _, item, _ in islice(json_lines(text), _SAMPLE)):
            return {"": item_opener(lambda: _documents(json_lines(text)))}
        return {}
    if recognised.format is not Format.JSON:
        return {}
    if isinstance(value, list):
        return _list_opener(value)
    return _object_openers(value) if isinstance(value, dict) else {}


def _list_opener(value: list[Any]) -> dict[str, Opener]:
    if all(isinstance(item, str) and item.lstrip().startswith("{") for item in value[:_SAMPLE]):
        value = _parsed(value)
        return {"": _opener(value)} if not any(map(_is_document, value[:_SAMPLE])) else _list_opener(value)
    if any(map(_is_document, value[:_SAMPLE])):
        return {"": item_opener(lambda: _documents(_numbered(value)))}
    return {}


def _object_openers(value: dict[str, Any]) -> dict[str, Opener]:
    if _is_by_id(value):
        return {"": _opener([_with_id(id_, item) for id_, item in value.items()])}
    if columns := _columns_in(value):
        return {"": _opener(_rows_of_columns(columns), [name for name in value if name not in columns])}
    lists = {name: items for name, items in value.items() if _is_list_of_objects(items)}
    if len(lists) == 1:
        return _list_of_questions(*next(iter(lists.items())), value)
    return _several_lists(value, lists) if lists else {}


def _list_of_questions(name: str, items: list[Any], value: Mapping[str, Any]) -> dict[str, Opener]:
    """Return the table of a list whose name says that its texts are questions, as the `body` of BioASQ's questions."""
    first = next(item for item in items if isinstance(item, dict))
    if plain_name(name) not in _QUESTION_LISTS or any(plain_name(key) in NAMES["question"] for key in first):
        return {}
    text = name_of(first, _TEXT_OF_QUESTION)
    if text is None or not isinstance(first[text], str):
        return {}
    opener = _opener(items, [key for key in value if key != name])
    return {"": lambda: replace(opener(), roles={"question": text})}


def _opener(items: Sequence[Any], skipped: Sequence[str] = ()) -> Opener:
    names = tuple(map(shown, skipped))
    opener = item_opener(lambda: _numbered(items))
    return lambda: replace(opener(), skipped=names)


def _numbered(items: Iterable[Any]) -> Iterator[tuple[int, Any, Any]]:
    return ((number, item, item) for number, item in enumerate(items, start=1))


def _parsed(items: Iterable[Any]) -> list[Any]:
    values: list[Any] = []
    for item in items:
        try:
            values.append(parse_json(item) if isinstance(item, str) else item)
        except DataError:
            values.append(item)  # becomes a row with a problem
    return values


def _is_document(item: Any) -> bool:
    """Whether an object is a document of LangChain, also as its serialization writes it."""
    if not isinstance(item, dict):
        return False
    arguments = item.get("kwargs")
    return _DOCUMENT in item or (isinstance(arguments, dict) and _DOCUMENT in arguments)


def _documents(items: Iterable[tuple[int, Any, object]]) -> Iterator[tuple[int, Any, object]]:
    """Give each document of LangChain the title of its metadata as a column."""
    for number, item, given in items:
        if isinstance(item, Problem) or not _is_document(item):
            yield number, item, given
            continue
        document = item if _DOCUMENT in item else item["kwargs"]
        metadata = document.get("metadata")
        title = metadata.get("title") if isinstance(metadata, dict) else None
        yield number, document if "title" in document or title is None else {**document, "title": title}, given


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict) for item in value[:_SAMPLE])


def _is_by_id(value: Mapping[str, Any]) -> bool:
    """Whether an object holds documents or rows by id: objects with texts, or long texts, under unknown names."""
    items = [*islice(value.values(), _SAMPLE)]
    names = [*islice(value, _SAMPLE)]
    if not items or any(map(is_known, names)):
        return False
    if all(isinstance(item, dict) for item in items):
        return 2 * sum(map(_is_row, items)) > len(items)
    if not all(isinstance(item, str) for item in items):
        return False
    numbered = sum(any(character.isdigit() for character in name) for name in names)
    return 2 * numbered > len(items) and sum(map(len, items)) >= _LONG_TEXT * len(items)


def _is_row(item: Mapping[str, Any]) -> bool:
    """Whether an object is a row: it has a text, or a known column that holds a text."""
    name = name_of(item, TEXT_NAMES)
    if name is not None:
        return not isinstance(item[name], dict)
    return any(is_known(name) and isinstance(cell, str) for name, cell in item.items())


def _with_id(id_: str, item: Any) -> Any:
    """Return a row whose id is the key under which it is stored."""
    if isinstance(item, str):
        return {"id": id_, "text": item}
    if not isinstance(item, dict):
        return item
    return {"id": id_, **item} if "id" not in item else {"_id": id_, **item}


def _columns_in(value: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the columns of an object of cells by row, as pandas writes a table; nothing for any other object."""
    objects = {name: cells for name, cells in value.items() if isinstance(cells, dict) and cells}
    if not any(map(is_known, objects)):
        return {}
    for rows in objects.values():
        columns = {name: cells for name, cells in objects.items() if 2 * len(rows.keys() & cells.keys()) > len(rows)}
        if len(columns) > 1 and 2 * len(columns) > len(value):
            return columns
    return {}


def _rows_of_columns(columns: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows = dict.fromkeys(row for cells in columns.values() for row in cells)
    return [{name: cells.get(row) for name, cells in columns.items()} for row in rows]


def _several_lists(value: Mapping[str, Any], lists: Mapping[str, list[Any]]) -> dict[str, Opener]:
    """Return the tables of an object with several lists of objects.

    Lists that are named as parts are one table with a column `split`, and so are lists whose objects have the same
    keys. Any others are tables of their own.
    """
    skipped = [name for name in value if name not in lists]
    parts = {name: part_of_word(plain_name(name)) for name in lists}
    if all(parts.values()):
        rows = [_with_split(item, parts[name]) for name, items in lists.items() for item in items]
        return {"": _opener(rows, skipped)}
    first = [next(item for item in items if isinstance(item, dict)) for items in lists.values()]
    if len({frozenset(item) for item in first}) == 1:
        return {"": _opener([item for items in lists.values() for item in items], skipped)}
    return {name: _opener(items, skipped) for name, items in lists.items()}


def _with_split(item: Any, part: str) -> Any:
    return {**item, "split": part} if isinstance(item, dict) and "split" not in item else item
