"""Exports of labelling and evaluation tools: their nested fields are columns."""

import json
from typing import Any

import pytest

from mrc_workbench.data.formats.columns import Columns
from mrc_workbench.data.layouts.exports import flat
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.questions.read import Reading, read
from tests.data.layouts.written import jsonl

CONTEXT = "해금은 줄이 두 개인 악기이다. 활로 켜서 소리를 낸다."
QUESTION = "해금은 줄이 몇 개인가?"
Rows = list[dict[str, Any]]


def langsmith() -> Rows:
    return [
        {
            "id": "e1",
            "inputs": {"question": QUESTION, "context": CONTEXT},
            "outputs": {"answer": "두 개"},
            "metadata": {"source": "hand"},
        },
        {"id": "e2", "inputs": {"question": "해금은 무엇으로 켜나?", "context": CONTEXT}, "outputs": {"answer": "활"}},
    ]


def label_studio() -> Rows:
    def result(start: int, text: str) -> dict[str, Any]:
        return {"type": "labels", "value": {"start": start, "end": start + len(text), "text": text, "labels": ["답"]}}

    return [
        {
            "id": 1,
            "data": {"question": QUESTION, "context": CONTEXT},
            "annotations": [
                {"id": 7, "result": [result(CONTEXT.index("두 개"), "두 개")]},
                {"id": 8, "was_cancelled": True, "result": [result(0, "해금")]},
            ],
            "predictions": [],
        },
        {
            "id": 2,
            "data": {"question": "해금은 무엇으로 켜나?", "context": CONTEXT},
            "annotations": [{"id": 9, "result": [{"type": "textarea", "value": {"text": ["활"]}}]}],
            "predictions": [],
        },
    ]


def in_forms(rows: Rows) -> dict[str, bytes]:
    return {
        "list": json.dumps(rows, ensure_ascii=False).encode(),
        "lines": jsonl(rows),
        "object": json.dumps({"examples": rows}).encode(),
    }


def answers(reading: Reading) -> dict[str, tuple[str, ...]]:
    return {one.text: one.answers for one in reading.question_set.questions}


EXPECTED = {QUESTION: ("두 개",), "해금은 무엇으로 켜나?": ("활",)}


@pytest.mark.parametrize("form", ["list", "lines", "object"])
def test_examples_of_langsmith_are_rows(form: str) -> None:
    reading = read(in_forms(langsmith())[form], "examples.json")
    assert answers(reading) == EXPECTED
    assert list(reading.question_set.passages.texts) == [CONTEXT]
    assert [one.id for one in reading.question_set.questions] == ["e1", "e2"]
    columns = (*reading.used_columns, *reading.metadata_columns, *reading.unused_columns)
    assert sorted(columns) == ["answer", "context", "id", "metadata", "question"]


@pytest.mark.parametrize("form", ["list", "lines"])
def test_tasks_of_label_studio_are_rows_with_marked_answers(form: str) -> None:
    reading = read(in_forms(label_studio())[form], "project-1.json")
    assert answers(reading) == EXPECTED
    first, second = reading.question_set.questions
    assert (first.starts, second.starts) == ((CONTEXT.index("두 개"),), ())
    assert len(reading.question_set.passages) == 1


def test_a_name_that_two_objects_have_keeps_both_values() -> None:
    row = flat({"inputs": {"id": 1, "q": 2}, "outputs": {"id": 3}, "id": 4}, ("inputs", "outputs"))
    assert row == {"id": 1, "q": 2, "outputs.id": 3, "example.id": 4}


def test_rows_of_doccano_are_passages_with_a_label_that_is_not_used() -> None:
    rows = [
        {"id": n, "text": text, "label": [[0, 2, "악기"]]} for n, text in enumerate((CONTEXT, "장구는 타악기이다."))
    ]
    reading = read(jsonl(rows), "all.jsonl")
    assert sorted(reading.question_set.passages.texts) == sorted([CONTEXT, "장구는 타악기이다."])
    assert "label" in reading.unused_columns


@pytest.mark.parametrize("broken", [{"id": "e3", "inputs": [], "outputs": None}, "text", 3, None, {"data": 1}])
def test_a_broken_entry_among_others_is_reported(broken: object) -> None:
    for rows in (langsmith(), label_studio()):
        reading = read(json.dumps([*rows, broken]).encode(), "set.json")
        assert answers(reading) == EXPECTED
        assert reading.left_out == 1


@pytest.mark.parametrize(
    "label",
    [["악기"], "악기", [[0, 2, "악기"]], [{"start_offset": 0, "end_offset": 2, "label": "악기"}], ["짧은 요약이다."]],
)
@pytest.mark.parametrize("name", ["label", "labels", "entities", "cats"])
def test_labelled_texts_are_passages_whose_labels_are_unused(label: Any, name: str) -> None:
    rows = [{"id": number, "text": f"{CONTEXT} {number}", name: label} for number in range(3)]
    reading = read(jsonl(rows), "all.jsonl")
    assert [passage.text for passage in reading.question_set.passages] == [row["text"] for row in rows]
    assert (reading.question_set.questions, reading.unused_columns) == ((), (name,))


def test_questions_with_labels_are_read_with_the_flag_of_the_refusal() -> None:
    rows = [
        {"id": number, "text": f"{number}번 해금은 줄이 몇 개인가?", "label": [f"두 개이다. {number}"]}
        for number in range(3)
    ]
    with pytest.raises(DataError, match="--columns context=label"):
        read(jsonl(rows), "all.jsonl")
    found = read(jsonl(rows), "all.jsonl", Columns(question="text", context="label", id="id")).question_set
    assert [question.text for question in found.questions] == [row["text"] for row in rows]
    assert [passage.text for passage in found.passages] == [f"두 개이다. {number}" for number in range(3)]
