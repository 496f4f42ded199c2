"""Answers from what retrievers find: every reader over the first K passages of every retriever, for every K.

The experiment file is that of a comparison, with readers. Answers lie in the cache, so an evaluation that was stopped
continues.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from mrc_workbench.data.problems import with_extra
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.text.corpora import OnProgress, within
from mrc_workbench.labs.reading import extractive
from mrc_workbench.labs.reading.generate import GeneratorResult, generated
from mrc_workbench.labs.reading.generator import GeneratorSpec, Name
from mrc_workbench.labs.reading.scores import Rules
from mrc_workbench.models.reader import SpanReader
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison.compare import Comparison, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, read_as
from mrc_workbench.retrieval.rankings import Rankings

DEFAULT_DEPTHS = (1, 2, 3, 5, 10, 20)


class ReaderSpec(BaseModel):
    """A reader: `model` is a run, a hub id, a folder or a packaged base."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: Name
    model: Name


class ReadingExperiment(Experiment):
    """Readers and generators over the first K passages of every retriever, K each of `depths`."""

    rules: Rules = Rules.KORQUAD
    depths_read: tuple[PositiveInt, ...] = Field(default=DEFAULT_DEPTHS, min_length=1)
    reader: tuple[ReaderSpec, ...] = ()
    generator: tuple[GeneratorSpec, ...] = ()

    @model_validator(mode="after")
    def _has_someone_who_answers(self) -> "ReadingExperiment":
        names = [*(one.name for one in self.reader), *(one.name for one in self.generator)]
        if not names:
            raise ValueError("a [[reader]] or a [[generator]] is needed")
        if len(set(names)) < len(names):
            raise ValueError(f"two of {names} have the same name")
        return self

    @property
    def deepest(self) -> int:
        return max(self.depths_read)


def read_experiment(path: Path) -> ReadingExperiment:
    """Read an experiment file (TOML). Raises `ExperimentError`."""
    return read_as(ReadingExperiment, path)


Tell = Callable[[str, float], None]
_SEARCHING = 0.2  # of all the work


@dataclass(frozen=True)
class Answered:
    """A reader's answers from one retriever's passages; `weight` is that of the retrieval score, in `unit`s.

    `weight_by_validation` is False, and the weight 0, if no validation questions could choose it.
    """

    depth: extractive.ByDepth
    read: extractive.Candidates
    weight: float
    weight_by_validation: bool
    unit: float = 1.0

    def answers(self, place: int) -> list[str]:
        """Return the answers from the first `ks[place]` passages, "" for a question without a passage."""
        taken = self.depth.place[:, place].tolist()
        return ["" if rank < 0 else said[rank] for rank, said in zip(taken, self.read.answers, strict=True)]


@dataclass(frozen=True)
class ReaderResult:
    """A reader's answers by retriever, or its `error`.

    `oracle` `(n_questions, 2)` is exact match and overlap with the right passage given.
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
        """The whole corpus, with the questions of the part."""
        return self.comparison.question_set


def evaluate(
    experiment: ReadingExperiment,
    question_set: QuestionSet,
    *,
    base: Path | None = None,
    on_progress: Tell | None = None,
) -> ReadingResult:
    """Search, read and judge; `on_progress` reports the running retriever or reader, and the fraction of all work.

    The weight of each retriever's score is chosen on the validation questions, at the greatest depth; for a part that
    includes them it is 0. Raises `ValueError` if no question of the part has a relevant passage.
    """
    tell = on_progress or (lambda *_: None)
    test, validation = _searched(experiment, question_set, base, lambda name, share: tell(name, _SEARCHING * share))
    count = len(experiment.reader) + len(experiment.generator)

    def teller(number: int, name: str) -> Callable[[float], None]:
        return lambda share: tell(name, _SEARCHING + (1 - _SEARCHING) * (number + share) / count)

    readers = [
        _result(spec, experiment, test, validation, base=base, tell=teller(number, spec.name))
        for number, spec in enumerate(experiment.reader)
    ]
    generators = [
        generated(spec, test, experiment.rules, experiment.seed, teller(number, spec.name))
        for number, spec in enumerate(experiment.generator, start=len(readers))
    ]
    tell("", 1.0)
    return ReadingResult(experiment, test, tuple(readers), tuple(generators))


def _searched(
    experiment: ReadingExperiment, question_set: QuestionSet, base: Path | None, tell: Tell
) -> tuple[Comparison, Comparison | None]:
    """Return the rankings of the part's questions, and of the validation questions if they choose the weight."""
    sent = [one.most_passages for one in experiment.generator]
    deep = experiment.model_copy(update={"ks": tuple(sorted({*experiment.ks, experiment.deepest, *sent}))})
    test = compare(deep, question_set, base=base, on_progress=lambda name, share: tell(name, 0.7 * share))
    if experiment.split not in (Part.TEST, Part.TRAIN) or not experiment.validation_share > 0:
        return test, None
    deep = deep.model_copy(update={"split": Part.VALIDATION})
    try:
        validation = compare(deep, question_set, base=base, on_progress=lambda name, one: tell(name, 0.7 + 0.3 * one))
    except ValueError:  # no such question
        return test, None
    return test, validation


def _result(
    spec: ReaderSpec,
    experiment: ReadingExperiment,
    test: Comparison,
    validation: Comparison | None,
    *,
    base: Path | None,
    tell: OnProgress,
) -> ReaderResult:
    try:
        reader = SpanReader(find_model(spec.model, base))
        work = len(test.rankings) + 1
        # exact match and overlap where each question is read with its own passage
        own = extractive.own_passages(test.question_set)[:, None].astype(np.int32)
        rankings = Rankings(own, np.where(own >= 0, 0, -np.inf).astype(np.float32))
        given = _read(reader, test.question_set, rankings, experiment.rules)
        tell(1 / work)
        answered = {}
        for number, name in enumerate(test.rankings, start=1):
            judging = validation if validation and name in validation.rankings else None
            report = within(tell, number / work, (number + 1) / work)
            answered[name] = _answered(reader, experiment, name, test, judging, tell=report)
        return ReaderResult(spec.name, answered, np.concatenate([given.exact, given.overlap], axis=1))
    except Exception as error:  # the others go on
        return ReaderResult(spec.name, error=with_extra(error))


def _answered(
    reader: SpanReader,
    experiment: ReadingExperiment,
    name: str,
    test: Comparison,
    judging: Comparison | None,
    *,
    tell: OnProgress | None,
) -> Answered:
    parts = [one for one in (judging, test) if one]
    ends = [*accumulate((len(one.question_set.questions) for one in parts), initial=0)]
    read = []
    for part, (first, last) in zip(parts, pairwise(ends), strict=True):
        rankings = part.rankings[name].first(experiment.deepest)
        report = within(tell, first / ends[-1], last / ends[-1])
        read.append(_read(reader, part.question_set, rankings, experiment.rules, report))
    judged, asked = read[0], read[-1]
    unit = extractive.spread(judged.found)
    weight = extractive.best_weight(judged, experiment.deepest, unit) if judging else 0.0
    depth = extractive.by_depth(asked, experiment.depths_read, weight, unit)
    return Answered(depth, asked, weight, judging is not None, unit)


def _read(
    reader: SpanReader, question_set: QuestionSet, rankings: Rankings, rules: Rules, tell: OnProgress | None = None
) -> extractive.Candidates:
    corpus = extractive.CorpusReader(reader, question_set.passages.texts, question_set.passages.fingerprint, tell)
    readings = corpus.of([question.text for question in question_set.questions], rankings)
    return extractive.candidates(question_set, rankings, readings, rules)
