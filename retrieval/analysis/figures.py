"""The table of figures that every export and the report show: means, intervals, what is best, what is surely better."""

from collections.abc import Sequence
from dataclasses import dataclass

from retrieval.analysis.evidence import Evidence
from retrieval.comparison.compare import Comparison
from retrieval.evaluation.measures import CUT, Measure


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
