"""Flat JSON other than a list of rows: documents by id, columns of cells by row, several lists, JSON in JSON."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

from mrc_workbench.data.formats.columns import NAMES, is_known, plain_name
from mrc_workbench.data.formats.opening import Format, RecognisedFile
from mrc_workbench.data.formats.tables import RawRow, RawTable, display_text
from mrc_workbench.data.formats.text_tables import item_opener, json_lines, parse_json
from mrc_workbench.data.layouts import WORDS
from mrc_workbench.data.layouts.cells import ID_NAMES, TEXT_NAMES, Opener, find_name, joined_text, passages_in
from mrc_workbench.data.layouts.exports import mapped_items_opener, number_items
from mrc_workbench.data.layouts.references import part_from_word
from mrc_workbench.data.layouts.tables import normalize_answers, passage_roles, question_roles, question_text
from mrc_workbench.data.problems import DataError

_QUESTION_LISTS = ("questions", "queries", "topics", "질문", "질문목록")
_TEXT_OF_QUESTION = ("body", "text", "content", "title", "내용")
_SAMPLE = 50
_MIN_TEXT_LENGTH = 10  # characters on average: shorter values are settings
_DOCUMENT = "page_content"  # LangChain's name of a document's text
Pairs = Sequence[tuple[str, Any]]
Rows = Callable[[], Iterable[Sequence[Any]]]
_QUESTION_NAMES = ("id", "text", "response")
_PASSAGE_NAMES = ("id", "text", "title")
JUDGEMENT_NAMES = ("query-id", "corpus-id", "score")
ANSWER_NAMES = ("id", "answers")
_ANSWERS = ("responses", "answers")
_ANSWER_KEYS = {"text", "answerstart"}


def object_openers(recognised: RecognisedFile) -> dict[str, Opener]:
    """Return openers of the tables of JSON other than a list of rows, by name ("" for a single table); else {}."""
    value = recognised.value
    text = recognised.text
    if recognised.format is Format.JSONL and value is None and text is not None:
        if any(_is_document(item) for _, item, _ in islice(json_lines(text), _SAMPLE)):
            return {"": mapped_items_opener(lambda: json_lines(text), _document)}
        return {}
    if recognised.format is not Format.JSON:
        return {}
    if not isinstance(value, list):
        return _object_openers(value) if isinstance(value, dict) else {}
    is_text = all(isinstance(item, str) and item.lstrip().startswith("{") for item in value[:_SAMPLE])
    items = _parsed(value) if is_text else value
    if any(map(_is_document, items[:_SAMPLE])):
        return {"": mapped_items_opener(lambda: number_items(items), _document)}
    return {"": _items_opener(items)} if is_text else {}


def _object_openers(value: dict[str, Any]) -> dict[str, Opener]:
    if _is_by_id(value):
        return {"": _items_opener([_with_id(id_, item) for id_, item in value.items()])}
    if columns := _columns_in(value):
        row_names = dict.fromkeys(name for cells in columns.values() for name in cells)
        rows = [{column: cells.get(name) for column, cells in columns.items()} for name in row_names]
        return {"": _items_opener(rows, [name for name in value if name not in columns])}
    lists = {name: items for name, items in value.items() if isinstance(items, list)}
    lists = {name: items for name, items in lists.items() if any(isinstance(item, dict) for item in items[:_SAMPLE])}
    if len(lists) == 1:
        return _list_of_questions(*next(iter(lists.items())), value)
    return _several_lists(value, lists) if lists else {}


def _list_of_questions(name: str, items: list[Any], value: Mapping[str, Any]) -> dict[str, Opener]:
    """Return the table of a list with a name such as "questions", in which texts are questions, as in BioASQ."""
    first = next(item for item in items if isinstance(item, dict))
    if plain_name(name) not in _QUESTION_LISTS or any(plain_name(key) in NAMES["question"] for key in first):
        return {}
    text = find_name(first, _TEXT_OF_QUESTION)
    if text is None or not isinstance(first[text], str):
        return {}
    opener = _items_opener(items, [key for key in value if key != name])
    return {"": lambda: replace(opener(), roles={"question": text})}


def _items_opener(items: Sequence[Any], skipped: Sequence[str] = ()) -> Opener:
    names = tuple(map(display_text, skipped))
    opener = item_opener(lambda: number_items(items))
    return lambda: replace(opener(), skipped=names)


def _parsed(items: Iterable[Any]) -> list[Any]:
    values: list[Any] = []
    for item in items:
        try:
            values.append(parse_json(item) if isinstance(item, str) else item)
        except DataError:
            values.append(item)  # becomes a row with a problem
    return values


def _is_document(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    arguments = item.get("kwargs")
    return _DOCUMENT in item or (isinstance(arguments, dict) and _DOCUMENT in arguments)


def _document(item: dict[str, Any]) -> Any:
    """Return a document of LangChain with the title of its metadata as a column, any other object unchanged."""
    if not _is_document(item):
        return item
    document = item if _DOCUMENT in item else item["kwargs"]
    metadata = document.get("metadata")
    title = metadata.get("title") if isinstance(metadata, dict) else None
    return document if "title" in document or title is None else {**document, "title": title}


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
    numbered_count = sum(any(character.isdigit() for character in name) for name in names)
    return 2 * numbered_count > len(items) and sum(map(len, items)) >= _MIN_TEXT_LENGTH * len(items)


def _is_row(item: Mapping[str, Any]) -> bool:
    """Whether an object is a row: it has a text, or a known column that holds a text."""
    name = find_name(item, TEXT_NAMES)
    if name is not None:
        return not isinstance(item[name], dict)
    return any(is_known(name) and isinstance(cell, str) for name, cell in item.items())


def _with_id(id_: str, item: Any) -> Any:
    if isinstance(item, str):
        return {"id": id_, "text": item}
    if not isinstance(item, dict):
        return item
    return {"id": id_, **item} if "id" not in item else {"_id": id_, **item}


def _columns_in(value: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    objects = {name: cells for name, cells in value.items() if isinstance(cells, dict) and cells}
    if not any(map(is_known, objects)):
        return {}
    for rows in objects.values():
        columns = {name: cells for name, cells in objects.items() if 2 * len(rows.keys() & cells.keys()) > len(rows)}
        if len(columns) > 1 and 2 * len(columns) > len(value):
            return columns
    return {}


def _several_lists(value: Mapping[str, Any], lists: Mapping[str, list[Any]]) -> dict[str, Opener]:
    """Return the tables of lists: a single one if the names are parts, or if the objects have the same keys."""
    skipped = [name for name in value if name not in lists]
    parts = {name: part_from_word(plain_name(name)) for name in lists}
    if all(parts.values()):
        return {"": _items_opener([_with_part(row, parts[name]) for name in lists for row in lists[name]], skipped)}
    first = [next(item for item in items if isinstance(item, dict)) for items in lists.values()]
    if len({frozenset(item) for item in first}) == 1:
        return {"": _items_opener([*chain.from_iterable(lists.values())], skipped)}
    return {name: _items_opener(items, skipped) for name, items in lists.items()}


def _with_part(row: Any, part: str) -> Any:
    return {**row, "split": row.get("split", part)} if isinstance(row, dict) else row


class Dictionaries(NamedTuple):
    """The three objects of a file: the key and the opener of each. `is_graded`: judgements have grades."""

    questions: tuple[str, Opener]
    passages: tuple[str, Opener]
    judgements: tuple[str, Opener]
    is_graded: bool


class _JsonObject(dict[str, Any]):
    """A JSON object with all its pairs, also those of repeated keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


