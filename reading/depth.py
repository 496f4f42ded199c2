"""Answers of the first K passages that were found: whose span is taken, whether it is right, and where it is lost."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from data.records import Question, QuestionSet
from reading.judge.rules import Rules, judged
from reading.readings import Readings
from retrieval.rankings import NOT_FOUND, Rankings
from text.marking import answer_spans

WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # of the retrieval score, that are tried


class Fate(IntEnum):
    """What became of a question's answer, each question's in one way."""

    RIGHT = 0  # said, letter by letter by the rules
    OUTRANKED = 1  # pointed at in one of the passages, but another passage's span was taken
    MISREAD = 2  # in one of the passages, which was read wrong
    NOT_FOUND = 3  # in none of the passages


@dataclass(frozen=True)
class Candidates:
    """The best span of every passage found, `(n_questions, depth)`: its text, and how right it would be, from 0 to 1.

    `holds` bool: whether the passage answers by the data, or holds a right answer's text; `scores` are the reader's,
    `found` the retriever's, both higher is better and -inf where there is no passage. `letters` int64
    `(n_questions, depth, 2)` are those of the passage that the span begins with and ends before.
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
    """What is said from the first K passages, for every K of `ks`: all `(n_questions, n_ks)`.

    `place` is the rank from 0 of the passage whose span is taken, -1 where nothing was found; `exact` and `overlap` are
    shares from 0 to 1; `ceiling` bool says whether any of the passages holds the answer; `fate` is a `Fate`.
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
    texts = _texts_of(question_set, rankings)
    for row, question in enumerate(question_set.questions):
        relevant = {int(one) for one in question_set.relevance[[row]].indices}
        said: list[str] = []
        for place, passage in enumerate(rankings.indices[row].tolist()):
            text = texts.get(passage, "")
            said.append(text[readings.starts[row, place] : readings.ends[row, place]])
            if passage == NOT_FOUND:
                continue
            exact[row, place], overlap[row, place] = judged(said[-1], question.answers, rules)
            holds[row, place] = passage in relevant or _holds(question, text)
        answers.append(said)
    found = np.where(rankings.indices == NOT_FOUND, -np.inf, rankings.scores)
    letters = np.stack([readings.starts, readings.ends], axis=-1)
    return Candidates(answers, exact, overlap, holds, readings.scores, found, letters)


def _texts_of(question_set: QuestionSet, rankings: Rankings) -> dict[int, str]:
    rows = np.unique(rankings.indices[rankings.indices != NOT_FOUND])
    return dict(zip(rows.tolist(), question_set.passages.texts.at(rows), strict=True))


def _holds(question: Question, text: str) -> bool:
    return bool(question.answers) and bool(answer_spans(unicodedata.normalize("NFC", text), question.answers))


def by_depth(read: Candidates, ks: Sequence[int], weight: float, unit: float) -> ByDepth:
    """Take from the first K passages the span of the highest sum: log P(span) + `weight` times the retrieval score.

    The retrieval score is told as the distance from the question's best, in `unit`s (see `spread`).
    """
    sums = summed(read.scores, read.found, weight, unit)
    within = [min(k, sums.shape[1]) for k in ks]
    place = np.stack([np.argmax(sums[:, :k], axis=1) for k in within], axis=1)
    place = np.where(np.isneginf(np.take_along_axis(sums, place, axis=1)), -1, place)
    taken = np.maximum(place, 0)
    exact, overlap = (np.where(place < 0, 0, np.take_along_axis(one, taken, 1)) for one in (read.exact, read.overlap))
    ceiling = np.stack([read.holds[:, :k].any(axis=1) for k in within], axis=1)
    pointed = np.stack([(read.exact[:, :k] == 1).any(axis=1) for k in within], axis=1)
    fate = np.select([exact == 1, pointed, ceiling], [Fate.RIGHT, Fate.OUTRANKED, Fate.MISREAD], Fate.NOT_FOUND).astype(
        np.int8
    )
    return ByDepth(tuple(ks), place, exact, overlap, ceiling, fate)


def spread(found: np.ndarray) -> float:
    """The unit that retrieval scores `(n_questions, depth)` are told in: how far below a question's best they lie, on
    average, so that a weight means the same of every retriever; 1 where all are equal.
    """
    there, best = np.isfinite(found), found.max(axis=1, keepdims=True, initial=-np.inf)
    below = np.subtract(best, found, out=np.zeros_like(found), where=there)[there]
    return float(below.mean()) if len(below) and below.mean() > 0 else 1.0


def best_weight(read: Candidates, k: int, unit: float) -> float:
    """The weight of the highest mean overlap from the first K passages; among equals the smallest."""
    means = [float(by_depth(read, (k,), weight, unit).overlap.mean()) for weight in WEIGHTS]
    return WEIGHTS[int(np.argmax(means))]


def summed(scores: np.ndarray, found: np.ndarray, weight: float, unit: float) -> np.ndarray:
    """What passages compete by, `(n_questions, depth)`, higher is better: see `by_depth`; -inf where there is none."""
    there = np.isfinite(found)
    best = found.max(axis=1, keepdims=True, initial=-np.inf)
    below = np.subtract(best, found, out=np.zeros_like(found), where=there)
    sums: np.ndarray = np.where(there, scores - weight * below / unit, -np.inf)
    return sums
