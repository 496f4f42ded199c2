"""The evidence of a comparison: intervals, tests, judgements, published scores, and the languages of questions.

A passage without a judgement counts as not relevant. A collection's judgements cover the results of some systems, so a
new system that finds other relevant passages seems worse than it is (Zobel 1998). Pooling avoids that: an assessor
judges the top K of all retrievers, and does not see their ranks (Sparck Jones & van Rijsbergen 1975).
"""

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, Field

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.analyzers import Analyzer, resolve_analyzer
from mrc_workbench.data.text.languages import foreign_language, language_of
from mrc_workbench.retrieval.comparison.compare import Comparison, values_by_retriever
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.measures import DEFAULT_CUTOFF, Measure, Scores, measure_names
from mrc_workbench.retrieval.rankings import NOT_FOUND
from mrc_workbench.retrieval.significance import PairTest, intervals_of, pair_tests, question_groups

_MAX_TESTS_AT_ONCE = 400  # memory holds the differences of so many
Intervals = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class ComparisonEvidence:
    """Intervals by retriever and measure, tests against the baseline, and tests of all other pairs, by measure."""

    baseline: str
    intervals: Mapping[str, Intervals]
    baseline_tests: tuple[PairTest, ...]
    other_tests: tuple[PairTest, ...]

    @property
    def tests(self) -> tuple[PairTest, ...]:
        return self.baseline_tests + self.other_tests

    def test(self, name: str, measure: str) -> PairTest | None:
        """Return the test of a retriever against the baseline, or None."""
        return next((test for test in self.baseline_tests if (test.a, test.measure) == (name, measure)), None)


def default_baseline(comparison: Comparison) -> str:
    """Return the name of BM25 with the default analyzer, else of the first retriever."""
    specs = [spec for spec in comparison.experiment.retriever if spec.name in comparison.scores]
    default_names = (spec.name for spec in specs if isinstance(spec, BM25Spec) and spec.analyzer is Analyzer.AUTO)
    return next(default_names, next(iter(comparison.scores), ""))


