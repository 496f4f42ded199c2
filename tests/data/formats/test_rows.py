"""One row: what is too long or no text is told, and what is only beside it does not cost the row."""

import json

import numpy as np
import pytest

from data.formats.rows import MOST_ANSWERS, answers_in
from data.formats.tables import MOST_CHARACTERS
from data.problems import ProblemCode
from data.questions.read import Reading, read
from tests.data.sample_files import rezipped, workbook


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("서울", ("서울",)),
        (" 서울 ", ("서울",)),
        ("[1] 항목", ("[1] 항목",)),
        ("", ()),
        (None, ()),
        (float("nan"), ()),
        (1989, ("1989",)),
        (1989.0, ("1989",)),
        (["서울", "서울", "", "한양"], ("서울", "한양")),
        ('["서울", "한양"]', ("서울", "한양")),
        ("['서울', '한양']", ("서울", "한양")),
        ("['서울' '한양']", ("서울", "한양")),
        ({"text": ["서울"], "answer_start": [3]}, ("서울",)),
        ({"text": [], "answer_start": []}, ()),
        ([{"text": "서울", "answer_start": 3}, {"text": "한양"}], ("서울", "한양")),
        ({"text": np.array(["서울"], dtype=object), "answer_start": np.array([3])}, ("서울",)),
        (np.array(["서울", "한양"], dtype=object), ("서울", "한양")),
        ("{'text': array(['서울', '한양'], dtype=object), 'answer_start': array([1, 2])}", ("서울", "한양")),
        ("{'text': ['It\\'s'], 'answer_start': [1]}", ("It's",)),
        ("{'answer_start': [1]}", ()),
        ("[" * 5000, ("[" * 5000,)),
        ("[" * 20 + "'가'" + "]" * 20, ()),
    ],
)
def test_every_way_a_cell_holds_answers(cell: object, expected: tuple[str, ...]) -> None:
    assert tuple(answers_in(cell)) == expected


@pytest.mark.parametrize(
    ("cell", "starts"),
    [
        ("서울", [-1]),
        ({"text": ["서울", "한양"], "answer_start": [3, 0]}, [3, 0]),
        ({"text": ["서울", "한양"], "answer_start": [3]}, [-1, -1]),
        ({"text": "서울", "answer_start": 7}, [7]),
        ([{"text": "서울", "answer_start": "3"}, {"text": "한양"}, {"text": "서울", "answer_start": 9}], [3, -1]),
        ([{"text": "서울"}, {"text": "서울", "answer_start": 9}], [9]),
        ({"text": np.array(["서울"], dtype=object), "answer_start": np.array([3])}, [3]),
        ('{"text": ["서울"], "answer_start": [3]}', [3]),
        ({"text": ["가", "나", "다", "라"], "answer_start": [-4, "x", None, True]}, [-1, -1, -1, -1]),
    ],
)
def test_where_an_answer_begins_is_told_where_the_file_says_so(cell: object, starts: list[int]) -> None:
    assert [*answers_in(cell).values()] == starts


GOOD = {"question": "수도는?", "context": "서울은 수도이다."}


def _read(**cells: object) -> Reading:
    return read(json.dumps([GOOD, {"question": "강은?", "context": "한강", **cells}]).encode(), "set")


def _told(reading: Reading) -> list[tuple[ProblemCode, int | None]]:
    return [(problem.code, problem.row) for problem in reading.problems]


@pytest.mark.parametrize("role", ["question", "context"])
def test_too_long_a_text_costs_its_row(role: str) -> None:
    reading = _read(**{role: "가" * (MOST_CHARACTERS + 1)})
    assert _told(reading) == [(ProblemCode.TOO_LONG, 2)]
    assert reading.problems[0].message == (
        f"Row 2: the column {role} holds 1,000,001 characters; a text may have 1,000,000. Divide it into several rows."
    )
    assert len(reading.rejected[role][0]) == 10_000
    assert not _read(**{role: "가" * MOST_CHARACTERS}).problems


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        ({"title": ["서울"]}, "a list"),
        ({"title": "가" * (MOST_CHARACTERS + 1)}, "too long a text"),
        ({"answers": [str(number) for number in range(MOST_ANSWERS + 1)]}, "too many answers"),
        ({"answers": "가" * (MOST_CHARACTERS + 1)}, "too long a text"),
    ],
)
def test_what_stands_beside_is_dropped_and_told(cells: dict[str, object], found: str) -> None:
    reading = _read(**cells)
    (problem,) = reading.problems
    assert (problem.code, problem.row, problem.details["found"]) == (ProblemCode.DROPPED_CELL, 2, found)
    assert reading.question_set.questions[1].answers == ()
    assert reading.question_set.passages[1].title == ""
    assert (reading.left_out, len(reading.question_set.questions)) == (0, 2)


def test_a_formula_error_among_answers_is_told_and_a_text_like_it_is_an_answer() -> None:
    content = workbook([["question", "context", "answers"], ["a?", "b", "#N/A"], ["c?", "d", "#DIV/0!"]])

    def as_text(part: bytes) -> bytes:
        return part.replace(b't="e"><v>#N/A</v>', b't="str"><v>#N/A</v>')

    reading = read(rezipped(content, "xl/worksheets/sheet1.xml", as_text), "set")
    assert [question.answers for question in reading.question_set.questions] == [("#N/A",), ()]
    (problem,) = reading.problems
    assert problem.message == (
        "Row 3: the column answers holds the formula error #DIV/0!, and was taken to be empty. "
        "Type the text there if it is wanted."
    )
