from typing import Any

import numpy as np
import pytest

from reading.extractive import WEIGHTS, CorpusReader, Fate, best_weight, by_depth, candidates, spread
from reading.rules import Rules
from retrieval.rankings import Rankings
from tests.reading.doubles import SET, NextWord

# q1 finds its own passage second, q2 first, q3 last, q4 its own at once
FOUND = np.array([[1, 0, 2], [0, 1, -1], [2, 4, 3], [4, 3, 2]], dtype=np.int32)
SCORES = np.array([[3, 2, 1], [5, 1, -np.inf], [9, 8, 7], [4, 2, 0]], dtype=np.float32)
RANKINGS = Rankings(FOUND, SCORES)
TEXTS = [question.text for question in SET.questions]


@pytest.fixture
def reader() -> Any:
    return NextWord()


def read(reader: Any) -> Any:
    corpus = CorpusReader(reader, SET.passages.texts, SET.corpus_fingerprint)
    return candidates(SET, RANKINGS, corpus.of(TEXTS, RANKINGS), Rules.KORQUAD)


def test_candidates_by_hand(reader: Any) -> None:
    found = read(reader)
    assert found.answers == [["부산", "서울", ""], ["한강", "", ""], ["한라산", "", "백두산"], ["무궁화", "", ""]]
    assert found.exact.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert found.overlap[2, 0] == pytest.approx(1 / 3), "one of three characters"
    assert found.holds.tolist() == [
        [False, True, False],
        [True, False, False],
        [False, False, True],
        [True] + [False] * 2,
    ]


def test_what_is_said_from_the_first_passages_by_hand(reader: Any) -> None:
    told = by_depth(read(reader), (1, 2, 3), weight=0.0, unit=1.0)
    # 서울 and 부산 are as long: of equal sums the passage found first is taken; so with 한라산 and 백두산
    assert told.place.tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert told.exact.tolist() == [[0, 0, 0], [1, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert told.ceiling.tolist() == [[False, True, True], [True] * 3, [False, False, True], [True] * 3]
    assert told.fate.tolist() == [
        [Fate.NOT_FOUND, Fate.OUTRANKED, Fate.OUTRANKED],
        [Fate.RIGHT] * 3,
        [Fate.NOT_FOUND, Fate.NOT_FOUND, Fate.OUTRANKED],
        [Fate.MISREAD] * 3,
    ]


def test_the_weight_of_the_retrieval_score_decides_between_passages(reader: Any) -> None:
    found = read(reader)
    found.scores[0] = [-2.5, -2.0, -np.inf]  # the right passage is read a little more surely, and found a little worse
    assert by_depth(found, (3,), weight=0.0, unit=1.0).place[0, 0] == 1
    assert by_depth(found, (3,), weight=1.0, unit=1.0).place[0, 0] == 0
    assert by_depth(found, (3,), weight=1.0, unit=10.0).place[0, 0] == 1
    assert best_weight(found, 3, 1.0) == WEIGHTS[0]


def test_the_unit_is_how_far_scores_lie_below_the_best() -> None:
    assert spread(np.array([[3.0, 2.0, 1.0], [5.0, 1.0, -np.inf]])) == pytest.approx((0 + 1 + 2 + 0 + 4) / 5)
    assert spread(np.array([[1.0, 1.0]])) == 1.0
    assert spread(np.full((1, 2), -np.inf)) == 1.0


def test_a_question_for_which_nothing_was_found_says_nothing(reader: Any) -> None:
    nothing = Rankings(np.full((4, 2), -1, dtype=np.int32), np.full((4, 2), -np.inf, dtype=np.float32))
    corpus = CorpusReader(reader, SET.passages.texts, SET.corpus_fingerprint)
    told = by_depth(candidates(SET, nothing, corpus.of(TEXTS, nothing), Rules.KORQUAD), (1, 2), 1.0, 1.0)
    assert (told.place == -1).all()
    assert (told.exact == 0).all()
    assert (told.fate == Fate.NOT_FOUND).all()


def test_a_pair_is_read_once_whoever_found_it(reader: Any) -> None:
    read(reader)
    assert len(reader.read_pairs) == (FOUND >= 0).sum()
    other = Rankings(FOUND[:, ::-1].copy(), np.where(FOUND[:, ::-1] >= 0, 0, -np.inf).astype(np.float32))
    deeper = Rankings(np.array([[3], [2], [0], [0]], dtype=np.int32), np.zeros((4, 1), dtype=np.float32))
    before = len(reader.read_pairs)
    told = CorpusReader(reader, SET.passages.texts, SET.corpus_fingerprint).of(TEXTS, other)
    assert len(reader.read_pairs) == before
    assert told.scores[0].tolist() == [-1e9, -2.0, -2.0]
    CorpusReader(reader, SET.passages.texts, SET.corpus_fingerprint).of(TEXTS, deeper)
    assert len(reader.read_pairs) == before + 4
