"""Exports of labelling and evaluation tools, with nested fields as columns."""

import json
from functools import reduce
from typing import Any

import pytest

from mrc_workbench.data.formats.columns import QuestionColumns
from mrc_workbench.data.layouts.exports import flatten, parse_rating_lines, query_text
from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import read
from tests.data.layouts import written
from tests.data.layouts.test_lines import text_of
from tests.data.layouts.written import jsonl, read_all, rows

CONTEXT = "해금은 줄이 두 개인 악기이다. 활로 켜서 소리를 낸다."
QUESTION = "해금은 줄이 몇 개인가?"
INPUTS = [{"question": question, "context": CONTEXT} for question in (QUESTION, "해금은 무엇으로 켜나?")]
Rows = list[dict[str, Any]]


def langsmith() -> Rows:
    first, second = INPUTS
    example = {"id": "e1", "inputs": first, "outputs": {"answer": "두 개"}, "metadata": {"source": "hand"}}
    return [example, {"id": "e2", "inputs": second, "outputs": {"answer": "활"}}]


def label_studio() -> Rows:
    def result(start: int, text: str) -> dict[str, Any]:
        return {"type": "labels", "value": {"start": start, "end": start + len(text), "text": text, "labels": ["답"]}}

    submitted = {"id": 7, "result": [result(CONTEXT.index("두 개"), "두 개")]}
    cancelled = {"id": 8, "was_cancelled": True, "result": [result(0, "해금")]}
    typed = {"id": 9, "result": [{"type": "textarea", "value": {"text": ["활"]}}]}
    return [
        {"id": 1, "data": INPUTS[0], "annotations": [submitted, cancelled], "predictions": []},
        {"id": 2, "data": INPUTS[1], "annotations": [typed], "predictions": []},
    ]


def in_forms(rows: Rows) -> dict[str, bytes]:
    content = json.dumps(rows, ensure_ascii=False).encode()
    return {"list": content, "lines": jsonl(rows), "object": json.dumps({"examples": rows}).encode()}


EXPECTED = [("두 개",), ("활",)]


@pytest.mark.parametrize("form", ["list", "lines", "object"])
def test_reads_langsmith_examples_as_rows(form: str) -> None:
    reading = read(in_forms(langsmith())[form], "examples.json")
    assert written.answers(reading) == EXPECTED
    assert list(reading.question_set.passages.texts) == [CONTEXT]
    assert [question.id for question in reading.question_set.questions] == ["e1", "e2"]
    columns = (*reading.used_columns, *reading.metadata_columns, *reading.unused_columns)
    assert sorted(columns) == ["answer", "context", "id", "metadata", "question"]


@pytest.mark.parametrize("form", ["list", "lines"])
def test_reads_label_studio_tasks_with_answers(form: str) -> None:
    reading = read(in_forms(label_studio())[form], "project-1.json")
    assert written.answers(reading) == EXPECTED
    first, second = reading.question_set.questions
    assert (first.starts, second.starts) == ((CONTEXT.index("두 개"),), ())
    assert len(reading.question_set.passages) == 1


def test_flatten_keeps_both_values_of_a_repeated_name() -> None:
    row = flatten({"inputs": {"id": 1, "q": 2}, "outputs": {"id": 3}, "id": 4}, ("inputs", "outputs"))
    assert row == {"id": 1, "q": 2, "outputs.id": 3, "example.id": 4}


@pytest.mark.parametrize("broken", [{"id": "e3", "inputs": [], "outputs": None}, "text", 3, None, {"data": 1}])
def test_reports_broken_entries(broken: object) -> None:
    for entries in (langsmith(), label_studio()):
        reading = read(json.dumps([*entries, broken]).encode(), "set.json")
        assert written.answers(reading) == EXPECTED
        assert reading.left_out == 1


@pytest.mark.parametrize(
    "label",
    [["악기"], "악기", [[0, 2, "악기"]], [{"start_offset": 0, "end_offset": 2, "label": "악기"}], ["짧은 요약이다."]],
)
@pytest.mark.parametrize("name", ["label", "labels", "entities", "cats"])
def test_reads_labelled_texts_as_passages(label: Any, name: str) -> None:
    entries = [{"id": number, "text": f"{CONTEXT} {number}", name: label} for number in range(3)]
    reading = read(jsonl(entries), "all.jsonl")
    assert [passage.text for passage in reading.question_set.passages] == [row["text"] for row in entries]
    assert (reading.question_set.questions, reading.unused_columns) == ((), (name,))


def test_reads_labelled_questions_with_the_suggested_flag() -> None:
    entries = [{"id": n, "text": f"{n}번 해금은 줄이 몇 개인가?", "label": [f"두 개이다. {n}"]} for n in range(3)]
    with pytest.raises(DataError, match="--columns context=label"):
        read(jsonl(entries), "all.jsonl")
    columns = QuestionColumns(question="text", context="label", id="id")
    question_set = read(jsonl(entries), "all.jsonl", columns).question_set
    assert [question.text for question in question_set.questions] == [row["text"] for row in entries]
    assert [passage.text for passage in question_set.passages] == [f"두 개이다. {number}" for number in range(3)]


DOCUMENTS: Rows = [{"title": title, "text": text} for title, text in written.PASSAGES.values()]
QRELS = written.lines([["query-id", "corpus-id", "score"], *rows()])
QUERIES = jsonl(written.named("_id text", written.QUESTIONS.items()))


def bulk(action: str = "index", wrap: bool = False) -> Rows:
    entries: Rows = []
    for id_, document in zip(written.PASSAGES, DOCUMENTS, strict=True):
        entries += [{action: {"_index": "wiki", "_id": id_}}, {"doc": document} if wrap else document]
    return entries


