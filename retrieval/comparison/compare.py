"""Compares several retrievers on the same questions by every measure."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from mrc_workbench.data.jobs.processes import commit, hardware, versions
from mrc_workbench.data.problems import Failure, as_missing_extra
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Split, few_questions, split
from mrc_workbench.data.text.analyzers import VERSION as ANALYZER_VERSION
from mrc_workbench.data.text.languages import VERSION as LANGUAGES_VERSION
from mrc_workbench.data.workspace import error_message
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.packaged import packaged_base
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.pace import TimeEstimator
from mrc_workbench.retrieval.comparison.spec import CachedRetriever, RetrieverContext, SearchCosts, Spec
from mrc_workbench.retrieval.measures import Measure, Scores, evaluate, required_depth
from mrc_workbench.retrieval.mix import SignalDetails, read_signal
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings
from mrc_workbench.retrieval.significance import LEVEL, PERMUTATIONS, RESAMPLES

logger = logging.getLogger(__name__)


def build_context(
    experiment: Experiment,
    question_set: QuestionSet,
    base: Path | None = None,
    on_progress: Callable[[float], None] | None = None,
    *,
    whole: QuestionSet | None = None,
) -> RetrieverContext:
    """Create the experiment's retrievers: `retrievers` of the returned context, by name.

    The first search builds an index. Imported runs answer only the questions of the set; a learned mix trains on the
    `whole` set, of which the questions are a part. A retriever that cannot be created is an exception instead.
    """
    options: dict[str, Any] = {"specs": experiment.specs, "full_set": whole}
    options |= {"evaluated_split": (experiment.split_options, experiment.split)}
    context = RetrieverContext(question_set, base, on_progress, experiment.depths, **options)
    for spec in experiment.retriever:
        try:
            context.retrievers[spec.name] = spec.make(context)
        except Exception as error:
            context.retrievers[spec.name] = as_missing_extra(error)
    return context


@dataclass(frozen=True)
class Result(SearchCosts):
    """Rankings, metrics and costs of one retriever. A failed retriever has an `error` and no metrics."""

    name: str
    rankings: Rankings | None = None
    scores: Scores | None = None
    incomplete: int = 0  # questions with fewer results than the largest K
    unanswered: int = 0  # questions without any result
    error: Exception | None = None

    @classmethod
    def of(
        cls, name: str, rankings: Rankings, scores: Scores, question_set: QuestionSet, costs: SearchCosts | None = None
    ) -> Self:
        expected = min(max(scores.ks, default=rankings.indices.shape[1]), len(question_set.passages))
        counts = (rankings.indices[:, :expected] != NOT_FOUND).sum(axis=1)
        incomplete = int((counts < expected).sum())
        return cls(name, rankings, scores, incomplete, int((counts == 0).sum()), **vars(costs or SearchCosts()))

    @property
    def error_message(self) -> str:
        return error_message(self.error) if self.error else ""

    @property
    def imported(self) -> bool:
        """Whether its rankings come from a run."""
        return "other_questions" in self.notes

    @property
    def cut_off(self) -> int:
        return int(self.notes.get("cut_off", 0))

    @property
    def signals(self) -> Mapping[str, SignalDetails]:
        """The `weight` and `gain` of each signal of a learned mix, by name; empty for other retrievers."""
        return {name: read_signal(details) for name, details in self.notes.get("signals", {}).items()}

    @property
    def metrics(self) -> dict[str, float]:
        """The mean of every measure, 0 to 1, and the known seconds; empty if it failed."""
        means = self.scores.means() if self.scores else {}
        if not means or (self.imported and not self.query_seconds):
            return means
        build = {} if self.imported else {"build_seconds": self.build_seconds}
        remote = {"elsewhere_seconds": self.elsewhere_seconds} if self.elsewhere_seconds else {}
        return {**means, **build, "query_seconds": self.query_seconds, **remote}

    @property
    def training_query_count(self) -> int | None:
        return int(self.notes["questions"]) if "signals" in self.notes else None

    @property
    def warnings(self) -> list[str]:
        """Limits of the conclusions about it, in English."""
        name = self.name
        notes = self.notes
        warnings = []
        if self.training_query_count is not None:
            warnings.append(few_questions(self.training_query_count, f"training questions for {name}"))
        if count := notes.get("unknown_passages"):
            example = f", such as {notes['unknown_example']!r}" if notes.get("unknown_example") else ""
            warnings.append(f"{name}: {count:,} results name passages that are not in the dataset{example}; skipped.")
        if count := notes.get("repeated"):
            counted = "each passage counts once, with its best score"
            warnings.append(f"{name}: {count:,} results repeat a passage; {counted}.")
        if count := notes.get("rising_scores"):
            reason = "as with distances; a higher score counts as better"
            warnings.append(f"{name}: for {count:,} questions the first result has the lowest score, {reason}.")
        return warnings

    def as_dict(self) -> dict[str, object]:
        if self.scores is None:
            return self.error.as_dict() if isinstance(self.error, Failure) else {"error": self.error_message}
        always = ("build_seconds", "query_seconds", "model_seconds", "memory_bytes", "incomplete", "unanswered")
        optional = {"elsewhere_seconds": self.elsewhere_seconds, "notes": dict(self.notes)}
        return self.scores.means() | {name: getattr(self, name) for name in always} | _without_empty(optional)


@dataclass(frozen=True)
class Comparison:
    """Results over the evaluated questions, in the order of the experiment."""

    experiment: Experiment
    question_set: QuestionSet  # all passages, and the evaluated questions
    results: tuple[Result, ...]
    split: Split | None = None  # of the whole dataset, None if unknown

    @cached_property
    def rankings(self) -> dict[str, Rankings]:
        return {result.name: result.rankings for result in self.results if result.rankings}

    @cached_property
    def scores(self) -> dict[str, Scores]:
        """Scores by name, without failed retrievers."""
        return {result.name: result.scores for result in self.results if result.scores}

    @property
    def incomplete_mixes(self) -> list[tuple[str, str, int]]:
        """Mixes, a component that returns nothing for some questions, and the number of these questions."""
        unanswered = {result.name: result.unanswered for result in self.results}
        pairs = find_incomplete_mixes(self.experiment.retriever, unanswered)
        return [(name, component, unanswered[component]) for name, component in pairs]

    @property
    def cut_off(self) -> list[tuple[str, int, list[str]]]:
        """Retrievers that truncate passages, the number of these passages, and retrievers that wrap them."""
        wrapped = {name: self.experiment.with_dependencies([name])[:-1] for name in self.experiment.specs}
        rows = []
        for result in self.results:
            dependents = [name for name, specs in wrapped.items() if result.name in [spec.name for spec in specs]]
            if result.cut_off:
                rows.append((result.name, result.cut_off, dependents))
        return rows

    @property
    def warnings(self) -> list[str]:
        """Limits of the conclusions, in English, for the command line, the Python API and exports."""
        warnings = [few_questions(len(self.question_set.questions), "questions are compared")]
        for result in self.results:
            warnings += result.warnings
        warnings += [
            f"{name} has at most {depth:,} passages per question, so metrics that look deeper have no value. "
            f"All metrics need {self.depth:,} passages per question."
            for name, depth in self.shallow_retrievers
        ]
        return [warning for warning in warnings if warning]

    @property
    def depth(self) -> int:
        return min(required_depth(self.experiment.ks), len(self.question_set.passages))

    @property
    def shallow_retrievers(self) -> list[tuple[str, int]]:
        """Retrievers with rankings that are too short for some metrics, and the length of these rankings."""
        depths = [(name, rankings.indices.shape[1]) for name, rankings in self.rankings.items()]
        return [(name, depth) for name, depth in depths if depth < self.depth]

    def as_dict(self) -> dict[str, object]:
        """Return the content of `scores.json`: measures between 0 and 1, times in seconds."""
        return {
            "data": self.question_set.name,
            "fingerprint": self.question_set.fingerprint,
            "split": self.experiment.split.value,
            "questions": len(self.question_set.questions),
            **_without_empty({"synthetic_questions": self.question_set.generated_counts}),
            "passages": len(self.question_set.passages),
            **_without_empty({"parts": self.split.summary() if self.split else {}, "warnings": self.warnings}),
            "retrievers": {result.name: result.as_dict() for result in self.results},
        }


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def values_by_retriever(scores: Mapping[str, Scores], measure: Measure | str) -> dict[str, np.ndarray]:
    """Return the values per question of each retriever that has the measure."""
    column = str(measure)
    return {name: entry.per_question[column] for name, entry in scores.items() if column in entry.per_question}


def find_incomplete_mixes(specs: Iterable[Spec], unanswered: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return mixes and a component that returns nothing for some questions (`unanswered`, by name)."""
    mixes = (spec for spec in specs if len(spec.components) > 1)
    return [(spec.name, component) for spec in mixes for component in spec.components if unanswered.get(component)]


