"""Objects by id in JSON: questions, passages, judgements and answers, three in one file or each in its own."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from mrc_workbench.data.formats.columns import is_known, plain_name
from mrc_workbench.data.formats.opening import RecognisedFile
from mrc_workbench.data.formats.tables import RawRow, Table, shown
from mrc_workbench.data.layouts.nested.passage_lists import ID_NAMES, joined_text, passages_in, plain_value
from mrc_workbench.data.layouts.nested.tree_nodes import answers_of, passage_roles, question_roles, question_text

Opener = Callable[[], Table]
Pairs = Sequence[tuple[str, Any]]

QUESTION_NAMES = ("id", "text", "response")
PASSAGE_NAMES = ("id", "text", "title")
JUDGEMENT_NAMES = ("query-id", "corpus-id", "score")
TEXT_NAMES = ("id", "text")
ANSWER_NAMES = ("id", "answers")
_QUESTIONS = ("queries", "questions", "query", "topics")
_PASSAGES = ("corpus", "documents", "docs", "passages", "collection")
_JUDGEMENTS = (
    "relevantdocs", "relevantdocuments", "relevantpassages", "qrels", "qrel", "judgements", "judgments", "relevance",
    "labels",
)  # fmt: skip
_ANSWERS = ("responses", "answers")
_ANSWER_KEYS = {"text", "answerstart"}
_SAMPLE = 50


class Dictionaries(NamedTuple):
    """The three objects of a file: the key and the opener of each. `is_graded` is whether judgements have grades."""

    questions: tuple[str, Opener]
    passages: tuple[str, Opener]
    judgements: tuple[str, Opener]
    is_graded: bool


class _Object(dict[str, Any]):
    """An object of JSON in which keys may stand twice: `pairs` has them all."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


_DECODER = json.JSONDecoder(object_pairs_hook=_Object, parse_int=str, parse_float=str, strict=False)


def dictionaries_in(recognised: RecognisedFile) -> Dictionaries | None:
    """Return the three objects of a file, None if the JSON is anything else."""
    value = recognised.value
    if not isinstance(value, dict) or not all(_key(value, known) for known in (_QUESTIONS, _PASSAGES, _JUDGEMENTS)):
        return None
    value = _DECODER.decode(recognised.text.whole) if recognised.text else value
    questions, passages, judgements = (_key(value, known) for known in (_QUESTIONS, _PASSAGES, _JUDGEMENTS))
    answers = value.get(_key(value, _ANSWERS), {})
    used = {questions, passages, judgements, _key(value, _ANSWERS)}
    skipped = tuple(shown(name) for name in value if name not in used)
    judged = _pairs(value[judgements])
    return Dictionaries(
        (questions, partial(_table, QUESTION_NAMES, partial(_questions, _pairs(value[questions]), answers), skipped)),
        (passages, partial(_table, PASSAGE_NAMES, partial(_passages, _pairs(value[passages])))),
        (judgements, partial(_table, JUDGEMENT_NAMES, partial(_judgements, judged))),
        any(isinstance(named, dict) for _, named in judged),
    )


def _key(value: Mapping[str, Any], known: Sequence[str]) -> str:
    """Return the first key of a known name that holds an object, "" if there is none."""
    by_plain = {plain_name(name): name for name, cell in value.items() if isinstance(cell, dict)}
    return next((by_plain[name] for name in known if name in by_plain), "")


def _pairs(value: Any) -> Pairs:
    return value.pairs if isinstance(value, _Object) else list(value.items())


def _table(names: tuple[str, ...], rows: Callable[[], Iterable[Sequence[Any]]], skipped: tuple[str, ...] = ()) -> Table:
    cells = (dict(zip(names, row, strict=True)) for row in rows())
    return Table(names, (RawRow(number, row) for number, row in enumerate(cells, start=1)), skipped=skipped)


