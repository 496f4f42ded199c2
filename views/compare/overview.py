"""The overview of a comparison: who finds more and how sure that is, in tables and pictures."""

import pandas as pd
import streamlit as st

from retrieval.analysis.evidence import turned
from retrieval.evaluation.measures import Measure
from retrieval.evaluation.significance import PairTest
from views import charts, tables
from views.compare.comparison_view import ComparisonView
from views.compare.scores import draw_table, in_points
from views.resources.charts import draw_chart
from views.words import word


def draw(view: ComparisonView) -> None:
    """Draw the tables and the pictures, and what to do next."""
    draw_table(view.results, view.over_k, view.comparison.experiment.ks)
    if view.scored:
        _draw_pictures(view)
        _draw_pairs(view)
    st.info(word("compare.next"), icon=":material/lightbulb:")


def _draw_pictures(view: ComparisonView) -> None:
    detail, height, figure = word("compare.retriever"), word(f"measure.{view.over_k}"), view.figure
    ends = view.opened.intervals
    means = [
        (result.name, *Measure.parse(measure), mean, *ends[result.name][measure])
        for result in view.results
        if result.scores
        for measure, mean in result.scores.means().items()
    ]
    every = pd.DataFrame(means, columns=[detail, "measure", "K", "mean", "low", "high"])
    curve = every[every["measure"] == view.over_k].rename(columns={"mean": height})
    looked_at = (every["measure"] == figure.name) & (every["K"] == figure.cut)
    bars = every[looked_at].rename(columns={"mean": figure.long})
    left, right = st.columns(2)
    with left:
        st.markdown(f"**{word('compare.curve', measure=height)}**")
        draw_chart(charts.curves, curve, view.names, x="K", y=height, detail=detail)
    with right:
        st.markdown(f"**{word('compare.bars', measure=figure.long)}**")
        draw_chart(charts.bars, bars, view.names, value=figure.long, detail=detail)
    with st.expander(word("compare.as_table")):
        st.caption(word("compare.interval_help"))
        curve["text"] = [_with_interval(*row) for row in curve[[height, "low", "high"]].itertuples(index=False)]
        st.dataframe(curve.pivot_table(index=detail, columns="K", values="text", aggfunc="first", sort=False))


def _with_interval(value: float, low: float, high: float) -> str:
    return f"{value * 100:.2f} [{low * 100:.1f}, {high * 100:.1f}]"


def _draw_pairs(view: ComparisonView) -> None:
    found = [
        turned(test) if test.difference < 0 else test  # the better one first, as the words beside it say
        for test in view.opened.tests(view.scored_names, str(view.figure))
    ]
    if not found:
        return
    st.subheader(word("compare.pairs", figure=view.figure.long))
    st.caption(word("compare.pairs_help"))
    questions = len(view.comparison.question_set.questions)
    table = in_points(found).assign(in_words=[_in_words(test, questions) for test in found])
    kind = "mcnemar" if view.measure == "hit" else "randomization"
    columns = {
        "in_words": tables.text("compare.in_words", width=330, pinned=True),
        "difference": tables.number("compare.difference", "%+.2f"),
        **tables.interval("%+.2f"),
        "p": st.column_config.NumberColumn("p", format="%.4f", help=word(f"compare.p_{kind}")),
        "p_holm": tables.p_holm(),
        **{name: tables.number(f"compare.{name}") for name in ("wins", "ties", "losses")},
    }
    st.dataframe(table[[*columns]], hide_index=True, column_config=columns)


def _in_words(test: PairTest, questions: int) -> str:
    if not test.sure:
        return word("compare.pair_unsure", a=test.a, b=test.b, questions=f"{questions:,}")
    return word("compare.pair_sure", better=test.a, worse=test.b, points=f"{test.difference * 100:.1f}")
