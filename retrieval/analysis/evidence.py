"""What a comparison says: how sure its figures are, which retriever to use, what was judged, and what others published.

A passage that nobody judged counts as not relevant. A collection's judgements are of what some systems found, and a new
one that finds other right passages looks worse than it is (Zobel 1998); so the first K of all are judged together,
without saying who found what: pooling (Sparck Jones & van Rijsbergen 1975).

Recommended is the cheapest of the retrievers that are not significantly worse than the best on one metric. "Not
significantly worse" is the outcome of a paired test, never its absence: a retriever that was not tested against the
best is no tie. The tests are those that the tables show, corrected for everything tested together.

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
from mrc_workbench.retrieval.evaluation.measures import CUT, Measure, Scores, measures
from mrc_workbench.retrieval.evaluation.significance import PairTest, intervals_of, pair_tests, question_groups
from mrc_workbench.retrieval.rankings import NOT_FOUND

_MOST_TESTS = 400  # made together
Intervals = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Evidence:
    """Intervals by retriever and measure, and the tests. A retriever that failed is in neither.

    `against` are tests of every other retriever less the baseline, which come first, and `others` those of every pair
    of these, so that nothing is told twice. Each is a family of its own for each measure.
    """

    baseline: str
    intervals: Mapping[str, Intervals]
    against: tuple[PairTest, ...]
    others: tuple[PairTest, ...]

    @property
    def tests(self) -> tuple[PairTest, ...]:
        return self.against + self.others

    def test(self, name: str, measure: str) -> PairTest | None:
        """Return the test of a retriever against the baseline; None where there is none."""
        return next((test for test in self.against if (test.a, test.measure) == (name, measure)), None)


def usual_baseline(comparison: Comparison) -> str:
    """Return what others are told against where nobody picks it: BM25 with the analyzer that suits, else the first."""
    usual = (
        spec.name
        for spec in comparison.experiment.retriever
        if isinstance(spec, BM25Spec) and spec.analyzer is Analyzer.AUTO and spec.name in comparison.scores
    )
    return next(usual, next(iter(comparison.scores), ""))


def evidence(comparison: Comparison, baseline: str = "") -> Evidence:
    """Test everything that has scores, over groups of questions about the same passages."""
    groups = question_groups(comparison.question_set)
    scores = comparison.scores
    baseline = baseline or usual_baseline(comparison)
    wanted = [*measures(comparison.experiment.ks), *judged_measures(scores)]
    # of many retrievers the differences by all measures at once would not fit into memory
    step = max(1, _MOST_TESTS // max(1, len(scores) * (len(scores) - 1) // 2))
    parts = [wanted[start : start + step] for start in range(0, len(wanted), step)]

    intervals = {name: intervals_of(of, groups) for name, of in scores.items()}
    against = [test for part in parts for test in pair_tests(scores, part, groups, baseline=baseline)]
    rest = {name: of for name, of in scores.items() if name != baseline}
    others = [test for part in parts for test in pair_tests(rest, part, groups)]
    return Evidence(baseline, intervals, tuple(against), tuple(others))


def turned(test: PairTest) -> PairTest:
    """Return the same test seen from the other side."""
    apart = replace(test, difference=-test.difference, low=-test.high, high=-test.low)
    return replace(apart, a=test.b, b=test.a, wins=test.losses, losses=test.wins)


@dataclass(frozen=True)
class Figure:
    """A mean with its 95% interval, shares between 0 and 1.

    `best` where none of the column is shown higher, and some lower. `against` is 1 or -1 where it is surely higher or
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
    """Return a row for each retriever in order: None where it has no figure of a measure."""
    columns: list[dict[str, Figure]] = []
    for measure in measures:
        scored = {name: of for name, of in comparison.scores.items() if measure in of.per_question}
        means = {name: float(of.per_question[measure].mean()) for name, of in scored.items()}
        rounded = {round(mean, 4) for mean in means.values()}
        columns.append({})
        for name, mean in means.items():
            test = evidence.test(name, measure)
            side = 0 if test is None or not test.sure else (1 if test.difference > 0 else -1)
            best = len(rounded) > 1 and round(mean, 4) == max(rounded)
            columns[-1][name] = Figure(mean, *evidence.intervals[name][measure], best, side)
    return {result.name: [column.get(result.name) for column in columns] for result in comparison.results}


