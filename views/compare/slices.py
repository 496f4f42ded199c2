"""Slices of the questions: where one retriever wins and where another, in a sentence, pictures and a table."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from retrieval.analysis.open_comparison import MEASURED_SLICES
from retrieval.analysis.slices import Property, most_contested, most_telling
from views.compare import charts
from views.compare.controls import show_why
from views.compare.scores import ComparisonView
from views.names import slice_names
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.state import choose
from views.ui.words import plain, signed, word

_CHARTED = 12


@st.fragment
def draw(view: ComparisonView) -> None:
    """Draw the choice of a property, and every retriever on every slice by it."""
    st.subheader(word("where.slices", figure=view.figure.long))
    if not view.scored:
        st.info(word("where.no_figure", figure=view.figure.long), icon=":material/info:")
        return
    by = _pick(view)
    with st.spinner(word("where.measuring")):
        parts = view.opened.slices(by)
        figures = view.opened.slice_figures(by, view.scored_names, str(view.figure))
    if not len(figures):
        st.info(word("where.no_slice"), icon=":material/info:")
        return
    labels = slice_names(parts, by)
    _draw_most_telling(view, figures, labels, by)
    _draw_charts(view, figures, labels)
    _draw_table(view, figures, labels, by)
    if len(parts) > MEASURED_SLICES:
        st.caption(word("where.largest_only", measured=f"{MEASURED_SLICES:,}", count=f"{len(parts):,}"))


def _pick(view: ComparisonView) -> Property:
    known = [by.value for by in view.opened.properties]
    first = Property.KIND if Property.KIND in known else Property.OVERLAP
    by = choose(
        st.selectbox,
        "slice",
        word("where.by"),
        known,
        first.value,
        format_func=lambda value: word(f"where.by_{value}"),
        help=word("where.by_help"),
        width=320,
    )
    return Property(by)


def _draw_most_telling(view: ComparisonView, figures: pd.DataFrame, labels: Sequence[str], by: Property) -> None:
    """Say in which slice a retriever lies furthest from the first, of those where that is sure."""
    first, *others = view.scored_names
    if not others:
        return
    count = f"{(figures['retriever'] != first).sum():,}"
    most = most_telling(figures)
    if most is None:
        _draw_none_telling(view, plain(first), count)
        return
    side = "ahead" if most["difference"] > 0 else "behind"
    st.markdown(word(f"where.telling_{side}", count=count, **telling_words(most, labels, by, first)))


def telling_words(most: "pd.Series[Any]", labels: Sequence[str], by: Property, first: str) -> dict[str, str]:
    """Return what a sentence tells of a row of `slice_figures`: slice, retriever, and how far it is from `first`."""
    return {
        "questions": word(f"where.on_{by.value}", label=plain(labels[most["slice"]])),
        "name": plain(most["retriever"]),
        "first": plain(first),
        "points": f"{abs(most['difference']) * 100:.1f}",
        "low": signed(most["difference_low"]),
        "high": signed(most["difference_high"]),
    }


def _draw_none_telling(view: ComparisonView, first: str, count: str) -> None:
    """Say that no slice alone is sure, and what all questions together say: they are more than those of any slice."""
    test = view.best_test
    if test is None or not test.sure:
        several = len(view.scored_names) > 2  # the answer above may tell of a difference between two of the others
        others = " " + word("where.telling_others", first=first) if several else ""
        st.markdown(word("where.telling_none", first=first, count=count) + others)
        return
    side, points = "ahead" if test.difference > 0 else "behind", f"{abs(test.difference) * 100:.1f}"
    st.markdown(word(f"where.telling_all_{side}", first=first, count=count, name=plain(test.a), points=points))


def _draw_charts(view: ComparisonView, figures: pd.DataFrame, labels: Sequence[str]) -> None:
    drawn, order = charted(figures, labels, _CHARTED)
    left, right = st.columns(2)
    with left:
        st.markdown(f"**{view.figure.long}**")
        title = word("where.with_interval", figure=view.figure.long)
        draw_chart(charts.on_slices, drawn, view.scored_names, view.names, order, x=title)
    first, *others = view.scored_names
    if others:
        with right:
            st.markdown(f"**{word('where.from_first', first=plain(first))}**")
            draw_chart(
                charts.on_slices,
                drawn[drawn["retriever"] != first],
                view.scored_names,
                view.names,
                order,
                x=word("where.points"),
                kind="difference",
            )
    if len(labels) > len(order):
        chosen = "where.charted_differ" if others else "where.charted_largest"
        st.caption(word(chosen, charted=len(order), count=f"{len(labels):,}"))
    st.caption(word("where.each_on_its_own"))


def charted(figures: pd.DataFrame, labels: Sequence[str], count: int) -> tuple[pd.DataFrame, list[str]]:
    """Return the figures of the slices that are contested most, at most `count`, each with its "row"; and all rows."""
    drawn = figures[figures["slice"].isin(most_contested(figures, count))]
    sizes = drawn.groupby("slice")["questions"].first()
    rows = {place: f"{labels[place]} ({size:,})" for place, size in dict(sizes).items()}
    return drawn.assign(row=drawn["slice"].map(rows)), [*rows.values()]


def _draw_table(view: ComparisonView, figures: pd.DataFrame, labels: Sequence[str], by: Property) -> None:
    names = ["mean", "low", "high", "difference", "difference_low", "difference_high"]
    table = figures.assign(slice=[labels[place] for place in figures["slice"]])
    best = table["mean"] == figures.groupby("slice")["mean"].transform("max")
    table[names] *= 100
    table.loc[table["retriever"] == view.scored_names[0], names[3:]] = float("nan")
    formats: dict[Any, Any] = {name: "{:+.2f}" if name.startswith("difference") else "{:.2f}" for name in names}
    formats |= {"p_holm": "{:.4f}", "questions": "{:,}"}
    styled = table.style.map(lambda _: tables.BOLD, subset=(best, ["retriever", "mean"])).format(formats, na_rep="–")
    columns = {
        "slice": tables.text(f"where.by_{by.value}", width=120, pinned=True),
        "questions": tables.number("where.questions"),
        "retriever": tables.text("compare.retriever"),
        "mean": st.column_config.NumberColumn(view.figure.long, help=word("where.best_help")),
        **tables.interval(),
        "difference": tables.number("compare.difference", explained_by="where.difference_help"),
        "difference_low": tables.number("where.difference_low", explained_by="compare.interval_help"),
        "difference_high": tables.number("where.difference_high", explained_by="compare.interval_help"),
        "p_holm": tables.p_holm(),
    }
    key = f"slices_{by.value}"
    with st.expander(word("where.as_table")):
        st.caption(word("where.select_row"))
        places = figures["slice"].tolist()
        picked = st.dataframe(
            styled,
            on_select=lambda: _show_questions(key, places, by),
            selection_mode="single-row",
            key=key,
            placeholder="–",
            hide_index=True,
            column_config=columns,
        )
        if picked["selection"]["rows"]:
            st.rerun()  # the whole page: another view is to be seen
        tables.draw_csv("where.csv", lambda: table, f"slices_{by.value}_{view.figure}.csv")


def _show_questions(key: str, places: Sequence[int], by: Property) -> None:
    if rows := st.session_state[key]["selection"]["rows"]:
        show_why({"slice": by.value, "within": str(places[rows[0]])})
