"""A finished comparison as every view of the page is given it, and its scores as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import streamlit as st

from data.store import StoredSet
from retrieval.analysis.evidence import Intervals, telling_figure, turned
from retrieval.analysis.open_comparison import OpenComparison
from retrieval.comparison.compare import Comparison, Result
from retrieval.comparison.spec import Spec
from retrieval.evaluation.measures import CUT, Measure
from retrieval.evaluation.significance import PairTest
from views.choices import without_plainest
from views.ui import tables
from views.ui.words import word


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


_SHOWN_KS = 4  # columns of the measure looked at
_FIGURE_WIDTHS = {f"mrr@{CUT}": 76, f"ndcg@{CUT}": 84}  # pixels


def means(found: Sequence[Result]) -> pd.DataFrame:
    """One row a retriever: its name, every measure (0 to 1) and its times; nothing but the name where it failed."""
    rows = []
    for result in found:
        means = result.scores.means() if result.scores else {}
        is_measured = means and not result.notes  # nothing is built or searched of an imported run
        times = {"build_seconds": result.build_seconds, "query_seconds": result.query_seconds} if is_measured else {}
        rows.append({"retriever": result.name, **means, **times})
    return pd.DataFrame(rows)


def in_points(tests: Sequence[PairTest]) -> pd.DataFrame:
    """One row a test with its fields, the difference and its interval in percentage points."""
    table = pd.DataFrame(tests)
    table[["difference", "low", "high"]] *= 100
    return table


def draw_table(
    shown: Sequence[Result],
    figure: Measure,
    ks: Sequence[int],
    against: Sequence[PairTest] = (),
    intervals: Mapping[str, Intervals] | None = None,
) -> None:
    """Draw the figure with its interval and what the tests `against` the baseline say of it, the highest first.

    Beside it the same measure at the first few of `ks`, MRR and nDCG, in percent, but for what all find entirely; the
    best of a column is bold, where not all are equal. More of `ks`, and times, are in the table: a page as wide as a
    notebook's screen has room for no more.
    """
    table = means(shown)
    of_figure, measures = str(figure), [f"{figure.name}@{k}" for k in ks]
    measures += [one for one in (f"mrr@{CUT}", f"ndcg@{CUT}") if one not in measures]
    table = table.reindex(columns=["retriever", of_figure, *measures, "build_seconds", "query_seconds"])
    table = table.loc[:, ~table.columns.duplicated()]
    questions = next((len(result.rankings.indices) for result in shown if result.rankings), 1)
    table["per_question"] = table.pop("query_seconds") / questions * 1000
    tests = {test.a: test for test in against}
    baseline = next((test.b for test in against), "")
    table["verdict"] = [_verdict(tests.get(name), name == baseline) for name in table["retriever"]]
    ends = [(intervals or {}).get(name, {}).get(of_figure) for name in table["retriever"]]
    table["interval"] = [f"{100 * one[0]:.1f} – {100 * one[1]:.1f}" if one else "" for one in ends]
    table["looked_at"] = table[of_figure]
    table = table.sort_values("looked_at", ascending=False, kind="stable", ignore_index=True)
    shares = ["looked_at", *measures]
    table[shares] *= 100
    bold = [column for column in shares if table[column].round(2).nunique() > 1]
    styled = table.style.highlight_max(subset=pd.IndexSlice[:, bold], props=tables.BOLD)
    deep = {f"{figure.name}@{k}" for k in ks[_SHOWN_KS:]}
    beside = [one for one in measures if one not in {of_figure, *deep} and not (table[one].round(2) == 100).all()]
    columns = {
        "retriever": tables.retriever(width=tables.width_of(table["retriever"])),
        "looked_at": tables.measure(of_figure, figure.long, width=85),
        **({"interval": tables.text("compare.interval", "compare.interval_help", width=100)} if intervals else {}),
        **({"verdict": tables.text("compare.verdict", width=100)} if against else {}),
        **{column: tables.measure(column, width=_FIGURE_WIDTHS.get(column, 64)) for column in beside},
    }
    st.dataframe(
        styled.format("{:.2f}", subset=[*shares, "build_seconds", "per_question"], na_rep="–"),
        hide_index=True,
        placeholder="–",
        column_order=[*columns],
        column_config=columns,
    )


def draw_times(shown: Sequence[Result]) -> None:
    """Draw how long each retriever took to build and to answer a question, of those that were measured."""
    table = means(shown)
    if "build_seconds" not in table:
        return
    questions = next((len(result.rankings.indices) for result in shown if result.rankings), 1)
    table["per_question"] = table["query_seconds"] / questions * 1000
    columns = {
        "retriever": tables.retriever(width=tables.width_of(table["retriever"])),
        "build_seconds": tables.number("compare.build", "%.2f", explained_by="help.build"),
        "per_question": tables.number("compare.per_question", "%.2f", explained_by="help.per_question"),
    }
    tables.draw(table, columns, placeholder="–")


def verdict_of(test: PairTest) -> str:
    """Return in a word how the first of a pair does against the second."""
    if not test.sure:
        return word("compare.unsure")
    return word("compare.higher" if test.difference > 0 else "compare.lower")


def _verdict(test: PairTest | None, is_baseline: bool) -> str:
    if test is None:
        return word("compare.is_baseline") if is_baseline else ""
    return verdict_of(test)
