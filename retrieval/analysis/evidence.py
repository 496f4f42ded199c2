"""What a comparison says: how sure its metrics are, which retriever to use, what was judged, and what others published.

A passage that nobody judged counts as not relevant. A collection's judgements cover what some systems found, and a new
system that finds other relevant passages looks worse than it is (Zobel 1998); so the first K of all retrievers are
judged together, without showing which of them found a passage: pooling (Sparck Jones & van Rijsbergen 1975).

Recommended is the cheapest retriever that a paired test does not find significantly worse than the best on one metric.
Cheap means few milliseconds per query, then a small index. Only milliseconds of the same machine are compared. A mix
may hold parts timed on another machine than the rest; then only the parts on the same machine count, so that "faster"
is a lower bound. If no retriever is the fastest by that rule, one without a model comes first, then the smaller index.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from functools import cache
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, Field

from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.comparison.compare import Comparison, Result
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.measures import CUT, Measure, Scores, measures
from mrc_workbench.retrieval.rankings import NOT_FOUND
from mrc_workbench.retrieval.significance import PairTest, intervals_of, pair_tests, question_groups

_MOST_TESTS = 400  # made together
Intervals = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Evidence:
    """Intervals by retriever and measure, and tests against the baseline and of all `others`: a family per measure."""

    baseline: str
    intervals: Mapping[str, Intervals]
    against: tuple[PairTest, ...]
    others: tuple[PairTest, ...]

    @property
    def tests(self) -> tuple[PairTest, ...]:
        return self.against + self.others

    def test(self, name: str, measure: str) -> PairTest | None:
        """Return the test of a retriever against the baseline, None if it was not tested."""
        return next((test for test in self.against if (test.a, test.measure) == (name, measure)), None)


def usual_baseline(comparison: Comparison) -> str:
    """Return the default baseline: BM25 with the default analyzer, else the first retriever."""
    specs = [spec for spec in comparison.experiment.retriever if spec.name in comparison.scores]
    usual = (spec.name for spec in specs if isinstance(spec, BM25Spec) and spec.analyzer is Analyzer.AUTO)
    return next(usual, next(iter(comparison.scores), ""))


def evidence(comparison: Comparison, baseline: str = "") -> Evidence:
    """Test everything that has scores, over groups of questions about the same passages."""
    groups = question_groups(comparison.question_set)
    scores = comparison.scores
    baseline = baseline or usual_baseline(comparison)
    every = [*measures(comparison.experiment.ks), *judged_measures(scores)]
    # of many retrievers the differences by all measures at once would not fit into memory
    step = max(1, _MOST_TESTS // max(1, len(scores) * (len(scores) - 1) // 2))
    parts = [every[start : start + step] for start in range(0, len(every), step)]
    intervals = {name: intervals_of(of, groups) for name, of in scores.items()}
    against = [test for part in parts for test in pair_tests(scores, part, groups, baseline=baseline)]
    rest = {name: of for name, of in scores.items() if name != baseline}
    others = [test for part in parts for test in pair_tests(rest, part, groups)]
    return Evidence(baseline, intervals, tuple(against), tuple(others))


def turned(test: PairTest) -> PairTest:
    """Return the same test seen from the other side."""
    reversed_ = replace(test, difference=-test.difference, low=-test.high, high=-test.low)
    return replace(reversed_, a=test.b, b=test.a, wins=test.losses, losses=test.wins)


@dataclass(frozen=True)
class Figure:
    """A mean with its 95% interval, between 0 and 1.

    `best` is the highest of a column in which some are lower. `against` is 1 or -1 if it is significantly higher or
    lower than that of the baseline, else 0.
    """

    mean: float
    low: float
    high: float
    best: bool
    against: int

    @property
    def percent(self) -> str:
        return f"{self.mean * 100:.2f}"

    @property
    def interval(self) -> str:
        return f"{self.low * 100:.1f}–{self.high * 100:.1f}"


def figures(comparison: Comparison, evidence: Evidence, measures: Sequence[str]) -> dict[str, list[Figure | None]]:
    """Return a row for each retriever in order, None if it has no value of a measure."""
    rows: dict[str, list[Figure | None]] = {result.name: [] for result in comparison.results}
    for measure in measures:
        scored = {name: of for name, of in comparison.scores.items() if measure in of.per_question}
        means = {name: float(of.per_question[measure].mean()) for name, of in scored.items()}
        rounded = {round(mean, 4) for mean in means.values()}
        for name, row in rows.items():
            if name not in means:
                row.append(None)
                continue
            test = evidence.test(name, measure)
            side = int(np.sign(test.difference)) if test and test.sure else 0
            best = len(rounded) > 1 and round(means[name], 4) == max(rounded)
            row.append(Figure(means[name], *evidence.intervals[name][measure], best, side))
    return rows


def shown_measures(comparison: Comparison) -> list[str]:
    """Return Recall@K for every K, MRR@10, nDCG@10, and the measures that need judgements, if there are any.

    Hit@K equals Recall@K if questions have one passage each.
    """
    usual = [*(f"recall@{k}" for k in comparison.experiment.ks), f"mrr@{CUT}", f"ndcg@{CUT}"]
    return [*usual, *judged_measures(comparison.scores)]


def label(measure: str) -> str:
    """Return a measure's short name, like R@10."""
    return Measure.parse(measure).short


