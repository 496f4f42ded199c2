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
from mrc_workbench.data.text.corpora import ProgressCallback, scale_progress
from mrc_workbench.labs.reading import extractive
from mrc_workbench.labs.reading.generate import GeneratorResult, run_generator
from mrc_workbench.labs.reading.generator import GeneratorSpec, Name
from mrc_workbench.labs.reading.scores import ScoringRules
from mrc_workbench.models.reader import SpanReader
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison.compare import Comparison, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, read_experiment_as
from mrc_workbench.retrieval.rankings import Rankings

DEFAULT_DEPTHS = (1, 2, 3, 5, 10, 20)


class ReaderSpec(BaseModel):
    """A reader: `model` is a run, a hub id, a folder or a packaged base."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: Name
    model: Name


class ReadingExperiment(Experiment):
    """Readers and generators over the first K passages of every retriever, K each of `depths`."""

    rules: ScoringRules = ScoringRules.KORQUAD
    depths_read: tuple[PositiveInt, ...] = Field(default=DEFAULT_DEPTHS, min_length=1)
    reader: tuple[ReaderSpec, ...] = ()
    generator: tuple[GeneratorSpec, ...] = ()

    @model_validator(mode="after")
    def _require_reader_or_generator(self) -> "ReadingExperiment":
        names = [*(spec.name for spec in self.reader), *(spec.name for spec in self.generator)]
        if not names:
            raise ValueError("a [[reader]] or a [[generator]] is needed")
        if len(set(names)) < len(names):
            raise ValueError(f"two of {names} have the same name")
        return self

    @property
    def max_depth(self) -> int:
        return max(self.depths_read)


def read_experiment(path: Path) -> ReadingExperiment:
    """Read an experiment file (TOML). Raises `ExperimentError`."""
    return read_experiment_as(ReadingExperiment, path)


OnNamedProgress = Callable[[str, float], None]
_SEARCH_FRACTION = 0.2  # of all the work


@dataclass(frozen=True)
class ReaderAnswers:
    """A reader's answers from one retriever's passages; `weight` is that of the retrieval score, in `unit`s.

    `weight_by_validation` is False, and the weight 0, if no validation questions could choose it.
    """

    depth: extractive.AnswersByDepth
    read: extractive.SpanCandidates
    weight: float
    weight_by_validation: bool
    unit: float = 1.0

    def answers(self, depth_index: int) -> list[str]:
        """Return the answers from the first `ks[place]` passages, "" for a question without a passage."""
        ranks = self.depth.place[:, depth_index].tolist()
        return ["" if rank < 0 else spans[rank] for rank, spans in zip(ranks, self.read.answers, strict=True)]


@dataclass(frozen=True)
class ReaderResult:
    """A reader's answers by retriever, or its `error`.

    `oracle` `(n_questions, 2)` is exact match and overlap with the right passage given.
    """

    name: str
    by_retriever: Mapping[str, ReaderAnswers] = field(default_factory=dict)
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
    on_progress: OnNamedProgress | None = None,
) -> ReadingResult:
    """Search, read and judge; `on_progress` reports the running retriever or reader, and the fraction of all work.

    The weight of each retriever's score is chosen on the validation questions, at the greatest depth; for a part that
    includes them it is 0. Raises `ValueError` if no question of the part has a relevant passage.
    """
    report = on_progress or (lambda *_: None)
    test, validation = _search(
        experiment, question_set, base, lambda name, progress: report(name, _SEARCH_FRACTION * progress)
    )
    n_models = len(experiment.reader) + len(experiment.generator)

    def make_reporter(number: int, name: str) -> Callable[[float], None]:
        return lambda fraction: report(name, _SEARCH_FRACTION + (1 - _SEARCH_FRACTION) * (number + fraction) / n_models)

    readers = [
        _evaluate_reader(spec, experiment, test, validation, base=base, on_progress=make_reporter(number, spec.name))
        for number, spec in enumerate(experiment.reader)
    ]
    generators = [
        run_generator(spec, test, experiment.rules, experiment.seed, make_reporter(number, spec.name))
        for number, spec in enumerate(experiment.generator, start=len(readers))
    ]
    report("", 1.0)
    return ReadingResult(experiment, test, tuple(readers), tuple(generators))


def _search(
    experiment: ReadingExperiment, question_set: QuestionSet, base: Path | None, report_progress: OnNamedProgress
) -> tuple[Comparison, Comparison | None]:
    """Return the rankings of the part's questions, and of the validation questions if they choose the weight."""
    n_passages = [entry.most_passages for entry in experiment.generator]
    deep_experiment = experiment.model_copy(
        update={"ks": tuple(sorted({*experiment.ks, experiment.max_depth, *n_passages}))}
    )
    test = compare(
        deep_experiment,
        question_set,
        base=base,
        on_progress=lambda name, fraction: report_progress(name, 0.7 * fraction),
    )
    if experiment.split not in (Part.TEST, Part.TRAIN) or not experiment.validation_fraction > 0:
        return test, None
    deep_experiment = deep_experiment.model_copy(update={"split": Part.VALIDATION})
    try:
        validation = compare(
            deep_experiment,
            question_set,
            base=base,
            on_progress=lambda name, entry: report_progress(name, 0.7 + 0.3 * entry),
        )
    except ValueError:  # no such question
        return test, None
    return test, validation


