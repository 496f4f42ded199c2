"""Files of other programs: exports of LangSmith and Label Studio, documents and judgements of search engines."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, count, islice, pairwise
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeGuard

from mrc_workbench.data.formats.columns import guess_columns, is_known
from mrc_workbench.data.formats.opening import Format, RecognisedFile
from mrc_workbench.data.formats.tables import RawRow, RawTable
from mrc_workbench.data.formats.text import EncodedText
from mrc_workbench.data.formats.text_tables import item_opener, json_lines
from mrc_workbench.data.layouts.cells import Opener, objects_in_list
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

Items = Iterable[tuple[int, Any, object]]  # number, object or problem, original item

_PREDICTION = "prediction_text"
_PREDICTION_FILE_NAME = re.compile(r"(?<![a-z])(predictions?|predicted|preds?|nbest|outputs?)(?![a-z])|예측")
_SAMPLE = 5
_ACTIONS = ("index", "create", "update", "delete")
_MAX_DEPTH = 20  # levels of a query that are searched for its text
QUESTION_COLUMNS = ("id", "text")
RATING_COLUMNS = ("query-id", "query", "corpus-id", "score")
_RATED_LINE = re.compile(r"(\d{1,9}(?:\.0+)?)\s+qid:\s*(\S+)\s+([^#]*)#\s*(?:docid\s*=\s*)?(\S+)")
_QUERY_LINE = re.compile(r"#\s*qid:\s*([^\s:]+)\s*:\s*(.*\S)")
_WEIGHT = re.compile(r"\s+\*[\d.]+$")  # of a question, after its text
_MIN_MATCHING_FRACTION = 0.8
_SAMPLE_LINES = 200


def number_items(items: Iterable[Any]) -> Items:
    """Yield items with their numbers from 1."""
    return ((number, item, item) for number, item in enumerate(items, start=1))


def mapped_items_opener(items: Callable[[], Items], transform: Callable[[dict[str, Any]], Any]) -> Opener:
    """Return an opener of a table of items that transforms every object."""

    def transformed() -> Items:
        for number, item, original in items():
            yield number, transform(item) if isinstance(item, dict) else item, original

    return item_opener(transformed)


def export_opener(recognised: RecognisedFile) -> Opener | None:
    """Return an opener of an export's table, with nested fields as columns; None if the file is no such export."""
    items = _items_opener(recognised)
    if items is None:
        return None
    first = [item for _, item, _ in islice(items(), _SAMPLE)]
    if recognised.format is Format.JSONL and first and _is_action(first[0]):
        return item_opener(lambda: _bulk_items(items()))
    if first and all(map(_is_hit, first)):
        return mapped_items_opener(items, lambda hit: _with_id(hit.get("_id"), hit["_source"]) if _is_hit(hit) else hit)
    for fields, transform in _EXPORTS:
        if 2 * sum(_has_fields(item, fields) for item in first) > len(first):
            return mapped_items_opener(items, transform)
    return None


def _items_opener(recognised: RecognisedFile) -> Callable[[], Items] | None:
    text = recognised.text
    value = recognised.value
    if recognised.format is Format.JSONL and text is not None and value is None:
        return lambda: json_lines(text)
    if recognised.format is not Format.JSON:
        return None
    if isinstance(value, dict):
        lists = (value[key] for key in ("examples", "tasks") if isinstance(value.get(key), list))
        value = _hits_in(value) or next(lists, [value])
    if not isinstance(value, list):
        return None
    items: list[Any] = value
    return lambda: number_items(items)


def reject_predictions(names: Sequence[str], name: str, value: object) -> None:
    """Raise `DataError` if columns, or the name of a file with texts by id, say that a model predicted the answers."""
    is_by_id = isinstance(value, dict) and "text" in names and not any(map(is_known, value))
    if _PREDICTION in names or (is_by_id and guess_columns(names).question is None and is_named_prediction(name)):
        raise DataError.from_code(ProblemCode.PREDICTIONS, name=name)


def is_named_prediction(name: str) -> bool:
    """Whether the name of a file suggests that it holds the predictions of a model."""
    return _PREDICTION_FILE_NAME.search(PurePosixPath(name).name.lower()) is not None


def _has_fields(item: object, fields: Mapping[str, type]) -> bool:
    return isinstance(item, dict) and all(isinstance(item.get(name), kind) for name, kind in fields.items())


