import unicodedata

import pytest

from data.records import Question, QuestionSet
from retrieval.dense import Dense
from retrieval.lexical.bm25 import BM25
from retrieval.rankings import Findings, Truth, ask, truth_of
from tests.doubles import PASSAGES, KeywordEncoder, small_set


def test_what_is_not_found_is_left_out() -> None:
    found = ask(Dense("Dense", PASSAGES, KeywordEncoder()), "서울과 한강")
    assert found.rows[:2] == (1, 2)
    assert found.scores[:2] == pytest.approx((1.0, 1.0))
    assert len(found.rows) == len(found.scores) == len(PASSAGES)
    assert ask(BM25("BM25", PASSAGES), "qwxzv") == Findings((), ())


def test_ranks_count_from_one() -> None:
    found = Findings((4, 2), (2.0, 1.0))
    assert [found.rank_of(row) for row in (4, 2, 0)] == [1, 2, None]


def test_the_set_knows_its_own_questions() -> None:
    questions = small_set()
    assert truth_of(questions, "한글을 만든 왕은 누구인가?") == Truth(("세종",), (0,))
    assert truth_of(questions, unicodedata.normalize("NFD", " 서울과\n한강을  말하는 글은? ")) == Truth((), (1, 2))
    assert truth_of(questions, "한글을 만든 왕은") is None


def test_the_same_question_asked_twice_is_answered_by_both() -> None:
    twice = (Question("a", "어디?", ("서울",), ("p3",)), Question("b", "어디?", ("한강", "서울"), ("p2", "p3")))
    assert truth_of(QuestionSet("twice", PASSAGES, twice), "어디?") == Truth(("서울", "한강"), (2, 1))
