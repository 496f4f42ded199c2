"""Answers from what retrievers find: every reader over the first K passages of every retriever, for every K."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from data.records import QuestionSet
from data.split import Part
from models.readers.reader import SpanReader
from models.sources import find_model
from reading.depth import ByDepth, Candidates, best_weight, by_depth, candidates, spread
from reading.experiment import ReaderSpec, ReadingExperiment
from reading.extractive import own_passages
from reading.generate.by_retriever import GeneratorResult, generated
from reading.readings import CorpusReader, Readings
from retrieval.comparison.compare import Comparison, compare
from retrieval.rankings import Rankings

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
        """The whole corpus, the questions asked."""
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
    tell = on_progress or _say_nothing
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
        chooses = experiment.split in (Part.TEST, Part.TRAIN) and experiment.validation_share > 0
        if not chooses:
            return cls(test, None)
        of_validation = deep.model_copy(update={"split": Part.VALIDATION})

        def tell_more(name: str, share: float) -> None:
            tell(name, 0.7 + 0.3 * share)

        try:
            told = compare(of_validation, question_set, base=base, on_progress=tell_more)
        except ValueError:  # no such question
            return cls(test, None)
        return cls(test, told)

    @cached_property
    def names(self) -> list[str]:
        return [*self.test.rankings]


def _result(
    spec: ReaderSpec, experiment: ReadingExperiment, found: _Found, base: Path | None, tell: Callable[[float], None]
) -> ReaderResult:
    try:
        reader = SpanReader(find_model(spec.model, base))
        work = len(found.names) + 1
        oracle = _oracle(reader, experiment, found.test.question_set)
        tell(1 / work)
        answered = {}
        for number, name in enumerate(found.names, start=1):

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


def _say_nothing(name: str, share: float) -> None:
    del name, share
