"""Cells with lists of passages, marks, and yes-no labels that are relevance or answers."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.layouts.cells import ListedPassage, passages_in
from mrc_workbench.data.problems import ProblemCode
from mrc_workbench.data.questions.read import QuestionSetReading, read, read_files, read_files_in_subprocess
from mrc_workbench.data.subprocess_reader import File, UnusableFileError
from tests.data.layouts.written import answers, grades, refuses


def _texts(cell: Any) -> list[str]:
    return [passage.text for passage in passages_in(cell)]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("사과는 붉다.", ["사과는 붉다."]),
        (["사과", " 배 "], ["사과", "배"]),
        (np.array(["사과", "배"], dtype=object), ["사과", "배"]),
        ('["사과", "배"]', ["사과", "배"]),
        ("['사과' '배']", ["사과", "배"]),
        ([["사과", "배"], ["감"]], ["사과", "배", "감"]),
        ("[1]", ["[1]"]),
        ("[괄호로 시작하는 글", ["[괄호로 시작하는 글"]),
        ([None, "", "감"], ["감"]),
        (None, []),
        ({}, []),
        ([], []),
        ([[[[[["너무 깊다"]]]]]], []),
    ],
)
def test_extracts_texts_from_cells(cell: Any, expected: list[str]) -> None:
    assert _texts(cell) == expected


def test_reads_id_title_and_mark_of_objects() -> None:
    entry = {"passage_id": 7, "title": "사과", "text": "사과는 붉다.", "score": 3.5, "is_selected": "1"}
    assert passages_in([entry]) == [ListedPassage("7", "사과", "사과는 붉다.", is_relevant=True)]


@pytest.mark.parametrize(
    ("mark", "expected"),
    [(1, True), ("0", False), (True, True), ("no", False), (2, True), (None, None), ("?", None), ([], None)],
)
def test_reads_relevance_marks(mark: Any, expected: bool | None) -> None:
    assert passages_in([{"text": "감", "is_relevant": mark}])[0].is_relevant is expected


def test_reads_title_and_sentence_pairs() -> None:
    listed = passages_in([["사과", ["사과는 붉다.", " 달다."]], ["배", ["배는 크다."]]])
    assert listed == [ListedPassage("", "사과", "사과는 붉다. 달다."), ListedPassage("", "배", "배는 크다.")]


@pytest.mark.parametrize(
    "columns",
    [
        {"is_selected": [0, 1], "passage_text": ["사과", "배"], "url": ["u", "v"]},
        {"is_selected": np.array([0, 1]), "passage_text": np.array(["사과", "배"], dtype=object)},
        '{"is_selected": [0, 1], "passage_text": ["사과", "배"]}',
    ],
)
def test_reads_a_dict_of_lists_as_objects(columns: Any) -> None:
    assert [(passage.text, passage.is_relevant) for passage in passages_in(columns)] == [("사과", False), ("배", True)]


def test_joins_document_paragraphs_into_a_passage() -> None:
    document = {"title": "사과", "paragraphs": ["붉다.", "달다."], "segmented_title": ["사", "과"], "is_selected": True}
    assert passages_in([document]) == [ListedPassage("", "사과", "붉다. 달다.", is_relevant=True)]


def test_reads_an_object_of_passages_by_id() -> None:
    listed = passages_in({"d1": {"text": "사과"}, "d2": {"text": "배"}})
    assert [(passage.id, passage.text) for passage in listed] == [("d1", "사과"), ("d2", "배")]


@pytest.mark.parametrize(("first", "expected"), [(0, ["", ""]), (1, ["", ""]), (5, ["5", "6"])])
def test_ignores_ids_that_only_number_entries(first: int, expected: list[str]) -> None:
    entries = [{"id": first + row, "text": text} for row, text in enumerate(("사과", "배"))]
    assert [passage.id for passage in passages_in(entries)] == expected


def test_reads_titles_from_metadata() -> None:
    (passage,) = passages_in([{"page_content": "감", "metadata": {"title": "과일", "source": "a.md"}}])
    assert (passage.title, passage.text) == ("과일", "감")


CELLS = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.just("[1, {"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "title", "id", "sentences", "label", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(CELLS)
def test_accepts_any_cell(cell: Any) -> None:
    for passage in passages_in(cell):
        assert passage.text
        assert all(isinstance(part, str) for part in passage[:3])


DOCS = ("사과는 나무에서 열린다.", "포도는 덩굴에서 열린다.", "배는 가을에 익는다.", "귤은 제주에서 난다.")
QUERIES = ("사과는 나무에서 열리나?", "포도는 나무에서 열리나?", "배는 봄에 익나?", "귤은 제주에서 나나?")
MARKS = {"numbers": (1, 0, 0, 1), "booleans": (True, False, False, True), "words": ("yes", "no", "no", "yes")}
NAMES = [("question", "passage", "label"), ("질문", "지문", "라벨")]


def json_rows(names: tuple[str, ...], *columns: tuple[object, ...]) -> bytes:
    return json.dumps([dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]).encode()


def grade_list(reading: QuestionSetReading) -> list[int]:
    return [grade for held in grades(reading) for grade in held.values()]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("marks", MARKS)
def test_requires_a_choice_for_ambiguous_labels(names: tuple[str, ...], marks: str) -> None:
    with refuses(ProblemCode.UNSURE_LABEL) as error:
        read(json_rows(names, QUERIES, DOCS, MARKS[marks]), "set")
    for role in ("label", "answers"):
        assert f"--columns {role}={names[2]}" in str(error.value)


@pytest.mark.parametrize("count", [1, 2])
def test_reads_the_files_with_the_suggested_flags(count: int) -> None:
    half = len(DOCS) // count
    marks = MARKS["numbers"]
    files = [
        File(Content(json_rows(NAMES[0], QUERIES[at : at + half], DOCS[at : at + half], marks[at : at + half])), name)
        for at, name in zip(range(0, len(DOCS), half), ("a.json", "b.json"), strict=False)
    ]
    with pytest.raises(UnusableFileError) as error:
        read_files_in_subprocess(files)
    assert error.value.problem.code is ProblemCode.UNSURE_LABEL
    offered = [(columns.label, columns.answers) for columns in error.value.proposal.candidates]
    assert offered == ([("label", None), (None, "label")] if count == 1 else [])
    assert grade_list(read_files_in_subprocess(files, {"label": "label"})) == [*marks]
    answered = read_files_in_subprocess(files, {"answers": "label"})
    assert grade_list(answered) == [1] * 4
    assert answers(answered) == [("1",), ("0",), ("0",), ("1",)]


@pytest.mark.parametrize("name", ["is_relevant", "relevance", "관련도", "정답여부", "score"])
def test_reads_labels_as_relevance_by_name(name: str) -> None:
    reading = read(json_rows(("question", "passage", name), QUERIES, DOCS, MARKS["numbers"]), "set")
    assert grade_list(reading) == [*MARKS["numbers"]]


@pytest.mark.parametrize(
    ("questions", "marks"),
    [
        ((QUERIES[0], QUERIES[0], QUERIES[3], QUERIES[3]), (1, 0, 0, 1)),
        (QUERIES, (2, 0, 0, 1)),
        (QUERIES, (1, 1, 1, 1)),
        (QUERIES, ("relevant", "irrelevant", "irrelevant", "relevant")),
    ],
    ids=["several passages", "grades", "all relevant", "words of relevance"],
)
def test_reads_labels_as_relevance_by_values(questions: tuple[str, ...], marks: tuple[object, ...]) -> None:
    reading = read(json_rows(NAMES[0], questions, DOCS, marks), "set")
    expected = [mark if isinstance(mark, int) else int(mark == "relevant") for mark in marks]
    assert sorted(grade_list(reading)) == sorted(expected)


def test_questions_may_repeat_late_in_the_file() -> None:
    count = 400
    questions = tuple(f"{row % 300}번 글은?" for row in range(count))
    texts = tuple(f"{row}번 글이다." for row in range(count))
    reading = read(json_rows(NAMES[0], questions, texts, tuple(row % 2 for row in range(count))), "set")
    assert len(grade_list(reading)) == count


@pytest.mark.parametrize("name", ["answer", "정답"])
@pytest.mark.parametrize("marks", MARKS)
def test_reads_a_label_selected_as_answers(name: str, marks: str) -> None:
    reading = read(json_rows(("question", "passage", name), QUERIES, DOCS, MARKS[marks]), "set")
    assert grade_list(reading) == [1] * 4
    assert answers(reading) == [(str(mark),) for mark in MARKS[marks]]


@pytest.mark.parametrize(
    ("given_answers", "expected", "unused"),
    [(MARKS["words"], [1] * 4, ("label",)), (("나무", "덩굴", "가을", "제주"), [*MARKS["numbers"]], ())],
    ids=["marks that repeat the label", "other answers"],
)
def test_a_label_beside_answers_is_relevance_unless_they_repeat_it(
    given_answers: tuple[object, ...], expected: list[int], unused: tuple[str, ...]
) -> None:
    names = ("question", "passage", "answer", "label")
    reading = read(json_rows(names, QUERIES, DOCS, given_answers, MARKS["numbers"]), "set")
    assert (grade_list(reading), reading.unused_columns) == (expected, unused)


@pytest.mark.parametrize("names", [("a.json", "b.json"), ("b.json", "a.json")])
def test_uses_evidence_of_relevance_from_other_files(names: tuple[str, str]) -> None:
    first = json_rows(NAMES[0], QUERIES[:2], DOCS[:2], (1, 0))
    second = json_rows(NAMES[0], (QUERIES[2],) * 2, DOCS[2:], (1, 0))
    contents = dict(zip(names, (first, second), strict=True))
    reading = read_files([File(Content(contents[name]), name) for name in ("a.json", "b.json")])
    assert sorted(grade_list(reading)) == [0, 0, 1, 1]
