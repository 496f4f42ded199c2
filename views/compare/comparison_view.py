"""A finished comparison as the Compare page shows it: what every view of the page is given."""

from dataclasses import dataclass
from functools import cached_property

from data.store import StoredSet
from retrieval.analysis.evidence import turned
from retrieval.analysis.figures import telling_figure
from retrieval.analysis.open_comparison import OpenComparison
from retrieval.comparison.compare import Comparison, Result
from retrieval.comparison.kinds.spec import Spec
from retrieval.evaluation.measures import Measure
from retrieval.evaluation.significance import PairTest
from views.choices import without_plainest


@dataclass(frozen=True)
class ComparisonView:
    """A comparison, the retrievers picked of it, and the figure looked at.

    `names` are all that can be picked, in the order that gives each its colour; `measure` is "recall", "hit", "mrr" or
    "ndcg"; the others are told against the `baseline`.
    """

    data: StoredSet
    opened: OpenComparison  # all that can be asked of it
    results: tuple[Result, ...]
    names: tuple[str, ...]
    measure: str
    k: int
    baseline: str

    @property
    def comparison(self) -> Comparison:
        """The comparison itself."""
        return self.opened.comparison

    @property
    def figure(self) -> Measure:
        """The measure looked at, and its K."""
        return Measure(self.measure, self.k)

    @cached_property
    def against(self) -> list[PairTest]:
        """Every other retriever against the baseline, by the figure looked at."""
        return self.opened.tests(self.scored_names, str(self.figure), self.baseline)

    @cached_property
    def scored(self) -> tuple[Result, ...]:
        """The results that have the figure looked at: a retriever that failed, or is not deep enough, has none."""
        return tuple(one for one in self.results if one.scores and str(self.figure) in one.scores.per_question)

    @property
    def scored_names(self) -> tuple[str, ...]:
        """Names of those, the baseline first."""
        return tuple(sorted((one.name for one in self.scored), key=lambda name: name != self.baseline))

    @property
    def leading(self) -> tuple[str, ...]:
        """Names of those that sentences and pictures are about, the baseline first: see `without_plainest`."""
        kept = without_plainest(self.scored_names)
        return tuple(name for name in self.scored_names if name in kept or name == self.baseline)

    @property
    def best_test(self) -> PairTest | None:
        """What a sentence about all questions tells: the largest sure gain over the baseline, else the largest."""
        tests = [test for test in self.against if test.a in self.leading]
        surely_above = [test for test in tests if test.sure and test.difference > 0]
        return max(surely_above or tests, key=lambda test: test.difference, default=None)

    @property
    def telling(self) -> Measure:
        """The figure looked at, or where it is at its ceiling the one that still tells the retrievers apart."""
        scores = {name: self.comparison.scores[name] for name in self.leading}
        return telling_figure(scores, self.comparison.experiment.ks, self.figure)

    def test(self, a: str, b: str) -> PairTest | None:
        """Return the test of a pair from the side of `a`, of the family that the tables show it in; None without it."""
        others = tuple(name for name in self.scored_names if name != self.baseline)
        tests = self.against if self.baseline in (a, b) else self.opened.tests(others, str(self.figure))
        found = next((test for test in tests if {test.a, test.b} == {a, b}), None)
        return turned(found) if found and found.a != a else found

    def spec(self, name: str) -> Spec:
        """How a retriever of the comparison is made. Raises `KeyError` where there is none of that name."""
        return self.comparison.experiment.specs[name]