def usual_figure(measure: str, ks: Sequence[int]) -> Measure:
    """Return a measure at its default K."""
    return Measure(measure, CUT if CUT in ks else ks[-1])


def at_ceiling(scores: Mapping[str, Scores], figure: Measure) -> bool:
    """Whether all retrievers, two or more, score nearly 1: a handful of questions is left."""
    means = [float(of.per_question[str(figure)].mean()) for of in scores.values() if str(figure) in of.per_question]
    return len(means) > 1 and min(means) > 0.99


def telling_figure(scores: Mapping[str, Scores], ks: Sequence[int], figure: Measure) -> Measure:
    """Return the figure or, if that is at its ceiling, the same at the smallest of `ks` that is not, if any."""
    if not at_ceiling(scores, figure):
        return figure
    finer = (Measure(figure.name, k) for k in sorted(ks) if k < figure.cut)
    return next((one for one in finer if not at_ceiling(scores, one)), figure)


JUDGED = f"judged@{CUT}"


def judged_measures(scores: Mapping[str, Scores]) -> list[str]:
    """Return the measures that need judgements, of those measured: at `CUT`, and Bpref."""
    found = dict.fromkeys(measure for of in scores.values() for measure in of.per_question)
    return [one for one in found if one in (f"ndcg_exp@{CUT}", f"judged@{CUT}") or Measure.parse(one).name == "bpref"]


def at_disadvantage(scores: Mapping[str, Scores], groups: np.ndarray) -> list[PairTest]:
    """Return the test of each retriever whose Judged@10 is clearly below the highest, against that one.

    Clearly means significantly, and by a tenth or more: if one unjudged passage of the first ten is relevant, another
    retriever may be ahead only because it was judged.
    """
    means = {name: of.means()[JUDGED] for name, of in scores.items() if JUDGED in of.per_question}
    if not means:
        return []
    tests = pair_tests(scores, [JUDGED], groups, baseline=max(means, key=means.__getitem__))
    return [test for test in tests if test.sure and round(-test.difference, 6) >= 1 / CUT]


class Pooled(NamedTuple):
    """A pair to judge: a row of the comparison's questions, and a row of its corpus."""

    question: int
    passage: int


def pool(comparison: Comparison, questions: int, depth: int, seed: int = 0) -> list[Pooled]:
    """Return the unjudged passages among the first `depth` of all retrievers, for so many questions.

    Questions, and the passages of each, are shuffled by the seed, so that nothing shows which retriever found a passage
    at which rank. The questions of a smaller pool are the first of a larger one. If only relevant passages are known,
    all others are unjudged.
    """
    asked = comparison.question_set
    known = asked.relevance if asked.judged is None else asked.judged

    def pools() -> Iterator[list[Pooled]]:
        for row in np.random.default_rng(seed).permutation(len(asked.questions)).tolist():
            found = [one.indices[row, :depth] for one in comparison.rankings.values()]
            judged = [NOT_FOUND, *known.indices[known.indptr[row] : known.indptr[row + 1]]]
            left = np.setdiff1d(np.concatenate(found), judged) if found else np.array([], dtype=np.int64)
            if len(left):
                yield [Pooled(row, one) for one in np.random.default_rng([seed, row]).permutation(left).tolist()]

    return [pair for _, pairs in zip(range(questions), pools(), strict=False) for pair in pairs]


