"""JSON with documents, rows, texts, answers or judgements by id, and with several lists."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import QuestionSetReading, read
from tests.data.layouts import written
from tests.data.layouts.public_layouts import ANSWERS, QUESTIONS, ROWS, TEXTS, TITLES
from tests.data.layouts.written import answers, codes, grades, read_json, refuses, zipped
from tests.data.sample_files import as_csv

FLAT = [{"question": QUESTIONS[row], "context": TEXTS[row], "answer": ANSWERS[row]} for row in ROWS]
DOCUMENTS = [{"id": f"d{row}", "title": TITLES[row], "text": TEXTS[row]} for row in ROWS]


@pytest.mark.parametrize(
    ("value", "titles"),
    [
        ({f"d{row}": {"text": TEXTS[row], "title": TITLES[row], "url": None} for row in ROWS}, TITLES),
        ({f"d{row}": {"본문": TEXTS[row], "제목": TITLES[row]} for row in ROWS}, TITLES),
        ({f"d{row}": TEXTS[row] for row in ROWS}, ("", "", "")),
    ],
    ids=["objects", "Korean objects", "texts"],
)
def test_reads_documents_by_id(value: Any, titles: tuple[str, ...]) -> None:
    passages = read_json(value).question_set.passages
    expected = [(f"d{row}", TEXTS[row], titles[row]) for row in ROWS]
    assert [(passage.id, passage.text, passage.title) for passage in passages] == expected


def test_does_not_read_settings_as_documents() -> None:
    with pytest.raises(DataError, match="an object without a list of objects"):
        read_json({"name": "과일 모음입니다", "version": "1.0.0", "license": "MIT"})


def test_reads_rows_by_id() -> None:
    question_set = read_json({f"q{row}": FLAT[row] for row in ROWS}).question_set
    assert [(question.id, question.text, question.answers) for question in question_set.questions] == [
        (f"q{row}", QUESTIONS[row], (ANSWERS[row],)) for row in ROWS
    ]


def test_reads_column_oriented_json() -> None:
    columns = {name: {str(row): FLAT[row][name] for row in ROWS} for name in FLAT[0]}
    reading = read_json({**columns, "exported": "2024"})
    assert [question.answers for question in reading.question_set.questions] == [(answer,) for answer in ANSWERS]
    assert reading.unused_columns == ("exported",)


@pytest.mark.parametrize(
    ("first", "second"),
    [("train", "dev"), ("학습", "검증"), ("training", "validation"), ("trn", "devel"), ("학습용", "검증용")],
)
def test_reads_lists_named_as_parts_as_split(first: str, second: str) -> None:
    reading = read_json({"version": "1", first: FLAT[:2], second: FLAT[2:]})
    assert [question.part for question in reading.question_set.questions] == ["train", "train", "validation"]
    assert reading.unused_columns == ("version",)


@pytest.mark.parametrize(
    ("value", "unused"),
    [
        ({"easy": FLAT[:1], "hard": FLAT[1:]}, ()),  # lists with the same keys
        (
            {"data": FLAT, "errors": [{"code": 1}], "contributors": [{"name": "가", "rank": 1}]},
            ("errors", "contributors"),
        ),
        ({"version": "1", "data": FLAT, "license": {"name": "MIT"}}, ("version", "license")),
    ],
)
def test_joins_lists_and_reports_keys_beside_them(value: Any, unused: tuple[str, ...]) -> None:
    reading = read_json(value)
    assert (len(reading.question_set.questions), reading.unused_columns) == (3, unused)


def test_reads_several_lists_as_a_collection() -> None:
    questions = [{"id": f"q{row}", "question": QUESTIONS[row]} for row in ROWS]
    judgements = [{"query_id": f"q{row}", "doc_id": f"d{row}", "relevance": 1} for row in ROWS]
    question_set = read_json({"questions": questions, "documents": DOCUMENTS, "qrels": judgements}).question_set
    assert [(q.id, q.relevant) for q in question_set.questions] == [(f"q{row}", (f"d{row}",)) for row in ROWS]


def test_rejects_ambiguous_lists() -> None:
    others = [{"query": question["question"], "passage": question["context"]} for question in FLAT]
    with refuses(ProblemCode.WRONG_SHAPE, r"several lists of objects \(gold, silver\)"):
        read_json({"gold": FLAT, "silver": others})


@pytest.mark.parametrize(
    ("name", "judged"),
    [
        ("relevant_docs", ["d0"]),
        ("relevant_docs", "d0"),
        ("relevant_docs", [{"id": "d0"}]),
        ("judgments", {"d0": 2, "d1": 0}),
    ],
)
def test_reads_judgements_by_id_in_every_form(name: str, judged: Any) -> None:
    value = {"queries": {"q0": QUESTIONS[0]}, "corpus": {"d0": TEXTS[0], "d1": TEXTS[1]}, name: {"q0": judged}}
    assert grades(read_json(value)) == [judged if isinstance(judged, dict) else {"d0": 1}]


DOCUMENT = {"page_content": TEXTS[0], "metadata": {"source": "a.md", "title": TITLES[0]}, "type": "Document"}


LANGCHAIN = [DOCUMENT, {**DOCUMENT, "page_content": TEXTS[1]}]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(LANGCHAIN),
        json.dumps([*map(json.dumps, LANGCHAIN)]),
        "\n".join(json.dumps(json.dumps(document)) for document in LANGCHAIN),
        "\n".join(map(json.dumps, LANGCHAIN)),
        json.dumps(json.dumps(LANGCHAIN)),
        json.dumps([{"lc": 1, "kwargs": document} for document in LANGCHAIN]),
    ],
    ids=["list", "texts", "lines of texts", "lines", "text of a list", "constructor arguments"],
)
def test_reads_langchain_documents(content: str) -> None:
    question_set = read(content.encode(), "docs.jsonl").question_set
    assert [(p.text, p.title) for p in question_set.passages] == [(text, TITLES[0]) for text in TEXTS[:2]]


GRADES = [{f"d{row}": 1} for row in ROWS]


def by_id(letter: str, values: Any) -> dict[str, Any]:
    return {f"{letter}{row}": value for row, value in enumerate(values)}


def read_all(files: dict[str, Any], *, is_zip: bool = False) -> QuestionSetReading:
    contents = {n: (v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)).encode() for n, v in files.items()}
    return written.read_all({"set.zip": zipped(contents)} if is_zip else contents)


def squad(*, with_answers: bool) -> dict[str, Any]:
    qas = [{"id": f"q{row}", "question": QUESTIONS[row]} for row in ROWS]
    if with_answers:
        qas = [{**qas[row], "answers": [{"text": ANSWERS[row], "answer_start": 0}]} for row in ROWS]
    return {"data": [{"title": "과일", "paragraphs": [{"context": TEXTS[row], "qas": [qas[row]]} for row in ROWS]}]}


def csv(**columns: Sequence[Any]) -> str:
    return as_csv([{name: cells[row] for name, cells in columns.items()} for row in ROWS])


IDS = [f"q{row}" for row in ROWS]
QUESTION_FILES: dict[str, dict[str, Any]] = {
    "nested": {"dev.json": squad(with_answers=False)},
    "rows": {"rows.csv": csv(id=IDS, question=QUESTIONS, context=TEXTS)},
    "collection": {
        "queries.json": by_id("q", QUESTIONS),
        "corpus.json": by_id("d", TEXTS),
        "qrels.tsv": "query-id\tcorpus-id\tscore\n" + "".join(f"q{row}\td{row}\t1\n" for row in ROWS),
    },
}
ANSWER_FILES: dict[str, Any] = {
    "texts": by_id("q", ANSWERS),
    "lists": by_id("q", [[f"{answer} 쪽"] for answer in ANSWERS]),
    "lists of words": by_id("q", [[answer] for answer in ANSWERS]),
    "answer objects": by_id("q", [{"answer": answer} for answer in ANSWERS]),
    "text objects": by_id("q", [{"text": answer, "answer_start": 1} for answer in ANSWERS]),
}


@pytest.mark.parametrize("is_zip", [False, True])
@pytest.mark.parametrize("judged", [[[f"d{row}"] for row in ROWS], GRADES], ids=["lists", "grades"])
@pytest.mark.parametrize(
    "names",
    [
        ("queries.json", "corpus.json", "relevant_docs.json"),
        ("val_queries.json", "val_corpus.json", "val_relevant.json"),
        ("questions.json", "docs.json", "links.json"),
    ],
)
def test_reads_objects_by_id_from_separate_files(names: tuple[str, str, str], judged: Any, *, is_zip: bool) -> None:
    values = (by_id("q", QUESTIONS), by_id("d", TEXTS), by_id("q", judged))
    reading = read_all(dict(zip(names, values, strict=True)), is_zip=is_zip)
    assert [question.text for question in reading.question_set.questions] == [*QUESTIONS]
    assert (grades(reading), codes(reading)) == (GRADES, [])
    assert reading.unused_columns == ()


def test_reads_passage_objects_with_titles() -> None:
    corpus = by_id("d", [{"title": "과일", "text": text} for text in TEXTS])
    files = {"queries.json": by_id("q", QUESTIONS), "corpus.json": corpus, "qrels.json": by_id("q", GRADES)}
    reading = read_all(files)
    assert [passage.title for passage in reading.question_set.passages] == ["과일"] * 3
    assert grades(reading) == GRADES


@pytest.mark.parametrize("ids", [["d0", "d1", "d2"], ["apple", "grape", "pear"], ["a.txt", "b.txt", "c.txt"]])
@pytest.mark.parametrize("column", ["doc_id", "source"])
def test_reads_texts_by_id_as_passages_if_referenced(ids: list[str], column: str) -> None:
    rows = csv(question=QUESTIONS, answer=ANSWERS, **{column: ids})
    reading = read_all({"x.json": dict(zip(ids, TEXTS, strict=True)), "q.csv": rows})
    assert (grades(reading), codes(reading)) == ([{id_: 1} for id_ in ids], [])


def test_joins_objects_and_lists_of_texts_into_a_corpus() -> None:
    rows = csv(question=QUESTIONS, doc_id=["d0", "d1", "d2"])
    first = {"d0": [TEXTS[0], "둘째 문장이다."], "d1": [TEXTS[1]]}
    reading = read_all({"a.json": first, "b.json": {"d2": TEXTS[2]}, "q.csv": rows})
    assert reading.question_set.passages[0].text == f"{TEXTS[0]} 둘째 문장이다."
    assert (grades(reading), codes(reading)) == (GRADES, [])


@pytest.mark.parametrize("questions", QUESTION_FILES)
@pytest.mark.parametrize("kind", ANSWER_FILES)
def test_reads_answers_by_question_id(questions: str, kind: str) -> None:
    reading = read_all({**QUESTION_FILES[questions], "answers.json": ANSWER_FILES[kind]})
    assert len(reading.question_set.passages) == 3
    assert [texts[0].removesuffix(" 쪽") for texts in answers(reading)] == [*ANSWERS]
    assert codes(reading) == [ProblemCode.ANSWERS_READ]


SENTENCES = by_id("q", [f"답은 {answer}라고 본다." for answer in ANSWERS])
CANDIDATES = by_id("q", [[{"text": text, "probability": 0.9}, {"text": "?", "probability": 0.1}] for text in ANSWERS])


@pytest.mark.parametrize("questions", QUESTION_FILES)
@pytest.mark.parametrize(
    ("name", "value"),
    [*(("dev_predictions.json", value) for value in (*ANSWER_FILES.values(), SENTENCES)), ("b.json", CANDIDATES)],
    ids=[*ANSWER_FILES, "sentences", "candidates"],
)
def test_never_reads_predictions_as_passages(questions: str, name: str, value: Any) -> None:
    reading = read_all({**QUESTION_FILES[questions], name: value})
    assert len(reading.question_set.passages) == 3
    assert answers(reading) == [()] * 3
    assert codes(reading) == [ProblemCode.PREDICTIONS]


@pytest.mark.parametrize("kind", ANSWER_FILES)
def test_reports_a_second_answers_file(kind: str) -> None:
    reading = read_all({"dev.json": squad(with_answers=True), "b.json": ANSWER_FILES[kind]})
    assert answers(reading) == [(answer,) for answer in ANSWERS]
    assert codes(reading) == [ProblemCode.PREDICTIONS]


def test_reads_long_texts_with_question_numbers_as_passages() -> None:
    rows = csv(id=[*ROWS], question=QUESTIONS, context=TEXTS)
    wider = {str(row): f"{row}번 글이다. " + "긴 본문이 이어진다. " * 30 for row in range(5)}
    assert len(read_all({"rows.csv": rows, "wiki.json": wider}).question_set.passages) == 8


@pytest.mark.parametrize(
    "value",
    [{"author": "kim", "licence text": "free to use"}, {"stopwords": ["이", "그"]}, {"a": {"b": 1}}, {"q9": 0.5}],
    ids=["settings", "lists", "numbers by name", "numbers"],
)
def test_reports_objects_with_unknown_ids(value: Any) -> None:
    reading = read_all({"dev.json": squad(with_answers=True), "info.json": value})
    assert (len(reading.question_set.passages), len(reading.question_set.questions)) == (3, 3)
    assert codes(reading) == [ProblemCode.WRONG_SHAPE]


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("predictions.json", SENTENCES, ProblemCode.PREDICTIONS),
        ("nbest_predictions.json", CANDIDATES, ProblemCode.PREDICTIONS),
        ("relevant_docs.json", by_id("q", [["d1"], ["d2"]]), ProblemCode.WRONG_SHAPE),
    ],
    ids=["predictions", "candidates", "judgements"],
)
def test_rejects_an_object_by_question_without_passages(name: str, value: Any, code: ProblemCode) -> None:
    with refuses(code):
        read_all({name: value})


def test_counts_unknown_questions_of_answers_files() -> None:
    reading = read_all({"dev.json": squad(with_answers=False), "answers.json": {**by_id("q", ANSWERS), "q9": "귤"}})
    assert ProblemCode.UNKNOWN_QUESTIONS in codes(reading)
