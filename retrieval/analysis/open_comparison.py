"""A comparison opened from its folder, its changes since an earlier one, and a quality gate.

The gate requires minimum scores, and that no retriever is significantly worse than in an earlier comparison. It tests
all retrievers that both comparisons contain together (see `significance.paired_tests`).
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from threading import RLock
from typing import Any, Self, TypeVar, cast

import numpy as np
import pandas as pd

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval import significance
from mrc_workbench.retrieval.analysis import questions as per_question
from mrc_workbench.retrieval.analysis.evidence import ComparisonEvidence, evidence, underjudged_tests
from mrc_workbench.retrieval.analysis.labs import CrossFit, cross_fit, lab_results
from mrc_workbench.retrieval.comparison.compare import Comparison, values_by_retriever
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.comparison.store import StoredComparison, get_comparison, load
from mrc_workbench.retrieval.explain import standing
from mrc_workbench.retrieval.lexical.terms import UnmatchedQuestions, find_unmatched_questions
from mrc_workbench.retrieval.measures import Measure, measure_names

logger = logging.getLogger(__name__)
AnalysisMethod = TypeVar("AnalysisMethod", bound=Callable[..., Any])
MAX_MEASURED_SLICES = 500  # a page would wait long for tens of thousands of titles


@dataclass(frozen=True)
class Change:
    """One metric of one retriever, before and after. `test` compares after with before."""

    retriever: str
    before: float
    after: float
    test: significance.PairTest


def find_difference(a: StoredComparison, b: StoredComparison) -> str | None:
    """Return how the questions or passages of two comparisons differ, as a code, or None."""
    if a.fingerprint == b.fingerprint:
        return None
    if a.corpus_fingerprint != b.corpus_fingerprint:
        return "other_passages"
    return "other_part" if a.part is not b.part else "other_questions"


def changes(before: Comparison, after: Comparison) -> list[Change]:
    """Test retrievers of the same name in two comparisons together, by every measure that both have.

    Raises `ValueError` if their questions or passages differ.
    """
    if before.question_set.fingerprint != after.question_set.fingerprint:
        raise ValueError("the two comparisons asked other questions, or searched other passages")
    names = []
    pairs = []
    for name, new in after.scores.items():
        old = before.scores[name].per_question if name in before.scores else {}
        for measure in new.per_question:
            if measure in old:
                names.append(name)
                pairs.append(significance.Pair("after", "before", measure, new.per_question[measure], old[measure]))
    tests = significance.paired_tests(pairs, significance.question_groups(after.question_set))
    return [
        Change(name, float(pair.values_b.mean()), float(pair.values_a.mean()), test)
        for name, pair, test in zip(names, pairs, tests, strict=True)
    ]


@dataclass(frozen=True)
class ScoreThreshold:
    """The minimum (0 to 1) of a measure, for a retriever, or for the best one if `retriever` is empty."""

    measure: Measure
    minimum: float
    retriever: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "ndcg@10=.95" or "Hybrid:ndcg@10=.95". Raises `ValueError` for anything else."""
        target, _, minimum = text.rpartition("=")
        if not target:
            raise ValueError(f"{text!r} names no metric to reach, as ndcg@10=.95 does")
        retriever, _, measure = target.rpartition(":")
        threshold = cls(Measure.parse(measure), float(minimum), retriever)
        if not 0 <= threshold.minimum <= 1:
            raise ValueError(f"metrics lie between 0 and 1, and so must {minimum}")
        return threshold


@dataclass(frozen=True)
class CheckResult:
    """Whether a condition holds, and a message with the measured values."""

    is_met: bool
    message: str


