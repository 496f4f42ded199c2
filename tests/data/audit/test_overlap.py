import math

import numpy as np
import pytest

from data.audit import Unit, bigrams, overlap_of, unit_of, word_overlap, words
from data.records import Passage, Question, QuestionSet
from data.store import find

KOREAN = QuestionSet(
    "korean",
    (Passage("a", "서울은 수도이다"), Passage("b", "부산은 항구다"), Passage("c", "Seoul 2024")),
    (
        Question("1", "수도는 어디인가?", (), ("a",)),
        Question("2", "서울은?", (), ("a", "b")),
        Question("3", "수도는 어디인가?", (), ()),
        Question("4", "SEOUL 2024?", (), ("c",)),
        Question("5", "왜?", (), ("b",)),
    ),
)
ENGLISH = QuestionSet(
    "english",
    (Passage("a", "The king made an alphabet."), Passage("b", "A river runs north")),
    (
        Question("1", "Who made the alphabet?", (), ("a",)),
        Question("2", "Where does it run?", (), ("b",)),
        Question("3", "?!", (), ("b",)),
    ),
)


def test_units_by_hand() -> None:
    assert bigrams("Ab-c9! 가나다_라") == {"ab", "c9", "가나", "나다"}
    assert words("Ab-c9! ab 가나다_라") == {"ab", "c9", "가나다", "라"}
    assert (unit_of(KOREAN), unit_of(ENGLISH)) == (Unit.PAIRS, Unit.WORDS)


def test_pairs_by_hand() -> None:
    # 1: 수도, 도는, 어디, 디인, 인가: one of five; 2: 서울, 울은: both in a; 4: equal; 5: no pair of letters
    np.testing.assert_allclose(word_overlap(KOREAN), [1 / 5, 1, 1, np.nan])


def test_words_by_hand() -> None:
    # made, the, alphabet of four; none of where, does, it, run, though all pairs of "run" stand in "runs"; no word
    np.testing.assert_allclose(word_overlap(ENGLISH), [3 / 4, 0, np.nan])
    found = overlap_of(ENGLISH)
    assert found.mean == pytest.approx(3 / 8)


def test_by_chance_is_what_other_passages_share() -> None:
    assert overlap_of(ENGLISH).by_chance == 0  # no word of any question stands in the other passage
    one = QuestionSet("one", ENGLISH.passages[:1], ENGLISH.questions[:1])
    assert math.isnan(overlap_of(one).by_chance)


def test_the_sample_shares_little_by_chance() -> None:
    found = overlap_of(find("sample"))
    assert found.unit is Unit.PAIRS
    assert found.by_chance < 0.1 < found.mean
