"""The comparison: several retrievers, the same questions, every measure side by side."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from mrc_workbench.data.jobs.processes import commit, hardware, versions
from mrc_workbench.data.problems import Failure, with_extra
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
from mrc_workbench.retrieval.measures import Scores, evaluate, required_depth
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
    """Make the experiment's retrievers over the set's passages: `made` of the materials returned, by name.

    The first search builds an index. Imported runs answer only the questions of the set; a mix learns from the `whole`
    set that they are a part of. A retriever that cannot be made is an exception instead.
    """
    evaluated_split = experiment.split_options, experiment.split
    context = RetrieverContext(
        question_set,
        base,
        on_progress,
        experiment.depths,
        specs=experiment.specs,
        full_set=whole,
        evaluated_split=evaluated_split,
    )
    for spec in experiment.retriever:
        try:
            context.retrievers[spec.name] = spec.make(context)
        except Exception as error:
            context.retrievers[spec.name] = with_extra(error)
    return context


@dataclass(frozen=True)
class Result(SearchCosts):
    """Rankings, metrics and costs of one retriever. One that failed has an `error` and no metric: never one of 0."""

    name: str
    rankings: Rankings | None = None
    scores: Scores | None = None
    short: int = 0  # questions with fewer results than the largest K
    unanswered: int = 0  # questions without any result
    error: Exception | None = None

    @classmethod
    def of(
        cls, name: str, rankings: Rankings, scores: Scores, question_set: QuestionSet, costs: SearchCosts | None = None
    ) -> Self:
        expected_count = min(max(scores.ks, default=rankings.indices.shape[1]), len(question_set.passages))
        counts = (rankings.indices[:, :expected_count] != NOT_FOUND).sum(axis=1)
        short = int((counts < expected_count).sum())
        unanswered = int((counts == 0).sum())
        return cls(name, rankings, scores, short, unanswered, **vars(costs or SearchCosts()))

    @property
    def error_message(self) -> str:
        return error_message(self.error) if self.error else ""

    @property
    def imported(self) -> bool:
        """Whether its rankings were made elsewhere: nothing was built or searched here."""
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
        """The mean of every measure, 0 to 1, and the seconds that are known; empty if it failed."""
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
        """What limits the conclusions about it, in English."""
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
        always = ("build_seconds", "query_seconds", "model_seconds", "memory_bytes", "short", "unanswered")
        optional = {"elsewhere_seconds": self.elsewhere_seconds, "notes": dict(self.notes)}
        known = {name: value for name, value in optional.items() if value}
        return {**self.scores.means(), **{name: getattr(self, name) for name in always}, **known}


@dataclass(frozen=True)
class Comparison:
    """Results over the questions asked, in the order of the experiment."""

    experiment: Experiment
    question_set: QuestionSet  # the whole corpus, the questions of the part compared
    results: tuple[Result, ...]
    split: Split | None = None  # the split of the whole set, None if unknown

    @cached_property
    def rankings(self) -> dict[str, Rankings]:
        return {result.name: result.rankings for result in self.results if result.rankings}

    @cached_property
    def scores(self) -> dict[str, Scores]:
        """By name, without retrievers that failed."""
        return {result.name: result.scores for result in self.results if result.scores}

    @property
    def blind(self) -> list[tuple[str, str, int]]:
        """Mixes with a part that found nothing for some questions, that part, and for how many questions."""
        unanswered = {result.name: result.unanswered for result in self.results}
        return [
            (name, component, unanswered[component])
            for name, component in find_incomplete_mixes(self.experiment.retriever, unanswered)
        ]

    @property
    def cut_off(self) -> list[tuple[str, int, list[str]]]:
        """Retrievers that read only the beginning of some passages, of how many, and those that wrap them."""
        experiment = self.experiment
        wrapped_names = {
            name: {spec.name for spec in experiment.with_dependencies([name])} - {name} for name in experiment.specs
        }
        return [
            (result.name, result.cut_off, [name for name, wrapped in wrapped_names.items() if result.name in wrapped])
            for result in self.results
            if result.cut_off
        ]

    @property
    def warnings(self) -> list[str]:
        """What limits the conclusions, in English, for the command line, the Python API and exports."""
        warnings = [few_questions(len(self.question_set.questions), "questions are compared")]
        for result in self.results:
            warnings += result.warnings
        warnings += [
            f"{name} has at most {depth:,} passages per question, so metrics that look deeper have no value. "
            f"All metrics need {self.depth:,} passages per question."
            for name, depth in self.shallow
        ]
        return [warning for warning in warnings if warning]

    @property
    def depth(self) -> int:
        return min(required_depth(self.experiment.ks), len(self.question_set.passages))

    @property
    def shallow(self) -> list[tuple[str, int]]:
        """Retrievers whose rankings end before the metrics do, which have no deeper metrics, and where they end."""
        depths = [(name, rankings.indices.shape[1]) for name, rankings in self.rankings.items()]
        return [(name, depth) for name, depth in depths if depth < self.depth]

    def as_dict(self) -> dict[str, object]:
        """Return the content of `scores.json`: measures as shares between 0 and 1, times in seconds."""
        return {
            "data": self.question_set.name,
            "fingerprint": self.question_set.fingerprint,
            "split": self.experiment.split.value,
            "questions": len(self.question_set.questions),
            **({"made_questions": self.question_set.generated_counts} if self.question_set.generated_counts else {}),
            "passages": len(self.question_set.passages),
            **({"parts": self.split.summary()} if self.split else {}),
            **({"warnings": warnings} if (warnings := self.warnings) else {}),
            "retrievers": {result.name: result.as_dict() for result in self.results},
        }


def find_incomplete_mixes(specs: Iterable[Spec], unanswered: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return the mixes with a part that found nothing for some questions, `unanswered` by name, and that part."""
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

    `on_progress(name, fraction)` hears which retriever is running and how much of all work is done, 0 to 1; `pace` then
    knows how long the rest takes. `on_result` gets each result as soon as it is there. Raises `ValueError` if the split
    has no question with a relevant passage.
    """
    report_progress = on_progress or (lambda *_: None)
    split_parts = split(question_set, experiment.split_options)
    evaluated = _evaluation_set(experiment, question_set, split_parts)
    names = list(experiment.specs)
    results = []
    estimator = estimator or TimeEstimator()
    for result in _search_each(
        experiment, question_set, evaluated, names, base, on_progress=report_progress, estimator=estimator
    ):
        results.append(result)
        if on_result:
            on_result(result)
    report_progress("", 1.0)
    return Comparison(experiment, evaluated, tuple(results), split_parts)


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

    Returns whether any is left for that. `compare` meets every error again; only its `ValueError` is raised.
    """
    evaluated = _evaluation_set(experiment, question_set)
    texts = [question.text for question in evaluated.questions]
    retrievers = build_context(experiment, evaluated, base, whole=question_set).retrievers
    model_free: list[str] = []
    for spec in experiment.retriever:
        retriever = retrievers[spec.name]
        needs_no_loading = not spec.needs_model or (
            not isinstance(retriever, Exception) and _is_finished(retriever, texts)
        )
        if needs_no_loading and all(component in model_free for component in spec.components):
            model_free.append(spec.name)
    for result in _search_each(
        experiment, question_set, evaluated, model_free, base, on_progress=on_progress, estimator=estimator
    ):
        on_result(result)
    remaining = [name for name in experiment.specs if name not in model_free]
    if remaining:
        on_progress(remaining[0], estimator.update(remaining[0], 0.0))
    return bool(remaining)


