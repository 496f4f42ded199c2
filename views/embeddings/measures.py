"""The Measures view: every figure of every model with its interval, others' beside them, and the differences."""

import json

import pandas as pd
import streamlit as st

from data.pairs.records import Label
from views import tables
from views.embeddings import charts
from views.embeddings.evaluation_view import ACCURACY, SHARES, EvaluationView
from views.embeddings.figures import MEASURES, difference_table, dot_table, figure_table, long_table, published
from views.resources.charts import draw_chart
from views.words import plain, word


def draw(view: EvaluationView) -> None:
    """Draw the picture of the measure looked at, the table of all, and how sure the differences are."""
    dots = dot_table(view)
    if len(dots):
        title = word("embeddings.hundredfold", measure=word(f"embeddings.{view.measure}"))
        draw_chart(charts.dots, dots, view.every, x=title)
        _draw_sources(view)
    _draw_figures(view)
    _draw_differences(view)
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
        "anisotropy": tables.number("embeddings.anisotropy"),
        "dimensions": tables.number("embeddings.dimensions"),
        "seconds": tables.number("embeddings.encoding_seconds"),
    }
    shown = [name for name in columns if name in table]
    forms = {one: "{:.2f}" if one in SHARES else "{:.4f}" for one in MEASURES}
    forms |= {"anisotropy": "{:.3f}", "dimensions": "{:.0f}", "seconds": "{:.1f}"}
    styled = table.style.format({one: form for one, form in forms.items() if one in table}, na_rep="–")
    for measure in [one for one in MEASURES if one in table]:
        best = table[measure].max() if measure in SHARES else table[measure].min()
        styled = styled.apply(lambda one, best=best: _bold(one == best), subset=[measure])
    st.dataframe(styled, hide_index=True, column_order=shown, column_config=columns)
    evaluation = view.evaluation
    counts = {"pairs": f"{len(evaluation.rows):,}", "sentences": f"{evaluation.sentences:,}"}
    st.caption(word("embeddings.measured_on", **counts, positives=f"{evaluation.positives:,}"))


def _bold(best: pd.Series) -> list[str]:
    return [tables.BOLD if one and not best.all() else "" for one in best]


def _draw_differences(view: EvaluationView) -> None:
    table = difference_table(view)
    if table.empty:
        return
    with st.expander(word("embeddings.differences", measure=word(f"embeddings.{view.measure}")), expanded=True):
        columns = {
            "a": tables.text("embeddings.better", "", width="medium"),
            "b": tables.text("embeddings.other", "", width="medium"),
            "verdict": tables.text("compare.verdict", ""),
            "difference": tables.number("embeddings.difference", "%+.2f"),
            **tables.interval("%+.2f"),
            "p_holm": st.column_config.NumberColumn("p (Holm)", format="%.4f", help=word("embeddings.p_holm_help")),
        }
        st.dataframe(table, hide_index=True, column_order=[*columns], column_config=columns)
        st.caption(word("embeddings.differences_help"))


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
