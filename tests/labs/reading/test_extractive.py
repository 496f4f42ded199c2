"""What a reader finds in the passage of a question, and in the first passages that were found."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.records import Question, QuestionSet
from mrc_workbench.labs.reading import extractive
from mrc_workbench.labs.reading.scores import Rules, judged
from mrc_workbench.retrieval.rankings import Rankings
from tests.labs.reading.doubles import PASSAGES, SET, NextWord

READER: Any = NextWord()
IMPOSSIBLE = Question("q5", "깊은 강", (), (), rejected=("p2",))
MIXED = QuestionSet("mixed", PASSAGES, (*SET.questions, IMPOSSIBLE, Question("q6", "아무 것", (), ())))


def test_each_question_is_read_with_its_own_passage() -> None:
    read = extractive.read_own_passages(READER, SET)
    assert read.answers == ["서울", "한강", "백두산", "무궁화"]
    assert read.scores.tolist() == [-2, -2, -3, -3]


def test_the_passage_that_does_not_answer_is_read_and_a_question_without_any_is_not() -> None:
    assert extractive.own_passages(MIXED).tolist() == [0, 0, 3, 4, 1, -1]
    read = extractive.read_own_passages(READER, MIXED)
    assert read.answers[4:] == ["", ""]
    assert np.isneginf(read.scores[4:]).all()
    assert read.said(None) == read.answers
    assert read.said(0.0)[4:] == ["", ""]


def test_where_all_have_answers_silence_is_never_chosen() -> None:
    assert extractive.best_threshold(extractive.read_own_passages(READER, SET), SET, Rules.KORQUAD) is None


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
    read = extractive.ReadPassages(answers, np.zeros(len(answers)), margins)

    def mean(threshold: float) -> float:
        said = read.said(threshold)
        return sum(judged(one, q.answers, Rules.KORQUAD)[1] for one, q in zip(said, asked.questions, strict=True))

    chosen = cast("float", extractive.best_threshold(read, asked, Rules.KORQUAD))
    assert mean(chosen) >= max(mean(one) for one in [*(margins - 1e-6), *margins, *(margins + 1e-6)]) - 1e-9


# q1 finds its own passage second, q2 first, q3 last, q4 its own at once
FOUND = np.array([[1, 0, 2], [0, 1, -1], [2, 4, 3], [4, 3, 2]], dtype=np.int32)
SCORES = np.array([[3, 2, 1], [5, 1, -np.inf], [9, 8, 7], [4, 2, 0]], dtype=np.float32)
RANKINGS = Rankings(FOUND, SCORES)
TEXTS = [question.text for question in SET.questions]


@pytest.fixture
def reader() -> Any:
    return NextWord()


def read(reader: Any) -> Any:
    corpus = extractive.CorpusReader(reader, SET.passages.texts, SET.corpus_fingerprint)
    return extractive.candidates(SET, RANKINGS, corpus.of(TEXTS, RANKINGS), Rules.KORQUAD)


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
    told = extractive.by_depth(read(reader), (1, 2, 3), weight=0.0, unit=1.0)
    # 서울 and 부산 are as long: of equal sums the passage found first is taken; so with 한라산 and 백두산
    assert told.place.tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert told.exact.tolist() == [[0, 0, 0], [1, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert told.ceiling.tolist() == [[False, True, True], [True] * 3, [False, False, True], [True] * 3]
    assert told.fate.tolist() == [
        [extractive.Fate.NOT_FOUND, extractive.Fate.OUTRANKED, extractive.Fate.OUTRANKED],
        [extractive.Fate.RIGHT] * 3,
        [extractive.Fate.NOT_FOUND, extractive.Fate.NOT_FOUND, extractive.Fate.OUTRANKED],
        [extractive.Fate.MISREAD] * 3,
    ]


def test_the_weight_of_the_retrieval_score_decides_between_passages(reader: Any) -> None:
    found = read(reader)
    found.scores[0] = [-2.5, -2.0, -np.inf]  # the right passage is read a little more surely, and found a little worse
    assert extractive.by_depth(found, (3,), weight=0.0, unit=1.0).place[0, 0] == 1
    assert extractive.by_depth(found, (3,), weight=1.0, unit=1.0).place[0, 0] == 0
    assert extractive.by_depth(found, (3,), weight=1.0, unit=10.0).place[0, 0] == 1
    assert extractive.best_weight(found, 3, 1.0) == extractive.WEIGHTS[0]


def test_the_unit_is_how_far_scores_lie_below_the_best() -> None:
    assert extractive.spread(np.array([[3.0, 2.0, 1.0], [5.0, 1.0, -np.inf]])) == pytest.approx((0 + 1 + 2 + 0 + 4) / 5)
    assert extractive.spread(np.array([[1.0, 1.0]])) == 1.0
    assert extractive.spread(np.full((1, 2), -np.inf)) == 1.0


def test_a_question_for_which_nothing_was_found_says_nothing(reader: Any) -> None:
    nothing = Rankings(np.full((4, 2), -1, dtype=np.int32), np.full((4, 2), -np.inf, dtype=np.float32))
    corpus = extractive.CorpusReader(reader, SET.passages.texts, SET.corpus_fingerprint)
    told = extractive.by_depth(
        extractive.candidates(SET, nothing, corpus.of(TEXTS, nothing), Rules.KORQUAD), (1, 2), 1.0, 1.0
    )
    assert (told.place == -1).all()
    assert (told.exact == 0).all()
    assert (told.fate == extractive.Fate.NOT_FOUND).all()


def test_a_pair_is_read_once_whoever_found_it(reader: Any) -> None:
    read(reader)
    assert len(reader.read_pairs) == (FOUND >= 0).sum()
    other = Rankings(FOUND[:, ::-1].copy(), np.where(FOUND[:, ::-1] >= 0, 0, -np.inf).astype(np.float32))
    deeper = Rankings(np.array([[3], [2], [0], [0]], dtype=np.int32), np.zeros((4, 1), dtype=np.float32))
    before = len(reader.read_pairs)
    told = extractive.CorpusReader(reader, SET.passages.texts, SET.corpus_fingerprint).of(TEXTS, other)
    assert len(reader.read_pairs) == before
    assert told.scores[0].tolist() == [-1e9, -2.0, -2.0]
    extractive.CorpusReader(reader, SET.passages.texts, SET.corpus_fingerprint).of(TEXTS, deeper)
    assert len(reader.read_pairs) == before + 4
