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
from mrc_workbench.retrieval.comparison.pace import Pace
from mrc_workbench.retrieval.comparison.spec import CachedRetriever, Materials, SearchCosts, Spec
from mrc_workbench.retrieval.measures import Scores, depth_of, evaluate
from mrc_workbench.retrieval.mix import SignalTold
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings
from mrc_workbench.retrieval.significance import LEVEL, PERMUTATIONS, RESAMPLES

logger = logging.getLogger(__name__)


def materials_of(
    experiment: Experiment,
    question_set: QuestionSet,
    base: Path | None = None,
    on_progress: Callable[[float], None] | None = None,
    *,
    whole: QuestionSet | None = None,
) -> Materials:
    """Make the experiment's retrievers over the set's passages: `made` of the materials returned, by name.

    The first search builds an index. Imported runs answer only the questions of the set; a mix learns from the `whole`
    set that they are a part of. A retriever that cannot be made is an exception instead.
    """
    asked = experiment.split_options, experiment.split
    materials = Materials(
        question_set, base, on_progress, experiment.depths, specs=experiment.specs, whole=whole, asked=asked
    )
    for spec in experiment.retriever:
        try:
            materials.made[spec.name] = spec.make(materials)
        except Exception as error:
            materials.made[spec.name] = with_extra(error)
    return materials


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
        within = min(max(scores.ks, default=rankings.indices.shape[1]), len(question_set.passages))
        counts = (rankings.indices[:, :within] != NOT_FOUND).sum(axis=1)
        short, unanswered = int((counts < within).sum()), int((counts == 0).sum())
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
    def signals(self) -> Mapping[str, SignalTold]:
        """What a learned mix knows of its signals, by name: `share` and `brings`; empty of every other."""
        return dict(self.notes.get("signals", {}))

    @property
    def figures(self) -> dict[str, float]:
        """The mean of every measure, 0 to 1, and the seconds that are known; empty if it failed."""
        means = self.scores.means() if self.scores else {}
        if not means or (self.imported and not self.query_seconds):
            return means
        build = {} if self.imported else {"build_seconds": self.build_seconds}
        elsewhere = {"elsewhere_seconds": self.elsewhere_seconds} if self.elsewhere_seconds else {}
        return {**means, **build, "query_seconds": self.query_seconds, **elsewhere}

    @property
    def taught_by(self) -> int | None:
        return int(self.notes["questions"]) if "signals" in self.notes else None

    @property
    def warnings(self) -> list[str]:
        """What limits the conclusions about it, in English."""
        name, notes, warnings = self.name, self.notes, []
        if self.taught_by is not None:
            warnings.append(few_questions(self.taught_by, f"training questions for {name}"))
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
    parts: Split | None = None  # the split of the whole set, None if unknown

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
        return [(name, part, unanswered[part]) for name, part in blind_parts(self.experiment.retriever, unanswered)]

    @property
    def cut_off(self) -> list[tuple[str, int, list[str]]]:
        """Retrievers that read only the beginning of some passages, of how many, and those that wrap them."""
        experiment = self.experiment
        needs = {name: {one.name for one in experiment.needed([name])} - {name} for name in experiment.specs}
        return [
            (result.name, result.cut_off, [name for name, needed in needs.items() if result.name in needed])
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
        return min(depth_of(self.experiment.ks), len(self.question_set.passages))

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
            **({"made_questions": self.question_set.made} if self.question_set.made else {}),
            "passages": len(self.question_set.passages),
            **({"parts": self.parts.summary()} if self.parts else {}),
            **({"warnings": warnings} if (warnings := self.warnings) else {}),
            "retrievers": {result.name: result.as_dict() for result in self.results},
        }


