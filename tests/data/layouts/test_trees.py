import io
import json
from typing import Any

import pandas as pd
import pytest

from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import Reading, read
from tests.data.layouts.public_layouts import ANSWERS, LAYOUTS, QUESTIONS, ROWS, STARTS, TEXTS, TITLES

QA: list[dict[str, Any]] = [{"question": QUESTIONS[row], "answer": ANSWERS[row]} for row in ROWS]


def _read(value: Any) -> Reading:
    return read(json.dumps(value, ensure_ascii=False).encode(), "nested.json")


def _found(reading: Reading) -> dict[str, list[str]]:
    text_of = {passage.id: passage.text for passage in reading.question_set.passages}
    return {one.text: [text_of[id_] for id_ in one.relevant] for one in reading.question_set.questions}


EXPECTED = {question: [text] for question, text in zip(QUESTIONS, TEXTS, strict=True)}


@pytest.mark.parametrize(
    "value",
    [
        [{"context": TEXTS[row], "qas": [QA[row]]} for row in ROWS],
        [{"context": TEXTS[row], "qa": QA[row]} for row in ROWS],
        [{"text": TEXTS[row], "questions": [QUESTIONS[row]], "answers": [ANSWERS[row]]} for row in ROWS],
        [{"지문": TEXTS[row], "문항": [{"질문": QUESTIONS[row], "정답": ANSWERS[row]}]} for row in ROWS],
        [{"context": TEXTS[row], "qas": {key: [cell] for key, cell in QA[row].items()}} for row in ROWS],
        {"topics": [{"name": "과일", "items": [{**QA[row], "context": TEXTS[row]}]} for row in ROWS]},
        {"a": {"b": {"c": [{"passage": TEXTS[row], "questions": [QA[row]]} for row in ROWS]}}, "version": 2},
        {f"d{row}": {"context": TEXTS[row], "qas": [QA[row]]} for row in ROWS},
        [[{"context": TEXTS[row], "qas": [QA[row]]}] for row in ROWS],
    ],
)
def test_questions_at_any_level(value: Any) -> None:
    reading = _read(value)
    assert _found(reading) == EXPECTED
    assert [question.answers for question in reading.question_set.questions] == [(answer,) for answer in ANSWERS]
    assert (reading.columns, reading.problems) == (None, ())


def test_rows_with_questions_read_the_same_from_every_format() -> None:
    rows = json.loads(LAYOUTS["CMRC 2018"].content)
    texts = [{name: json.dumps(cell) if name == "qas" else cell for name, cell in row.items()} for row in rows]
    parquet, excel = io.BytesIO(), io.BytesIO()
    pd.DataFrame(rows).to_parquet(parquet, index=False)
    pd.DataFrame(texts).to_excel(excel, index=False)
    contents = [
        json.dumps(rows).encode(),
        "\n".join(map(json.dumps, rows)).encode(),
        pd.DataFrame(texts).to_csv(index=False).encode(),
        parquet.getvalue(),
        excel.getvalue(),
    ]
    assert len({read(content, "rows").question_set.fingerprint for content in contents}) == 1


def test_titles_ids_and_starts() -> None:
    found = read(LAYOUTS["AI Hub"].content, "hub.json").question_set
    assert [(one.id, one.title) for one in found.passages] == [(f"c{row}", TITLES[row]) for row in ROWS]
    assert [(one.id, one.starts) for one in found.questions] == [(f"q{row}", (STARTS[row],)) for row in ROWS]


def test_questions_of_a_conversation_have_the_id_of_their_story() -> None:
    found = read(LAYOUTS["CoQA"].content, "coqa.json").question_set
    assert [question.id for question in found.questions] == ["30x-1", "31x-1", "32x-1"]


def test_paragraphs_share_the_title_of_their_article() -> None:
    paragraphs = [{"context": TEXTS[row], "qas": [QA[row]]} for row in ROWS]
    found = _read({"data": [{"doc_id": "1", "doc_title": "과일", "paragraphs": paragraphs}]}).question_set
    assert [passage.title for passage in found.passages] == ["과일"] * 3
    assert len({passage.id for passage in found.passages}) == 3