def evidence(comparison: Comparison, baseline: str = "") -> ComparisonEvidence:
    """Test all retrievers with scores, over groups of questions about the same passages."""
    groups = question_groups(comparison.question_set)
    scores = comparison.scores
    baseline = baseline or default_baseline(comparison)
    all_measures = [*measure_names(comparison.experiment.ks), *judged_measures(scores)]
    step = max(1, _MAX_TESTS_AT_ONCE // max(1, len(scores) * (len(scores) - 1) // 2))
    intervals = {name: intervals_of(entry, groups) for name, entry in scores.items()}
    other_scores = {name: entry for name, entry in scores.items() if name != baseline}
    baseline_tests: list[PairTest] = []
    other_tests: list[PairTest] = []
    for start in range(0, len(all_measures), step):
        measures = all_measures[start : start + step]
        baseline_tests += pair_tests(scores, measures, groups, baseline=baseline)
        other_tests += pair_tests(other_scores, measures, groups)
    return ComparisonEvidence(baseline, intervals, tuple(baseline_tests), tuple(other_tests))


def reversed_test(test: PairTest) -> PairTest:
    """Return the same test seen from the other side."""
    negated = replace(test, difference=-test.difference, low=-test.high, high=-test.low)
    return replace(negated, a=test.b, b=test.a, wins=test.losses, losses=test.wins)


def oriented_test(a: str, b: str, tests: Iterable[PairTest]) -> PairTest | None:
    """Return the test of a pair, by any measure, from the side of `a`, or None."""
    test = next((test for test in tests if {test.a, test.b} == {a, b}), None)
    return reversed_test(test) if test and test.a != a else test


@dataclass(frozen=True)
class MetricValue:
    """A mean with its 95% interval, between 0 and 1.

    `is_best` marks the highest of unequal means. `vs_baseline` is 1 (significantly above the baseline), -1 or 0.
    """

    mean: float
    low: float
    high: float
    is_best: bool
    vs_baseline: int

    @property
    def percent(self) -> str:
        return f"{self.mean * 100:.2f}"

    @property
    def interval(self) -> str:
        return f"{self.low * 100:.1f}–{self.high * 100:.1f}"


def metric_rows(
    comparison: Comparison, evidence: ComparisonEvidence, measures: Sequence[str]
) -> dict[str, list[MetricValue | None]]:
    """Return a row for each retriever in order, None if it has no value of a measure."""
    rows: dict[str, list[MetricValue | None]] = {result.name: [] for result in comparison.results}
    for measure in measures:
        values = values_by_retriever(comparison.scores, measure)
        means = {name: float(retriever_values.mean()) for name, retriever_values in values.items()}
        rounded = {round(mean, 4) for mean in means.values()}
        for name, row in rows.items():
            if name not in means:
                row.append(None)
                continue
            test = evidence.test(name, measure)
            direction = int(np.sign(test.difference)) if test and test.is_significant else 0
            is_best = len(rounded) > 1 and round(means[name], 4) == max(rounded)
            row.append(MetricValue(means[name], *evidence.intervals[name][measure], is_best, direction))
    return rows


def displayed_measures(comparison: Comparison) -> list[str]:
    """Return Recall@K for every K, MRR@10, nDCG@10, and the measures that need judgements, if there are any.

    Hit@K equals Recall@K if questions have one passage each.
    """
    recalls = [f"recall@{k}" for k in comparison.experiment.ks]
    return [*recalls, f"mrr@{DEFAULT_CUTOFF}", f"ndcg@{DEFAULT_CUTOFF}", *judged_measures(comparison.scores)]


def label(measure: str) -> str:
    """Return a measure's short name, like R@10."""
    return Measure.parse(measure).short_name


def default_measure(measure: str, ks: Sequence[int]) -> Measure:
    """Return a measure at its default K."""
    return Measure(measure, DEFAULT_CUTOFF if DEFAULT_CUTOFF in ks else ks[-1])


def at_ceiling(scores: Mapping[str, Scores], measure: Measure) -> bool:
    """Whether two or more retrievers have the measure, and all score nearly 1."""
    means = [values.mean() for values in values_by_retriever(scores, measure).values()]
    return len(means) > 1 and bool(min(means) > 0.99)


def discriminating_measure(scores: Mapping[str, Scores], ks: Sequence[int], measure: Measure) -> Measure:
    """Return the measure or, if it is at its ceiling, the same one at the smallest of `ks` that is not, if any."""
    if not at_ceiling(scores, measure):
        return measure
    finer = (Measure(measure.name, k) for k in sorted(ks) if k < measure.cutoff)
    return next((candidate for candidate in finer if not at_ceiling(scores, candidate)), measure)


JUDGED = f"judged@{DEFAULT_CUTOFF}"


def judged_measures(scores: Mapping[str, Scores]) -> list[str]:
    """Return the measures with values that need judgements: nDCG with exponential gain and Judged at 10, and Bpref."""
    measured = dict.fromkeys(measure for entry in scores.values() for measure in entry.per_question)
    by_name = (f"ndcg_exp@{DEFAULT_CUTOFF}", JUDGED)
    return [measure for measure in measured if measure in by_name or Measure.parse(measure).name == "bpref"]


def underjudged_tests(scores: Mapping[str, Scores], groups: np.ndarray) -> list[PairTest]:
    """Return the test of each retriever whose Judged@10 is clearly below the highest, against that one.

    Clearly means significantly, and by a tenth or more: one unjudged passage of the first ten may be relevant.
    """
    means = {name: values.mean() for name, values in values_by_retriever(scores, JUDGED).items()}
    if not means:
        return []
    tests = pair_tests(scores, [JUDGED], groups, baseline=max(means, key=means.__getitem__))
    return [test for test in tests if test.is_significant and round(-test.difference, 6) >= 1 / DEFAULT_CUTOFF]


class PooledPair(NamedTuple):
    """A pair to judge: a row of the comparison's questions, and a row of its corpus."""

    question: int
    passage: int


def pool(comparison: Comparison, questions: int, depth: int, seed: int = 0) -> list[PooledPair]:
    """Return the unjudged passages among the first `depth` of all retrievers, for so many questions.

    The seed shuffles the questions and the passages of each, which hides ranks. A smaller pool has the first questions
    of a larger one. Without judgements, all but relevant passages are unjudged.
    """
    evaluated = comparison.question_set
    known = evaluated.relevance if evaluated.judged is None else evaluated.judged

    def pools() -> Iterator[list[PooledPair]]:
        for row in np.random.default_rng(seed).permutation(len(evaluated.questions)).tolist():
            retrieved = [entry.indices[row, :depth] for entry in comparison.rankings.values()]
            judged = [NOT_FOUND, *known.indices[known.indptr[row] : known.indptr[row + 1]]]
            unjudged = np.setdiff1d(np.concatenate(retrieved), judged) if retrieved else np.array([], dtype=np.int64)
            if len(unjudged):
                shuffled = np.random.default_rng([seed, row]).permutation(unjudged).tolist()
                yield [PooledPair(row, passage) for passage in shuffled]

    return [pair for _, pairs in zip(range(questions), pools(), strict=False) for pair in pairs]


class PublishedSource(BaseModel):
    """A publication, and the measure that it reports."""

    id: str
    title: str
    address: str = Field(pattern="^https://")
    date: date
    measure: str


class PublishedResults(BaseModel):
    """Published scores (0 to 1) by model, over `questions` of a dataset; `kinds` tells late from dense models."""

    title: str
    names: tuple[str, ...]
    questions: int
    source: PublishedSource
    scores: Mapping[str, float]
    kinds: Mapping[str, str]


def find_published(name: str) -> Sequence[PublishedResults]:
    """Return the published results for a dataset name, in any usual spelling."""
    normalised_name = re.sub(r"[\W_]+", "", name.casefold())
    return [entry for entry in _load_published() if any(known in normalised_name for known in entry.names)]


@cache
def _load_published() -> list[PublishedResults]:
    content = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
    sources = {source["id"]: source for source in content["source"]}
    kinds = content["models"]
    entries = [entry | {"source": sources[entry["source"]], "kinds": kinds} for entry in content["set"]]
    return [PublishedResults(**entry) for entry in entries]


_MAX_EXAMINED_QUESTIONS = 10_000  # evenly spaced; detecting their languages takes a second
_SAMPLED_PASSAGES = 300
_SAMPLED_CHARACTERS = 400  # the beginning of each sampled passage
_MAX_FOREIGN_FRACTION = 0.05  # above this fraction of passages in a language, its questions have passages to match


@dataclass(frozen=True)
class SetLanguages:
    """`language` is the ISO 639-1 code of the passages' language, empty if it is unclear or if there are several.

    `analyzer` is the one that `auto` selects. `foreign` holds ascending rows of the `examined` questions in a language
    of few passages, by language, the most frequent first.
    """

    language: str
    analyzer: Analyzer
    examined: int
    foreign: Mapping[str, np.ndarray]


def detect_languages(question_set: QuestionSet) -> SetLanguages:
    """Detect the language of the passages, and questions in other languages."""
    texts = question_set.passages.indexed_texts(title=True)
    language = language_of(texts)
    rows = _evenly_spaced(len(question_set.questions), _MAX_EXAMINED_QUESTIONS)
    rows_by_language: defaultdict[str, list[int]] = defaultdict(list)
    if language:
        sample = _evenly_spaced(len(texts), _SAMPLED_PASSAGES)
        passages = Counter(foreign_language(texts[row][:_SAMPLED_CHARACTERS], language) for row in sample)
        for row in rows:
            other = foreign_language(question_set.questions[row].text, language)
            if other and passages[other] <= _MAX_FOREIGN_FRACTION * len(sample):
                rows_by_language[other].append(row)
    by_frequency = sorted(rows_by_language.items(), key=lambda item: -len(item[1]))
    foreign = {other: np.array(language_rows) for other, language_rows in by_frequency}
    return SetLanguages(language, resolve_analyzer(Analyzer.AUTO, texts), len(rows), foreign)


def _evenly_spaced(count: int, most: int) -> range:
    return range(0, count, -(-count // most) or 1)
