"""Exports of labelling and evaluation tools whose rows nest their fields: LangSmith and Label Studio."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from mrc_workbench.data.formats.columns import guess_columns, is_known
from mrc_workbench.data.formats.opening import Format, RecognisedFile
from mrc_workbench.data.formats.tables import Table
from mrc_workbench.data.formats.text_tables import item_opener, json_lines
from mrc_workbench.data.problems import DataError, ProblemCode

Items = Iterable[tuple[int, Any, object]]  # number, object or problem, what was given

_LANGSMITH = ("inputs", "outputs")
_PREDICTION = "prediction_text"
_PREDICTED = re.compile(r"(?<![a-z])(predictions?|predicted|preds?|nbest|outputs?)(?![a-z])|예측")
_SAMPLE = 5


def export_opener(recognised: RecognisedFile) -> Callable[[], Table] | None:
    """Return what opens the table of an export, its nested fields as columns; None if the file is no such export."""
    opened = _items_opener(recognised)
    if opened is None:
        return None
    first = [item for (_, item, _), _ in zip(opened(), range(_SAMPLE), strict=False)]
    if 2 * sum(map(_is_langsmith_example, first)) > len(first):
        return item_opener(lambda: _flat_items(opened(), _LANGSMITH))
    if 2 * sum(map(_is_label_studio_task, first)) > len(first):
        return item_opener(lambda: _tasks(opened()))
    return None


def refuse_predictions(names: Sequence[str], name: str, value: object) -> None:
    """Raise `DataError` if a file holds answers that a model predicted: they are no dataset.

    Its columns say so, or its name if its JSON is an object of texts by id.
    """
    is_by_id = isinstance(value, dict) and "text" in names and not any(map(is_known, value))
    if _PREDICTION in names or (is_by_id and guess_columns(names).question is None and is_named_prediction(name)):
        raise DataError.of(ProblemCode.PREDICTIONS, name=name)


def is_named_prediction(name: str) -> bool:
    """Whether the name of a file says that it holds what a model predicted."""
    return _PREDICTED.search(PurePosixPath(name).name.lower()) is not None


def _items_opener(recognised: RecognisedFile) -> Callable[[], Items] | None:
    text, value = recognised.text, recognised.value
    if recognised.format is Format.JSONL and text is not None and value is None:
        return lambda: json_lines(text)
    if recognised.format is not Format.JSON:
        return None
    if isinstance(value, dict):
        value = next((value[key] for key in ("examples", "tasks") if isinstance(value.get(key), list)), [value])
    if not isinstance(value, list):
        return None
    items: list[Any] = value
    return lambda: ((number, item, item) for number, item in enumerate(items, start=1))


def _is_langsmith_example(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("inputs"), dict) and isinstance(item.get("outputs"), dict)


def _is_label_studio_task(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("data"), dict) and isinstance(item.get("annotations"), list)


def _flat_items(items: Items, keys: tuple[str, ...]) -> Iterator[tuple[int, Any, object]]:
    for number, item, given in items:
        yield number, flat(item, keys) if isinstance(item, dict) else item, given


def flat(item: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Return an object with the fields of its inner objects `keys` beside its own; a second `id` is "inputs.id"."""
    row: dict[str, Any] = {}
    for key in keys:
        inner = item.get(key)
        for name, value in inner.items() if isinstance(inner, dict) else ():
            row[name if name not in row else f"{key}.{name}"] = value
    for name, value in item.items():
        if name not in keys or not isinstance(value, dict):
            row[name if name not in row else f"example.{name}"] = value
    return row


def _tasks(items: Items) -> Iterator[tuple[int, Any, object]]:
    for number, item, given in items:
        if not isinstance(item, dict):
            yield number, item, given
            continue
        row = flat(item, ("data",))
        answers = [*_spans(item.get("annotations"))]
        if answers and "answers" not in row:
            starts = [answer.get("start", -1) for answer in answers]
            row["answers"] = {"text": [answer["text"] for answer in answers], "answer_start": starts}
            del row["annotations"]
        yield number, row, given


def _spans(annotations: object) -> Iterator[Mapping[str, Any]]:
    """The marked or typed texts of annotations, less those that were cancelled."""
    for annotation in annotations if isinstance(annotations, list) else []:
        if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
            continue
        results = annotation.get("result")
        for result in results if isinstance(results, list) else []:
            value = result.get("value") if isinstance(result, dict) else None
            if not isinstance(value, dict):
                continue
            text = value.get("text")
            if isinstance(text, str):
                yield value
            elif isinstance(text, list):
                yield from ({"text": one} for one in text if isinstance(one, str))