_DECODER = json.JSONDecoder(object_pairs_hook=_JsonObject, parse_int=str, parse_float=str, strict=False)


def dictionaries_in(recognised: RecognisedFile) -> Dictionaries | None:
    """Return the three objects of a file, None for any other JSON."""
    value = recognised.value
    if not isinstance(value, dict):
        return None
    keys = [_find_object_key(value, WORDS[f"{role}_objects"]) for role in ("question", "passage", "judgement")]
    if not all(keys):
        return None
    questions, passages, judgements = keys
    answers_key = _find_object_key(value, _ANSWERS)
    value = _DECODER.decode(recognised.text.whole) if recognised.text else value
    answers = value.get(answers_key, {})
    skipped = tuple(display_text(name) for name in value if name not in (*keys, answers_key))
    pairs = {key: getattr(value[key], "pairs", list(value[key].items())) for key in keys}
    return Dictionaries(
        (questions, partial(_rows_table, _QUESTION_NAMES, partial(_questions, pairs[questions], answers), skipped)),
        (passages, partial(_rows_table, _PASSAGE_NAMES, partial(_passages, pairs[passages]))),
        (judgements, partial(_rows_table, JUDGEMENT_NAMES, partial(_judgements, pairs[judgements]))),
        any(isinstance(named, dict) for _, named in pairs[judgements]),
    )


def _find_object_key(value: Mapping[str, Any], known: Sequence[str]) -> str:
    by_plain = {plain_name(name): name for name, cell in value.items() if isinstance(cell, dict)}
    return next((by_plain[name] for name in known if name in by_plain), "")