def shown_measures(comparison: Comparison) -> list[str]:
    """Return Recall@K for every K, MRR@10 and nDCG@10, and what is told where judgements are known.

    Hit@K says the same as Recall@K where questions have one passage each.
    """
    usual = [*(f"recall@{k}" for k in comparison.experiment.ks), f"mrr@{CUT}", f"ndcg@{CUT}"]
    return [*usual, *judged_measures(comparison.scores)]


def label(measure: str) -> str:
    """Return a measure's short name, like R@10."""
    return Measure.parse(measure).short


def usual_figure(measure: str, ks: Sequence[int]) -> Measure:
    """Return a measure at the K that it is looked at by where nobody chooses, of those measured."""
    return Measure(measure, CUT if CUT in ks else ks[-1])


def at_ceiling(scores: Mapping[str, Scores], figure: Measure) -> bool:
    """Whether all retrievers, two or more, find nearly all by the figure: a handful of questions is left."""
    means = [float(of.per_question[str(figure)].mean()) for of in scores.values() if str(figure) in of.per_question]
    return len(means) > 1 and min(means) > 0.99


def telling_figure(scores: Mapping[str, Scores], ks: Sequence[int], figure: Measure) -> Measure:
    """Return the figure, or where that is at its ceiling the same at the smallest of `ks` that is not, if any."""
    if not at_ceiling(scores, figure):
        return figure
    finer = (Measure(figure.name, k) for k in sorted(ks) if k < figure.cut)
    return next((one for one in finer if not at_ceiling(scores, one)), figure)


JUDGED = f"judged@{CUT}"


def judged_measures(scores: Mapping[str, Scores]) -> list[str]:
    """Return what is told only where judgements are known, of what was measured: at `CUT`, and Bpref."""
    found = dict.fromkeys(measure for of in scores.values() for measure in of.per_question)
    return [one for one in found if one in (f"ndcg_exp@{CUT}", f"judged@{CUT}") or Measure.parse(one).name == "bpref"]


def at_disadvantage(scores: Mapping[str, Scores], groups: np.ndarray) -> list[PairTest]:
    """Return the test of each retriever whose Judged@10 is clearly below the highest, against that one.

    Clearly is by a tenth or more, which is one of the first ten passages of a question on average: if that one is
    right, by the usual measures another retriever is ahead by no more than having been judged. And surely, by the test
    of all against the best, so that it is not the luck of which questions were asked.
    """
    means = {name: of.means()[JUDGED] for name, of in scores.items() if JUDGED in of.per_question}
    if not means:
        return []
    tests = pair_tests(scores, [JUDGED], groups, baseline=max(means, key=means.__getitem__))
    return [test for test in tests if test.sure and round(-test.difference, 6) >= 1 / CUT]


class Pooled(NamedTuple):
    """What is to be judged: a row of the comparison's questions, and a row of its corpus."""

    question: int
    passage: int


