"""Nested JSON: questions with the passages, titles and parts of the objects that enclose them."""

import json
from functools import reduce
from typing import Any

import pytest

from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import read
from tests.data.layouts.public_layouts import ANSWERS, LAYOUTS, QUESTIONS, ROWS, STARTS, TEXTS, TITLES
from tests.data.layouts.written import answers, read_json, refuses, relevant, relevant_texts
from tests.data.sample_files import as_csv, as_excel, as_json, as_jsonl, as_parquet

QA: list[dict[str, Any]] = [{"question": QUESTIONS[row], "answer": ANSWERS[row]} for row in ROWS]


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
def test_reads_questions_at_any_nesting_level(value: Any) -> None:
    reading = read_json(value)
    assert relevant_texts(reading) == EXPECTED
    assert answers(reading) == [(answer,) for answer in ANSWERS]
    assert (reading.columns, reading.problems) == (None, ())


def test_reads_titles_ids_and_answer_starts() -> None:
    question_set = read(LAYOUTS["AI Hub"].content, "hub.json").question_set
    assert [(item.id, item.title) for item in question_set.passages] == [(f"c{row}", TITLES[row]) for row in ROWS]
    assert [(item.id, item.starts) for item in question_set.questions] == [(f"q{row}", (STARTS[row],)) for row in ROWS]


def test_derives_question_ids_from_conversation_and_turn() -> None:
    question_set = read(LAYOUTS["CoQA"].content, "coqa.json").question_set
    assert [question.id for question in question_set.questions] == ["30x-1", "31x-1", "32x-1"]


def test_paragraphs_inherit_their_article_title() -> None:
    paragraphs = [{"context": TEXTS[row], "qas": [QA[row]]} for row in ROWS]
    question_set = read_json({"data": [{"doc_id": "1", "doc_title": "과일", "paragraphs": paragraphs}]}).question_set
    assert [passage.title for passage in question_set.passages] == ["과일"] * 3
    assert len({passage.id for passage in question_set.passages}) == 3


@pytest.mark.parametrize("paragraphs", [[{"text": text} for text in TEXTS], list(TEXTS)])
def test_reads_articles_without_questions_as_passages(paragraphs: list[Any]) -> None:
    question_set = read_json([{"title": "과일", "paragraphs": paragraphs}]).question_set
    assert [(passage.text, passage.title) for passage in question_set.passages] == [(text, "과일") for text in TEXTS]
    assert question_set.questions == ()


def test_keeps_passages_without_questions() -> None:
    rows = [{"context": TEXTS[0], "qas": [QA[0]]}, {"context": TEXTS[1], "qas": []}, {"context": TEXTS[2]}]
    question_set = read_json(rows).question_set
    assert (len(question_set.passages), len(question_set.questions)) == (3, 1)


def test_every_key_is_used_or_reported() -> None:
    qas = [{**QA[0], "kind": "wh", "hints": [1]}]
    row = {"context": TEXTS[0], "source": "신문", "notes": [{"by": "가"}], "qas": qas}
    reading = read_json({"version": 1, "data": [row]})
    assert reading.used_columns == (
        "data", "data[].context", "data[].qas", "data[].qas[].question", "data[].qas[].answer",
    )  # fmt: skip
    assert reading.metadata_columns == ("data[].qas[].kind",)
    assert reading.unused_columns == ("version", "data[].source", "data[].notes", "data[].qas[].hints")


def test_reports_keys_that_only_later_rows_have() -> None:
    rows = [{"context": TEXTS[row], "qas": [QA[row]]} for row in ROWS]
    reading = read_json([*rows, {"context": "귤은 제주에서 난다.", "qas": [], "more": [{"question_of": "x"}]}])
    assert reading.unused_columns == ("more",)


def test_questions_inherit_the_published_part_of_their_article() -> None:
    data = [{"split": p, "context": TEXTS[row], "qas": [QA[row]]} for row, p in enumerate(("train", "dev", "test"))]
    reading = read_json(data)
    assert [question.part for question in reading.question_set.questions] == ["train", "validation", "test"]


def test_reports_broken_parts_and_reads_the_rest() -> None:
    rows: list[Any] = [{"context": TEXTS[row], "qas": [QA[row]]} for row in ROWS]
    reading = read_json([rows[0], "글", {"context": TEXTS[1], "qas": "글"}, {"nothing": 1}, rows[2]])
    assert list(relevant_texts(reading)) == [QUESTIONS[0], QUESTIONS[2]]
    codes = [(problem.code, problem.details["location"]) for problem in reading.problems]
    assert codes == [(ProblemCode.BROKEN_PART, f"data[{row}]") for row in (1, 2, 3)]


@pytest.mark.parametrize(
    "value",
    [
        {"paragraphs": None},
        [{"paragraphs": 7}],
        {"data": [{"paragraphs": [[]]}]},
        reduce(lambda inner, _: {"data": [inner]}, range(60), {"context": TEXTS[0], "qas": [QA[0]]}),
    ],
    ids=["no list", "number", "empty list", "too deep"],
)
def test_rejects_invalid_paragraphs(value: Any) -> None:
    with pytest.raises(DataError):
        read_json(value)


@pytest.mark.parametrize("start", ["answer_start", "정답시작"])
def test_reads_the_start_beside_an_answer(start: str) -> None:
    qas = [{"question": "두루미는 어디로 날아오나?", "answer": "철원", start: 9}]
    paragraph = {"context": "두루미는 겨울에 철원 들판으로 날아온다.", "qas": qas}
    questions = read_json({"data": [{"paragraphs": [paragraph]}]}).question_set.questions
    assert [(question.answers, question.starts) for question in questions] == [(("철원",), (9,))]


