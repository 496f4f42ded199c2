"""How sure a comparison is: an interval on every figure, a test of every pair of retrievers by every measure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from retrieval.comparison.compare import Comparison
from retrieval.evaluation.measures import measures
from retrieval.evaluation.significance import PairTest, intervals_of, pair_tests, question_groups

_MOST_TESTS = 400  # made together
Intervals = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Evidence:
    """Intervals by retriever and measure, and the tests. A retriever that failed is in neither.

    Holm's correction is over the pairs of one measure: each measure is a question of its own.
    """

    intervals: Mapping[str, Intervals]
    tests: tuple[PairTest, ...]

    def test(self, a: str, b: str, measure: str) -> PairTest | None:
        """Return the test of a against b, whichever of the two was tested first; None where there is none."""
        for test in self.tests:
            if test.measure == measure and {test.a, test.b} == {a, b}:
                return test if test.a == a else turned(test)
        return None


def evidence(comparison: Comparison) -> Evidence:
    """Test everything that has scores, over groups of questions about the same passages."""
    groups = question_groups(comparison.question_set)
    scores = comparison.scores
    wanted = measures(comparison.experiment.ks)
    # of many retrievers the differences by all measures at once would not fit into memory
    step = max(1, _MOST_TESTS // max(1, len(scores) * (len(scores) - 1) // 2))
    tested = (pair_tests(scores, wanted[start : start + step], groups) for start in range(0, len(wanted), step))
    intervals = {name: intervals_of(of, groups) for name, of in scores.items()}
    return Evidence(intervals, tuple(test for tests in tested for test in tests))


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


def as_list(found: Evidence) -> list[dict[str, Any]]:
    """Return the content of `significance.json`: every pair by every measure, differences as shares."""
    return [asdict(test) for test in found.tests]