def _evaluation_set(experiment: Experiment, question_set: QuestionSet, split_parts: Split | None = None) -> QuestionSet:
    evaluated = experiment.evaluation_set(question_set, split_parts)
    if not evaluated.questions:
        problem = f"the {experiment.split.value} part has no question with a relevant passage"
        raise ValueError(f"{problem}: retrievers are compared by questions whose passages are known")
    return evaluated


def _search_each(
    experiment: Experiment,
    full_set: QuestionSet,
    evaluated: QuestionSet,
    names: Sequence[str],
    base: Path | None,
    *,
    on_progress: Callable[[str, float], None],
    estimator: TimeEstimator,
) -> Iterator[Result]:
    """Search the retrievers named, one after the other, and report progress while one is running."""
    running = names[0] if names else ""

    def report_within(fraction: float) -> None:
        on_progress(running, estimator.update(running, fraction))

    retrievers = build_context(experiment, evaluated, base, report_within, whole=full_set).retrievers
    texts = [question.text for question in evaluated.questions]
    estimator.start(
        experiment.specs, evaluated, [name for name, retriever in retrievers.items() if _is_finished(retriever, texts)]
    )
    for running in names:
        report_within(0.0)
        yield _result(running, retrievers[running], evaluated, experiment.ks)
    estimator.finish()


