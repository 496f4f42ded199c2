"""Answers of a reader from the passage of a question, and from retrieved passages."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.records import Question, QuestionSet
from mrc_workbench.labs.reading import extractive
from mrc_workbench.labs.reading.scores import ScoringRules, score_answer
from mrc_workbench.retrieval.rankings import Rankings
from tests.labs.reading.doubles import PASSAGES, SET, NextWord

READER: Any = NextWord()
IMPOSSIBLE = Question("q5", "깊은 강", (), (), rejected=("p2",))
MIXED = QuestionSet("mixed", PASSAGES, (*SET.questions, IMPOSSIBLE, Question("q6", "아무 것", (), ())))
# rank of the relevant passage: q1 second, q2 first, q3 last, q4 first
PASSAGE_ROWS = np.array([[1, 0, 2], [0, 1, -1], [2, 4, 3], [4, 3, 2]], dtype=np.int32)
SCORES = np.array([[3, 2, 1], [5, 1, -np.inf], [9, 8, 7], [4, 2, 0]], dtype=np.float32)
RANKINGS = Rankings(PASSAGE_ROWS, SCORES)
TEXTS = [question.text for question in SET.questions]


def test_reads_each_question_with_its_context() -> None:
    context_answers = extractive.read_contexts(READER, SET)
    assert context_answers.answers == ["서울", "한강", "백두산", "무궁화"]
    assert context_answers.scores.tolist() == [-2, -2, -3, -3]


def test_reads_rejected_passage_and_skips_question_without_passage() -> None:
    assert extractive.context_rows(MIXED).tolist() == [0, 0, 3, 4, 1, -1]
    context_answers = extractive.read_contexts(READER, MIXED)
    assert context_answers.answers[4:] == ["", ""]
    assert np.isneginf(context_answers.scores[4:]).all()
    assert context_answers.predictions(None) == context_answers.answers
    assert context_answers.predictions(0.0)[4:] == ["", ""]


def test_no_threshold_if_all_questions_have_answers() -> None:
    assert extractive.best_threshold(extractive.read_contexts(READER, SET), SET, ScoringRules.KORQUAD) is None


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(-5, 5)), min_size=1, max_size=12))
def test_best_threshold_has_highest_overlap(rows: list[tuple[bool, bool, float]]) -> None:
    """Each row: whether there is an answer, whether the span is right, and the margin of "no answer"."""
    answerable = Question("answerable", "무엇", ("서울",), ("p1",))
    unanswerable = Question("unanswerable", "무엇")
    questions = [replace(answerable if row[0] else unanswerable, id=f"q{index}") for index, row in enumerate(rows)]
    question_set = replace(SET, questions=(*questions, unanswerable))
    answers = ["서울" if right else "부산" for _, right, _ in rows] + ["부산"]
    margins = np.array([margin for _, _, margin in rows] + [0.25])
    context_answers = extractive.ContextAnswers(answers, np.zeros(len(answers)), margins)

    def mean(threshold: float) -> float:
        pairs = zip(context_answers.predictions(threshold), question_set.questions, strict=True)
        return sum(score_answer(text, question.answers, ScoringRules.KORQUAD)[1] for text, question in pairs)

    best = cast("float", extractive.best_threshold(context_answers, question_set, ScoringRules.KORQUAD))
    assert mean(best) >= max(mean(candidate) for candidate in [*(margins - 1e-6), *margins, *(margins + 1e-6)]) - 1e-9


@pytest.fixture
def reader() -> Any:
    return NextWord()


def read_candidates(reader: Any) -> Any:
    corpus = extractive.CorpusReader(reader, SET.passages.texts, SET.corpus_fingerprint)
    return extractive.score_candidates(SET, RANKINGS, corpus.read(TEXTS, RANKINGS), ScoringRules.KORQUAD)


def test_scores_candidates_as_by_hand(reader: Any) -> None:
    candidates = read_candidates(reader)
    assert candidates.answers == [["부산", "서울", ""], ["한강", "", ""], ["한라산", "", "백두산"], ["무궁화", "", ""]]
    assert candidates.exact.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert candidates.overlap[2, 0] == pytest.approx(1 / 3), "one of three characters"
    assert candidates.contains_answer.astype(int).tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0]]


def test_selects_answers_by_depth_as_by_hand(reader: Any) -> None:
    answers = extractive.select_answers(read_candidates(reader), (1, 2, 3), weight=0.0, unit=1.0)
    # 서울 and 부산 tie, as do 한라산 and 백두산: the first passage is selected
    assert answers.rank.tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert answers.exact.tolist() == [[0, 0, 0], [1, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert answers.ceiling.tolist() == [[False, True, True], [True] * 3, [False, False, True], [True] * 3]
    right, outranked, misread, not_found = extractive.AnswerOutcome
    assert answers.outcome[0].tolist() == [not_found, outranked, outranked]
    assert answers.outcome[1].tolist() == [right] * 3
    assert answers.outcome[2].tolist() == [not_found, not_found, outranked]
    assert answers.outcome[3].tolist() == [misread] * 3


def test_retrieval_weight_changes_selected_passage(reader: Any) -> None:
    candidates = read_candidates(reader)
    candidates.scores[0] = [-2.5, -2.0, -np.inf]  # the right passage has a better reading score and a worse rank
    assert extractive.select_answers(candidates, (3,), weight=0.0, unit=1.0).rank[0, 0] == 1
    assert extractive.select_answers(candidates, (3,), weight=1.0, unit=1.0).rank[0, 0] == 0
    assert extractive.select_answers(candidates, (3,), weight=1.0, unit=10.0).rank[0, 0] == 1
    assert extractive.best_weight(candidates, 3, 1.0) == extractive.WEIGHTS[0]


def test_score_gap_is_mean_distance_from_best() -> None:
    scores = np.array([[3.0, 2.0, 1.0], [5.0, 1.0, -np.inf]])
    assert extractive.mean_score_gap(scores) == pytest.approx((0 + 1 + 2 + 0 + 4) / 5)
    assert extractive.mean_score_gap(np.array([[1.0, 1.0]])) == 1.0
    assert extractive.mean_score_gap(np.full((1, 2), -np.inf)) == 1.0


def test_no_answer_without_retrieved_passages(reader: Any) -> None:
    empty_rankings = Rankings(np.full((4, 2), -1, dtype=np.int32), np.full((4, 2), -np.inf, dtype=np.float32))
    corpus = extractive.CorpusReader(reader, SET.passages.texts, SET.corpus_fingerprint)
    spans = corpus.read(TEXTS, empty_rankings)
    candidates = extractive.score_candidates(SET, empty_rankings, spans, ScoringRules.KORQUAD)
    answers = extractive.select_answers(candidates, (1, 2), 1.0, 1.0)
    assert (answers.rank == -1).all()
    assert (answers.exact == 0).all()
    assert (answers.outcome == extractive.AnswerOutcome.NOT_FOUND).all()


def test_reads_each_pair_once_for_all_retrievers(reader: Any) -> None:
    read_candidates(reader)
    assert len(reader.read_pairs) == (PASSAGE_ROWS >= 0).sum()
    other = Rankings(PASSAGE_ROWS[:, ::-1].copy(), np.where(PASSAGE_ROWS[:, ::-1] >= 0, 0, -np.inf).astype(np.float32))
    deeper = Rankings(np.array([[3], [2], [0], [0]], dtype=np.int32), np.zeros((4, 1), dtype=np.float32))
    before = len(reader.read_pairs)
    spans = extractive.CorpusReader(reader, SET.passages.texts, SET.corpus_fingerprint).read(TEXTS, other)
    assert len(reader.read_pairs) == before
    assert spans.scores[0].tolist() == [-1e9, -2.0, -2.0]
    extractive.CorpusReader(reader, SET.passages.texts, SET.corpus_fingerprint).read(TEXTS, deeper)
    assert len(reader.read_pairs) == before + 4
