"""Answer spans that readers extract, from the passage of a question or from the top K retrieved passages.

Questions may have no answer in their own passage. K passages give one answer; wrong answers have a reason.
"""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.marking import answer_spans
from mrc_workbench.data.texts import Texts
from mrc_workbench.labs.reading.scores import ScoringRules, score_answer
from mrc_workbench.models.reader import SpanReader
from mrc_workbench.retrieval.combine import StoredPairScores
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings

_BLOCK = 16  # questions between progress reports
_START, _END, _SCORE, _NO_ANSWER = range(4)
_MIN_SCORE = -1e9  # of passages without a span; NaN marks pairs that are not read yet
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # candidates for the weight of the retrieval score


@dataclass(frozen=True)
class BestSpans:
    """The best span of each question's passages `(n_questions, depth)`: its first character and its end (int64).

    Scores are float32, see `models.reader.Spans`. Without a passage: 0, 0, -inf and 0.
    """

    starts: np.ndarray
    ends: np.ndarray
    scores: np.ndarray
    no_answer_scores: np.ndarray


@dataclass
class CorpusReader:
    """Reads passages of a corpus, `texts` with the fingerprint `corpus`, and caches the spans.

    The cache key is the reader, the corpus and the questions: other retrievers and greater depths read only new pairs.
    """

    reader: SpanReader
    texts: Texts
    corpus: str
    on_progress: Callable[[float], Any] | None = None

    def read(self, questions: Sequence[str], rankings: Rankings) -> BestSpans:
        """Raises `ModelError`."""
        key = key_of(self.reader.fingerprint, self.corpus, list(questions))
        cache = StoredPairScores(len(self.texts), key, kind="readings", width=4)
        values = cache.lookup(rankings.indices)
        try:
            for first in range(0, len(questions), _BLOCK):
                rows, columns = np.nonzero(np.isnan(values[first : first + _BLOCK, :, _SCORE]))
                rows += first
                if len(rows):
                    passages = rankings.indices[rows, columns]
                    pair_questions = [questions[row] for row in rows.tolist()]
                    spans = self.reader.read(list(zip(pair_questions, self.texts.at(passages), strict=True)))
                    best = np.maximum(spans.scores[:, 0], _MIN_SCORE)
                    columns_of_spans = (spans.starts[:, 0], spans.ends[:, 0], best, spans.nothing)
                    new_values = np.stack(columns_of_spans, axis=1).astype(np.float32)
                    cache.add(rows, passages, new_values, load_seconds=0.0, seconds=0.0)
                    values[rows, columns] = new_values
                if self.on_progress:
                    self.on_progress(min(1.0, (first + _BLOCK) / len(questions)))
        finally:
            cache.write()
        missing = rankings.indices == NOT_FOUND
        offsets = np.where(missing[..., None], 0, values[..., :_SCORE]).astype(np.int64)
        scores = np.where(missing, -np.inf, values[..., _SCORE])
        no_answer_scores = np.where(missing, 0, values[..., _NO_ANSWER])
        return BestSpans(offsets[..., _START], offsets[..., _END], scores, no_answer_scores)


@dataclass(frozen=True)
class ContextAnswers:
    """A reader's best span of one passage for each question, "" without a passage.

    Scores `(n_questions,)` are as in `models.reader.Spans`: -inf and 0 without a passage.
    """

    answers: list[str]
    scores: np.ndarray
    no_answer_scores: np.ndarray

    def predictions(self, threshold: float | None) -> list[str]:
        """Return the answers, "" if "no answer" scores higher by more than `threshold`; None returns all answers."""
        if threshold is None:
            return self.answers
        is_refused = self.no_answer_scores - self.scores > threshold
        return ["" if refused else answer for answer, refused in zip(self.answers, is_refused.tolist(), strict=True)]


