import math

import pytest

from data import audit
from data.records import Passage, Question, QuestionSet

SET = QuestionSet(
    "set",
    (Passage("a", "서울은 수도이다", "서울"), Passage("b", "부산은 항구다", "부산"), Passage("c", "Seoul 2024")),
    (
        Question("1", "수도는 어디인가?", ("서울",), ("a",), "keyword"),
        Question("2", "서울은?", ("서울", "한양"), ("a", "b"), "keyword"),
        Question("3", "수도는 어디인가?", (), ()),
        Question("4", "SEOUL 2024?", ("2024",), ("c",), "year"),
        Question("5", "왜?", (), ("b",)),
    ),
)


def test_figures() -> None:
    figures = audit(SET)
    assert (figures.passage_count, figures.question_count) == (3, 5)
    assert (figures.unanswerable_count, figures.article_count, figures.passages_without_question) == (1, 2, 0)
    assert figures.questions_per_passage.tolist() == [2, 2, 1]
    assert figures.passage_lengths.tolist() == [8, 7, 10]
    assert figures.question_lengths.tolist() == [9, 4, 9, 11, 2]
    assert figures.overlap.mean == pytest.approx((1 / 5 + 1 + 1) / 3)
    assert figures.duplicate_questions == {"수도는 어디인가?": ("1", "3")}
    assert figures.answers_not_found == ("2",)
    assert figures.kinds == {"keyword": 2, "year": 1}


def test_nothing_answerable() -> None:
    figures = audit(QuestionSet("set", SET.passages, (SET.questions[2],)))
    assert len(figures.overlap.shares) == 0
    assert math.isnan(figures.overlap.mean)
    assert figures.passages_without_question == 3


def labelled(answers: list[str], text: str = "모든 지문은 서로 다르다") -> QuestionSet:
    passages = tuple(Passage(f"p{row}", f"{text} {row}") for row in range(len(answers)))
    asked = tuple(Question(f"q{row}", f"{row}번?", (answer,), (f"p{row}",)) for row, answer in enumerate(answers))
    return QuestionSet("labels", passages, asked)


def test_answers_that_are_labels_are_told() -> None:
    assert audit(labelled(["True", "False", "True"] * 10)).labels == ("True", "False")


@pytest.mark.parametrize(
    "question_set",
    [
        labelled(["True", "False"] * 4),  # too few to tell
        labelled([f"답 {row}" for row in range(30)]),  # each its own: wrong perhaps, but no labels
        labelled(["지문", "모든"] * 15),  # few, and parts of the passages
        SET,
    ],
)
def test_other_answers_are_no_labels(question_set: QuestionSet) -> None:
    assert audit(question_set).labels == ()