def pool(comparison: Comparison, questions: int, depth: int, seed: int = 0) -> list[Pooled]:
    """Return what all retrievers found among their first `depth` and nobody judged, for so many questions.

    Questions, and the passages of each, come in an order drawn by the seed: nothing of it tells who found a passage, or
    how high. The questions of a smaller pool are the first of a larger one. One with nothing to judge is passed over.
    Where only relevant passages are known, all others are unjudged.
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


class _Set(BaseModel):
    title: str
    names: tuple[str, ...]
    questions: int
    source: str
    figures: dict[str, float]


class _File(BaseModel):
    source: tuple[Source, ...]
    models: dict[str, str]
    set: tuple[_Set, ...]


@dataclass(frozen=True)
class Published:
    """Figures (0 to 1) of others by model, over `questions` of a set, and which kind each model is: late or dense."""

    title: str
    questions: int
    source: Source
    figures: Mapping[str, float]
    kinds: Mapping[str, str]


def published(name: str) -> Sequence[Published]:
    """Return what is known of the set of this name, as people call it; nothing of most."""
    letters, file = re.sub(r"[\W_]+", "", name.casefold()), _file()
    sources = {source.id: source for source in file.source}
    return [
        Published(one.title, one.questions, sources[one.source], one.figures, file.models)
        for one in file.set
        if any(known in letters for known in one.names)
    ]


@cache
def _file() -> _File:
    return _File.model_validate(tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8")))


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
    """What a retriever costs. `milliseconds` per query is None if unknown, `index_bytes` is 0 if unknown.

    `elsewhere` are those of the milliseconds that were measured on another machine: they ship with the sample.
    """

    milliseconds: float | None
    elsewhere: float
    index_bytes: int
    has_model: bool

    @property
    def is_foreign(self) -> bool:
        """Whether a page marks the time as measured on another machine."""
        return self.milliseconds is not None and self.elsewhere > _FOREIGN * self.milliseconds


@dataclass(frozen=True)
class Recommendation:
    """The retriever to use by a metric, and how sure that is.

    `ties` are the other retrievers that do not differ significantly from the best, best first. `faster` is how many
    times faster the recommended one is than any tie, at least; None if their times cannot be compared. `gain` is
    the test of the recommended one against the baseline; None if it is the baseline, or if there is no such test.
    `from_best` is its test against the best; None if it is the best. `untimed` are ties without a known time.
    `early`: there are too few questions to recommend anything.
    """

    measure: Measure
    name: str
    best: str
    baseline: str
    mean: float
    best_mean: float
    questions: int
    compared: int  # how many other retrievers have the metric
    ties: tuple[str, ...]
    faster: float | None
    gain: PairTest | None
    from_best: PairTest | None
    tie_break: TieBreak
    untimed: tuple[str, ...]
    early: bool


def best_first(comparison: Comparison, measure: Measure, names: Iterable[str] | None = None) -> list[str]:
    """Return the retrievers that have the metric by their mean, highest first; equal means keep their order."""
    column, allowed = str(measure), None if names is None else set(names)
    means = {
        name: float(scores.per_question[column].mean())
        for name, scores in comparison.scores.items()
        if column in scores.per_question and (allowed is None or name in allowed)
    }
    return sorted(means, key=lambda name: -means[name])


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

    `tests` are paired tests of this metric, corrected for each other, and `groups` number the questions that share a
    relevant passage.
    """
    ranked = best_first(comparison, measure, names)
    if not ranked:
        return None
    best = ranked[0]
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
        mean=_mean(comparison, name, measure),
        best_mean=_mean(comparison, best, measure),
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


def _mean(comparison: Comparison, name: str, measure: Measure) -> float:
    return float(comparison.scores[name].per_question[str(measure)].mean())


def _test_of(a: str, b: str, measure: Measure, tests: Sequence[PairTest]) -> PairTest | None:
    """Return the test of a pair from the side of `a`; None if the pair was not tested by this metric."""
    for test in tests:
        if test.measure == str(measure) and {test.a, test.b} == {a, b}:
            return test if test.a == a else turned(test)
    return None


def _cheapest(tied: Sequence[str], costs: Mapping[str, Cost]) -> tuple[str, TieBreak]:
    """Return the cheapest of the ties, which stand best first, and what decided; one without a time only if all are.

    Ties that no other one is clearly faster than count as equally fast: the smaller index decides between them.
    """
    timed = [name for name in tied if costs[name].milliseconds is not None]
    if not timed:
        return tied[0], TieBreak.SCORE
    if len(timed) > 1 and not any((_lead(name, timed, costs) or 0.0) >= 1 for name in timed):
        return min(timed, key=lambda name: (costs[name].has_model, costs[name].index_bytes or inf)), TieBreak.MACHINES
    fast = [name for name in timed if not _has_clearly_faster(name, timed, costs)]
    return min(fast, key=lambda name: costs[name].index_bytes or inf), TieBreak.SPEED


def _has_clearly_faster(name: str, timed: Sequence[str], costs: Mapping[str, Cost]) -> bool:
    """Return whether another of the retrievers is clearly faster than this one."""
    leads = [times_faster(costs[other], costs[name]) for other in timed if other != name]
    return any(lead is not None and lead >= CLEARLY_FASTER for lead in leads)


def _lead(name: str, tied: Sequence[str], costs: Mapping[str, Cost]) -> float | None:
    """Return how many times faster a retriever is than each of the other ties with a known time, at least."""
    others = [costs[other] for other in tied if other != name and costs[other].milliseconds is not None]
    leads = [times_faster(costs[name], other) for other in others]
    known = [lead for lead in leads if lead is not None]
    return min(known) if known and len(known) == len(leads) else None