def _rows_table(names: tuple[str, ...], rows: Rows, skipped: tuple[str, ...] = ()) -> RawTable:
    cells = (dict(zip(names, row, strict=True)) for row in rows())
    return RawTable(names, (RawRow(number, row) for number, row in enumerate(cells, start=1)), skipped=skipped)


def _questions(pairs: Pairs, answers: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    for id_, question in pairs:
        answer = answers.get(id_)
        if isinstance(question, dict):
            roles = question_roles(question)
            answer = answer or normalize_answers(question.get(roles.get("answers", "")))
            question = question_text(question.get(roles.get("question", "text")))  # noqa: PLW2901
        yield id_, question, answer


def _passages(pairs: Pairs) -> Iterator[Sequence[Any]]:
    for id_, passage in pairs:
        passages = passages_in(passage) if isinstance(passage, dict) else []
        yield (id_, passages[0].text, passages[0].title) if passages else (id_, passage, None)


def _judgements(pairs: Pairs) -> Iterator[Sequence[Any]]:
    for question_id, judged in pairs:
        if isinstance(judged, dict):
            for passage_id, grade in judged.items():
                yield question_id, passage_id, grade
        else:
            for item in judged if isinstance(judged, list) else [judged]:
                cells = {plain_name(name): cell for name, cell in item.items()} if isinstance(item, dict) else {}
                id_ = next((cells[name] for name in ID_NAMES if name in cells), None)
                yield question_id, id_ if isinstance(item, dict) else item, None


def texts_opener(value: object) -> Opener | None:
    """Return an opener of an object of texts, or lists of texts, by id; None for a row, numbers, or any other value."""
    items = _first_values(value)
    if not isinstance(value, dict) or not all(isinstance(item, (str, list)) for item in items):
        return None
    if all(not text or text.replace(".", "").isdigit() for text in map(joined_text, items)):
        return None
    return partial(_rows_table, ("id", "text"), lambda: ((id_, joined_text(item)) for id_, item in value.items()))


def judgements_opener(value: object) -> tuple[Opener, bool] | None:
    """Return an opener of ids or grades by the id of their question, and whether they are grades; else None."""
    items = _first_values(value)
    is_graded = all(isinstance(item, dict) and _are_texts(item.values(), str.isdigit) for item in items)
    are_ids = all(isinstance(item, list) and _are_texts(item, lambda id_: len(id_.split()) == 1) for item in items)
    if not isinstance(value, dict) or not items or not (is_graded or are_ids):
        return None
    return partial(_rows_table, JUDGEMENT_NAMES, partial(_judgements, list(value.items()))), is_graded


def answers_opener(value: Mapping[str, Any]) -> Opener:
    """Return an opener of answers by the id of their question."""

    def rows() -> Iterator[Sequence[Any]]:
        for id_, item in value.items():
            key = question_roles(item).get("answers") if isinstance(item, dict) else None
            answer = item if key is None else item[key]
            yield id_, normalize_answers(answer) if isinstance(item, dict) else item

    return partial(_rows_table, ANSWER_NAMES, rows)


def may_hold_answers(value: Mapping[str, Any]) -> bool:
    """Whether the values of an object by id can be answers: texts, lists, or objects with an answer and no title."""
    return all(map(_may_be_answer, islice(value.values(), _SAMPLE)))


def holds_predictions(value: Mapping[str, Any]) -> bool:
    """Whether an object by id holds lists of candidate answers with scores, which models predict."""
    lists = [item for item in islice(value.values(), _SAMPLE) if isinstance(item, list) and item]
    return any({*map(plain_name, item[0])} - _ANSWER_KEYS for item in lists if isinstance(item[0], dict))


def _may_be_answer(item: Any) -> bool:
    if isinstance(item, list):
        return all(isinstance(entry, str) or (isinstance(entry, dict) and _may_be_answer(entry)) for entry in item)
    if not isinstance(item, dict):
        return isinstance(item, str)
    has_text = any(plain_name(key) == "text" for key in item)
    return "answers" in question_roles(item) or (has_text and "title" not in passage_roles(item))


def _first_values(value: object) -> list[Any]:
    """Return some values of an object; an empty list for a row, in which a key is the name of a column."""
    if not isinstance(value, dict) or any(map(is_known, islice(value, _SAMPLE))):
        return []
    return list(islice(value.values(), _SAMPLE))


def _are_texts(items: Iterable[Any], is_valid: Callable[[str], bool]) -> bool:
    return all(isinstance(item, str) and is_valid(item) for item in items)
