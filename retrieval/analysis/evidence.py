"""The evidence of a comparison: intervals, tests, judgements, published figures, and the questions' languages.

A passage without a judgement counts as not relevant. A collection's judgements cover the results of some systems, and a
new system that finds other relevant passages looks worse than it is (Zobel 1998); so the first K of all retrievers are
judged together, without showing which of them found a passage: pooling (Sparck Jones & van Rijsbergen 1975).
"""

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
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
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.measures import DEFAULT_CUTOFF, Measure, Scores, measure_names
from mrc_workbench.retrieval.rankings import NOT_FOUND
from mrc_workbench.retrieval.significance import PairTest, intervals_of, pair_tests, question_groups

_MAX_TESTS_AT_ONCE = 400  # made together
Intervals = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class ComparisonEvidence:
    """Intervals by retriever and measure, and tests against the baseline and of all `others`: a family per measure."""

    baseline: str
    intervals: Mapping[str, Intervals]
    baseline_tests: tuple[PairTest, ...]
    other_tests: tuple[PairTest, ...]

    @property
    def tests(self) -> tuple[PairTest, ...]:
        return self.baseline_tests + self.other_tests

    def test(self, name: str, measure: str) -> PairTest | None:
        """Return the test of a retriever against the baseline, None if it was not tested."""
        return next((test for test in self.baseline_tests if (test.a, test.measure) == (name, measure)), None)


def default_baseline(comparison: Comparison) -> str:
    """Return the default baseline: BM25 with the default analyzer, else the first retriever."""
    specs = [spec for spec in comparison.experiment.retriever if spec.name in comparison.scores]
    default_names = (spec.name for spec in specs if isinstance(spec, BM25Spec) and spec.analyzer is Analyzer.AUTO)
    return next(default_names, next(iter(comparison.scores), ""))


