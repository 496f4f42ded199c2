"""What a comparison says: how sure its figures are, the table that exports and reports show, and what changed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from retrieval.analysis.judged import judged_measures
from retrieval.comparison.compare import Comparison
from retrieval.comparison.first_stage import BM25Spec
from retrieval.comparison.store import StoredComparison
from retrieval.evaluation.measures import CUT, Measure, Scores, measures
from retrieval.evaluation.significance import Pair, PairTest, intervals_of, pair_tests, paired_tests, question_groups
from text.analyzers import Analyzer

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
    scored = [*comparison.scores]
    usual = [
        spec.name
        for spec in comparison.experiment.retriever
        if isinstance(spec, BM25Spec) and spec.analyzer is Analyzer.AUTO
    ]
    return next((name for name in usual if name in scored), next(iter(scored), ""))


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


def as_list(tests: Sequence[PairTest]) -> list[dict[str, Any]]:
    """Return tests as `significance.json` holds them: differences as shares."""
    return [asdict(test) for test in tests]


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


BEFORE, AFTER = "before", "after"


@dataclass(frozen=True)
class Change:
    """One figure of one retriever, before and after. `test` is of after against before."""

    retriever: str
    before: float
    after: float
    test: PairTest


def comparable(a: StoredComparison, b: StoredComparison) -> str | None:
    """Return None where two comparisons asked the same questions of the same passages, else why they cannot be set side
    by side: `other_passages`, `other_part` or `other_questions` (another split, or the data changed).
    """
    if a.fingerprint == b.fingerprint:
        return None
    if a.corpus_fingerprint != b.corpus_fingerprint:
        return "other_passages"
    return "other_part" if a.part is not b.part else "other_questions"


def changes(before: Comparison, after: Comparison) -> list[Change]:
    """Test retrievers of one name in two comparisons by every measure both have, in the order of `after`.

    The retrievers are tested together, for each measure. Raises `ValueError` where the questions or passages are
    not the same.
    """
    if before.question_set.fingerprint != after.question_set.fingerprint:
        raise ValueError("the two comparisons asked other questions, or searched other passages")
    groups = question_groups(after.question_set)
    old, new = before.scores, after.scores
    pairs = {
        (name, measure): Pair(AFTER, BEFORE, measure, values, old[name].per_question[measure])
        for name in (name for name in new if name in old)
        for measure, values in new[name].per_question.items()
        if measure in old[name].per_question
    }
    tests = paired_tests([*pairs.values()], groups)
    return [
        Change(name, float(pair.of_b.mean()), float(pair.of_a.mean()), test)
        for (name, _), pair, test in zip(pairs, pairs.values(), tests, strict=True)
    ]
