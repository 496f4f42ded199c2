"""Answers from what retrievers find: every reader over the first K passages of every retriever, for every K.

Of the first K passages one span is taken; it is right or wrong, and told is where an answer is lost.
"""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

import numpy as np

from data.records import QuestionSet
from data.split import Part
from models.reader import SpanReader
from models.sources import find_model
from reading.experiment import ReaderSpec, ReadingExperiment
from reading.extractive import CorpusReader, Readings, own_passages
from reading.generate.by_retriever import GeneratorResult, generated
from reading.rules import Rules, judged
from retrieval.comparison.compare import Comparison, compare
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
    below = _below(found)[np.isfinite(found)]
    return float(below.mean()) if len(below) and below.mean() > 0 else 1.0


def best_weight(read: Candidates, k: int, unit: float) -> float:
    """The weight of the highest mean overlap from the first K passages; among equals the smallest."""
    means = [float(by_depth(read, (k,), weight, unit).overlap.mean()) for weight in WEIGHTS]
    return WEIGHTS[int(np.argmax(means))]


def summed(scores: np.ndarray, found: np.ndarray, weight: float, unit: float) -> np.ndarray:
    """What passages compete by, `(n_questions, depth)`, higher is better: see `by_depth`; -inf where there is none."""
    return np.where(np.isfinite(found), scores - weight * _below(found) / unit, -np.inf)


def _below(found: np.ndarray) -> np.ndarray:
    """How far each score lies below its question's best; 0 where there is none."""
    best = found.max(axis=1, keepdims=True, initial=-np.inf)
    below: np.ndarray = np.subtract(best, found, out=np.zeros_like(found), where=np.isfinite(found))
    return below


Tell = Callable[[str, float], None]
_SEARCHING = 0.2  # of all the work


@dataclass(frozen=True)
class Answered:
    """What a reader says from one retriever's passages, and by which weight of the retrieval score, told in `unit`s.

    `weight_by_validation` is False where no validation questions could choose it, and it is 0.
    """

    depth: ByDepth
    read: Candidates
    weight: float
    weight_by_validation: bool
    unit: float = 1.0

    def answers(self, place: int) -> list[str]:
        """What is said from the first `ks[place]` passages, question by question; "" where nothing was found."""
        taken = self.depth.place[:, place].tolist()
        return ["" if rank < 0 else said[rank] for rank, said in zip(taken, self.read.answers, strict=True)]


@dataclass(frozen=True)
class ReaderResult:
    """A reader's answers by retriever; `oracle` `(n_questions, 2)` is exact match and overlap with the right passage
    given. A reader that failed has an `error` and nothing else.
    """

    name: str
    by_retriever: Mapping[str, Answered] = field(default_factory=dict)
    oracle: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    error: Exception | None = None


@dataclass(frozen=True)
class ReadingResult:
    """All answers to the questions of the part compared."""

    experiment: ReadingExperiment
    comparison: Comparison
    readers: tuple[ReaderResult, ...]
    generators: tuple[GeneratorResult, ...] = ()

    @property
    def question_set(self) -> QuestionSet:
        """The whole corpus, of the questions those asked."""
        return self.comparison.question_set


def evaluate(
    experiment: ReadingExperiment,
    question_set: QuestionSet,
    *,
    base: Path | None = None,
    on_progress: Tell | None = None,
) -> ReadingResult:
    """Search, read and judge. `on_progress` is told who is at work, and the share of all work done, 0 to 1.

    The weight of each retriever's score is chosen on the validation questions, at the greatest depth; on the very
    questions of a part that holds them it is not chosen at all, and is 0. Raises `ValueError` where the part has no
    question with a relevant passage.
    """
    tell = on_progress or (lambda *_: None)
    found = _Found.of(experiment, question_set, base, lambda name, share: tell(name, _SEARCHING * share))
    count = len(experiment.reader) + len(experiment.generator)

    def teller(number: int, name: str) -> Callable[[float], None]:
        return lambda share: tell(name, _SEARCHING + (1 - _SEARCHING) * (number + share) / count)

    readers = [
        _result(spec, experiment, found, base, teller(number, spec.name))
        for number, spec in enumerate(experiment.reader)
    ]
    generators = [
        generated(spec, found.test, experiment.rules, experiment.seed, teller(number, spec.name))
        for number, spec in enumerate(experiment.generator, start=len(readers))
    ]
    tell("", 1.0)
    return ReadingResult(experiment, found.test, tuple(readers), tuple(generators))


