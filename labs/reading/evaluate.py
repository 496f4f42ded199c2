"""Evaluation of answers: every reader and generator on the top K passages of every retriever, for every K.

The experiment file is that of a comparison, with readers. Answers are cached, so a stopped evaluation continues.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from mrc_workbench.data.problems import as_missing_extra
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
OnNamedProgress = Callable[[str, float], None]
_SEARCH_FRACTION = 0.2  # of the work


class ReaderSpec(BaseModel):
    """A reader; `model` is a run, a hub id, a folder or a packaged base."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: Name
    model: Name


class ReadingExperiment(Experiment):
    """Readers and generators on the top K passages of every retriever, for K in `depths_read`."""

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


@dataclass(frozen=True)
class ReaderAnswers:
    """A reader's answers from one retriever's passages, with the `weight` of the retrieval score in `unit`s.

    Without validation questions, `is_weight_tuned` is False and the weight 0.
    """

    by_depth: extractive.AnswersByDepth
    candidates: extractive.SpanCandidates
    weight: float
    is_weight_tuned: bool
    unit: float = 1.0

    def answers(self, depth_index: int) -> list[str]:
        """Return the answers from the top `ks[depth_index]` passages, "" for a question without a passage."""
        ranks = self.by_depth.rank[:, depth_index].tolist()
        return ["" if rank < 0 else spans[rank] for rank, spans in zip(ranks, self.candidates.answers, strict=True)]


@dataclass(frozen=True)
class ReaderResult:
    """A reader's answers by retriever, or its `error`.

    `oracle` `(n_questions, 2)` is exact match and overlap on the relevant passage.
    """

    name: str
    by_retriever: Mapping[str, ReaderAnswers] = field(default_factory=dict)
    oracle: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    error: Exception | None = None


@dataclass(frozen=True)
class ReadingResult:
    """All answers to the questions of the evaluated part."""

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
    """Search, read and score; `on_progress` reports the running retriever or reader, and the fraction of all work.

    The weight of each retriever's score is tuned on the validation questions at the greatest depth; it is 0 for a part
    that includes them. Raises `ValueError` if no question of the part has a relevant passage.
    """
    test, validation = _search(experiment, question_set, base, on_progress)
    step = (1 - _SEARCH_FRACTION) / (len(experiment.reader) + len(experiment.generator))

    def make_reporter(number: int, name: str) -> Callable[[float], None]:
        start = _SEARCH_FRACTION + number * step
        return partial(_scale_progress(on_progress, start, start + step), name)

    run = _ReaderRun(experiment, test, validation, base)
    readers = [run.evaluate(spec, make_reporter(number, spec.name)) for number, spec in enumerate(experiment.reader)]
    generators = [
        run_generator(spec, test, experiment.rules, experiment.seed, make_reporter(number, spec.name))
        for number, spec in enumerate(experiment.generator, start=len(readers))
    ]
    if on_progress:
        on_progress("", 1.0)
    return ReadingResult(experiment, test, tuple(readers), tuple(generators))


def _scale_progress(on_progress: OnNamedProgress | None, low: float, high: float) -> OnNamedProgress:
    """Return the callback for a part of the work, which is the range from `low` to `high` of all work."""

    def report(name: str, fraction: float) -> None:
        if on_progress:
            on_progress(name, low + fraction * (high - low))

    return report


def _search(
    experiment: ReadingExperiment, question_set: QuestionSet, base: Path | None, on_progress: OnNamedProgress | None
) -> tuple[Comparison, Comparison | None]:
    """Return the rankings of the part's questions, and of the validation questions if they tune the weight."""
    report_test = _scale_progress(on_progress, 0, 0.7 * _SEARCH_FRACTION)
    report_validation = _scale_progress(on_progress, 0.7 * _SEARCH_FRACTION, _SEARCH_FRACTION)

    depths = {experiment.max_depth, *(spec.max_passages for spec in experiment.generator)}
    deep_experiment = experiment.model_copy(update={"ks": tuple(sorted({*experiment.ks, *depths}))})
    test = compare(deep_experiment, question_set, base=base, on_progress=report_test)
    if experiment.split not in (Part.TEST, Part.TRAIN) or not experiment.validation_fraction > 0:
        return test, None
    deep_experiment = deep_experiment.model_copy(update={"split": Part.VALIDATION})
    try:
        return test, compare(deep_experiment, question_set, base=base, on_progress=report_validation)
    except ValueError:  # no such question
        return test, None


@dataclass(frozen=True)
class _ReaderRun:
    """The evaluation of readers on the rankings of the part, with validation questions that tune the weights."""

    experiment: ReadingExperiment
    test: Comparison
    validation: Comparison | None
    base: Path | None

    def evaluate(self, spec: ReaderSpec, on_progress: ProgressCallback) -> ReaderResult:
        try:
            reader = SpanReader(find_model(spec.model, self.base))
            n_steps = len(self.test.rankings) + 1
            # the oracle: each question with its own passage
            contexts = extractive.context_rows(self.test.question_set)[:, None].astype(np.int32)
            rankings = Rankings(contexts, np.where(contexts >= 0, 0, -np.inf).astype(np.float32))
            oracle = self._read_passages(reader, self.test.question_set, rankings)
            on_progress(1 / n_steps)
            answers = {}
            for number, name in enumerate(self.test.rankings, start=1):
                report = scale_progress(on_progress, number / n_steps, (number + 1) / n_steps)
                answers[name] = self._evaluate_retriever(reader, name, report)
            return ReaderResult(spec.name, answers, np.concatenate([oracle.exact, oracle.overlap], axis=1))
        except Exception as error:  # other readers continue
            return ReaderResult(spec.name, error=as_missing_extra(error))

    def _evaluate_retriever(self, reader: SpanReader, name: str, on_progress: ProgressCallback | None) -> ReaderAnswers:
        is_tuned = self.validation is not None and name in self.validation.rankings
        parts = [self.validation, self.test] if self.validation and is_tuned else [self.test]
        ends = [*accumulate((len(part.question_set.questions) for part in parts), initial=0)]
        candidates = []
        for part, (first, last) in zip(parts, pairwise(ends), strict=True):
            rankings = part.rankings[name].first(self.experiment.max_depth)
            report = scale_progress(on_progress, first / ends[-1], last / ends[-1])
            candidates.append(self._read_passages(reader, part.question_set, rankings, report))
        unit = extractive.mean_score_gap(candidates[0].retrieval_scores)
        weight = extractive.best_weight(candidates[0], self.experiment.max_depth, unit) if is_tuned else 0.0
        by_depth = extractive.select_answers(candidates[-1], self.experiment.depths_read, weight, unit)
        return ReaderAnswers(by_depth, candidates[-1], weight, is_tuned, unit)

    def _read_passages(
        self,
        reader: SpanReader,
        question_set: QuestionSet,
        rankings: Rankings,
        on_progress: ProgressCallback | None = None,
    ) -> extractive.SpanCandidates:
        passages = question_set.passages
        corpus_reader = extractive.CorpusReader(reader, passages.texts, passages.fingerprint, on_progress)
        readings = corpus_reader.read([question.text for question in question_set.questions], rankings)
        return extractive.score_candidates(question_set, rankings, readings, self.experiment.rules)
