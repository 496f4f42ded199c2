"""Slices of the questions: by what is asked, what the answer is, and how long and where it stands in its passage."""

from typing import Any

import pandas as pd
import streamlit as st

from reading.judge.labels import Property
from reading.judge.scores import FEWEST
from views.compare import charts
from views.reading.evaluation import ReadingView
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.state import choose
from views.ui.words import plain, word, word_or


def label_words(label: str) -> str:
    """Return what a label of questions is called; lengths are figures."""
    return word_or(f"answers.label_{label}", label)


def pick_property(name: str) -> Property:
    """Draw the choice of what questions are told apart by; it lies in the address by this name."""
    by = choose(
        st.segmented_control,
        name,
        word("where.by"),
        [one.value for one in Property],
        Property.QUESTION_WORD.value,
        format_func=lambda one: word(f"answers.by_{one}"),
    )
    return Property(by)


def draw(view: ReadingView) -> None:
    """Draw the choice of a property, and every retriever on every slice by it."""
    by = pick_property("read_slice")
    with st.spinner(word("where.measuring")):
        figures = view.slice_figures(by)
    if figures.empty:
        st.info(word("answers.no_slice", count=FEWEST), icon=":material/info:")
        return
    sizes = {str(label): int(count) for label, count in zip(figures["slice"], figures["questions"], strict=True)}
    rows = {label: f"{label_words(label)} ({count:,})" for label, count in sizes.items()}
    drawn, order = figures.assign(row=figures["slice"].map(rows)), [*rows.values()]
    _draw_charts(view, drawn, order)
    _draw_table(figures, list(view.answered), word(f"answers.by_{by.value}"))
    st.caption(word("answers.slices_help", count=FEWEST))


def _draw_charts(view: ReadingView, drawn: pd.DataFrame, order: list[str]) -> None:
    first, *others = view.answered
    measure, names = word(f"answers.measure_{view.measure}"), list(view.answered)
    left, right = st.columns(2)
    with left:
        st.markdown(f"**{word('answers.at_k', measure=measure, k=view.k)}**")
        title = word("where.with_interval", figure=measure)
        draw_chart(charts.on_slices, drawn, names, list(view.names), order, x=title)
    if others:
        with right:
            st.markdown(f"**{word('where.from_first', first=plain(first))}**")
            apart = drawn[drawn["retriever"] != first]
            draw_chart(
                *(charts.on_slices, apart, names, list(view.names), order), x=word("where.points"), kind="difference"
            )


def _draw_table(figures: pd.DataFrame, names: list[str], label: str) -> None:
    parts = ["mean", "low", "high", "difference", "difference_low", "difference_high"]
    table = figures.assign(slice=figures["slice"].map(label_words))
    best = table["mean"] == figures.groupby("slice")["mean"].transform("max")
    table[parts] *= 100
    table.loc[table["retriever"] == names[0], parts[3:]] = float("nan")
    formats: dict[Any, Any] = {part: "{:+.2f}" if part.startswith("difference") else "{:.2f}" for part in parts}
    formats |= {"p_holm": "{:.4f}", "questions": "{:,}"}
    styled = table.style.map(lambda _: tables.BOLD, subset=(best, ["retriever", "mean"])).format(formats, na_rep="–")
    columns = {
        "slice": st.column_config.TextColumn(label, pinned=True, width=120),
        "questions": tables.number("where.questions"),
        "retriever": tables.text("compare.retriever"),
        "mean": tables.number("answers.mean"),
        **tables.interval(),
        "difference": tables.number("compare.difference", explained_by="where.difference_help"),
        "difference_low": tables.number("where.difference_low", explained_by="compare.interval_help"),
        "difference_high": tables.number("where.difference_high", explained_by="compare.interval_help"),
        "p_holm": tables.p_holm(),
    }
    with st.expander(word("where.as_table")):
        tables.draw(styled, columns)
        tables.draw_csv("where.csv", lambda: table, "answers_by_slice.csv", "answer_slices_csv")