@dataclass(frozen=True)
class _Found:
    """What every retriever found for the questions asked, and for the validation questions where they choose."""

    test: Comparison
    validation: Comparison | None

    @classmethod
    def of(cls, experiment: ReadingExperiment, question_set: QuestionSet, base: Path | None, tell: Tell) -> "_Found":
        sent = [one.most_passages for one in experiment.generator]
        deep = experiment.model_copy(update={"ks": tuple(sorted({*experiment.ks, experiment.deepest, *sent}))})
        test = compare(deep, question_set, base=base, on_progress=lambda name, share: tell(name, 0.7 * share))
        if experiment.split not in (Part.TEST, Part.TRAIN) or not experiment.validation_share > 0:
            return cls(test, None)
        of_validation = deep.model_copy(update={"split": Part.VALIDATION})

        def tell_more(name: str, share: float) -> None:
            tell(name, 0.7 + 0.3 * share)

        try:
            return cls(test, compare(of_validation, question_set, base=base, on_progress=tell_more))
        except ValueError:  # no such question
            return cls(test, None)


def _result(
    spec: ReaderSpec, experiment: ReadingExperiment, found: _Found, base: Path | None, tell: Callable[[float], None]
) -> ReaderResult:
    try:
        reader = SpanReader(find_model(spec.model, base))
        names = [*found.test.rankings]
        work = len(names) + 1
        oracle = _oracle(reader, experiment, found.test.question_set)
        tell(1 / work)
        answered = {}
        for number, name in enumerate(names, start=1):

            def told(share: float, number: int = number) -> None:
                tell((number + share) / work)

            answered[name] = _answered(reader, experiment, found, name, told)
        return ReaderResult(spec.name, answered, oracle)
    except Exception as error:  # the others go on
        return ReaderResult(spec.name, error=error)


def _oracle(reader: SpanReader, experiment: ReadingExperiment, question_set: QuestionSet) -> np.ndarray:
    """Exact match and overlap where each question is read with its own passage, `(n_questions, 2)`."""
    own = own_passages(question_set)[:, None].astype(np.int32)
    rankings = Rankings(own, np.where(own >= 0, 0, -np.inf).astype(np.float32))
    readings = _read(reader, question_set, rankings, lambda _: None)
    given = candidates(question_set, rankings, readings, experiment.rules)
    return np.concatenate([given.exact, given.overlap], axis=1)


def _answered(
    reader: SpanReader, experiment: ReadingExperiment, found: _Found, name: str, tell: Callable[[float], None]
) -> Answered:
    depth, rules = experiment.deepest, experiment.rules
    judging = found.validation if found.validation and name in found.validation.rankings else None
    parts = [one for one in (judging, found.test) if one]
    counts = np.cumsum([0, *(len(one.question_set.questions) for one in parts)])
    read = []
    for number, part in enumerate(parts):

        def told(share: float, number: int = number) -> None:
            done = counts[number] + share * (counts[number + 1] - counts[number])
            tell(float(done / counts[-1]))

        rankings = part.rankings[name].first(depth)
        read.append(candidates(part.question_set, rankings, _read(reader, part.question_set, rankings, told), rules))
    unit = spread(read[0].found)
    weight = best_weight(read[0], depth, unit) if judging else 0.0
    return Answered(
        by_depth(read[-1], experiment.depths_read, weight, unit), read[-1], weight, judging is not None, unit
    )


def _read(reader: SpanReader, question_set: QuestionSet, rankings: Rankings, tell: Callable[[float], None]) -> Readings:
    passages = question_set.passages
    corpus = CorpusReader(reader, passages.texts, passages.fingerprint, tell)
    return corpus.of([question.text for question in question_set.questions], rankings)
