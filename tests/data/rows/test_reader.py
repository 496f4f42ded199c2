"""One row: what is too long or no text is told, and what is only beside it does not cost the row."""

import json

import pytest

from data.formats.rows import MOST_ANSWERS
from data.formats.tables import MOST_CHARACTERS
from data.problems import ProblemCode
from data.read import Reading, read
from tests.data.sample_files import rezipped, workbook

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