def compare(
    experiment: Experiment,
    question_set: QuestionSet,
    *,
    base: Path | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    on_result: Callable[[Result], None] | None = None,
    estimator: TimeEstimator | None = None,
) -> Comparison:
    """Search and score every retriever of the experiment over the questions of its split.

    `on_progress(name, fraction)` gets the running retriever and the fraction of all work that is done; `estimator` then
    estimates the remaining time. `on_result` gets each result immediately. Raises `ValueError` if the split has no
    question with a relevant passage.
    """
    split_parts = split(question_set, experiment.split_options)
    search = _Search(experiment, question_set, base, on_progress, estimator or TimeEstimator(), split_parts)
    results = []
    for result in search.results(list(experiment.specs)):
        results.append(result)
        if on_result:
            on_result(result)
    if on_progress:
        on_progress("", 1.0)
    return Comparison(experiment, search.evaluated, tuple(results), split_parts)


def search_model_free(
    experiment: Experiment,
    question_set: QuestionSet,
    *,
    base: Path | None = None,
    on_progress: Callable[[str, float], None],
    on_result: Callable[[Result], None],
    estimator: TimeEstimator,
) -> bool:
    """Search the retrievers that need no model or are cached, and cache their rankings for `compare`.

    Returns whether other retrievers remain. Of the errors of `compare`, it raises only `ValueError`.
    """
    search = _Search(experiment, question_set, base, on_progress, estimator)
    retrievers = build_context(experiment, search.evaluated, base, whole=question_set).retrievers
    model_free: list[str] = []
    for spec in experiment.retriever:
        retriever = retrievers[spec.name]
        is_cached = not isinstance(retriever, Exception) and search.is_finished(retriever)
        if (is_cached or not spec.needs_model) and all(component in model_free for component in spec.components):
            model_free.append(spec.name)
    for result in search.results(model_free):
        on_result(result)
    remaining = [name for name in experiment.specs if name not in model_free]
    if remaining:
        on_progress(remaining[0], estimator.update(remaining[0], 0.0))
    return bool(remaining)