def _questions(pairs: Pairs, answers: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    for id_, question in pairs:
        answer = answers.get(id_)
        if isinstance(question, dict):
            roles = question_roles(question).keys
            answer = answer or answers_of(question.get(roles.get("answers", "")))
            question = question_text(question.get(roles.get("question", "text")))  # noqa: PLW2901
        yield id_, question, answer


def _passages(pairs: Pairs) -> Iterator[Sequence[Any]]:
    for id_, passage in pairs:
        found = passages_in(passage) if isinstance(passage, dict) else []
        yield (id_, found[0].text, found[0].title) if found else (id_, passage, None)


def _judgements(pairs: Pairs) -> Iterator[Sequence[Any]]:
    for question_id, named in pairs:
        if isinstance(named, dict):
            for passage_id, grade in named.items():
                yield question_id, passage_id, grade
        elif isinstance(ids := _ids(named), list):
            yield from ((question_id, passage_id, None) for passage_id in ids)
        else:
            yield question_id, ids, None


def _ids(named: Any) -> Any:
    """Return the ids of a list, also those of objects that have one."""
    named = plain_value(named)
    if not isinstance(named, list):
        return named
    return [_id_of(item) if isinstance(item, dict) else item for item in named]


def _id_of(item: Mapping[str, Any]) -> Any:
    by_plain = {plain_name(name): cell for name, cell in item.items()}
    return next((by_plain[name] for name in ID_NAMES if name in by_plain), None)


def texts_opener(value: object) -> Opener | None:
    """Return what opens an object of texts, or lists of texts, by id; None for one row, numbers, or anything else."""
    items = _first_values(value)
    if not isinstance(value, dict) or not all(isinstance(item, (str, list)) for item in items):
        return None
    if all(not text or text.replace(".", "").isdigit() for text in map(joined_text, items)):
        return None
    return partial(_table, TEXT_NAMES, lambda: ((id_, joined_text(item)) for id_, item in value.items()))


def judgements_opener(value: object) -> tuple[Opener, bool] | None:
    """Return what opens lists of ids, or grades by id, by the id of their question, and whether these are grades."""
    items = _first_values(value)
    is_graded = all(map(_is_graded, items))
    if not isinstance(value, dict) or not items or not (is_graded or all(map(_is_id_list, items))):
        return None
    return partial(_table, JUDGEMENT_NAMES, partial(_judgements, list(value.items()))), is_graded


def answers_opener(value: Mapping[str, Any]) -> Opener:
    """Return what opens answers by the id of their question."""
    return partial(_table, ANSWER_NAMES, lambda: ((id_, _answer(item)) for id_, item in value.items()))


def may_hold_answers(value: Mapping[str, Any]) -> bool:
    """Whether the values of an object by id can be answers: texts, lists, or objects with an answer and no title."""
    return all(map(_may_be_answer, _sample_of(value)))


def holds_predictions(value: Mapping[str, Any]) -> bool:
    """Whether an object by id holds lists of candidates with scores, as programs predict answers."""
    first = [item[0] for item in _sample_of(value) if isinstance(item, list) and item and isinstance(item[0], dict)]
    return any({plain_name(key) for key in item} - _ANSWER_KEYS for item in first)


def _may_be_answer(item: Any) -> bool:
    if isinstance(item, list):
        return all(isinstance(entry, str) or (isinstance(entry, dict) and _may_be_answer(entry)) for entry in item)
    if not isinstance(item, dict):
        return isinstance(item, str)
    has_text = any(plain_name(key) == "text" for key in item)
    return "answers" in question_roles(item).keys or (has_text and "title" not in passage_roles(item).keys)


def _sample_of(value: Mapping[str, Any]) -> list[Any]:
    return list(islice(value.values(), _SAMPLE))


def _first_values(value: object) -> list[Any]:
    """Return some values of an object, none if a key is the name of a column: then it is a row."""
    if not isinstance(value, dict) or any(map(is_known, islice(value, _SAMPLE))):
        return []
    return _sample_of(value)


def _is_id_list(item: Any) -> bool:
    return isinstance(item, list) and all(isinstance(id_, str) and len(id_.split()) == 1 for id_ in item)


def _is_graded(item: Any) -> bool:
    return isinstance(item, dict) and all(isinstance(one, str) and one.isdigit() for one in item.values())


def _answer(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    key = question_roles(item).keys.get("answers")
    return answers_of(item if key is None else item[key])
