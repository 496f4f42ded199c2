"""What the views of an evaluation are drawn from."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from data.pairs.records import PairKind, PairSet
from data.pairs.store import StoredPairs
from data.split import Part
from embeddings.bootstrap import Difference
from embeddings.results import Evaluation, ModelResult
from training.runs.runs import Run
from views.resources.pairs import pair_set

CORRELATIONS = ("spearman", "pearson")
ACCURACY = "nli_accuracy"
SHARES = (*CORRELATIONS, ACCURACY)  # told a hundredfold, as papers do


def measures_of(kind: PairKind) -> tuple[str, ...]:
    """The measures that say which model is better on a set of this kind; none of one without scores or labels."""
    return {PairKind.SCORED: CORRELATIONS, PairKind.LABELLED: (ACCURACY,)}.get(kind, ())


@dataclass(frozen=True)
class EvaluationView:
    """An evaluation of a part of a stored set, and the measure looked at, empty where the set's kind has none.

    `names` are those of all models that can be picked, by reference in their fixed order; `runs` the trained ones.
    """

    data: StoredPairs
    evaluation: Evaluation
    names: Mapping[str, str]
    runs: Mapping[str, Run]
    measure: str

    @property
    def every(self) -> list[str]:
        """The names of all models, which decide the colours."""
        return [*self.names.values()]

    @property
    def part(self) -> Part:
        """The part that was measured."""
        return self.evaluation.part

    @property
    def pairs(self) -> PairSet:
        """The whole set."""
        return pair_set(self.data.key)

    @cached_property
    def measured(self) -> dict[str, ModelResult]:
        """The models that have figures, by name, those of the best measure first where there is one."""
        found = [(self.names[one.model], one) for one in self.evaluation.measured.values()]
        if self.measure:
            found.sort(key=lambda pair: -pair[1].figures[self.measure].value if self.measure in pair[1].figures else 1)
        return dict(found)

    @property
    def references(self) -> dict[str, str]:
        """References of the measured models by name, in the order picked."""
        return {self.names[reference]: reference for reference in self.evaluation.measured}

    @property
    def differences(self) -> list[Difference]:
        """Every two models told apart by the measure looked at, by their references."""
        return self.evaluation.differences.get(self.measure, [])
