"""The Measures view: every figure of every model with its interval, others' beside them, and the differences."""

import json

import pandas as pd
import streamlit as st

from data.pairs.records import Label
from views.embeddings import charts
from views.embeddings.evaluation_view import ACCURACY, SHARES, EvaluationView
from views.embeddings.figures import MEASURES, dot_table, draw_differences, figure_table, long_table, published
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.words import plain, word

# what the table holds and shows when asked: the view of the space tells it in full, and a screen has not room for all
_ASKED_FOR = {"alignment_interval", "uniformity_interval", "anisotropy", "anisotropy_interval", "dimensions"}


def draw(view: EvaluationView) -> None:
    """Draw the picture of the measure looked at, the table of all, and how sure the differences are."""
    dots = dot_table(view)
    if len(dots):
        title = word("embeddings.hundredfold", measure=word(f"embeddings.{view.measure}"))
        draw_chart(charts.dots, dots, view.every, x=title)
        _draw_sources(view)
    _draw_figures(view)
    draw_differences(view, view.measure, expanded=True)
    _draw_probes(view)
    _draw_downloads(view)


def _draw_sources(view: EvaluationView) -> None:
    sources = list(dict.fromkeys(one.source for one in published(view)))
    if sources:
        st.caption(word("embeddings.published", sources="; ".join(map(plain, sources))))


def _draw_figures(view: EvaluationView) -> None:
    table = figure_table(view)
    columns = {"model": tables.text("embeddings.model", "", pinned=True, width="medium")}
    for measure in [one for one in MEASURES if one in table]:
        columns[measure] = tables.number(f"embeddings.{measure}")
        columns[f"{measure}_interval"] = tables.text("embeddings.interval", "compare.interval_help")
    columns |= {
        "dimensions": tables.number("embeddings.dimensions"),
        "seconds": tables.number("embeddings.encoding_seconds"),
    }
    shown = [name for name in columns if name in table and name not in _ASKED_FOR]
    forms = {one: "{:.2f}" if one in SHARES else "{:.4f}" for one in MEASURES}
    forms |= {"dimensions": "{:.0f}", "seconds": "{:.1f}"}
    styled = table.style.format({one: form for one, form in forms.items() if one in table}, na_rep="–")
    for measure in [one for one in MEASURES if one in table]:
        styled = styled.apply(_bold, subset=[measure], row=_surely_best(view, table, measure))
    st.dataframe(styled, hide_index=True, column_order=shown, column_config=columns)
    evaluation = view.evaluation
    counts = {"pairs": f"{len(evaluation.rows):,}", "sentences": f"{evaluation.sentences:,}"}
    st.caption(word("embeddings.measured_on", **counts, positives=f"{evaluation.positives:,}"))


def _surely_best(view: EvaluationView, table: pd.DataFrame, measure: str) -> int:
    """The row of the best model where it is told apart from every other, else -1."""
    if table[measure].isna().all():
        return -1
    best = int(table[measure].argmax() if measure in SHARES else table[measure].argmin())
    reference = view.references.get(table["model"][best], "")
    tests = [one for one in view.evaluation.differences.get(measure, []) if reference in (one.a, one.b)]
    return best if tests and all(one.sure for one in tests) else -1


def _bold(column: pd.Series, row: int) -> list[str]:
    return [tables.BOLD if place == row else "" for place in range(len(column))]


def _draw_probes(view: EvaluationView) -> None:
    """What the probe took for what, of each model."""
    probes = {name: one.probe for name, one in view.measured.items() if one.probe}
    if view.measure != ACCURACY or not probes:
        return
    with st.expander(word("embeddings.confusion")):
        st.caption(word("embeddings.confusion_help"))
        labels = [word(f"embeddings.label_{label.name.lower()}") for label in Label]
        rows = [
            {"model": name, "gold": gold, **dict(zip(labels, counts, strict=True))}
            for name, probe in probes.items()
            for gold, counts in zip(labels, probe.confusion.tolist(), strict=True)
        ]
        columns = {
            "model": tables.text("embeddings.model", ""),
            "gold": tables.text("embeddings.people_said", ""),
            **{label: st.column_config.NumberColumn(word("embeddings.told_as", label=label)) for label in labels},
        }
        st.dataframe(pd.DataFrame(rows), hide_index=True, column_config=columns)


def _draw_downloads(view: EvaluationView) -> None:
    with st.container(horizontal=True):
        tables.draw_csv("embeddings.csv", lambda: long_table(view.evaluation), "embeddings.csv", "figures_csv")
        st.download_button(
            word("embeddings.json"),
            lambda: json.dumps(view.evaluation.as_dict(), ensure_ascii=False, indent=2),
            "embeddings.json",
            "application/json",
            key="figures_json",
            on_click="ignore",
            icon=":material/download:",
        )
