"""Questions name their documents by file or address; judgements may be a JSON file of their own."""

import json
from typing import Any

import pytest

from mrc_workbench.data.questions.read import Reading, read
from tests.data.layouts.written import jsonl, zipped

QUESTIONS = ("두루미는 어디로 날아오나?", "수달은 무엇을 먹나?")
TEXTS = ("두루미는 겨울에 철원 들판으로 날아온다.", "수달은 맑은 강에서 물고기를 잡아먹는다.")
ROWS = (0, 1)


def _read(files: dict[str, bytes]) -> Reading:
    return read(zipped(files), "files.zip")


def _found(reading: Reading) -> dict[str, list[str]]:
    text_of = {passage.id: passage.text for passage in reading.question_set.passages}
    return {one.text: [text_of[id_] for id_ in one.relevant] for one in reading.question_set.questions}


EXPECTED = {question: [text] for question, text in zip(QUESTIONS, TEXTS, strict=True)}


@pytest.mark.parametrize(
    ("column", "names", "asked", "named"),
    [
        ("file_name", ("crane.pdf", "otter.pdf"), "target_file_name", ("crane.pdf", "otter.pdf")),
        ("url", ("https://a.kr/1", "https://a.kr/2"), "expected_url", ("https://a.kr/1", "https://a.kr/2/")),
        ("source", ("docs/crane.md", "docs/otter.md"), "source", ("crane.md", "otter.md")),
        ("파일명", ("두루미.hwp", "수달.hwp"), "정답파일", ("두루미.hwp", "수달.hwp")),
    ],
)
def test_a_column_of_passages_has_the_names(column: str, names: Any, asked: str, named: Any) -> None:
    documents = [{"text": TEXTS[row], column: names[row]} for row in ROWS]
    questions = [{"question": QUESTIONS[row], asked: named[row]} for row in ROWS]
    reading = _read({"documents.jsonl": jsonl(documents), "questions.jsonl": jsonl(questions)})
    assert _found(reading) == EXPECTED
    assert {column, asked} <= {*reading.used_columns}


def test_every_chunk_of_a_named_file_is_relevant() -> None:
    chunks = [{"text": text, "source": "birds.pdf"} for text in TEXTS] + [
        {"text": "곰은 산에 산다.", "source": "bear.pdf"}
    ]
    questions = [{"question": QUESTIONS[0], "source": "birds.pdf"}, {"question": QUESTIONS[1], "source": "bear.pdf"}]
    reading = _read({"chunks.jsonl": jsonl(chunks), "questions.jsonl": jsonl(questions)})
    assert [len(question.relevant) for question in reading.question_set.questions] == [2, 1]


@pytest.mark.parametrize(
    ("column", "names"), [("문서", ("두루미", "수달")), ("relevant_docs", (["두루미.txt"], ["수달.txt"]))]
)
def test_rows_name_documents_beside_them(column: str, names: Any) -> None:
    questions = [{"question": QUESTIONS[row], column: names[row]} for row in ROWS]
    files = {"docs/두루미.txt": TEXTS[0].encode(), "docs/수달.txt": TEXTS[1].encode(), "qa.jsonl": jsonl(questions)}
    assert _found(_read(files)) == EXPECTED


def test_titles_name_passages_of_a_later_file() -> None:
    wiki = [{"title": f"제목 {row}", "text": TEXTS[row]} for row in ROWS]
    questions = [{"question": QUESTIONS[row], "article": f"제목 {row}"} for row in ROWS]
    reading = _read({"a.jsonl": jsonl(questions), "wiki.jsonl": jsonl(wiki)})
    assert (_found(reading), len(reading.question_set.passages)) == (EXPECTED, 2)


@pytest.mark.parametrize(
    ("judged", "grades"),
    [({"q0": {"d0": 1, "d1": 0}, "q1": {"d1": 2}}, [{"d0": 1, "d1": 0}, {"d1": 2}]), ({"q0": ["d0"]}, [{"d0": 1}, {}])],
)
def test_judgements_by_question_in_a_file_of_their_own(judged: Any, grades: list[dict[str, int]]) -> None:
    files = {
        "corpus.json": json.dumps({f"d{row}": TEXTS[row] for row in ROWS}).encode(),
        "queries.jsonl": jsonl([{"query_id": f"q{row}", "text": QUESTIONS[row]} for row in ROWS]),
        "qrels.json": json.dumps(judged).encode(),
    }
    assert [question.grade_of for question in _read(files).question_set.questions] == grades


def test_scores_of_a_run_are_no_judgements() -> None:
    files = {
        "corpus.jsonl": jsonl([{"_id": f"d{row}", "text": TEXTS[row]} for row in ROWS]),
        "queries.jsonl": jsonl([{"_id": f"q{row}", "text": QUESTIONS[row]} for row in ROWS]),
        "relevance.json": json.dumps({"q0": {"d0": 12.5}}).encode(),
    }
    assert [question.relevant for question in _read(files).question_set.questions] == [(), ()]


def test_a_part_with_a_single_row_is_read() -> None:
    files = {
        f"{part}.jsonl": jsonl([{"query": QUESTIONS[row], "pos": [TEXTS[row]], "neg": []}])
        for row, part in enumerate(("train", "test"))
    }
    assert _found(_read(files)) == EXPECTED


def test_reports_questions_whose_lists_are_empty() -> None:
    rows = [{"question": QUESTIONS[0], "contexts": [TEXTS[0]]}, {"question": QUESTIONS[1], "contexts": []}]
    assert any(QUESTIONS[1] in gap.message for gap in read(jsonl(rows), "rows.jsonl").gaps)