def read_contexts(reader: SpanReader, question_set: QuestionSet) -> ContextAnswers:
    """Read, for each question, its first relevant passage, or else its first rejected one."""
    questions = question_set.questions
    rows = context_rows(question_set)
    with_context = np.flatnonzero(rows >= 0)
    texts = question_set.passages.texts.at(rows[with_context])
    spans = reader.read([(questions[row].text, text) for row, text in zip(with_context.tolist(), texts, strict=True)])
    answers = [""] * len(questions)
    scores = np.full(len(questions), -np.inf)
    no_answer_scores = np.zeros(len(questions))
    scores[with_context] = spans.scores[:, 0]
    no_answer_scores[with_context] = spans.nothing
    for row, text, start, end in zip(with_context, texts, spans.starts[:, 0], spans.ends[:, 0], strict=True):
        answers[row] = text[start:end]
    return ContextAnswers(answers, scores, no_answer_scores)


def context_rows(question_set: QuestionSet) -> np.ndarray:
    """Return the row of each question's passage, `(n_questions,)` int64; -1 if unknown."""
    row_of = question_set.row_of_passage
    passage_ids = [next(iter((*question.relevant, *question.rejected)), "") for question in question_set.questions]
    return np.asarray(row_of.rows(passage_ids))


def best_threshold(context_answers: ContextAnswers, question_set: QuestionSet, rules: ScoringRules) -> float | None:
    """Return the threshold with the highest mean overlap (Rajpurkar et al. 2018); None if all are answerable."""
    questions = question_set.questions
    if all(question.answers for question in questions):
        return None
    pairs = zip(context_answers.answers, questions, strict=True)
    answered_scores = [score_answer(answer, question.answers, rules)[1] for answer, question in pairs]
    refused_scores = [score_answer("", question.answers, rules)[1] for question in questions]
    margins = context_answers.no_answer_scores - context_answers.scores
    order = np.argsort(margins, kind="stable")
    sorted_margins = margins[order]
    # gain of answering the first n questions by margin and refusing the others; equal margins stay together
    gains = np.concatenate([[0.0], np.cumsum((np.array(answered_scores) - np.array(refused_scores))[order])])
    is_boundary = np.concatenate([[True], sorted_margins[:-1] < sorted_margins[1:], [True]])
    best = int(np.where(is_boundary, gains, -np.inf).argmax())
    if best == 0:
        return float(sorted_margins[0] - 1)
    low = sorted_margins[best - 1]
    high = sorted_margins[best] if best < len(sorted_margins) else np.inf
    return float((low + high) / 2 if np.isfinite(high) else low + 1)


class AnswerOutcome(IntEnum):
    """Whether a question is answered correctly, or why not."""

    RIGHT = 0  # exact match
    OUTRANKED = 1  # a passage has the right span, but the span of another passage is selected
    MISREAD = 2  # a passage contains the answer, but the reader extracts another span
    NOT_FOUND = 3  # no passage contains the answer


@dataclass(frozen=True)
class SpanCandidates:
    """The best span of every passage, `(n_questions, depth)`, with its exact match and overlap, 0 to 1.

    `contains_answer`: whether the passage is relevant or contains a right answer. `scores` of the reader and
    `retrieval_scores`: higher is better, -inf without a passage. `offsets` `(n_questions, depth, 2)` are the first
    character of the span and its end.
    """

    answers: list[list[str]]
    exact: np.ndarray
    overlap: np.ndarray
    contains_answer: np.ndarray
    scores: np.ndarray
    retrieval_scores: np.ndarray
    offsets: np.ndarray


@dataclass(frozen=True)
class AnswersByDepth:
    """The answers from the top K passages, for every K of `ks`: all `(n_questions, n_ks)`.

    `rank` is the rank from 0 of the passage with the selected span, -1 without passages; `exact` and `overlap` are from
    0 to 1; `ceiling` is whether any passage contains the answer; `outcome` is an `AnswerOutcome`.
    """

    ks: tuple[int, ...]
    rank: np.ndarray
    exact: np.ndarray
    overlap: np.ndarray
    ceiling: np.ndarray
    outcome: np.ndarray


