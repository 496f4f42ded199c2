from dataclasses import replace
from typing import Any, cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from data.records import Question, QuestionSet
from reading.extractive import ReadPassages, best_threshold, own_passages, read_own_passages
from reading.rules import Rules, judged
from tests.reading.doubles import PASSAGES, SET, NextWord

READER: Any = NextWord()
IMPOSSIBLE = Question("q5", "깊은 강", (), (), rejected=("p2",))
MIXED = QuestionSet("mixed", PASSAGES, (*SET.questions, IMPOSSIBLE, Question("q6", "아무 것", (), ())))


def test_each_question_is_read_with_its_own_passage() -> None:
    read = read_own_passages(READER, SET)
    assert read.answers == ["서울", "한강", "백두산", "무궁화"]
    assert read.scores.tolist() == [-2, -2, -3, -3]


def test_the_passage_that_does_not_answer_is_read_and_a_question_without_any_is_not() -> None:
    assert own_passages(MIXED).tolist() == [0, 0, 3, 4, 1, -1]
    read = read_own_passages(READER, MIXED)
    assert read.answers[4:] == ["", ""]
    assert np.isneginf(read.scores[4:]).all()
    assert read.said(None) == read.answers
    assert read.said(0.0)[4:] == ["", ""]


def test_where_all_have_answers_silence_is_never_chosen() -> None:
    assert best_threshold(read_own_passages(READER, SET), SET, Rules.KORQUAD) is None


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(-5, 5)), min_size=1, max_size=12))
def test_no_threshold_is_better_than_the_one_chosen(rows: list[tuple[bool, bool, float]]) -> None:
    """Each row: whether there is an answer, whether the span is right, and how much likelier no answer is."""
    questions = tuple(
        Question(f"q{row}", "무엇", ("서울",) if answered else (), ("p1",) if answered else ())
        for row, (answered, _, _) in enumerate(rows)
    )
    asked = replace(SET, questions=(*questions, Question("none", "무엇")))
    answers = ["서울" if right else "부산" for _, right, _ in rows] + ["부산"]
    margins = np.array([margin for _, _, margin in rows] + [0.25])
    read = ReadPassages(answers, np.zeros(len(answers)), margins)

    def mean(threshold: float) -> float:
        said = read.said(threshold)
        return sum(judged(one, q.answers, Rules.KORQUAD)[1] for one, q in zip(said, asked.questions, strict=True))

    chosen = cast("float", best_threshold(read, asked, Rules.KORQUAD))
    assert mean(chosen) >= max(mean(one) for one in [*(margins - 1e-6), *margins, *(margins + 1e-6)]) - 1e-9
