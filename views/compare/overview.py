"""The overview of a comparison: who finds more and how sure that is, in tables and pictures."""

import pandas as pd
import streamlit as st

from retrieval.analysis.evidence import turned
from retrieval.evaluation.measures import Measure
from retrieval.evaluation.significance import PairTest
from views.compare import finding
from views.compare.answer import draw_footnotes
from views.compare.scores import ComparisonView, draw_table, draw_times, in_points, verdict_of
from views.ui import charts, tables
from views.ui.charts import draw_chart
from views.ui.words import plain, word


def draw(view: ComparisonView) -> None:
    """Draw the table and the pictures, on which questions they differ, and the tests of the others."""
    finding.draw_sentences(view)
    draw_table(view.results, view.figure, view.comparison.experiment.ks, view.against, view.opened.intervals)
    if view.scored:
        _draw_pictures(view)
        finding.draw(view)
        _draw_others(view)
    draw_footnotes(view)


def _draw_pictures(view: ComparisonView) -> None:
    detail, height = word("compare.retriever"), word(f"measure.{view.measure}")
    against = [test for test in view.against if test.a in view.leading]
    beside = [name for name in view.scored_names if name not in view.leading]
    ends = view.opened.intervals
    means = [
        (result.name, *Measure.parse(measure), mean, *ends[result.name][measure])
        for result in view.results
        if result.scores
        for measure, mean in result.scores.means().items()
    ]
    every = pd.DataFrame(means, columns=[detail, "measure", "K", "mean", "low", "high"])
    curve = every[every["measure"] == view.measure].rename(columns={"mean": height})
    left, right = st.columns(2)
    with left:
        st.markdown(f"**{word('compare.forest', figure=view.figure.long, baseline=view.baseline)}**")
        if against:
            differences = in_points(against).rename(columns={"a": detail})
            draw_chart(charts.forest, differences, view.names, x=word("compare.points"), detail=detail)
            st.caption(word("compare.forest_help"))
    with right:
        st.markdown(f"**{word('compare.curve', measure=height)}**")
        draw_chart(charts.curves, curve[~curve[detail].isin(beside)], view.names, x="K", y=height, detail=detail)
    if beside:
        st.caption(word("compare.only_in_table", names=plain(", ".join(beside))))
    with st.expander(word("compare.as_table")):
        st.caption(word("compare.interval_help"))
        curve["text"] = [_with_interval(*row) for row in curve[[height, "low", "high"]].itertuples(index=False)]
        st.dataframe(curve.pivot_table(index=detail, columns="K", values="text", aggfunc="first", sort=False))
        draw_times(view.results)
        _draw_tests(view.against)


def _with_interval(value: float, low: float, high: float) -> str:
    return f"{value * 100:.2f} [{low * 100:.1f}, {high * 100:.1f}]"


def _draw_others(view: ComparisonView) -> None:
    """Draw the tests of every pair without the baseline: nothing is tested, and told, twice."""
    names = tuple(name for name in view.scored_names if name != view.baseline)
    if len(names) < 2:
        return
    with st.expander(word("compare.pairs", figure=view.figure.long)):
        st.caption(word("compare.pairs_help"))
        tests = view.opened.tests(names, str(view.figure))
        _draw_tests([turned(test) if test.difference < 0 else test for test in tests])  # the better one first


def _draw_tests(found: list[PairTest]) -> None:
    if not found:
        return
    table = in_points(found).assign(verdict=[verdict_of(test) for test in found])
    columns = {
        "a": tables.text("compare.first_of_pair", width=tables.width_of(table["a"]), pinned=True),
        "b": tables.text("compare.second_of_pair", width=tables.width_of(table["b"])),
        "verdict": tables.text("compare.verdict"),
        "difference": tables.number("compare.difference", "%+.2f"),
        **tables.interval("%+.2f", "compare.family_help"),
        "p_family": tables.p_family(),
        "p": st.column_config.NumberColumn(
            word("compare.p_alone"), format="%.4f", help=word("compare.p_randomization")
        ),
        **{name: tables.number(f"compare.{name}") for name in ("wins", "ties", "losses")},
    }
    st.dataframe(table[[*columns]], hide_index=True, column_config=columns)
