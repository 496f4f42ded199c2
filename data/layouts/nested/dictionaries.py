"""Three objects by id in one JSON file: questions, passages and judgements, as LlamaIndex writes them."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from data.formats.columns import plain_name
from data.formats.opening import RecognisedFile
from data.formats.tables import RawRow, Table, shown
from data.layouts.nested.passage_lists import ID_NAMES, passages_in, plain_value
from data.layouts.nested.tree_nodes import answers_of, question_roles, question_text

Opener = Callable[[], Table]
Pairs = Sequence[tuple[str, Any]]

QUESTION_NAMES = ("id", "text", "response")
PASSAGE_NAMES = ("id", "text", "title")
JUDGEMENT_NAMES = ("query-id", "corpus-id", "score")
_QUESTIONS = ("queries", "questions", "query", "topics")
_PASSAGES = ("corpus", "documents", "docs", "passages", "collection")
_JUDGEMENTS = (
    "relevantdocs", "relevantdocuments", "relevantpassages", "qrels", "qrel", "judgements", "judgments", "relevance",
    "labels",
)  # fmt: skip
_ANSWERS = ("responses", "answers")


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
        else:
            yield question_id, _ids(named), None


def _ids(named: Any) -> Any:
    """Return the ids of a list, also those of objects that have one."""
    named = plain_value(named)
    if not isinstance(named, list):
        return named
    return [_id_of(item) if isinstance(item, dict) else item for item in named]


def _id_of(item: Mapping[str, Any]) -> Any:
    by_plain = {plain_name(name): cell for name, cell in item.items()}
    return next((by_plain[name] for name in ID_NAMES if name in by_plain), None)