@pytest.mark.parametrize("paragraphs", [[{"text": text} for text in TEXTS], list(TEXTS)])
def test_articles_without_questions_are_passages(paragraphs: list[Any]) -> None:
    found = _read([{"title": "과일", "paragraphs": paragraphs}]).question_set
    assert [(passage.text, passage.title) for passage in found.passages] == [(text, "과일") for text in TEXTS]
    assert found.questions == ()


def test_a_passage_without_questions_among_others_stays() -> None:
    rows = [{"context": TEXTS[0], "qas": [QA[0]]}, {"context": TEXTS[1], "qas": []}, {"context": TEXTS[2]}]
    found = _read(rows).question_set
    assert (len(found.passages), len(found.questions)) == (3, 1)


def test_every_key_is_used_or_reported() -> None:
    row = {
        "context": TEXTS[0],
        "source": "신문",
        "notes": [{"by": "가"}],
        "qas": [{**QA[0], "kind": "wh", "hints": [1]}],
    }
    reading = _read({"version": 1, "data": [row]})
    assert reading.used_columns == (
        "data", "data[].context", "data[].qas", "data[].qas[].question", "data[].qas[].answer",
    )  # fmt: skip
    assert reading.metadata_columns == ("data[].qas[].kind",)
    assert reading.unused_columns == ("version", "data[].source", "data[].notes", "data[].qas[].hints")


def test_a_key_that_only_a_later_row_has_is_reported() -> None:
    rows = [{"context": TEXTS[row], "qas": [QA[row]]} for row in ROWS]
    reading = _read([*rows, {"context": "귤은 제주에서 난다.", "qas": [], "more": [{"question_of": "x"}]}])
    assert reading.unused_columns == ("more",)


def test_parts_of_a_question_with_its_own_passages_are_no_questions() -> None:
    reading = read(LAYOUTS["MuSiQue"].content, "musique.jsonl")
    assert "question_decomposition" in reading.unused_columns
    assert len(reading.question_set.questions) == 3


def test_the_published_part_of_an_article_is_that_of_its_questions() -> None:
    data = [
        {"split": part, "context": TEXTS[row], "qas": [QA[row]]} for row, part in enumerate(("train", "dev", "test"))
    ]
    reading = _read(data)
    assert [question.part for question in reading.question_set.questions] == ["train", "validation", "test"]
    assert reading.published_split


def test_broken_parts_are_reported_and_the_others_read() -> None:
    rows: list[Any] = [{"context": TEXTS[row], "qas": [QA[row]]} for row in ROWS]
    reading = _read([rows[0], "글", {"context": TEXTS[1], "qas": "글"}, {"nothing": 1}, rows[2]])
    assert list(_found(reading)) == [QUESTIONS[0], QUESTIONS[2]]
    codes = [(problem.code, problem.details["place"]) for problem in reading.problems]
    assert codes == [(ProblemCode.BROKEN_PART, f"data[{row}]") for row in (1, 2, 3)]


@pytest.mark.parametrize("value", [{"paragraphs": None}, [{"paragraphs": 7}], {"data": [{"paragraphs": [[]]}]}])
def test_paragraphs_that_are_none_are_refused(value: Any) -> None:
    with pytest.raises(DataError):
        _read(value)


def test_deep_nesting_ends_in_a_refusal() -> None:
    value: Any = {"context": TEXTS[0], "qas": [QA[0]]}
    for _ in range(60):
        value = {"data": [value]}
    with pytest.raises(DataError):
        _read(value)


@pytest.mark.parametrize("start", ["answer_start", "정답시작"])
def test_reads_the_start_beside_an_answer(start: str) -> None:
    qas = [{"question": "두루미는 어디로 날아오나?", "answer": "철원", start: 9}]
    paragraph = {"context": "두루미는 겨울에 철원 들판으로 날아온다.", "qas": qas}
    found = _read({"data": [{"paragraphs": [paragraph]}]}).question_set.questions
    assert [(question.answers, question.starts) for question in found] == [(("철원",), (9,))]


def test_reads_questions_of_chunks() -> None:
    chunks = [{"chunk_id": "c1", "chunk_text": "Otters catch fish.", "questions": ["What do otters catch?", "Who?"]}]
    found = _read(chunks).question_set.questions
    assert [question.relevant for question in found] == [("c1",), ("c1",)]