@dataclass(frozen=True)
class QualityGate:
    """The conditions for a comparison: thresholds, and to be no worse by `measure` than the comparison `before`."""

    thresholds: tuple[ScoreThreshold, ...]
    before: Comparison | None
    measure: Measure

    @classmethod
    def of(
        cls, experiment: Experiment, question_set: QuestionSet, at_least: Sequence[str], not_below: str, by: str
    ) -> Self:
        """Read the conditions for an experiment, before it runs.

        `not_below` is a key of the workspace or a folder of `compare`, or empty. Raises `ValueError` if the experiment
        lacks a retriever or a measure, or if the earlier comparison has other questions.
        """
        thresholds = tuple(map(ScoreThreshold.parse, at_least))
        measure = Measure.parse(by)
        before = None
        names = {*experiment.specs}
        known_measures = measure_names(experiment.ks)
        for threshold in thresholds:
            if threshold.retriever and threshold.retriever not in names:
                raise ValueError(f"no retriever of this experiment is called {threshold.retriever!r}")
        for required in (measure, *(threshold.measure for threshold in thresholds)):
            if str(required) not in known_measures:
                known = ", ".join(known_measures)
                raise ValueError(f"{required} is not measured here; ks of the experiment decide: {known}")
        if not_below:
            stored = get_comparison(not_below)
            before = load(stored.folder if stored else Path(not_below), question_set)
            if not names & {*before.scores}:
                raise ValueError(f"no retriever of {not_below} has the name of one here: {', '.join(before.scores)}")
        return cls(thresholds, before, measure)

    def check(self, comparison: Comparison) -> Iterator[CheckResult]:
        """Check every condition. Raises `ValueError` if the earlier comparison has other questions."""
        yield from (_check_threshold(threshold, comparison) for threshold in self.thresholds)
        if self.before is None:
            return
        failed = {result.name for result in comparison.results if result.error}
        for name in self.before.scores:
            if name in failed:
                yield CheckResult(False, f"{name} failed, and did not before")
        for change in changes(self.before, comparison):
            test = change.test
            if test.measure != str(self.measure):
                continue
            is_worse = test.is_significant and test.difference < 0
            yield CheckResult(
                not is_worse,
                f"{change.retriever}: {test.measure} {change.before:.4f} before, {change.after:.4f} now, "
                f"{test.difference:+.4f} ({test.low:+.4f} to {test.high:+.4f}; p = {test.p_family:.4f}), "
                f"{'worse' if is_worse else 'not worse'}",
            )


def _check_threshold(threshold: ScoreThreshold, comparison: Comparison) -> CheckResult:
    measure = threshold.measure
    values = values_by_retriever(comparison.scores, measure)
    if threshold.retriever:
        values = {name: entry for name, entry in values.items() if name == threshold.retriever}
    if not values:  # it failed or its rankings are too short: a missing value is not 0
        return CheckResult(False, f"{threshold.retriever or 'every retriever'} has no value of {measure}")
    best = max(values, key=lambda name: values[name].mean())
    low, high = significance.mean_interval(values[best], significance.question_groups(comparison.question_set))
    mean = float(values[best].mean())
    is_met = mean >= threshold.minimum
    relation = f"{'at least' if is_met else 'below'} {threshold.minimum:g}"
    return CheckResult(is_met, f"{best}: {measure} {mean:.4f} (95 % {low:.4f} to {high:.4f}), {relation}")


def _cache_last(count: int) -> Callable[[AnalysisMethod], AnalysisMethod]:
    """Cache the last `count` results of an analysis by its arguments; sessions that need a new one take turns."""

    def decorate(analysis: AnalysisMethod) -> AnalysisMethod:
        @wraps(analysis)
        def cached(self: "OpenComparison", *arguments: object) -> Any:
            results = self._cache.setdefault(analysis.__name__, {})
            with suppress(KeyError):
                return results[arguments]
            with self._lock:
                if arguments not in results:
                    results[arguments] = analysis(self, *arguments)
                    if len(results) > count:
                        del results[next(iter(results))]
                return results[arguments]

        return cast(AnalysisMethod, cached)

    return decorate


