"""A label beside a question and its passage: relevance, or the answer to a question of yes or no."""

import json
from pathlib import Path

import pytest

from mrc_workbench.data.apart import File, UnusableFileError
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import Reading, read, read_files, read_files_apart

TEXTS = ("사과는 나무에서 열린다.", "포도는 덩굴에서 열린다.", "배는 가을에 익는다.", "귤은 제주에서 난다.")
QUESTIONS = ("사과는 나무에서 열리나?", "포도는 나무에서 열리나?", "배는 봄에 익나?", "귤은 제주에서 나나?")
MARKS = {"numbers": (1, 0, 0, 1), "booleans": (True, False, False, True), "words": ("yes", "no", "no", "yes")}
NAMES = [("question", "passage", "label"), ("질문", "지문", "라벨")]


def rows_of(names: tuple[str, ...], *columns: tuple[object, ...]) -> bytes:
    return json.dumps([dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]).encode()


def grades(reading: Reading) -> list[int]:
    return [grade for question in reading.question_set.questions for grade in question.grade_of.values()]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("marks", MARKS)
def test_a_label_of_questions_with_one_passage_each_is_asked_for(names: tuple[str, ...], marks: str) -> None:
    with pytest.raises(DataError) as error:
        read(rows_of(names, QUESTIONS, TEXTS, MARKS[marks]), "set")
    assert error.value.problem.code is ProblemCode.UNSURE_LABEL
    for role in ("label", "answers"):
        assert f"--columns {role}={names[2]}" in str(error.value)


@pytest.mark.parametrize("count", [1, 2])
def test_the_flags_of_the_refusal_read_the_files(count: int) -> None:
    half = len(TEXTS) // count
    marks = MARKS["numbers"]
    files = [
        File(Content(rows_of(NAMES[0], QUESTIONS[at : at + half], TEXTS[at : at + half], marks[at : at + half])), name)
        for at, name in zip(range(0, len(TEXTS), half), ("a.json", "b.json"), strict=False)
    ]
    with pytest.raises(UnusableFileError) as error:
        read_files_apart(files)
    assert error.value.problem.code is ProblemCode.UNSURE_LABEL
    assert grades(read_files_apart(files, {"label": "label"})) == [*marks]
    answered = read_files_apart(files, {"answers": "label"})
    assert grades(answered) == [1] * 4
    assert [question.answers for question in answered.question_set.questions] == [("1",), ("0",), ("0",), ("1",)]


def test_both_readings_are_offered(tmp_path: Path) -> None:
    file = File(Content(rows_of(NAMES[0], QUESTIONS, TEXTS, MARKS["numbers"])), "set")
    with pytest.raises(UnusableFileError) as error:
        read_files_apart([file])
    offered = [(columns.label, columns.answers) for columns in error.value.proposal.candidates]
    assert offered == [("label", None), (None, "label")]


@pytest.mark.parametrize("name", ["is_relevant", "relevance", "관련도", "정답여부", "score"])
def test_a_name_that_says_relevance_decides(name: str) -> None:
    reading = read(rows_of(("question", "passage", name), QUESTIONS, TEXTS, MARKS["numbers"]), "set")
    assert grades(reading) == [*MARKS["numbers"]]


@pytest.mark.parametrize(
    ("questions", "marks"),
    [
        ((QUESTIONS[0], QUESTIONS[0], QUESTIONS[3], QUESTIONS[3]), (1, 0, 0, 1)),
        (QUESTIONS, (2, 0, 0, 1)),
        (QUESTIONS, (1, 1, 1, 1)),
        (QUESTIONS, ("relevant", "irrelevant", "irrelevant", "relevant")),
    ],
    ids=["several passages", "grades", "all relevant", "words of relevance"],
)
def test_evidence_of_relevance_decides(questions: tuple[str, ...], marks: tuple[object, ...]) -> None:
    reading = read(rows_of(NAMES[0], questions, TEXTS, marks), "set")
    expected = [mark if isinstance(mark, int) else int(mark == "relevant") for mark in marks]
    assert sorted(grades(reading)) == sorted(expected)


def test_questions_may_repeat_late_in_the_file() -> None:
    count = 400
    questions = tuple(f"{row % 300}번 글은?" for row in range(count))
    texts = tuple(f"{row}번 글이다." for row in range(count))
    reading = read(rows_of(NAMES[0], questions, texts, tuple(row % 2 for row in range(count))), "set")
    assert len(grades(reading)) == count


@pytest.mark.parametrize("name", ["answer", "정답"])
@pytest.mark.parametrize("marks", MARKS)
def test_a_column_of_answers_holds_the_answers(name: str, marks: str) -> None:
    reading = read(rows_of(("question", "passage", name), QUESTIONS, TEXTS, MARKS[marks]), "set")
    assert grades(reading) == [1] * 4
    assert [question.answers for question in reading.question_set.questions] == [(str(one),) for one in MARKS[marks]]


def test_a_label_that_repeats_the_answers_is_unused() -> None:
    names = ("question", "passage", "answer", "label")
    reading = read(rows_of(names, QUESTIONS, TEXTS, MARKS["words"], MARKS["numbers"]), "set")
    assert (grades(reading), reading.unused_columns) == ([1] * 4, ("label",))


def test_a_label_beside_other_answers_is_relevance() -> None:
    names = ("question", "passage", "answer", "label")
    reading = read(rows_of(names, QUESTIONS, TEXTS, ("나무", "덩굴", "가을", "제주"), MARKS["numbers"]), "set")
    assert grades(reading) == [*MARKS["numbers"]]


@pytest.mark.parametrize("names", [("a.json", "b.json"), ("b.json", "a.json")])
def test_of_several_files_the_others_may_show_relevance(names: tuple[str, str]) -> None:
    first = rows_of(NAMES[0], QUESTIONS[:2], TEXTS[:2], (1, 0))
    second = rows_of(NAMES[0], (QUESTIONS[2],) * 2, TEXTS[2:], (1, 0))
    contents = dict(zip(names, (first, second), strict=True))
    reading = read_files([File(Content(contents[name]), name) for name in ("a.json", "b.json")])
    assert sorted(grades(reading)) == [0, 0, 1, 1]
