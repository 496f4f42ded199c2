"""How sure a comparison is: an interval on every figure, tests against the baseline and of all other pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from retrieval.comparison.compare import Comparison
from retrieval.comparison.kinds.first_stage import BM25Spec
from retrieval.evaluation.measures import measures
from retrieval.evaluation.significance import PairTest, intervals_of, pair_tests, question_groups
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
        """Every pair."""
        return self.against + self.others

    def test(self, name: str, measure: str) -> PairTest | None:
        """Return the test of a retriever against the baseline; None where there is none."""
        return next((test for test in self.against if (test.a, test.measure) == (name, measure)), None)


def usual_baseline(comparison: Comparison) -> str:
    """Return what others are told against where nobody picks it: BM25 with the analyzer that suits, else the first."""
    scored = [*comparison.scores]
    usual = [spec.name for spec in comparison.experiment.retriever if _is_usual(spec)]
    return next((name for name in usual if name in scored), next(iter(scored), ""))


def _is_usual(spec: object) -> bool:
    return isinstance(spec, BM25Spec) and spec.analyzer is Analyzer.AUTO


def evidence(comparison: Comparison, baseline: str = "") -> Evidence:
    """Test everything that has scores, over groups of questions about the same passages."""
    groups = question_groups(comparison.question_set)
    scores = comparison.scores
    baseline = baseline or usual_baseline(comparison)
    wanted = measures(comparison.experiment.ks)
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
    return replace(
        test,
        a=test.b,
        b=test.a,
        difference=-test.difference,
        low=-test.high,
        high=-test.low,
        wins=test.losses,
        losses=test.wins,
    )


def as_list(tests: Sequence[PairTest]) -> list[dict[str, Any]]:
    """Return tests as `significance.json` holds them: differences as shares."""
    return [asdict(test) for test in tests]
