"""Tables with objects or lists of passages in their cells."""

import json
from typing import Any

import pytest

from mrc_workbench.data.formats.columns import QuestionColumns
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import read
from tests.data.layouts.public_layouts import LAYOUTS, QUESTIONS, ROWS, TEXTS, TITLES
from tests.data.layouts.written import grades, jsonl, judged_texts, read_json, refuses, relevant_texts


def _rows(row: Any) -> list[dict[str, Any]]:
    return [{"question": QUESTIONS[number], **row(number)} for number in ROWS]


ALL_RELEVANT = [{TEXTS[row]: 1} for row in ROWS]


@pytest.mark.parametrize("name", ["passages", "paragraphs", "documents", "ctxs", "아무이름"])
@pytest.mark.parametrize("mark", ["is_selected", "is_supporting", "is_relevant", "label"])
def test_reads_relevance_marks_under_any_list_name(name: str, mark: str) -> None:
    rows = _rows(lambda row: {name: [{"text": TEXTS[number], mark: int(number == row)} for number in ROWS]})
    assert list(judged_texts(read_json(rows)).values()) == [
        {TEXTS[number]: int(number == row) for number in sorted(ROWS, key=row.__ne__)} for row in ROWS
    ]


@pytest.mark.parametrize("name", ["evidence", "snippets", "answer_paragraphs", "gold_passages", "근거"])
def test_reads_evidence_lists_as_relevant(name: str) -> None:
    rows = _rows(lambda row: {name: [{"title": TITLES[row], "evidence_text": TEXTS[row]}], "doc_name": "과일.pdf"})
    reading = read_json(rows)
    assert list(judged_texts(reading).values()) == ALL_RELEVANT
    assert [passage.title for passage in reading.question_set.passages] == list(TITLES)


def test_ignores_quotations_beside_a_passage() -> None:
    reading = read_json(_rows(lambda row: {"context": TEXTS[row], "evidence": [TEXTS[row][:4], TEXTS[row][4:]]}))
    assert list(judged_texts(reading).values()) == ALL_RELEVANT
    assert reading.unused_columns == ("evidence",)


def test_ignores_objects_whose_texts_are_addresses() -> None:
    pages = [{"text": f"https://example.org/{number}"} for number in ROWS]
    marked = [[page | {"is_relevant": int(page is pages[row])} for page in pages] for row in ROWS]
    reading = read_json(_rows(lambda row: {"passages": [TEXTS[row]], "documents": marked[row]}))
    assert list(judged_texts(reading).values()) == ALL_RELEVANT
    assert reading.unused_columns == ("documents",)


@pytest.mark.parametrize("name", ["passages", "documents", "paragraphs", "ctxs"])
def test_requires_a_choice_for_unmarked_passage_lists(name: str) -> None:
    rows = _rows(lambda _: {name: list(TEXTS)})
    with refuses(ProblemCode.UNMARKED_PASSAGES, f"--columns context={name}"):
        read_json(rows)
    assert [*map(len, grades(read_json(rows, QuestionColumns(question="question", context=name))))] == [3, 3, 3]


def test_requires_a_choice_for_pairs_without_supporting_facts() -> None:
    rows = [{k: row[k] for k in ("_id", "question", "context")} for row in json.loads(LAYOUTS["HotpotQA"].content)]
    with refuses(ProblemCode.UNMARKED_PASSAGES):
        read_json(rows)


def test_reads_a_single_unmarked_passage_as_relevant() -> None:
    assert list(judged_texts(read_json(_rows(lambda row: {"passages": [TEXTS[row]]}))).values()) == ALL_RELEVANT


@pytest.mark.parametrize(
    ("name", "used", "unused"),
    [
        ("HotpotQA", {"context", "supporting_facts"}, {"level"}),
        ("BioASQ", {"snippets"}, {"documents"}),  # addresses
        ("MuSiQue", {"paragraphs"}, {"question_decomposition"}),  # questions about parts of the question
    ],
)
def test_reports_every_column_of_a_public_layout(name: str, used: set[str], unused: set[str]) -> None:
    reading = read(LAYOUTS[name].content, "public.json")
    assert used <= {*reading.used_columns}
    assert unused <= {*reading.unused_columns}