class OpenComparison:
    """A stored comparison and its cached analyses of retrievers with rankings. Raises `ValueError` as `store.load`."""

    def __init__(self, folder: Path, question_set: QuestionSet) -> None:
        self.folder = folder
        self.comparison = load(folder, question_set)
        self._cache: dict[str, dict[tuple[object, ...], Any]] = {}
        self._lock = RLock()  # an analysis may need another

    @property
    def question_set(self) -> QuestionSet:
        return self.comparison.question_set

    @property
    @_cache_last(1)
    def groups(self) -> np.ndarray:
        return significance.question_groups(self.question_set)

    @property
    @_cache_last(1)
    def intervals(self) -> dict[str, dict[str, tuple[float, float]]]:
        return {name: significance.intervals_of(scores, self.groups) for name, scores in self.comparison.scores.items()}

    @property
    @_cache_last(1)
    def evidence(self) -> ComparisonEvidence:
        return evidence(self.comparison)

    @property
    @_cache_last(1)
    def underjudged_tests(self) -> list[significance.PairTest]:
        return underjudged_tests(self.comparison.scores, self.groups)

    @_cache_last(16)
    def tests(self, names: tuple[str, ...], measure: str, baseline: str | None = None) -> list[significance.PairTest]:
        scores = {name: entry for name, entry in self.comparison.scores.items() if name in names}
        return significance.pair_tests(scores, [measure], self.groups, baseline=baseline)

    @_cache_last(2)
    def changes_since(self, earlier: "OpenComparison") -> list[Change]:
        return changes(earlier.comparison, self.comparison)

    @_cache_last(16)
    def lab_results(self, measure: str) -> pd.DataFrame:
        return lab_results(self.comparison, measure, self.groups)

    @_cache_last(16)
    def cross_fit(self, current: str, measure: str) -> CrossFit | None:
        return cross_fit(self.comparison, self.lab_results(measure), current, measure, self.groups)

    @property
    @_cache_last(1)
    def properties(self) -> list[per_question.SliceProperty]:
        return per_question.properties(self.question_set)

    @_cache_last(len(per_question.SliceProperty))
    def slices(self, by: per_question.SliceProperty) -> list[per_question.Slice]:
        return per_question.slices(self.question_set, by)

    @_cache_last(16)
    def slice_results(self, by: per_question.SliceProperty, names: tuple[str, ...], measure: str) -> pd.DataFrame:
        """Return the `slice_table` of the first `MAX_MEASURED_SLICES` slices, with "p_holm" of their tests."""
        scores = {name: self.comparison.scores[name] for name in names if name in self.comparison.scores}
        parts = self.slices(by)[:MAX_MEASURED_SLICES]
        table = per_question.slice_table(parts, scores, measure, self.groups)
        return table.assign(p_holm=per_question.slice_tests(parts, scores, measure, self.groups))

    @_cache_last(8)
    def outcomes(self, k: int) -> dict[str, np.ndarray]:
        return per_question.find_outcomes(self.comparison, k)

    @_cache_last(4)
    def ceilings(self, depths: tuple[int, ...]) -> dict[str, np.ndarray]:
        return per_question.ceilings(self.comparison, depths)

    @_cache_last(4)
    def unmatched(self, analyzer: Analyzer) -> UnmatchedQuestions:
        return find_unmatched_questions(self.question_set, analyzer)

    @_cache_last(4)
    def ranks(self, names: tuple[str, ...]) -> per_question.RankMap:
        rankings = self.comparison.rankings
        return per_question.rank_map([rankings[name] for name in names if name in rankings], self.question_set)

    @_cache_last(4)
    def quadrants(self, pair: tuple[str, str], k: int) -> dict[per_question.Quadrant, np.ndarray]:
        ranks = self.ranks(pair).ranks
        return per_question.quadrants(ranks[:, 0], ranks[:, 1], k)

    @_cache_last(2)
    def questions(self, names: tuple[str, ...]) -> pd.DataFrame:
        depth = min(self.comparison.rankings[name].indices.shape[1] for name in names)
        return per_question.question_table(self.question_set, self.ranks(names).ranks, names, depth)

    @_cache_last(4)
    def disputed_rows(self, names: tuple[str, ...], count: int) -> list[int]:
        rankings = [self.comparison.rankings[name] for name in names if name in self.comparison.rankings]
        return per_question.most_disputed(rankings, self.question_set, count) if rankings else []

    @_cache_last(8)
    def rows_with_text(self, text: str) -> np.ndarray:
        return per_question.rows_with_text(self.question_set, text)

    @_cache_last(8)
    def same_article_rows(self, row: int) -> frozenset[int]:
        return per_question.same_article_rows(self.question_set, row)

    def fusion(self, spec: HybridSpec, row: int, passage: int) -> standing.FusionExplanation | None:
        """Explain the fused score of a passage; None if the stored rankings are not as deep as the fused ones."""
        rankings = self.comparison.rankings
        lists = {name: rankings[name] for name in spec.retrievers if name in rankings}
        depth = min(spec.top_k, len(self.question_set.passages))
        if len(lists) < len(spec.retrievers) or any(ranking.indices.shape[1] < depth for ranking in lists.values()):
            return None
        depths = [self.comparison.experiment.specs[name].scored_depth(spec.top_k) for name in spec.retrievers]
        options: dict[str, Any] = {"fusion": spec.fusion, "weights": spec.weights}
        return standing.fusion_contributions(lists, row, passage, depth=spec.top_k, depths=depths, **options)

    def reranking(self, spec: RerankSpec, row: int, passage: int) -> standing.RerankExplanation | None:
        """Explain the move of a passage; None if the ranking before is not stored, or the model's weight is gone."""
        before = self.comparison.rankings.get(spec.first_stage)
        after = self.comparison.rankings.get(spec.name)
        if before is None or after is None:
            return None
        try:
            weight = spec.weight_with(find_model(spec.model))
        except ModelError as error:
            logger.warning("the weight of %r is not known: %s", spec.name, error)
            return None
        return standing.rerank_contributions(before, after, row, passage, depth=spec.rerank_top_k, weight=weight)
