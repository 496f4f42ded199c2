import math

import numpy as np
import pytest

from data.audit.audit import audit, bigrams, word_overlap
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


def test_bigrams_by_hand() -> None:
    assert bigrams("Ab-c9! 가나다_라") == {"ab", "c9", "가나", "나다"}


def test_word_overlap_by_hand() -> None:
    # 1: 수도, 도는, 어디, 디인, 인가: one of five; 2: 서울, 울은: both in a; 4: equal; 5: no pair of letters
    np.testing.assert_allclose(word_overlap(SET), [1 / 5, 1, 1, np.nan])


def test_figures() -> None:
    figures = audit(SET)
    assert (figures.passage_count, figures.question_count) == (3, 5)
    assert (figures.unanswerable_count, figures.article_count, figures.passages_without_question) == (1, 2, 0)
    assert figures.questions_per_passage.tolist() == [2, 2, 1]
    assert figures.passage_lengths.tolist() == [8, 7, 10]
    assert figures.question_lengths.tolist() == [9, 4, 9, 11, 2]
    assert figures.mean_word_overlap == pytest.approx((1 / 5 + 1 + 1) / 3)
    assert figures.duplicate_questions == {"수도는 어디인가?": ("1", "3")}
    assert figures.answers_not_found == ("2",)
    assert figures.kinds == {"keyword": 2, "year": 1}


def test_nothing_answerable() -> None:
    figures = audit(QuestionSet("set", SET.passages, (SET.questions[2],)))
    assert len(figures.word_overlap) == 0
    assert math.isnan(figures.mean_word_overlap)
    assert figures.passages_without_question == 3
