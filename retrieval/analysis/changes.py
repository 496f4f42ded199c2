"""What changed between two comparisons of the same questions, and a gate for those who change a search.

The gate asks what a comparison must reach, and which one it must not be worse than. A demand is met by the figure
itself. Worse than before is only what is so with certainty: all retrievers that both comparisons know are tested
together, question by question (see `significance.paired_tests`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.store import StoredComparison, kept_comparison, load
from mrc_workbench.retrieval.evaluation.measures import Measure, measures
from mrc_workbench.retrieval.evaluation.significance import Pair, PairTest, mean_interval, paired_tests, question_groups


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
    old = before.scores
    pairs = {
        (name, measure): Pair("after", "before", measure, values, old[name].per_question[measure])
        for name, new in after.scores.items()
        if name in old
        for measure, values in new.per_question.items()
        if measure in old[name].per_question
    }
    tests = paired_tests([*pairs.values()], question_groups(after.question_set))
    return [
        Change(name, float(pair.of_b.mean()), float(pair.of_a.mean()), test)
        for (name, _), pair, test in zip(pairs, pairs.values(), tests, strict=True)
    ]


@dataclass(frozen=True)
class Demand:
    """At least `least` (0 to 1) by a measure, of one retriever, or of the best where none is named."""

    measure: Measure
    least: float
    retriever: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "ndcg@10=.95" or "Hybrid:ndcg@10=.95". Raises `ValueError` where it is neither."""
        left, _, least = text.rpartition("=")
        if not left:
            raise ValueError(f"{text!r} names no figure to reach, as ndcg@10=.95 does")
        retriever, _, measure = left.rpartition(":")
        found = cls(Measure.parse(measure), float(least), retriever)
        if not 0 <= found.least <= 1:
            raise ValueError(f"figures lie between 0 and 1, and so must {least}")
        return found


@dataclass(frozen=True)
class Verdict:
    """Whether one thing that was asked holds, and what was seen."""

    holds: bool
    said: str


@dataclass(frozen=True)
class Gate:
    """What is asked of a comparison: demands, and to be no worse by `measure` than one `before`."""

    demands: tuple[Demand, ...]
    before: Comparison | None
    measure: Measure

    @classmethod
    def of(
        cls, experiment: Experiment, question_set: QuestionSet, at_least: Sequence[str], not_below: str, by: str
    ) -> Self:
        """Read what is asked of an experiment over a set, before it is run.

        `not_below` is a key of the workspace, or a folder that `compare` wrote; empty: none. Raises `ValueError` where
        a retriever or a measure is none of the experiment's, or the comparison before is none of the same questions.
        """
        demands, told_by, before = tuple(map(Demand.parse, at_least)), Measure.parse(by), None
        names, known = {spec.name for spec in experiment.retriever}, measures(experiment.ks)
        for demand in demands:
            if demand.retriever and demand.retriever not in names:
                raise ValueError(f"no retriever of this experiment is called {demand.retriever!r}")
        for measure in (told_by, *(demand.measure for demand in demands)):
            if str(measure) not in known:
                raise ValueError(f"{measure} is not measured here; ks of the experiment decide: {', '.join(known)}")
        if not_below:
            kept = kept_comparison(not_below)
            before = load(kept.folder if kept else Path(not_below), question_set)
            if not names & {*before.scores}:
                raise ValueError(f"no retriever of {not_below} has the name of one here: {', '.join(before.scores)}")
        return cls(demands, before, told_by)

    def verdicts(self, comparison: Comparison) -> Iterator[Verdict]:
        """Hold a comparison against all that is asked. Raises `ValueError` where it is of other questions."""
        yield from (_met(demand, comparison) for demand in self.demands)
        if self.before is None:
            return
        for name in self.before.scores:
            if any(result.name == name and result.error for result in comparison.results):
                yield Verdict(False, f"{name} failed, and did not before")
        measure = str(self.measure)
        for change in changes(self.before, comparison):
            test = change.test
            if test.measure != measure:
                continue
            is_worse = test.sure and test.difference < 0
            yield Verdict(
                not is_worse,
                f"{change.retriever}: {measure} {change.before:.4f} before, {change.after:.4f} now, "
                f"{test.difference:+.4f} ({test.low:+.4f} to {test.high:+.4f}; p = {test.p_family:.4f}), "
                f"{'worse' if is_worse else 'not worse'}",
            )


def _met(demand: Demand, comparison: Comparison) -> Verdict:
    measure, asked = str(demand.measure), [demand.retriever] if demand.retriever else list(comparison.scores)
    found = {name: comparison.scores[name].per_question for name in asked if name in comparison.scores}
    values = {name: of[measure] for name, of in found.items() if measure in of}
    if not values:  # it failed or did not look as deep, which is no figure, and not 0
        return Verdict(False, f"{demand.retriever or 'every retriever'} has no figure of {measure}")
    best = max(values, key=lambda name: values[name].mean())
    low, high = mean_interval(values[best], question_groups(comparison.question_set))
    figure = float(values[best].mean())
    holds = figure >= demand.least
    sign = "at least" if holds else "below"
    return Verdict(holds, f"{best}: {measure} {figure:.4f} (95 % {low:.4f} to {high:.4f}), {sign} {demand.least:g}")
