"""The table of figures that every export and the report show: means, intervals, what is best, what is surely better."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retrieval.analysis.evidence import Evidence
from retrieval.comparison.compare import Comparison
from retrieval.evaluation.measures import CUT, Measure, Scores

SATURATED = 0.99  # a mean above this is at its ceiling: what is left to tell retrievers apart is a handful of questions


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
        """The mean in percent, two decimals."""
        return f"{self.mean * 100:.2f}"

    @property
    def interval(self) -> str:
        """The interval in percent, one decimal."""
        return f"{self.low * 100:.1f}–{self.high * 100:.1f}"


def figures(comparison: Comparison, evidence: Evidence, measures: Sequence[str]) -> dict[str, list[Figure | None]]:
    """Return a row for each retriever in order: None where it has no figure of a measure."""
    columns = [_column(comparison, evidence, measure) for measure in measures]
    return {result.name: [column.get(result.name) for column in columns] for result in comparison.results}


def shown_measures(comparison: Comparison) -> list[str]:
    """Return Recall@K for every K, MRR@10 and nDCG@10. Hit@K says the same where questions have one passage each."""
    return [*(f"recall@{k}" for k in comparison.experiment.ks), f"mrr@{CUT}", f"ndcg@{CUT}"]


def label(measure: str) -> str:
    """Return a measure's short name, like R@10."""
    return Measure.parse(measure).short


def usual_figure(measure: str, ks: Sequence[int]) -> Measure:
    """Return a measure at the K that it is looked at by where nobody chooses, of those measured."""
    return Measure(measure, CUT if CUT in ks else ks[-1])


def at_ceiling(scores: Mapping[str, Scores], figure: Measure) -> bool:
    """Whether all retrievers, two or more, that have the figure find nearly everything by it."""
    means = [float(of.per_question[str(figure)].mean()) for of in scores.values() if str(figure) in of.per_question]
    return len(means) > 1 and min(means) > SATURATED


def telling_figure(scores: Mapping[str, Scores], ks: Sequence[int], figure: Measure) -> Measure:
    """Return the figure, or where that is at its ceiling the same measure at the smallest of `ks` that is not.

    The figure itself where all K are at their ceiling, too.
    """
    if not at_ceiling(scores, figure):
        return figure
    finer = (Measure(figure.name, k) for k in sorted(ks) if k < figure.cut)
    return next((one for one in finer if not at_ceiling(scores, one)), figure)


def _column(comparison: Comparison, evidence: Evidence, measure: str) -> dict[str, Figure]:
    means = {
        name: float(of.per_question[measure].mean())
        for name, of in comparison.scores.items()
        if measure in of.per_question
    }
    rounded = {round(mean, 4) for mean in means.values()}
    found = {}
    for name, mean in means.items():
        test = evidence.test(name, measure)
        side = 0 if test is None or not test.sure else (1 if test.difference > 0 else -1)
        best = len(rounded) > 1 and round(mean, 4) == max(rounded)
        found[name] = Figure(mean, *evidence.intervals[name][measure], best, side)
    return found
