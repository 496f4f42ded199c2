"""Which retriever to use: the cheapest of those that are not significantly worse than the best on one metric.

"Not significantly worse" is the outcome of a paired test, never its absence: a retriever that was not tested against
the best is no tie. The tests are those that the tables show, corrected for everything tested together.

Cheap means few milliseconds per query, then a small index. Only milliseconds of the same machine are compared. A mix
may hold parts timed on another machine than the rest; then only the parts on the same machine count, so that "faster"
is a lower bound. If no retriever is the fastest by that rule, one without a model comes first, then the smaller index.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

import numpy as np

from mrc_workbench.retrieval.analysis.evidence import turned
from mrc_workbench.retrieval.comparison.compare import Comparison, Result
from mrc_workbench.retrieval.evaluation.measures import Measure
from mrc_workbench.retrieval.evaluation.significance import PairTest

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