def evidence(comparison: Comparison, baseline: str = "") -> ComparisonEvidence:
    """Test everything that has scores, over groups of questions about the same passages."""
    groups = question_groups(comparison.question_set)
    scores = comparison.scores
    baseline = baseline or default_baseline(comparison)
    all_measures = [*measure_names(comparison.experiment.ks), *judged_measures(scores)]
    # of many retrievers the differences by all measures at once would not fit into memory
    step = max(1, _MAX_TESTS_AT_ONCE // max(1, len(scores) * (len(scores) - 1) // 2))
    measure_batches = [all_measures[start : start + step] for start in range(0, len(all_measures), step)]
    intervals = {name: intervals_of(retriever_scores, groups) for name, retriever_scores in scores.items()}
    baseline_tests = [
        test
        for measure_batch in measure_batches
        for test in pair_tests(scores, measure_batch, groups, baseline=baseline)
    ]
    other_scores = {name: retriever_scores for name, retriever_scores in scores.items() if name != baseline}
    other_tests = [
        test for measure_batch in measure_batches for test in pair_tests(other_scores, measure_batch, groups)
    ]
    return ComparisonEvidence(baseline, intervals, tuple(baseline_tests), tuple(other_tests))


def reversed_test(test: PairTest) -> PairTest:
    """Return the same test seen from the other side."""
    reversed_ = replace(test, difference=-test.difference, low=-test.high, high=-test.low)
    return replace(reversed_, a=test.b, b=test.a, wins=test.losses, losses=test.wins)


@dataclass(frozen=True)
class MetricValue:
    """A mean with its 95% interval, between 0 and 1.

    `best` is the highest of a column of unequal means. `against` is 1 (significantly above the baseline), -1 or 0.
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
        scored = {
            name: retriever_scores
            for name, retriever_scores in comparison.scores.items()
            if measure in retriever_scores.per_question
        }
        means = {
            name: float(retriever_scores.per_question[measure].mean()) for name, retriever_scores in scored.items()
        }
        rounded = {round(mean, 4) for mean in means.values()}
        for name, row in rows.items():
            if name not in means:
                row.append(None)
                continue
            test = evidence.test(name, measure)
            direction = int(np.sign(test.difference)) if test and test.is_significant else 0
            best = len(rounded) > 1 and round(means[name], 4) == max(rounded)
            row.append(MetricValue(means[name], *evidence.intervals[name][measure], best, direction))
    return rows


def displayed_measures(comparison: Comparison) -> list[str]:
    """Return Recall@K for every K, MRR@10, nDCG@10, and the measures that need judgements, if there are any.

    Hit@K equals Recall@K if questions have one passage each.
    """
    default_measures = [
        *(f"recall@{k}" for k in comparison.experiment.ks),
        f"mrr@{DEFAULT_CUTOFF}",
        f"ndcg@{DEFAULT_CUTOFF}",
    ]
    return [*default_measures, *judged_measures(comparison.scores)]


def label(measure: str) -> str:
    """Return a measure's short name, like R@10."""
    return Measure.parse(measure).short_name


def default_measure(measure: str, ks: Sequence[int]) -> Measure:
    """Return a measure at its default K."""
    return Measure(measure, DEFAULT_CUTOFF if DEFAULT_CUTOFF in ks else ks[-1])


def at_ceiling(scores: Mapping[str, Scores], measure: Measure) -> bool:
    """Whether all retrievers, two or more, score nearly 1: a handful of questions is left."""
    means = [
        float(retriever_scores.per_question[str(measure)].mean())
        for retriever_scores in scores.values()
        if str(measure) in retriever_scores.per_question
    ]
    return len(means) > 1 and min(means) > 0.99


def discriminating_measure(scores: Mapping[str, Scores], ks: Sequence[int], measure: Measure) -> Measure:
    """Return the figure or, if that is at its ceiling, the same at the smallest of `ks` that is not, if any."""
    if not at_ceiling(scores, measure):
        return measure
    finer = (Measure(measure.name, k) for k in sorted(ks) if k < measure.cutoff)
    return next((candidate for candidate in finer if not at_ceiling(scores, candidate)), measure)


JUDGED = f"judged@{DEFAULT_CUTOFF}"


def judged_measures(scores: Mapping[str, Scores]) -> list[str]:
    """Return the measures that need judgements, of those measured: at `CUT`, and Bpref."""
    measured = dict.fromkeys(
        measure for retriever_scores in scores.values() for measure in retriever_scores.per_question
    )
    return [
        name
        for name in measured
        if name in (f"ndcg_exp@{DEFAULT_CUTOFF}", f"judged@{DEFAULT_CUTOFF}") or Measure.parse(name).name == "bpref"
    ]


def underjudged_tests(scores: Mapping[str, Scores], groups: np.ndarray) -> list[PairTest]:
    """Return the test of each retriever whose Judged@10 is clearly below the highest, against that one.

    Clearly means significantly, and by a tenth or more: one unjudged passage of the first ten may be relevant.
    """
    means = {
        name: retriever_scores.means()[JUDGED]
        for name, retriever_scores in scores.items()
        if JUDGED in retriever_scores.per_question
    }
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

    Questions, and the passages of each, are shuffled by the seed, so that nothing shows which retriever found a passage
    at which rank. A smaller pool has the first questions of a larger one. Without judgements, all but relevant passages
    are unjudged.
    """
    evaluated = comparison.question_set
    known = evaluated.relevance if evaluated.judged is None else evaluated.judged

    def pools() -> Iterator[list[PooledPair]]:
        for row in np.random.default_rng(seed).permutation(len(evaluated.questions)).tolist():
            retrieved = [entry.indices[row, :depth] for entry in comparison.rankings.values()]
            judged = [NOT_FOUND, *known.indices[known.indptr[row] : known.indptr[row + 1]]]
            unjudged = np.setdiff1d(np.concatenate(retrieved), judged) if retrieved else np.array([], dtype=np.int64)
            if len(unjudged):
                yield [
                    PooledPair(row, entry)
                    for entry in np.random.default_rng([seed, row]).permutation(unjudged).tolist()
                ]

    return [pair for _, pairs in zip(range(questions), pools(), strict=False) for pair in pairs]


class PublishedSource(BaseModel):
    """Who published, where and when, and what was measured."""

    id: str
    title: str
    address: str = Field(pattern="^https://")
    date: date
    measure: str


class PublishedResults(BaseModel):
    """Metrics of others (0 to 1) by model, over `questions` of a set; `kinds` says which models are late or dense."""

    title: str
    names: tuple[str, ...]
    questions: int
    source: PublishedSource
    scores: Mapping[str, float]
    kinds: Mapping[str, str]


def find_published(name: str) -> Sequence[PublishedResults]:
    """Return what was published about the set of this name, as people write it; nothing for most."""
    normalised_name = re.sub(r"[\W_]+", "", name.casefold())
    return [entry for entry in _load_published() if any(known in normalised_name for known in entry.names)]


@cache
def _load_published() -> list[PublishedResults]:
    content = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
    sources = {source["id"]: source for source in content["source"]}
    kinds = content["models"]
    return [
        PublishedResults(**entry | {"source": sources[entry["source"]], "kinds": kinds}) for entry in content["set"]
    ]


_MAX_EXAMINED_QUESTIONS = 10_000  # that are looked at, evenly spread: a second
# that are looked at for other languages, and of each its beginning
_SAMPLED_PASSAGES = 300
_SAMPLED_CHARACTERS = 400
_MAX_FOREIGN_FRACTION = 0.05  # of them in a language: questions in it have passages to match


@dataclass(frozen=True)
class SetLanguages:
    """`language` is the ISO 639-1 code of the passages' language, empty if it is unclear or if there are several.

    `analyzer` is that of `auto`. `foreign` holds ascending rows of the `examined` questions that are surely in a
    language of few passages, by language, the most frequent first.
    """

    language: str
    analyzer: Analyzer
    examined: int
    foreign: Mapping[str, np.ndarray]


def detect_languages(question_set: QuestionSet) -> SetLanguages:
    """Detect the languages of a question set."""
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
    """Return positions evenly spread over `count`, at most `most` of them."""
    return range(0, count, -(-count // most) or 1)