def test_reads_questions_of_chunks() -> None:
    chunks = [{"chunk_id": "c1", "chunk_text": "Otters catch fish.", "questions": ["What do otters catch?", "Who?"]}]
    assert relevant(read_json(chunks)) == [("c1",), ("c1",)]


OTHER = [TEXTS[(row + 1) % 3] for row in ROWS]

ALL = [{"id": f"d{row}", "text": TEXTS[row]} for row in ROWS]
OWN_PASSAGES: dict[str, list[dict[str, Any]]] = {
    "texts": [{"contexts": [TEXTS[row]]} for row in ROWS],
    "object": [{"context": {"title": "과일", "text": TEXTS[row]}} for row in ROWS],
    "objects": [{"contexts": [{"title": "과일", "text": TEXTS[row]}]} for row in ROWS],
    "marked": [{"passages": [{"text": text, "is_selected": int(text == own)} for text in TEXTS]} for own in TEXTS],
    "positives and negatives": [
        {"positive_ctxs": [{"text": TEXTS[row]}], "negative_ctxs": [{"text": OTHER[row]}]} for row in ROWS
    ],
    "named by id": [{"passages": ALL, "gold": [f"d{row}"]} for row in ROWS],
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


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", OWN_PASSAGES)
def test_reads_questions_with_own_passages_at_any_level(level: str, kind: str) -> None:
    reading = read_json(LEVELS[level]([question(row) | OWN_PASSAGES[kind][row] for row in ROWS]))
    assert list(relevant_texts(reading).values()) == [[text] for text in TEXTS]
    questions = reading.question_set.questions
    assert [(q.id, q.answers) for q in questions] == [(f"q{row}", (ANSWERS[row],)) for row in ROWS]
    assert reading.problems == ()


BESIDE: dict[str, Any] = {
    "one text": lambda row: {"contexts": [TEXTS[row]], "qas": [question(row)]},
    "one object": lambda row: {"passages": [{"title": "과일", "text": TEXTS[row]}], "qas": [question(row)]},
    "marked": lambda row: {**OWN_PASSAGES["marked"][row], "qas": [question(row)]},
    "named by id": lambda row: {"passages": ALL, "qas": [question(row) | {"passage_id": f"d{row}"}]},
}


@pytest.mark.parametrize("kind", BESIDE)
@pytest.mark.parametrize("is_deep", [False, True])
def test_questions_inherit_passage_lists_beside_them(kind: str, *, is_deep: bool) -> None:
    entries = [BESIDE[kind](row) for row in ROWS]
    reading = read_json({"data": [{"topic": "과일", "parts": entries}]} if is_deep else {"data": entries})
    assert list(relevant_texts(reading).values()) == [[text] for text in TEXTS]


def test_requires_a_choice_for_unmarked_passages() -> None:
    value = {"data": [{"passages": [{"text": text} for text in TEXTS], "qas": [question(row) for row in ROWS]}]}
    with refuses(ProblemCode.UNMARKED_PASSAGES, "--columns context=passages"):
        read_json(value)


def test_does_not_read_retrieved_texts_as_passages() -> None:
    items = [question(row) | {"retrieved_contexts": [TEXTS[row]]} for row in ROWS]
    with refuses(ProblemCode.EVALUATION_OUTPUT):
        read_json(LEVELS["three levels"](items))


@pytest.mark.parametrize("level", LEVELS)
def test_rejects_questions_and_answers_without_passages(level: str) -> None:
    with pytest.raises(DataError) as error:
        read_json(LEVELS[level]([question(row) for row in ROWS]))
    assert error.value.problem.code in (ProblemCode.ANSWERS_ALONE, ProblemCode.MISSING_COLUMN)
    assert "--columns context=answer" in str(error.value)


def test_reports_every_enclosing_key() -> None:
    items = [question(row) | OWN_PASSAGES["texts"][row] for row in ROWS]
    parts = [{"name": "가", "split": p, "qas": [item]} for p, item in zip(("train", "dev", "test"), items, strict=True)]
    reading = read_json({"version": 2, "data": [{"editor": "이", "sections": parts}]})
    assert reading.used_columns == ("split", "id", "question", "answer", "contexts")
    assert reading.unused_columns == ("version", "data[].editor", "data[].sections[].name")
    assert [read_question.part for read_question in reading.question_set.questions] == ["train", "validation", "test"]


@pytest.mark.parametrize(
    "rows",
    [
        json.loads(LAYOUTS["CMRC 2018"].content),
        [{"topic": "과일", "qas": [question(row) | OWN_PASSAGES["marked"][row]]} for row in ROWS],
    ],
    ids=["nested", "flat"],
)
def test_reads_rows_alike_in_every_format(rows: list[dict[str, Any]]) -> None:
    texts = [as_json(rows), as_jsonl(rows), as_csv(rows)]
    contents = [*map(str.encode, texts), as_parquet(rows), as_excel(rows)]
    assert len({read(content, "rows").question_set.fingerprint for content in contents}) == 1


def test_reports_rows_that_are_not_questions() -> None:
    items = [question(row) | OWN_PASSAGES["texts"][row] for row in ROWS]
    reading = read_json({"data": [{"qas": [*items, "글"]}]})
    assert len(reading.question_set.questions) == 3
    assert [problem.code for problem in reading.problems] == [ProblemCode.NOT_AN_OBJECT]