@dataclass
class _Search:
    """Searches retrievers of an experiment over the questions of its split, one after the other."""

    experiment: Experiment
    question_set: QuestionSet
    base: Path | None
    on_progress: Callable[[str, float], None] | None
    estimator: TimeEstimator
    split_parts: Split | None = None
    running: str = ""

    @cached_property
    def evaluated(self) -> QuestionSet:
        evaluated = self.experiment.evaluation_set(self.question_set, self.split_parts)
        if not evaluated.questions:
            problem = f"the {self.experiment.split.value} part has no question with a relevant passage"
            raise ValueError(f"{problem}: retrievers are compared by questions whose passages are known")
        return evaluated

    def is_finished(self, retriever: CachedRetriever | Exception) -> bool:
        texts = [question.text for question in self.evaluated.questions]
        return isinstance(retriever, Exception) or retriever.is_cached(texts, retriever.depth)

    def results(self, names: Sequence[str]) -> Iterator[Result]:
        self.running = names[0] if names else ""
        context = build_context(self.experiment, self.evaluated, self.base, self._report, whole=self.question_set)
        retrievers = context.retrievers
        finished = [name for name, retriever in retrievers.items() if self.is_finished(retriever)]
        self.estimator.start(self.experiment.specs, self.evaluated, finished)
        for name in names:
            self.running = name
            self._report(0.0)
            yield _result(name, retrievers[name], self.evaluated, self.experiment.ks)
        self.estimator.finish()

    def _report(self, fraction: float) -> None:
        done = self.estimator.update(self.running, fraction)
        if self.on_progress:
            self.on_progress(self.running, done)