def _evaluate_reader(
    spec: ReaderSpec,
    experiment: ReadingExperiment,
    test: Comparison,
    validation: Comparison | None,
    *,
    base: Path | None,
    on_progress: ProgressCallback,
) -> ReaderResult:
    try:
        reader = SpanReader(find_model(spec.model, base))
        n_steps = len(test.rankings) + 1
        # exact match and overlap where each question is read with its own passage
        contexts = extractive.context_rows(test.question_set)[:, None].astype(np.int32)
        rankings = Rankings(contexts, np.where(contexts >= 0, 0, -np.inf).astype(np.float32))
        oracle = _read_passages(reader, test.question_set, rankings, experiment.rules)
        on_progress(1 / n_steps)
        answers = {}
        for number, name in enumerate(test.rankings, start=1):
            tuning = validation if validation and name in validation.rankings else None
            report = scale_progress(on_progress, number / n_steps, (number + 1) / n_steps)
            answers[name] = _evaluate_retriever(reader, experiment, name, test, tuning, on_progress=report)
        return ReaderResult(spec.name, answers, np.concatenate([oracle.exact, oracle.overlap], axis=1))
    except Exception as error:  # the others go on
        return ReaderResult(spec.name, error=with_extra(error))


def _evaluate_retriever(
    reader: SpanReader,
    experiment: ReadingExperiment,
    name: str,
    test: Comparison,
    tuning: Comparison | None,
    *,
    on_progress: ProgressCallback | None,
) -> ReaderAnswers:
    parts = [comparison for comparison in (tuning, test) if comparison]
    ends = [*accumulate((len(comparison.question_set.questions) for comparison in parts), initial=0)]
    candidates = []
    for part, (first, last) in zip(parts, pairwise(ends), strict=True):
        rankings = part.rankings[name].first(experiment.max_depth)
        report = scale_progress(on_progress, first / ends[-1], last / ends[-1])
        candidates.append(_read_passages(reader, part.question_set, rankings, experiment.rules, report))
    tuning_candidates = candidates[0]
    test_candidates = candidates[-1]
    unit = extractive.mean_score_gap(tuning_candidates.found)
    weight = extractive.best_weight(tuning_candidates, experiment.max_depth, unit) if tuning else 0.0
    depth = extractive.select_answers(test_candidates, experiment.depths_read, weight, unit)
    return ReaderAnswers(depth, test_candidates, weight, tuning is not None, unit)


def _read_passages(
    reader: SpanReader,
    question_set: QuestionSet,
    rankings: Rankings,
    rules: ScoringRules,
    on_progress: ProgressCallback | None = None,
) -> extractive.SpanCandidates:
    corpus_reader = extractive.CorpusReader(
        reader, question_set.passages.texts, question_set.passages.fingerprint, on_progress
    )
    readings = corpus_reader.read([question.text for question in question_set.questions], rankings)
    return extractive.score_candidates(question_set, rankings, readings, rules)