def blind_parts(specs: Iterable[Spec], unanswered: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return the mixes with a part that found nothing for some questions, `unanswered` by name, and that part."""
    mixes = (spec for spec in specs if len(spec.parts) > 1)
    return [(spec.name, part) for spec in mixes for part in spec.parts if unanswered.get(part)]


def compare(
    experiment: Experiment,
    question_set: QuestionSet,
    *,
    base: Path | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    on_result: Callable[[Result], None] | None = None,
    pace: Pace | None = None,
) -> Comparison:
    """Search and score every retriever of the experiment over the questions of its split.

    `on_progress(name, fraction)` hears which retriever is running and how much of all work is done, 0 to 1; `pace` then
    knows how long the rest takes. `on_result` gets each result as soon as it is there. Raises `ValueError` if the split
    has no question with a relevant passage.
    """
    report_progress = on_progress or (lambda *_: None)
    parts = split(question_set, experiment.split_options)
    asked = _asked(experiment, question_set, parts)
    names = list(experiment.specs)
    results = []
    pace = pace or Pace()
    for result in _in_turn(experiment, question_set, asked, names, base, on_progress=report_progress, pace=pace):
        results.append(result)
        if on_result:
            on_result(result)
    report_progress("", 1.0)
    return Comparison(experiment, asked, tuple(results), parts)


def search_light(
    experiment: Experiment,
    question_set: QuestionSet,
    *,
    base: Path | None = None,
    on_progress: Callable[[str, float], None],
    on_result: Callable[[Result], None],
    pace: Pace,
) -> bool:
    """Search the retrievers that need no model or are cached, and cache their rankings for `compare`.

    Returns whether any is left for that. `compare` meets every error again; only its `ValueError` is raised.
    """
    asked = _asked(experiment, question_set)
    texts = [question.text for question in asked.questions]
    retrievers = materials_of(experiment, asked, base, whole=question_set).made
    light: list[str] = []
    for spec in experiment.retriever:
        made = retrievers[spec.name]
        reads_nothing = not spec.needs_model or (not isinstance(made, Exception) and _is_done(made, texts))
        if reads_nothing and all(part in light for part in spec.parts):
            light.append(spec.name)
    for result in _in_turn(experiment, question_set, asked, light, base, on_progress=on_progress, pace=pace):
        on_result(result)
    left = [name for name in experiment.specs if name not in light]
    if left:
        on_progress(left[0], pace.at(left[0], 0.0))
    return bool(left)


def _asked(experiment: Experiment, question_set: QuestionSet, parts: Split | None = None) -> QuestionSet:
    asked = experiment.asked(question_set, parts)
    if not asked.questions:
        part = f"the {experiment.split.value} part has no question with a relevant passage"
        raise ValueError(f"{part}: retrievers are compared by questions whose passages are known")
    return asked


def _in_turn(
    experiment: Experiment,
    whole: QuestionSet,
    asked: QuestionSet,
    names: Sequence[str],
    base: Path | None,
    *,
    on_progress: Callable[[str, float], None],
    pace: Pace,
) -> Iterator[Result]:
    """Search the retrievers named, one after the other, and report progress while one is running."""
    running = names[0] if names else ""

    def report_within(fraction: float) -> None:
        on_progress(running, pace.at(running, fraction))

    retrievers = materials_of(experiment, asked, base, report_within, whole=whole).made
    texts = [question.text for question in asked.questions]
    pace.begin(experiment.specs, asked, [name for name, made in retrievers.items() if _is_done(made, texts)])
    for running in names:
        report_within(0.0)
        yield _result(running, retrievers[running], asked, experiment.ks)
    pace.end()


def _is_done(made: CachedRetriever | Exception, questions: Sequence[str]) -> bool:
    return isinstance(made, Exception) or made.remembers(questions, made.depth)


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


def write_bases(experiment: Experiment) -> None:
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
    experiment, asked = comparison.experiment, comparison.question_set
    whole, materials = question_set or asked, Materials(asked, base)
    parts = comparison.parts or split(whole, experiment.split_options)
    return {
        "made": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "data": {
            "name": whole.name,
            "fingerprint": whole.fingerprint,
            "corpus_fingerprint": whole.corpus_fingerprint,
            "questions": len(whole.questions),
            **({"made_questions": whole.made} if whole.made else {}),
            "passages": len(whole.passages),
        },
        "split": {
            "part": experiment.split.value,
            "validation": experiment.validation_share,
            "test": experiment.test_share,
            "seed": experiment.seed,
            **parts.summary(),
        },
        "experiment": experiment.model_dump(mode="json", exclude_none=True),
        "retrievers": {spec.name: spec.resolved(materials) for spec in experiment.retriever},
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