def test_joins_lists_with_the_same_role() -> None:
    pages = [{"title": [TITLES[row]], "wiki_context": [TEXTS[row]]} for row in ROWS]
    results = [{"title": ["검색"], "search_context": [f"{TEXTS[row]} 더 있다."]} for row in ROWS]
    rows = _rows(lambda row: {"entity_pages": pages[row], "search_results": results[row]})
    assert [*map(len, grades(read_json(rows)))] == [2, 2, 2]


def test_reads_question_bodies_without_a_list_name() -> None:
    rows = json.loads(LAYOUTS["BioASQ"].content)["questions"]
    assert list(judged_texts(read_json(rows)).values()) == ALL_RELEVANT


def test_requests_the_files_that_snippets_name() -> None:
    snippets = [{"file_path": "contracts/apple.txt", "span": [0, 9], "answer": "가을"}]
    with refuses(ProblemCode.DOCUMENTS_BY_NAME, "snippets names files"):
        read_json({"tests": _rows(lambda _: {"snippets": snippets})})


def test_does_not_merge_entries_by_list_position_ids() -> None:
    rows = _rows(
        lambda row: {
            "passages": [
                {"pid": str(index), "text": TEXTS[number], "is_selected": int(number == row)}
                for index, number in enumerate((row, (row + 1) % 3))
            ]
        }
    )
    reading = read_json(rows)
    assert list(judged_texts(reading).values()) == [{TEXTS[row]: 1, TEXTS[(row + 1) % 3]: 0} for row in ROWS]
    assert ProblemCode.CHANGED_IDS in [problem.code for problem in reading.problems]


QUERIES = ("Where do cranes spend the winter?", "What do otters catch in rivers?")
DOCS = ("Cranes spend the winter in the fields of Cheorwon.", "Otters catch fish in clear rivers.")
BOTH = (0, 1)


EXPECTED = {question: [text] for question, text in zip(QUERIES, DOCS, strict=True)}


@pytest.mark.parametrize(
    "rows",
    [
        [{"question": {"text": QUERIES[row], "lang": "en"}, "passage": {"text": DOCS[row]}} for row in BOTH],
        [{"input": {"question": QUERIES[row]}, "expected": {"context": DOCS[row], "score": 1}} for row in BOTH],
        [{"id": row, "fields": {"query": QUERIES[row], "document": DOCS[row]}, "responses": {}} for row in BOTH],
        [{"vars": json.dumps({"query": QUERIES[row]}), "context": DOCS[row]} for row in BOTH],
    ],
)
def test_reads_the_keys_of_objects_as_columns(rows: list[dict[str, Any]]) -> None:
    assert relevant_texts(read(jsonl(rows), "rows.jsonl")) == EXPECTED


def test_names_the_flag_for_answers_in_objects() -> None:
    rows = [{"input": {"question": text}, "expectedOutput": {"answer": "fish"}} for text in QUERIES]
    with pytest.raises(DataError, match="--columns context=answer"):
        read(jsonl(rows), "rows.jsonl")


def test_keeps_metadata_in_a_single_column() -> None:
    rows = [{"question": QUERIES[row], "context": DOCS[row], "metadata": {"query": "x"}} for row in BOTH]
    assert "metadata" in read(jsonl(rows), "rows.jsonl").unused_columns


@pytest.mark.parametrize("name", ["abstract", "text", "contents"])
def test_joins_a_list_of_sentences_into_a_passage(name: str) -> None:
    rows = [{"doc_id": 7 + row, "title": f"Title {row}", name: [DOCS[row], "They rest."]} for row in BOTH]
    passages = read(jsonl(rows), "rows.jsonl").question_set.passages
    assert [(passage.id, passage.title, passage.text) for passage in passages] == [
        (str(7 + row), f"Title {row}", f"{DOCS[row]} They rest.") for row in BOTH
    ]


def test_keeps_contexts_without_questions_as_separate_passages() -> None:
    rows = jsonl([{"contexts": [*DOCS]}, {"contexts": [DOCS[0]]}])
    assert len(read(rows, "rows.jsonl").question_set.passages) == 2


def test_ignores_pairs_without_sentences() -> None:
    row = {"question": QUERIES[0], "context": [["Crane", [DOCS[0]]], ["Otter", []]], "supporting_facts": [["Crane", 0]]}
    assert list(read(jsonl([row, row]), "rows.jsonl").question_set.passages.texts) == [DOCS[0]]
