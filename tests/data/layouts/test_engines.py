"""Dumps of search engines, and the judgement lists of their tools."""

import json
from typing import Any

import pytest

from mrc_workbench.data.layouts.exports import holds_rated_lines, query_text
from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.problems import DataError, ProblemCode
from tests.data.layouts.test_reading import gaps, problems, read_all
from tests.data.layouts.written import PASSAGES, QUESTIONS, jsonl, lines, rows

Rows = list[dict[str, Any]]
DOCUMENTS: Rows = [{"title": title, "text": text} for title, text in PASSAGES.values()]
QRELS = lines([["query-id", "corpus-id", "score"], *rows()])
QUERIES = jsonl([{"_id": id_, "text": text} for id_, text in QUESTIONS.items()])


def bulk(action: str = "index", wrap: bool = False) -> Rows:
    entries: Rows = []
    for id_, document in zip(PASSAGES, DOCUMENTS, strict=True):
        entries += [{action: {"_index": "wiki", "_id": id_}}, {"doc": document} if wrap else document]
    return entries


def hits() -> Rows:
    return [
        {"_index": "wiki", "_type": "_doc", "_id": id_, "_score": 1, "_source": document}
        for id_, document in zip(PASSAGES, DOCUMENTS, strict=True)
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
def test_documents_of_a_dump_are_the_corpus(name: str) -> None:
    reading = read_all({"wiki.json": DUMPS[name], "queries.jsonl": QUERIES, "qrels.tsv": QRELS})
    passages = {one.id: (one.title, one.text) for one in reading.question_set.passages}
    assert passages == PASSAGES
    assert (reading.judgement_count, reading.left_out) == (5, 0)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([{"delete": {"_id": "d1"}}], [(11, "broken_part")]),
        ([{"index": {"_id": "x"}}], [(11, "broken_part")]),
        ([{"title": "", "text": "행동이 없는 줄이다."}], [(11, "broken_part")]),
        ([{"index": {"_id": "x"}}, {"index": {"_id": "y"}}, {"text": "하나이다."}], [(11, "broken_part")]),
    ],
)
def test_a_line_of_a_bulk_file_without_its_other_line_is_reported(
    entries: Rows, expected: list[tuple[int, str]]
) -> None:
    content = jsonl([*bulk(), *entries])
    reading = read_all({"bulk.ndjson": content, "queries.jsonl": QUERIES, "qrels.tsv": QRELS})
    assert [(row, code) for _, row, code in problems(reading)] == expected
    assert len(reading.question_set.passages) >= len(PASSAGES)


def rank_eval() -> dict[str, Any]:
    bodies: list[dict[str, Any]] = [
        {"request": {"query": {"match": {"text": QUESTIONS["q1"]}}}},
        {"request": {"query": {"bool": {"must": [{"match": {"text": {"query": QUESTIONS["q2"]}}}]}}}},
        {"template_id": "t", "params": {"query_string": QUESTIONS["q3"]}},
    ]
    requests = []
    for id_, body in zip(QUESTIONS, bodies, strict=True):
        judged = [
            {"_index": "wiki", "_id": passage, "rating": grade} for asked, passage, grade in rows() if asked == id_
        ]
        requests.append({"id": id_, **body, "ratings": judged})
    return {"requests": requests, "metric": {"precision": {"k": 20}}}


def open_search() -> dict[str, Any]:
    entries = []
    for id_, text in QUESTIONS.items():
        judged = [{"docId": passage, "rating": f"{grade}.0"} for asked, passage, grade in rows() if asked == id_]
        entries.append({"query": text, "ratings": judged})
    return {"name": "manual", "type": "IMPORT_JUDGMENT", "judgmentRatings": entries}


def ranked_lines() -> bytes:
    head = "".join(f"# qid:{id_}: {text} *1\n" for id_, text in QUESTIONS.items())
    body = "".join(f"{grade}\tqid:{asked}\t# {passage}\ttitle\n" for asked, passage, grade in rows())
    return (head + "#\n" + body).encode()


JUDGEMENTS = {
    "rank_eval": json.dumps(rank_eval()).encode(),
    "OpenSearch": json.dumps(open_search()).encode(),
    "OpenSearch index": json.dumps({"_index": "judgment", "_id": "1", "_source": open_search()}).encode(),
    "learning to rank": ranked_lines(),
    "learning to rank with features": ranked_lines().replace(b"\t# ", b" 1:0.5 2:3.1 #docid = "),
}


@pytest.mark.parametrize("name", JUDGEMENTS)
def test_judgements_of_a_tool_name_questions_and_passages(name: str) -> None:
    corpus = jsonl([{"_id": id_, "title": title, "text": text} for id_, (title, text) in PASSAGES.items()])
    reading = read_all({"judgements": JUDGEMENTS[name], "corpus.jsonl": corpus})
    found = {one.text: one.grade_of for one in reading.question_set.questions if one.grade_of}
    assert found == {
        QUESTIONS["q1"]: {"d1": 2, "d3": 1, "d4": 0},
        QUESTIONS["q2"]: {"d5": 1, "d2": 3},
    }
    assert (reading.layout, reading.left_out, reading.judgement_count) == (Layout.ENGINE, 0, 5)
    assert gaps(reading).keys() <= {"unjudged_questions"}


@pytest.mark.parametrize("name", JUDGEMENTS)
def test_judgements_alone_are_refused_as_such(name: str) -> None:
    with pytest.raises(DataError, match=r"Only judgements .* Add the corpus") as error:
        read_all({"judgements": JUDGEMENTS[name]})
    assert error.value.problem.code is ProblemCode.ONLY_JUDGEMENTS


def test_lines_of_another_kind_are_no_judgements() -> None:
    assert holds_rated_lines("3 qid:1 # a\n0 qid:1 # b\n")
    assert not holds_rated_lines("1 Q0 d1 1\n")
    assert not holds_rated_lines("질문 qid:1은 무엇인가?\n둘째 줄\n")
    assert not holds_rated_lines("# only a comment\n")


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"query": {"match": {"title": "물시계"}}}, "물시계"),
        ({"query": {"multi_match": {"query": "물시계", "fields": ["a"]}}}, "물시계"),
        ({"query": {"term": {"title": {"value": "물시계"}}}}, "물시계"),
        ({"query": {"match_all": {}}}, ""),
        ({"size": 3}, ""),
        (None, ""),
    ],
)
def test_finds_the_text_of_a_search_request(request_: object, text: str) -> None:
    assert query_text(request_) == text


def test_a_search_request_of_many_levels_has_no_text() -> None:
    request: dict[str, Any] = {"match": {"a": "b"}}
    for _ in range(500):
        request = {"bool": [request]}
    assert query_text(request) == ""
