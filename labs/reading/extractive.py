"""What readers find in passages: of each question and passage that was found the best span, read once.

In the passage that a question was asked of, where a reader may say that there is no answer; and of the first K passages
that a retriever found, where one span is taken: it is right or wrong, and told is where an answer is lost.
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
from mrc_workbench.labs.reading.scores import Rules, judged
from mrc_workbench.models.reader import SpanReader
from mrc_workbench.retrieval.combine import KnownPairs
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings

_BLOCK = 16  # questions between two words of progress
_START, _END, _SCORE, _NOTHING = range(4)
_LEAST = -1e9  # of a passage without any span: a number, since what is not known yet is none


@dataclass(frozen=True)
class Readings:
    """The best span of each question's passages `(n_questions, depth)`: its first character and its end (int64).

    `scores` and `nothing` (no answer) are float32, see `models.reader.Spans`. Without a passage: 0, 0, -inf and 0.
    """

    starts: np.ndarray
    ends: np.ndarray
    scores: np.ndarray
    nothing: np.ndarray


class CorpusReader:
    """Reads passages of a corpus, `texts` with the fingerprint `corpus`, and caches the spans.

    The key is the reader, the corpus and the questions: another retriever, or a greater depth, reads only new pairs.
    """

    def __init__(
        self, reader: SpanReader, texts: Texts, corpus: str, on_progress: Callable[[float], Any] | None = None
    ) -> None:
        self._reader, self._texts, self._corpus, self._on_progress = reader, texts, corpus, on_progress

    def of(self, questions: Sequence[str], found: Rankings) -> Readings:
        """Raises `ModelError`."""
        key = key_of(self._reader.fingerprint, self._corpus, list(questions))
        known = KnownPairs(len(self._texts), key, kind="readings", width=4)
        values = known.of(found.indices)
        try:
            for first in range(0, len(questions), _BLOCK):
                rows, places = np.nonzero(np.isnan(values[first : first + _BLOCK, :, _SCORE]))
                rows += first
                if len(rows):
                    passages = found.indices[rows, places]
                    asked = [questions[row] for row in rows.tolist()]
                    spans = self._reader.read(list(zip(asked, self._texts.at(passages), strict=True)))
                    best = np.maximum(spans.scores[:, 0], _LEAST)
                    said = np.stack([spans.starts[:, 0], spans.ends[:, 0], best, spans.nothing], 1).astype(np.float32)
                    known.add(rows, passages, said, load_seconds=0.0, seconds=0.0)
                    values[rows, places] = said
                if self._on_progress:
                    self._on_progress(min(1.0, (first + _BLOCK) / len(questions)))
        finally:
            known.write()
        missing = found.indices == NOT_FOUND
        letters = np.where(missing[..., None], 0, values[..., :_SCORE]).astype(np.int64)
        scores = np.where(missing, -np.inf, values[..., _SCORE])
        return Readings(letters[..., _START], letters[..., _END], scores, np.where(missing, 0, values[..., _NOTHING]))


@dataclass(frozen=True)
class ReadPassages:
    """A reader's best span of one passage for each question, "" without a passage.

    `scores` `(n_questions,)` of the spans and `nothing` (no answer) are as in `models.reader.Spans`: -inf and 0 without
    one.
    """

    answers: list[str]
    scores: np.ndarray
    nothing: np.ndarray

    def said(self, threshold: float | None) -> list[str]:
        """Return the answers, "" if no answer is likelier by more than `threshold`; None never refuses."""
        if threshold is None:
            return self.answers
        silent = self.nothing - self.scores > threshold
        return ["" if none else answer for answer, none in zip(self.answers, silent.tolist(), strict=True)]


def read_own_passages(reader: SpanReader, question_set: QuestionSet) -> ReadPassages:
    """Read, for each question, its first relevant passage, or else its first rejected one."""
    questions = question_set.questions
    rows = own_passages(question_set)
    known = np.flatnonzero(rows >= 0)
    texts = question_set.passages.texts.at(rows[known])
    spans = reader.read([(questions[row].text, text) for row, text in zip(known.tolist(), texts, strict=True)])
    answers, scores, nothing = [""] * len(questions), np.full(len(questions), -np.inf), np.zeros(len(questions))
    scores[known], nothing[known] = spans.scores[:, 0], spans.nothing
    for row, text, start, end in zip(known, texts, spans.starts[:, 0], spans.ends[:, 0], strict=True):
        answers[row] = text[start:end]
    return ReadPassages(answers, scores, nothing)


def own_passages(question_set: QuestionSet) -> np.ndarray:
    """Rows of the passage that each question was asked of, `(n_questions,)` int64; -1 if unknown."""
    row_of = question_set.row_of_passage
    asked = [next(iter((*question.relevant, *question.rejected)), "") for question in question_set.questions]
    return np.asarray(row_of.rows(asked))


def best_threshold(read: ReadPassages, question_set: QuestionSet, rules: Rules) -> float | None:
    """The threshold of the highest mean overlap on these questions (Rajpurkar et al. 2018); None if all have one."""
    questions = question_set.questions
    if all(question.answers for question in questions):
        return None
    spoken = [judged(said, one.answers, rules)[1] for said, one in zip(read.answers, questions, strict=True)]
    silent = [judged("", one.answers, rules)[1] for one in questions]
    margins = read.nothing - read.scores
    order = np.argsort(margins, kind="stable")
    rising = margins[order]
    # of every way to cut, the first so many by margin speak, and the others are silent; equal ones are not cut apart
    gained = np.concatenate([[0.0], np.cumsum((np.array(spoken) - np.array(silent))[order])])
    cut = np.concatenate([[True], rising[:-1] < rising[1:], [True]])
    best = int(np.where(cut, gained, -np.inf).argmax())
    if best == 0:
        return float(rising[0] - 1)
    low, high = rising[best - 1], rising[best] if best < len(rising) else np.inf
    return float((low + high) / 2 if np.isfinite(high) else low + 1)


WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # of the retrieval score, that are tried


class Fate(IntEnum):
    """What became of a question's answer, each question's in one way."""

    RIGHT = 0  # said, letter by letter by the rules
    OUTRANKED = 1  # pointed at in one of the passages, but another passage's span was taken
    MISREAD = 2  # in one of the passages, which was read wrong
    NOT_FOUND = 3  # in none of the passages


@dataclass(frozen=True)
class Candidates:
    """The best span of every passage, `(n_questions, depth)`, and its scores against the right answers, 0 to 1.

    `holds`: whether the passage is relevant or contains a right answer. `scores` are the reader's, `found` the
    retriever's; higher is better, -inf without a passage. `letters` `(n_questions, depth, 2)` are the span's first
    character and its end.
    """

    answers: list[list[str]]
    exact: np.ndarray
    overlap: np.ndarray
    holds: np.ndarray
    scores: np.ndarray
    found: np.ndarray
    letters: np.ndarray


@dataclass(frozen=True)
class ByDepth:
    """The answers from the first K passages, for every K of `ks`: all `(n_questions, n_ks)`.

    `place` is the rank from 0 of the passage with the taken span, -1 without passages; `exact` and `overlap` are from 0
    to 1; `ceiling` says whether any passage holds the answer; `fate` is a `Fate`.
    """

    ks: tuple[int, ...]
    place: np.ndarray
    exact: np.ndarray
    overlap: np.ndarray
    ceiling: np.ndarray
    fate: np.ndarray


def candidates(question_set: QuestionSet, rankings: Rankings, readings: Readings, rules: Rules) -> Candidates:
    """Judge the best span of every passage found."""
    shape = rankings.indices.shape
    exact, overlap, holds = np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=bool)
    answers: list[list[str]] = []
    found = np.unique(rankings.indices[rankings.indices != NOT_FOUND])
    texts = dict(zip(found.tolist(), question_set.passages.texts.at(found), strict=True))
    for row, question in enumerate(question_set.questions):
        relevant = {int(one) for one in question_set.relevance[[row]].indices}
        said: list[str] = []
        for place, passage in enumerate(rankings.indices[row].tolist()):
            text = texts.get(passage, "")
            said.append(text[readings.starts[row, place] : readings.ends[row, place]])
            if passage == NOT_FOUND:
                continue
            exact[row, place], overlap[row, place] = judged(said[-1], question.answers, rules)
            holds[row, place] = passage in relevant or bool(
                question.answers and answer_spans(unicodedata.normalize("NFC", text), question.answers)
            )
        answers.append(said)
    scores = np.where(rankings.indices == NOT_FOUND, -np.inf, rankings.scores)
    letters = np.stack([readings.starts, readings.ends], axis=-1)
    return Candidates(answers, exact, overlap, holds, readings.scores, scores, letters)


def by_depth(read: Candidates, ks: Sequence[int], weight: float, unit: float) -> ByDepth:
    """Take from the first K passages the span of the highest log P(span) + `weight` times the retrieval score.

    The retrieval score is the distance from the question's best, in `unit`s (see `spread`).
    """
    sums = summed(read.scores, read.found, weight, unit)
    within = [min(k, sums.shape[1]) for k in ks]
    place = np.stack([np.argmax(sums[:, :k], axis=1) for k in within], axis=1)
    place = np.where(np.isneginf(np.take_along_axis(sums, place, axis=1)), -1, place)
    taken = np.maximum(place, 0)
    exact, overlap = (np.where(place < 0, 0, np.take_along_axis(one, taken, 1)) for one in (read.exact, read.overlap))
    ceiling = np.stack([read.holds[:, :k].any(axis=1) for k in within], axis=1)
    pointed = np.stack([(read.exact[:, :k] == 1).any(axis=1) for k in within], axis=1)
    fate = np.select([exact == 1, pointed, ceiling], [Fate.RIGHT, Fate.OUTRANKED, Fate.MISREAD], Fate.NOT_FOUND)
    return ByDepth(tuple(ks), place, exact, overlap, ceiling, fate.astype(np.int8))


def spread(found: np.ndarray) -> float:
    """The mean distance of retrieval scores `(n_questions, depth)` from their question's best; 1 if all are equal.

    As a unit, it gives a weight the same meaning for every retriever.
    """
    below = _below(found)[np.isfinite(found)]
    return float(below.mean()) if len(below) and below.mean() > 0 else 1.0


def best_weight(read: Candidates, k: int, unit: float) -> float:
    """The smallest weight of the highest mean overlap from the first K passages."""
    means = [float(by_depth(read, (k,), weight, unit).overlap.mean()) for weight in WEIGHTS]
    return WEIGHTS[int(np.argmax(means))]


def summed(scores: np.ndarray, found: np.ndarray, weight: float, unit: float) -> np.ndarray:
    """The score by which passages compete, `(n_questions, depth)`, higher is better; -inf without one."""
    return np.where(np.isfinite(found), scores - weight * _below(found) / unit, -np.inf)


def _below(found: np.ndarray) -> np.ndarray:
    """The distance of each score from its question's best; 0 without a passage."""
    best = found.max(axis=1, keepdims=True, initial=-np.inf)
    return np.asarray(np.subtract(best, found, out=np.zeros_like(found), where=np.isfinite(found)))
