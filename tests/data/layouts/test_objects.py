import json
from typing import Any

import pytest

from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import Reading, read
from tests.data.layouts.public_layouts import ANSWERS, QUESTIONS, ROWS, TEXTS, TITLES

FLAT = [{"question": QUESTIONS[row], "context": TEXTS[row], "answer": ANSWERS[row]} for row in ROWS]
DOCUMENTS = [{"id": f"d{row}", "title": TITLES[row], "text": TEXTS[row]} for row in ROWS]


def _read(value: Any) -> Reading:
    return read(json.dumps(value, ensure_ascii=False).encode(), "objects.json")


@pytest.mark.parametrize(
    "value",
    [
        {f"d{row}": {"text": TEXTS[row], "title": TITLES[row], "url": None} for row in ROWS},
        {f"d{row}": {"본문": TEXTS[row], "제목": TITLES[row]} for row in ROWS},
    ],
)
def test_documents_by_id(value: Any) -> None:
    found = _read(value).question_set
    expected = [(f"d{row}", TEXTS[row], TITLES[row]) for row in ROWS]
    assert [(one.id, one.text, one.title) for one in found.passages] == expected


def test_texts_by_id() -> None:
    found = _read({f"d{row}": TEXTS[row] for row in ROWS}).question_set
    assert [(one.id, one.text) for one in found.passages] == [(f"d{row}", TEXTS[row]) for row in ROWS]


def test_settings_are_no_documents() -> None:
    with pytest.raises(DataError, match="an object without a list of objects"):
        _read({"name": "과일 모음입니다", "version": "1.0.0", "license": "MIT"})


def test_rows_by_id() -> None:
    found = _read({f"q{row}": FLAT[row] for row in ROWS}).question_set
    assert [(one.id, one.text, one.answers) for one in found.questions] == [
        (f"q{row}", QUESTIONS[row], (ANSWERS[row],)) for row in ROWS
    ]


def test_columns_of_cells_by_row() -> None:
    columns = {name: {str(row): FLAT[row][name] for row in ROWS} for name in FLAT[0]}
    reading = _read({**columns, "exported": "2024"})
    assert [question.answers for question in reading.question_set.questions] == [(answer,) for answer in ANSWERS]
    assert reading.unused_columns == ("exported",)


@pytest.mark.parametrize(
    ("first", "second"),
    [("train", "dev"), ("학습", "검증"), ("training", "validation"), ("trn", "devel"), ("학습용", "검증용")],
)
def test_lists_named_as_parts_are_the_published_split(first: str, second: str) -> None:
    reading = _read({"version": "1", first: FLAT[:2], second: FLAT[2:]})
    assert [question.part for question in reading.question_set.questions] == ["train", "train", "validation"]
    assert (reading.published_split, reading.unused_columns) == (True, ("version",))


def test_lists_of_the_same_keys_are_one_table() -> None:
    assert len(_read({"easy": FLAT[:1], "hard": FLAT[1:]}).question_set.questions) == 3


def test_a_list_beside_the_data_is_reported() -> None:
    reading = _read({"data": FLAT, "errors": [{"code": 1}], "contributors": [{"name": "가", "rank": 1}]})
    assert len(reading.question_set.questions) == 3
    assert reading.unused_columns == ("errors", "contributors")


def test_keys_beside_the_only_list_are_reported() -> None:
    assert _read({"version": "1", "data": FLAT, "license": {"name": "MIT"}}).unused_columns == ("version", "license")


def test_lists_of_questions_documents_and_judgements_are_a_collection() -> None:
    questions = [{"id": f"q{row}", "question": QUESTIONS[row]} for row in ROWS]
    judgements = [{"query_id": f"q{row}", "doc_id": f"d{row}", "relevance": 1} for row in ROWS]
    found = _read({"questions": questions, "documents": DOCUMENTS, "qrels": judgements}).question_set
    assert [(one.id, one.relevant) for one in found.questions] == [(f"q{row}", (f"d{row}",)) for row in ROWS]


def test_two_lists_that_may_both_hold_the_data_are_refused() -> None:
    others = [{"query": question["question"], "passage": question["context"]} for question in FLAT]
    with pytest.raises(DataError, match=r"several lists of objects \(gold, silver\)") as error:
        _read({"gold": FLAT, "silver": others})
    assert error.value.problem.code is ProblemCode.WRONG_SHAPE


def test_three_objects_by_id_with_grades() -> None:
    value = {
        "queries": {f"q{row}": QUESTIONS[row] for row in ROWS},
        "documents": {f"d{row}": DOCUMENTS[row] for row in ROWS},
        "judgments": {f"q{row}": {f"d{row}": 2, f"d{(row + 1) % 3}": 0} for row in ROWS},
    }
    found = _read(value).question_set
    assert found.questions[0].grade_of == {"d0": 2, "d1": 0}
    assert [passage.title for passage in found.passages] == list(TITLES)


@pytest.mark.parametrize("named", [["d0"], "d0", [{"id": "d0"}], {"d0": 1}])
def test_judgements_of_three_objects_in_every_form(named: Any) -> None:
    value = {
        "queries": {"q0": QUESTIONS[0]},
        "corpus": {"d0": TEXTS[0], "d1": TEXTS[1]},
        "relevant_docs": {"q0": named},
    }
    assert _read(value).question_set.questions[0].relevant == ("d0",)


DOCUMENT = {"page_content": TEXTS[0], "metadata": {"source": "a.md", "title": TITLES[0]}, "type": "Document"}


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([DOCUMENT, {**DOCUMENT, "page_content": TEXTS[1]}]),
        json.dumps([json.dumps(DOCUMENT), json.dumps({**DOCUMENT, "page_content": TEXTS[1]})]),
        "\n".join([json.dumps(json.dumps(DOCUMENT)), json.dumps(json.dumps({**DOCUMENT, "page_content": TEXTS[1]}))]),
        "\n".join([json.dumps(DOCUMENT), json.dumps({**DOCUMENT, "page_content": TEXTS[1]})]),
        json.dumps(json.dumps([DOCUMENT, {**DOCUMENT, "page_content": TEXTS[1]}])),
        json.dumps([{"lc": 1, "kwargs": DOCUMENT}, {"lc": 1, "kwargs": {**DOCUMENT, "page_content": TEXTS[1]}}]),
    ],
)
def test_documents_of_langchain_also_as_json_in_json(content: str) -> None:
    found = read(content.encode(), "docs.jsonl").question_set
    assert [(one.text, one.title) for one in found.passages] == [(text, TITLES[0]) for text in TEXTS[:2]]
