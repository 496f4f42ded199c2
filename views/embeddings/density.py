"""The Density view: how cosines are spread among pairs that people found little, half or very much alike."""

import numpy as np
import pandas as pd
import streamlit as st

from data.pairs.records import PairKind
from embeddings.judgement import Densities, bands, densities
from views.embeddings import charts
from views.embeddings.evaluation_view import EvaluationView, band_labels
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.words import plain, word

_SIDE_BY_SIDE = 3


def draw(view: EvaluationView) -> None:
    """Draw ridges, one model a column, and the numbers they are drawn of."""
    names = view.evaluation.cosines
    gold, labels = _bands(view)
    if not names or not len(gold):
        st.info(word("embeddings.no_bands"), icon=":material/info:")
        return
    st.caption(word("embeddings.density_help"))
    found = densities({view.names[one]: column for one, column in names.items()}, gold)
    order = [name for name in view.measured if name in found.values]
    for start in range(0, len(order), _SIDE_BY_SIDE):
        places = st.columns(min(len(order), _SIDE_BY_SIDE))
        for place, name in zip(places, order[start : start + _SIDE_BY_SIDE], strict=False):
            with place:
                st.markdown(f"**{plain(name)}**")
                table = _ridges(found, name, labels)
                draw_chart(charts.ridges, table, labels, name, view.every, x=word("embeddings.cosine"))
    with st.expander(word("compare.as_table"), expanded=True):
        _draw_table(view, gold, labels)


def _bands(view: EvaluationView) -> tuple[np.ndarray, list[str]]:
    """Gold scores from 0 to 1 that fall into bands, and what the bands are called; of labels, each has its own."""
    if view.evaluation.kind is PairKind.SCORED:
        return view.evaluation.values, band_labels(view.data.scale)
    return np.zeros(0), []


def _ridges(found: Densities, name: str, labels: list[str]) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"band": label, "place": place, "cosine": found.grid, "density": density})
        for place, (label, density) in enumerate(zip(labels, found.values[name], strict=True))
    ]
    return pd.concat(parts[::-1], ignore_index=True)  # the highest band first: those below are drawn over its foot


def _draw_table(view: EvaluationView, gold: np.ndarray, labels: list[str]) -> None:
    band = bands(gold)
    rows = []
    for name, one in view.measured.items():
        for place, label in enumerate(labels):
            inside = one.cosines[band == place]
            low, middle, high = np.quantile(inside, [0.25, 0.5, 0.75]) if len(inside) else [np.nan] * 3
            told = {"median": middle, "quarter": low, "three_quarters": high}
            rows.append({"model": name, "band": label, "count": len(inside), **told})
    columns = {
        "model": tables.text("embeddings.model", "", width="medium"),
        "band": tables.text("embeddings.band", ""),
        "count": tables.number("embeddings.count", "%d", ""),
        **{name: tables.number(f"embeddings.{name}", "%.3f", "") for name in ("quarter", "median", "three_quarters")},
    }
    st.dataframe(pd.DataFrame(rows), hide_index=True, column_config=columns)
