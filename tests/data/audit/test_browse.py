import pytest

from data.audit import passages_with, questions_of
from tests.doubles import small_set


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("  한강 ", [1, 2]),  # in texts and titles
        ("단풍으로 이름난 산은?", [3]),  # in a question
        ("서울과 한강을 말하는", [1, 2]),  # in a question about two
        ("없는 말", []),
    ],
)
def test_passages_are_found_by_text_title_and_question(text: str, rows: list[int]) -> None:
    assert passages_with(small_set(), text).tolist() == rows


def test_case_does_not_count() -> None:
    from data.records import Passage, QuestionSet

    assert passages_with(QuestionSet("s", (Passage("1", "BM25"),), ()), "bm").tolist() == [0]


def test_questions_of_passages() -> None:
    found = questions_of(small_set(), [2, 0, 4])
    assert {row: [question.id for question in asked] for row, asked in found.items()} == {
        2: ["q3", "q6"],
        0: ["q1"],
        4: ["q5"],
    }