def _result(
    name: str, retriever: CachedRetriever | Exception, question_set: QuestionSet, ks: tuple[int, ...]
) -> Result:
    if isinstance(retriever, Exception):
        return Result(name, error=retriever)
    try:
        rankings = retriever.search([question.text for question in question_set.questions], retriever.depth)
    except Exception as raised:
        error = as_missing_extra(raised)
        # an error that a user can fix has no traceback in the log
        is_expected = isinstance(error, Failure | OSError | MemoryError)
        logger.log(logging.DEBUG if is_expected else logging.ERROR, "retriever %r failed", name, exc_info=True)
        return Result(name, error=error)
    finally:
        retriever.release()  # retrievers that wrap it read its rankings from disk
    return Result.of(name, rankings, evaluate(rankings, question_set, ks), question_set, retriever.costs)


def write_packaged_bases(experiment: Experiment) -> None:
    """Write missing folders of the packaged bases of an experiment; the retriever that needs a base reports errors."""
    for spec in experiment.retriever:
        with suppress(ModelError, OSError):
            if base := packaged_base(str(getattr(spec, "model", ""))):
                base.write()


# libraries with versions that may change metrics; missing ones are left out
LIBRARIES = (
    *("numpy", "scipy", "scikit-learn", "numba", "rank-bm25", "kiwipiepy", "faiss-cpu", "pymilvus", "milvus-lite"),
    *("torch", "transformers", "sentence-transformers", "tokenizers"),
)


def provenance(
    comparison: Comparison, question_set: QuestionSet | None = None, base: Path | None = None
) -> dict[str, Any]:
    """Return the data, settings, versions and machine of a comparison, JSON-able.

    `question_set` is the whole dataset, if a part of it was compared; `base` is that of `compare`.
    """
    experiment = comparison.experiment
    evaluated = comparison.question_set
    full_set = question_set or evaluated
    context = RetrieverContext(evaluated, base)
    parts = comparison.split or split(full_set, experiment.split_options)
    return {
        "created_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "data": {
            "name": full_set.name,
            "fingerprint": full_set.fingerprint,
            "corpus_fingerprint": full_set.corpus_fingerprint,
            "questions": len(full_set.questions),
            **_without_empty({"synthetic_questions": full_set.generated_counts}),
            "passages": len(full_set.passages),
        },
        "split": {
            "part": experiment.split.value,
            "validation": experiment.validation_fraction,
            "test": experiment.test_fraction,
            "seed": experiment.seed,
            **parts.summary(),
        },
        "experiment": experiment.model_dump(mode="json", exclude_none=True),
        "retrievers": {spec.name: spec.resolved_values(context) for spec in experiment.retriever},
        "analyzer_version": ANALYZER_VERSION,
        "languages_version": LANGUAGES_VERSION,
        "statistics": {
            "level": LEVEL,
            "resamples": RESAMPLES,
            "permutations": PERMUTATIONS,
            "seed": 0,
            "correction": "max-t",
        },
        "versions": versions(LIBRARIES),
        "hardware": hardware(),
        "commit": commit(),
    }
