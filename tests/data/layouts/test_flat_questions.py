"""Questions at any level with passages of their own, or with lists of passages beside them."""

import io
import json
from typing import Any

import pandas as pd
import pytest

from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import Reading, read

TEXTS = ("사과는 나무에서 열린다.", "포도는 덩굴에서 열린다.", "배는 가을에 익는다.")
QUESTIONS = ("사과는 어디서 열리나?", "포도는 어디서 열리나?", "배는 언제 익나?")
ANSWERS = ("나무", "덩굴", "가을")
ROWS = range(3)
OTHER = [TEXTS[(row + 1) % 3] for row in ROWS]

OWN_PASSAGES: dict[str, list[dict[str, Any]]] = {
    "texts": [{"contexts": [TEXTS[row]]} for row in ROWS],
    "object": [{"context": {"title": "과일", "text": TEXTS[row]}} for row in ROWS],
    "objects": [{"contexts": [{"title": "과일", "text": TEXTS[row]}]} for row in ROWS],
    "marked": [
        {"passages": [{"text": TEXTS[row], "is_selected": 1}, {"text": OTHER[row], "is_selected": 0}]} for row in ROWS
    ],
    "positives and negatives": [
        {"positive_ctxs": [{"text": TEXTS[row]}], "negative_ctxs": [{"text": OTHER[row]}]} for row in ROWS
    ],
    "named by id": [
        {
            "passages": [{"id": f"d{(row + 1) % 3}", "text": OTHER[row]}, {"id": f"d{row}", "text": TEXTS[row]}],
            "gold": [f"d{row}"],
        }
        for row in ROWS
    ],
}
LEVELS: dict[str, Any] = {
    "a list in an entry": lambda items: {"data": [{"topic": "과일", "qas": items}]},
    "a list in each entry": lambda items: [{"topic": str(row), "questions": [item]} for row, item in enumerate(items)],
    "an unknown list": lambda items: {"version": 1, "topics": [{"name": "과일", "items": items}]},
    "three levels": lambda items: {"data": [{"name": "가", "sections": [{"name": "나", "qas": items}]}]},
    "objects": lambda items: {"a": {"b": {"qas": items}}},
    "lists in lists": lambda items: [[{"qas": items}]],
}


def question(row: int) -> dict[str, Any]:
    return {"id": f"q{row}", "question": QUESTIONS[row], "answer": ANSWERS[row]}


def read_value(value: Any) -> Reading:
    return read(json.dumps(value, ensure_ascii=False).encode(), "nested.json")


def relevant(reading: Reading) -> list[list[str]]:
    text_of = {passage.id: passage.text for passage in reading.question_set.passages}
    return [[text_of[id_] for id_ in one.relevant] for one in reading.question_set.questions]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", OWN_PASSAGES)
def test_questions_at_any_level_bring_their_passages(level: str, kind: str) -> None:
    reading = read_value(LEVELS[level]([question(row) | OWN_PASSAGES[kind][row] for row in ROWS]))
    assert relevant(reading) == [[text] for text in TEXTS]
    found = reading.question_set.questions
    assert [(one.id, one.answers) for one in found] == [(f"q{row}", (ANSWERS[row],)) for row in ROWS]
    assert reading.problems == ()


BESIDE: dict[str, Any] = {
    "one text": lambda row: {"contexts": [TEXTS[row]], "qas": [question(row)]},
    "one object": lambda row: {"passages": [{"title": "과일", "text": TEXTS[row]}], "qas": [question(row)]},
    "marked": lambda row: {
        "passages": [{"text": TEXTS[row], "is_relevant": True}, {"text": OTHER[row], "is_relevant": False}],
        "qas": [question(row)],
    },
    "named by id": lambda row: {
        "passages": [{"id": f"d{one}", "text": TEXTS[one]} for one in ROWS],
        "qas": [question(row) | {"passage_id": f"d{row}"}],
    },
}


@pytest.mark.parametrize("kind", BESIDE)
@pytest.mark.parametrize("is_deep", [False, True])
def test_lists_of_passages_beside_questions_are_theirs(kind: str, *, is_deep: bool) -> None:
    entries = [BESIDE[kind](row) for row in ROWS]
    reading = read_value({"data": [{"topic": "과일", "parts": entries}]} if is_deep else {"data": entries})
    assert relevant(reading) == [[text] for text in TEXTS]


def test_passages_that_nothing_marks_are_asked_for() -> None:
    value = {"data": [{"passages": [{"text": text} for text in TEXTS], "qas": [question(row) for row in ROWS]}]}
    with pytest.raises(DataError) as error:
        read_value(value)
    assert error.value.problem.code is ProblemCode.UNMARKED_PASSAGES
    assert "--columns context=passages" in str(error.value)


def test_what_was_retrieved_is_no_passage() -> None:
    items = [question(row) | {"retrieved_contexts": [TEXTS[row]]} for row in ROWS]
    with pytest.raises(DataError) as error:
        read_value(LEVELS["three levels"](items))
    assert error.value.problem.code is ProblemCode.EVALUATION_OUTPUT


@pytest.mark.parametrize("level", LEVELS)
def test_questions_and_answers_without_passages_are_named_as_such(level: str) -> None:
    with pytest.raises(DataError) as error:
        read_value(LEVELS[level]([question(row) for row in ROWS]))
    assert error.value.problem.code in (ProblemCode.ANSWERS_ALONE, ProblemCode.MISSING_COLUMN)
    assert "--columns context=answer" in str(error.value)


def test_every_key_around_the_questions_is_reported() -> None:
    items = [question(row) | OWN_PASSAGES["texts"][row] for row in ROWS]
    parts = [
        {"name": "가", "split": part, "qas": [item]} for part, item in zip(("train", "dev", "test"), items, strict=True)
    ]
    reading = read_value({"version": 2, "data": [{"editor": "이", "sections": parts}]})
    assert reading.used_columns == ("split", "id", "question", "answer", "contexts")
    assert reading.unused_columns == ("version", "data[].editor", "data[].sections[].name")
    assert [one.part for one in reading.question_set.questions] == ["train", "validation", "test"]


def test_rows_read_the_same_from_every_format() -> None:
    rows = [{"topic": "과일", "qas": [question(row) | OWN_PASSAGES["marked"][row]]} for row in ROWS]
    texts = [{**row, "qas": json.dumps(row["qas"])} for row in rows]
    parquet = io.BytesIO()
    pd.DataFrame(rows).to_parquet(parquet, index=False)
    contents = [
        json.dumps(rows).encode(),
        "\n".join(map(json.dumps, rows)).encode(),
        pd.DataFrame(texts).to_csv(index=False).encode(),
        parquet.getvalue(),
    ]
    assert len({read(content, "rows").question_set.fingerprint for content in contents}) == 1


def test_what_is_no_question_is_a_problem_of_its_row() -> None:
    items = [question(row) | OWN_PASSAGES["texts"][row] for row in ROWS]
    reading = read_value({"data": [{"qas": [*items, "글"]}]})
    assert len(reading.question_set.questions) == 3
    assert [problem.code for problem in reading.problems] == [ProblemCode.NOT_AN_OBJECT]