def hits() -> Rows:
    return [
        {"_index": "wiki", "_type": "_doc", "_id": id_, "_score": 1, "_source": document}
        for id_, document in zip(written.PASSAGES, DOCUMENTS, strict=True)
    ]


DUMPS = {
    "bulk": jsonl(bulk()),
    "bulk of create": jsonl(bulk("create")),
    "bulk of update": jsonl(bulk("update", wrap=True)),
    "elasticdump": jsonl(hits()),
    "list of hits": json.dumps(hits()).encode(),
    "search response": json.dumps({"took": 3, "hits": {"total": 5, "hits": hits()}}).encode(),
}


@pytest.mark.parametrize("name", DUMPS)
def test_reads_search_engine_dumps_as_corpus(name: str) -> None:
    reading = read_all({"wiki.json": DUMPS[name], "queries.jsonl": QUERIES, "qrels.tsv": QRELS})
    passages = {passage.id: (passage.title, passage.text) for passage in reading.question_set.passages}
    assert passages == written.PASSAGES
    assert (reading.judgement_count, reading.left_out) == (5, 0)


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([{"delete": {"_id": "d1"}}], "an action that deletes a document"),
        ([{"index": {"_id": "x"}}], "an action without a document"),
        ([{"title": "", "text": "행동이 없는 줄이다."}], "a line without an action"),
        ([{"index": {"_id": "x"}}, {"index": {"_id": "y"}}, {"text": "하나이다."}], "an action without a document"),
    ],
)
def test_reports_unpaired_bulk_lines(entries: Rows, reason: str) -> None:
    content = jsonl([*bulk(), *entries])
    reading = read_all({"bulk.ndjson": content, "queries.jsonl": QUERIES, "qrels.tsv": QRELS})
    (problem,) = reading.problems
    assert (problem.row, problem.code, problem.details["found"]) == (11, ProblemCode.BROKEN_PART, reason)
    assert len(reading.question_set.passages) >= len(written.PASSAGES)


def rank_eval() -> dict[str, Any]:
    bodies: list[dict[str, Any]] = [
        {"request": {"query": {"match": {"text": written.QUESTIONS["q1"]}}}},
        {"request": {"query": {"bool": {"must": [{"match": {"text": {"query": written.QUESTIONS["q2"]}}}]}}}},
        {"template_id": "t", "params": {"query_string": written.QUESTIONS["q3"]}},
    ]
    requests = []
    for id_, body in zip(written.QUESTIONS, bodies, strict=True):
        judged = [{"_index": "wiki", "_id": doc, "rating": grade} for query, doc, grade in rows() if query == id_]
        requests.append({"id": id_, **body, "ratings": judged})
    return {"requests": requests, "metric": {"precision": {"k": 20}}}


def open_search() -> dict[str, Any]:
    entries = []
    for id_, text in written.QUESTIONS.items():
        judged = [{"docId": passage, "rating": f"{grade}.0"} for query, passage, grade in rows() if query == id_]
        entries.append({"query": text, "ratings": judged})
    return {"name": "manual", "type": "IMPORT_JUDGMENT", "judgmentRatings": entries}


def ranked_lines() -> bytes:
    head = "".join(f"# qid:{id_}: {text} *1\n" for id_, text in written.QUESTIONS.items())
    body = "".join(f"{grade}\tqid:{question_id}\t# {passage}\ttitle\n" for question_id, passage, grade in rows())
    return (head + "#\n" + body).encode()


JUDGEMENTS = {
    "rank_eval": json.dumps(rank_eval()).encode(),
    "OpenSearch": json.dumps(open_search()).encode(),
    "OpenSearch index": json.dumps({"_index": "judgment", "_id": "1", "_source": open_search()}).encode(),
    "learning to rank": ranked_lines(),
    "learning to rank with features": ranked_lines().replace(b"\t# ", b" 1:0.5 2:3.1 #docid = "),
}


@pytest.mark.parametrize("name", JUDGEMENTS)
def test_reads_judgements_of_search_tools(name: str) -> None:
    reading = read_all({"judgements": JUDGEMENTS[name], "corpus.jsonl": jsonl(written.corpus("_id title text"))})
    judged = {question.text: question.grade_of for question in reading.question_set.questions if question.grade_of}
    assert judged == {written.QUESTIONS[id_]: held for id_, held in written.JUDGED.items()}
    assert (reading.layout, reading.left_out, reading.judgement_count) == (Layout.ENGINE, 0, 5)
    assert written.gaps(reading).keys() <= {"unjudged_questions"}


@pytest.mark.parametrize("name", JUDGEMENTS)
def test_rejects_judgements_without_corpus(name: str) -> None:
    with written.refuses(ProblemCode.ONLY_JUDGEMENTS, r"Only judgements .* Add the corpus"):
        read_all({"judgements": JUDGEMENTS[name]})


def test_does_not_read_other_lines_as_judgements() -> None:
    for other in ("1 Q0 d1 1\n", "질문 qid:1은 무엇인가?\n둘째 줄\n", "# only a comment\n"):
        assert parse_rating_lines(text_of(other)) is None


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"query": {"match": {"title": "물시계"}}}, "물시계"),
        ({"query": {"multi_match": {"query": "물시계", "fields": ["a"]}}}, "물시계"),
        ({"query": {"term": {"title": {"value": "물시계"}}}}, "물시계"),
        ({"query": {"match_all": {}}}, ""),
        ({"size": 3}, ""),
        (None, ""),
        (reduce(lambda inner, _: {"bool": [inner]}, range(500), {"match": {"a": "b"}}), ""),  # too deep
    ],
)
def test_finds_the_text_of_a_search_request(request_: object, text: str) -> None:
    assert query_text(request_) == text