class Source(BaseModel):
    """Who published, where and when, and what was measured."""

    id: str
    title: str
    address: str = Field(pattern="^https://")
    date: date
    measure: str


class Published(BaseModel):
    """Metrics of others (0 to 1) by model, over `questions` of a set; `kinds` says which models are late or dense."""

    title: str
    names: tuple[str, ...]
    questions: int
    source: Source
    figures: Mapping[str, float]
    kinds: Mapping[str, str]


def published(name: str) -> Sequence[Published]:
    """Return what was published about the set of this name, as people write it; nothing for most."""
    letters = re.sub(r"[\W_]+", "", name.casefold())
    return [one for one in _all_published() if any(known in letters for known in one.names)]


@cache
def _all_published() -> list[Published]:
    content = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
    sources = {source["id"]: source for source in content["source"]}
    kinds = content["models"]
    return [Published(**entry | {"source": sources[entry["source"]], "kinds": kinds}) for entry in content["set"]]


FEWEST_QUESTIONS = 30  # of fewer no retriever is recommended
CLEARLY_FASTER = 2.0  # times; a smaller lead may be chance: the machine was busier, or a cache was warm
FEWEST_GROUPS = 6  # of fewer no difference can reach p < 0.05: there are 2^n swaps
_NEGLIGIBLE = 0.01  # share of a time that may come from another machine
_FOREIGN = 0.1  # share of a time measured on another machine from which it is marked


class TieBreak(StrEnum):
    """What decides between retrievers that do not differ significantly."""

    SPEED = "speed"
    MACHINES = "machines"  # timed on different machines: no model first, then the smaller index
    SCORE = "score"  # no time is known of any: the higher mean


@dataclass(frozen=True)
class Cost:
    """What a retriever costs."""

    milliseconds: float | None  # per query, None if unknown
    elsewhere: float  # of these, measured on another machine: they ship with the sample
    index_bytes: int  # 0 if unknown
    has_model: bool

    @property
    def is_foreign(self) -> bool:
        """Whether a page marks the time as measured on another machine."""
        return self.milliseconds is not None and self.elsewhere > _FOREIGN * self.milliseconds


@dataclass(frozen=True)
class Recommendation:
    """The retriever to use by a metric, and how sure that is."""

    measure: Measure
    name: str
    best: str
    baseline: str
    mean: float
    best_mean: float
    questions: int
    compared: int  # how many other retrievers have the metric
    ties: tuple[str, ...]  # others that do not differ significantly from the best, best first
    faster: float | None  # how many times faster than any tie, at least; None if their times cannot be compared
    gain: PairTest | None  # test against the baseline; None for the baseline itself, or without such a test
    from_best: PairTest | None  # test against the best; None for the best itself
    tie_break: TieBreak
    untimed: tuple[str, ...]  # of the best and its ties
    early: bool  # too few questions to recommend anything


def best_first(comparison: Comparison, measure: Measure, names: Iterable[str] | None = None) -> list[str]:
    """Return the retrievers that have the metric by their mean, highest first; equal means keep their order."""
    means, allowed = _means(comparison, measure), None if names is None else set(names)
    return sorted((name for name in means if allowed is None or name in allowed), key=lambda name: -means[name])


def _means(comparison: Comparison, measure: Measure) -> dict[str, float]:
    scores, column = comparison.scores.items(), str(measure)
    return {name: float(of.per_question[column].mean()) for name, of in scores if column in of.per_question}