def score_candidates(
    question_set: QuestionSet, rankings: Rankings, readings: BestSpans, rules: ScoringRules
) -> SpanCandidates:
    """Score the best span of every retrieved passage."""
    shape = rankings.indices.shape
    exact = np.zeros(shape)
    overlap = np.zeros(shape)
    holds = np.zeros(shape, dtype=bool)
    answers: list[list[str]] = []
    passage_rows = np.unique(rankings.indices[rankings.indices != NOT_FOUND])
    texts = dict(zip(passage_rows.tolist(), question_set.passages.texts.at(passage_rows), strict=True))
    for row, question in enumerate(question_set.questions):
        relevant = {int(index) for index in question_set.relevance[[row]].indices}
        spans: list[str] = []
        for rank, passage in enumerate(rankings.indices[row].tolist()):
            text = texts.get(passage, "")
            spans.append(text[readings.starts[row, rank] : readings.ends[row, rank]])
            if passage == NOT_FOUND:
                continue
            exact[row, rank], overlap[row, rank] = score_answer(spans[-1], question.answers, rules)
            holds[row, rank] = passage in relevant
            if question.answers and not holds[row, rank]:
                holds[row, rank] = bool(answer_spans(unicodedata.normalize("NFC", text), question.answers))
        answers.append(spans)
    scores = np.where(rankings.indices == NOT_FOUND, -np.inf, rankings.scores)
    offsets = np.stack([readings.starts, readings.ends], axis=-1)
    return SpanCandidates(answers, exact, overlap, holds, readings.scores, scores, offsets)


def select_answers(candidates: SpanCandidates, ks: Sequence[int], weight: float, unit: float) -> AnswersByDepth:
    """Select from the top K passages the span with the highest combined score, see `combined_scores`."""
    total_scores = combined_scores(candidates.scores, candidates.retrieval_scores, weight, unit)
    depths = [min(k, total_scores.shape[1]) for k in ks]
    ranks = np.stack([np.argmax(total_scores[:, :k], axis=1) for k in depths], axis=1)
    ranks = np.where(np.isneginf(np.take_along_axis(total_scores, ranks, axis=1)), -1, ranks)
    indices = np.maximum(ranks, 0)
    exact = np.where(ranks < 0, 0, np.take_along_axis(candidates.exact, indices, axis=1))
    overlap = np.where(ranks < 0, 0, np.take_along_axis(candidates.overlap, indices, axis=1))
    ceiling = np.stack([candidates.contains_answer[:, :k].any(axis=1) for k in depths], axis=1)
    has_exact = np.stack([(candidates.exact[:, :k] == 1).any(axis=1) for k in depths], axis=1)
    outcomes = [AnswerOutcome.RIGHT, AnswerOutcome.OUTRANKED, AnswerOutcome.MISREAD]
    outcome = np.select([exact == 1, has_exact, ceiling], outcomes, AnswerOutcome.NOT_FOUND)
    return AnswersByDepth(tuple(ks), ranks, exact, overlap, ceiling, outcome.astype(np.int8))


def mean_score_gap(scores: np.ndarray) -> float:
    """Return the mean gap of retrieval scores `(n_questions, depth)` to the question's best; 1 if all are equal.

    As a unit, it makes weights comparable between retrievers.
    """
    gaps = _score_gaps(scores)[np.isfinite(scores)]
    return float(gaps.mean()) if len(gaps) and gaps.mean() > 0 else 1.0


def best_weight(candidates: SpanCandidates, k: int, unit: float) -> float:
    """Return the smallest weight with the highest mean overlap from the top K passages."""
    means = [float(select_answers(candidates, (k,), weight, unit).overlap.mean()) for weight in WEIGHTS]
    return WEIGHTS[int(np.argmax(means))]


def combined_scores(scores: np.ndarray, retrieval_scores: np.ndarray, weight: float, unit: float) -> np.ndarray:
    """Return log P(span) - weight * gap / unit, `(n_questions, depth)`; -inf without a passage.

    `gap` is the distance of the retrieval score from the question's best.
    """
    return np.where(np.isfinite(retrieval_scores), scores - weight * _score_gaps(retrieval_scores) / unit, -np.inf)


def _score_gaps(scores: np.ndarray) -> np.ndarray:
    best = scores.max(axis=1, keepdims=True, initial=-np.inf)
    return np.asarray(np.subtract(best, scores, out=np.zeros_like(scores), where=np.isfinite(scores)))