def _is_finished(retriever: CachedRetriever | Exception, questions: Sequence[str]) -> bool:
    return isinstance(retriever, Exception) or retriever.is_cached(questions, retriever.depth)


def _result(
    name: str, retriever: CachedRetriever | Exception, question_set: QuestionSet, ks: tuple[int, ...]
) -> Result:
    if isinstance(retriever, Exception):
        return Result(name, error=retriever)
    try:
        rankings = retriever.search([question.text for question in question_set.questions], retriever.depth)
    except Exception as raised:
        error = with_extra(raised)
        # an error that a user can mend is reported without its traceback
        is_expected = isinstance(error, Failure | OSError | MemoryError)
        logger.log(logging.DEBUG if is_expected else logging.ERROR, "retriever %r failed", name, exc_info=True)
        return Result(name, error=error)
    finally:
        retriever.release()  # those that wrap it find its rankings on disk
    return Result.of(name, rankings, evaluate(rankings, question_set, ks), question_set, retriever.costs)


def write_packaged_bases(experiment: Experiment) -> None:
    """Write the packaged bases of an experiment as folders that libraries read, unless they are there.

    It takes seconds, while another process loads the libraries. The retriever that needs a base reports an error.
    """
    for spec in experiment.retriever:
        with suppress(ModelError, OSError):
            if base := packaged_base(str(getattr(spec, "model", ""))):
                base.write()


# the libraries whose versions decide metrics; those that are not installed are left out
LIBRARIES = (
    *("numpy", "scipy", "scikit-learn", "numba", "rank-bm25", "kiwipiepy", "faiss-cpu", "pymilvus", "milvus-lite"),
    *("torch", "transformers", "sentence-transformers", "tokenizers"),
)


def provenance(
    comparison: Comparison, question_set: QuestionSet | None = None, base: Path | None = None
) -> dict[str, Any]:
    """Return the data, settings, versions and machine of a comparison, JSON-able.

    `question_set` is the whole set, if only a part of it was compared; `base` is that of `compare`.
    """
    experiment = comparison.experiment
    evaluated = comparison.question_set
    full_set = question_set or evaluated
    context = RetrieverContext(evaluated, base)
    parts = comparison.split or split(full_set, experiment.split_options)
    return {
        "made": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "data": {
            "name": full_set.name,
            "fingerprint": full_set.fingerprint,
            "corpus_fingerprint": full_set.corpus_fingerprint,
            "questions": len(full_set.questions),
            **({"made_questions": full_set.generated_counts} if full_set.generated_counts else {}),
            "passages": len(full_set.passages),
        },
        "split": {
            "part": experiment.split.value,
            "validation": experiment.validation_share,
            "test": experiment.test_share,
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