def recommend(
    comparison: Comparison,
    measure: Measure,
    tests: Sequence[PairTest],
    *,
    baseline: str,
    groups: np.ndarray,
    names: Iterable[str] | None = None,
) -> Recommendation | None:
    """Recommend one of the retrievers (of `names`, if given) that have the metric; None if none has it.

    `tests` are corrected paired tests of this metric; `groups` number the questions that share a relevant passage.
    """
    ranked = best_first(comparison, measure, names)
    if not ranked:
        return None
    means, best = _means(comparison, measure), ranked[0]
    against_best = {name: _test_of(name, best, measure, tests) for name in ranked[1:]}
    tied = [best, *(name for name, test in against_best.items() if test is not None and not test.sure)]
    costs = {result.name: cost_of(result) for result in comparison.results if result.name in tied}
    name, tie_break = _cheapest(tied, costs)
    questions = len(comparison.question_set.questions)
    return Recommendation(
        measure=measure,
        name=name,
        best=best,
        baseline=baseline,
        mean=means[name],
        best_mean=means[best],
        questions=questions,
        compared=len(ranked) - 1,
        ties=tuple(one for one in tied if one != name),
        faster=_lead(name, tied, costs) if tie_break is TieBreak.SPEED else None,
        gain=None if name == baseline else _test_of(name, baseline, measure, tests),
        from_best=against_best.get(name),
        tie_break=tie_break,
        untimed=tuple(one for one in tied if costs[one].milliseconds is None),
        early=questions < FEWEST_QUESTIONS or len(np.unique(groups)) < FEWEST_GROUPS,
    )


def cost_of(result: Result) -> Cost:
    """Return what a retriever with scores costs; an imported run has a time only if it was recorded."""
    questions = len(result.rankings.indices) if result.rankings else 0
    timed = questions > 0 and result.query_seconds > 0
    return Cost(
        milliseconds=result.query_seconds / questions * 1000 if timed else None,
        elsewhere=result.elsewhere_seconds / questions * 1000 if timed else 0.0,
        index_bytes=result.memory_bytes,
        has_model=result.model_seconds > 0,
    )


def times_faster(a: Cost, b: Cost) -> float | None:
    """Return how many times faster a is than b, at least; None if a time is unknown, or a's is of two machines."""
    if not a.milliseconds or not b.milliseconds:
        return None
    if a.elsewhere <= _NEGLIGIBLE * a.milliseconds:
        return (b.milliseconds - b.elsewhere) / a.milliseconds
    if a.elsewhere >= (1 - _NEGLIGIBLE) * a.milliseconds:
        return b.elsewhere / a.milliseconds
    return None


def _test_of(a: str, b: str, measure: Measure, tests: Sequence[PairTest]) -> PairTest | None:
    """Return the test of a pair from the side of `a`; None if the pair was not tested by this metric."""
    for test in tests:
        if test.measure == str(measure) and {test.a, test.b} == {a, b}:
            return test if test.a == a else turned(test)
    return None


def _cheapest(tied: Sequence[str], costs: Mapping[str, Cost]) -> tuple[str, TieBreak]:
    """Return the cheapest of the ties, which stand best first, and what decided.

    Ties without a clearly faster one count as equally fast: the smaller index decides between them.
    """
    timed = [name for name in tied if costs[name].milliseconds is not None]
    if not timed:
        return tied[0], TieBreak.SCORE
    if len(timed) > 1 and not any((_lead(name, timed, costs) or 0.0) >= 1 for name in timed):
        return min(timed, key=lambda name: (costs[name].has_model, costs[name].index_bytes or inf)), TieBreak.MACHINES
    leads = {name: [times_faster(costs[other], costs[name]) for other in timed if other != name] for name in timed}
    fast = [name for name in timed if not any(lead is not None and lead >= CLEARLY_FASTER for lead in leads[name])]
    return min(fast, key=lambda name: costs[name].index_bytes or inf), TieBreak.SPEED


def _lead(name: str, tied: Sequence[str], costs: Mapping[str, Cost]) -> float | None:
    """Return how many times faster a retriever is than each of the other ties with a known time, at least."""
    others = [costs[other] for other in tied if other != name and costs[other].milliseconds is not None]
    leads = [times_faster(costs[name], other) for other in others]
    known = [lead for lead in leads if lead is not None]
    return min(known) if known and len(known) == len(leads) else None