def flatten(item: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Return an object joined with the fields of its inner objects `keys`; a second `id` becomes "inputs.id"."""
    row: dict[str, Any] = {}
    for key in keys:
        inner = item.get(key)
        for name, value in inner.items() if isinstance(inner, dict) else ():
            row[name if name not in row else f"{key}.{name}"] = value
    for name, value in item.items():
        if name not in keys or not isinstance(value, dict):
            row[name if name not in row else f"example.{name}"] = value
    return row


def _flatten_task(item: Mapping[str, Any]) -> dict[str, Any]:
    row = flatten(item, ("data",))
    answers = [*_spans(item.get("annotations"))]
    if answers and "answers" not in row:
        starts = [answer.get("start", -1) for answer in answers]
        row["answers"] = {"text": [answer["text"] for answer in answers], "answer_start": starts}
        del row["annotations"]
    return row


def _spans(annotations: object) -> Iterator[Mapping[str, Any]]:
    """Yield the marked or typed texts of annotations that were not cancelled."""
    for annotation in objects_in_list(annotations):
        results = [] if annotation.get("was_cancelled") else objects_in_list(annotation.get("result"))
        for value in objects_in_list([result.get("value") for result in results]):
            text = value.get("text")
            if isinstance(text, str):
                yield value
            elif isinstance(text, list):
                yield from ({"text": item} for item in text if isinstance(item, str))


_EXPORTS: tuple[tuple[dict[str, type], Callable[[dict[str, Any]], Any]], ...] = (
    ({"inputs": dict, "outputs": dict}, partial(flatten, keys=("inputs", "outputs"))),  # LangSmith
    ({"data": dict, "annotations": list}, _flatten_task),  # Label Studio
)


def _is_action(item: object) -> bool:
    if not isinstance(item, dict) or len(item) != 1:
        return False
    name, target = next(iter(item.items()))
    if name not in _ACTIONS or not isinstance(target, dict):
        return False
    return all(key.startswith("_") or key == "routing" for key in target)


def _is_hit(item: object) -> bool:
    return _has_fields(item, {"_source": dict})


def _hits_in(value: object) -> list[Any] | None:
    if isinstance(value, dict) and isinstance(value.get("hits"), dict):
        value = value["hits"].get("hits")
    if isinstance(value, dict) and _is_hit(value):
        value = [value]
    return value if isinstance(value, list) and value and all(map(_is_hit, value[:5])) else None


def _bulk_items(lines: Items) -> Iterator[tuple[int, Any, object]]:
    """Join the two lines of each action; an action without a document becomes a problem of its row."""
    is_document = False  # of the action before
    for (number, item, original), (next_number, following, next_original) in pairwise(chain(lines, [(0, None, None)])):
        if is_document:
            is_document = False
        elif isinstance(item, Problem):
            yield number, item, original
        elif not _is_action(item):
            yield _broken_action(number, "a line without an action", original)
        elif "delete" in item:
            yield _broken_action(number, "an action that deletes a document", original)
        elif isinstance(following, dict) and not _is_action(following):
            is_document = True
            name, target = next(iter(item.items()))
            document = following.get("doc") if name == "update" else following
            yield next_number, _with_id(target.get("_id"), document), next_original
        else:
            yield _broken_action(number, "an action without a document", original)


def _broken_action(number: int, description: str, original: object) -> tuple[int, Problem, object]:
    details = {"location": "this line", "found": description, "expected": "an action and a document"}
    return number, Problem.from_code(ProblemCode.BROKEN_PART, number, **details), original


def _with_id(id_: object, document: Any) -> Any:
    return document if id_ is None or not isinstance(document, dict) else {"_id": id_, **document}


class Ratings(NamedTuple):
    """Judgements of a tool: rows of question, passage and grade; rows of questions, if these have ids."""

    judgements: Opener
    questions: Opener | None
    has_ids: bool  # judgements name questions by id, else by text


def parse_ratings(value: object) -> Ratings | None:
    """Return the judgements of an Elasticsearch `_rank_eval` request or OpenSearch list; None for any other value."""
    if not isinstance(value, dict):
        hits = _hits_in(value)
        return parse_ratings(hits[0]["_source"]) if hits and len(hits) == 1 else None
    if _is_hit(value):
        return parse_ratings(value["_source"])
    requests = value.get("requests")
    if _has_ratings(requests):
        rated = [(request.get("id"), None, request.get("ratings")) for request in requests if isinstance(request, dict)]
        return Ratings(
            lambda: RawTable(RATING_COLUMNS, _ratings("_id", rated)),
            lambda: RawTable(QUESTION_COLUMNS, _rank_eval_questions(requests)),
            has_ids=True,
        )
    rated_queries = value.get("judgmentRatings")
    if _has_ratings(rated_queries):
        entries = (entry if isinstance(entry, dict) else {"ratings": [entry]} for entry in rated_queries)
        queries = [(None, entry.get("query"), entry.get("ratings")) for entry in entries]
        return Ratings(lambda: RawTable(RATING_COLUMNS, _ratings("docId", queries)), None, has_ids=False)
    return None


def _has_ratings(entries: object) -> TypeGuard[list[Any]]:
    return isinstance(entries, list) and any(isinstance(entry, dict) and "ratings" in entry for entry in entries)


def _rank_eval_questions(requests: list[Any]) -> Iterator[RawRow]:
    for number, request in enumerate(requests, start=1):
        if isinstance(request, dict):
            text = query_text(request.get("request")) or query_text(request.get("params"))
            yield RawRow(number, {"id": request.get("id"), "text": text})
        else:
            yield _not_an_object(number, request)


def _ratings(passage_key: str, entries: Iterable[tuple[object, object, object]]) -> Iterator[RawRow]:
    numbers = count(1)
    for id_, query, ratings in entries:
        for rating in ratings if isinstance(ratings, list) else [ratings]:
            if isinstance(rating, dict):
                cells = (id_, query, rating.get(passage_key), rating.get("rating"))
                yield RawRow(next(numbers), dict(zip(RATING_COLUMNS, cells, strict=True)))
            else:
                yield _not_an_object(next(numbers), rating)


def _not_an_object(number: int, entry: object) -> RawRow:
    details = {"location": "this entry", "found": "no object", "expected": "an object"}
    return RawRow(number, {"entry": entry}, Problem.from_code(ProblemCode.BROKEN_PART, number, **details))


def query_text(node: object, level: int = 0) -> str:
    """Return the query text of a search request: the value of `query`, `query_string` or a `match` clause."""
    if level > _MAX_DEPTH or not isinstance(node, (dict, list)):
        return ""
    children = node if isinstance(node, list) else node.values()
    if isinstance(node, dict):
        for key in ("query", "query_string", "value"):
            if isinstance(node.get(key), str):
                return str(node[key])
        for key in ("match", "match_phrase", "term"):
            clause = node.get(key)
            texts = [text for text in clause.values() if isinstance(text, str)] if isinstance(clause, dict) else []
            if texts:
                return texts[0]
    return next((text for child in children if (text := query_text(child, level + 1))), "")


def parse_rating_lines(text: EncodedText) -> Ratings | None:
    """Return a judgement list for learning to rank (`3 qid:1 # doc7`, queries in comments); None for other texts."""
    lines = [line.strip() for line in text.head.split("\n", _SAMPLE_LINES)[:_SAMPLE_LINES] if line.strip()]
    rated = [line for line in lines if not line.startswith("#")]
    hits = sum("qid:" in line and line[:1].isdigit() for line in rated)
    if not hits or hits < _MIN_MATCHING_FRACTION * len(rated):
        return None
    has_queries = any(_QUERY_LINE.match(line.strip()) for line in text.head.split("\n", 10_000)[:10_000])
    questions = (lambda: RawTable(QUESTION_COLUMNS, _query_lines(text))) if has_queries else None
    return Ratings(lambda: RawTable(RATING_COLUMNS, _rated_lines(text)), questions, has_ids=True)


def _rated_lines(text: EncodedText) -> Iterator[RawRow]:
    for number, line in enumerate(text.lines(""), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if match := _RATED_LINE.match(stripped):
            cells = (match[2], None, match[4], match[1])
            yield RawRow(number, dict(zip(RATING_COLUMNS, cells, strict=True)))
        else:
            problem = Problem.from_code(ProblemCode.FIELD_COUNT, number, found=len(stripped.split()), expected=4)
            yield RawRow(number, {"line": stripped}, problem)


def _query_lines(text: EncodedText) -> Iterator[RawRow]:
    for number, line in enumerate(text.lines(""), start=1):
        if match := _QUERY_LINE.match(line.strip()):
            yield RawRow(number, {"id": match[1], "text": _WEIGHT.sub("", match[2])})
