"""The Space view: how the vectors lie. Alignment against uniformity, the singular values, the anisotropy."""

import numpy as np
import pandas as pd
import streamlit as st

from embeddings.geometry import trajectory
from views.embeddings import charts
from views.embeddings.evaluation_view import EvaluationView
from views.embeddings.measures import draw_differences, ends
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.words import word

_MEASURES = ("alignment", "uniformity", "anisotropy")
_NOTHING = 1e-6  # what is left of a direction that no vector uses, in float32
_SHOWN_RANKS = 120  # of a spectrum: on a logarithmic scale more dots than that are one line


def draw_space(view: EvaluationView) -> None:
    left, right = st.columns(2)
    points, path = _points(view), _path(view)
    with left:
        st.markdown(f"**{word('embeddings.plane')}**")
        if points["alignment"].notna().any():
            draw_chart(charts.plane, points.dropna(subset=["alignment"]), path, view.every)
        else:
            st.info(word("embeddings.no_positives"), icon=":material/info:")
        st.caption(word("embeddings.plane_help"))
        if len(path):
            st.caption(word("embeddings.path_help"))
    with right:
        st.markdown(f"**{word('embeddings.spectrum')}**")
        spectra = _spectra(view)
        draw_chart(charts.spectrum, spectra, view.every)
        st.caption(word("embeddings.spectrum_help"))
    _draw_tables(points, path, spectra)
    for measure in _MEASURES:
        draw_differences(view, measure)


def _points(view: EvaluationView) -> pd.DataFrame:
    rows = []
    for name, one in view.measured.items():
        row: dict[str, object] = {"model": name, "alignment": np.nan, "uniformity": np.nan}
        for measure in _MEASURES:
            if measure in one.figures:
                figure = one.figures[measure]
                row |= {measure: figure.value, f"{measure}_interval": ends(measure, figure)}
        rows.append({**row, "half": _directions(one.singular_values)})
    return pd.DataFrame(rows)


def _directions(singular_values: np.ndarray) -> int:
    """How many directions hold half of the squared length of all vectors."""
    shares = np.cumsum(singular_values**2)
    return int(np.searchsorted(shares, shares[-1] / 2) + 1) if len(shares) else 0


def _path(view: EvaluationView) -> pd.DataFrame:
    """What the trainings of the measured models logged on the way, in the order of their steps."""
    tables_of = []
    for name, reference in view.references.items():
        if run := view.runs.get(reference):
            found = trajectory(run.progress())
            steps = {"step": found.steps, "alignment": found.alignment, "uniformity": found.uniformity}
            tables_of.append(pd.DataFrame(steps).assign(model=name))
    columns = ["model", "step", "alignment", "uniformity"]
    return pd.concat(tables_of)[columns] if tables_of else pd.DataFrame(columns=columns)


def _spectra(view: EvaluationView) -> pd.DataFrame:
    parts = []
    for name, one in view.measured.items():
        values = one.singular_values[one.singular_values > _NOTHING]
        ranks = np.unique(np.geomspace(1, max(1, len(values)), _SHOWN_RANKS).astype(int))[: len(values)]
        parts.append(pd.DataFrame({"model": name, "rank": ranks, "value": values[ranks - 1]}))
    return pd.concat(parts, ignore_index=True)


def _draw_tables(points: pd.DataFrame, path: pd.DataFrame, spectra: pd.DataFrame) -> None:
    columns = {
        "model": tables.text("embeddings.model", "", pinned=True, width="medium"),
        "alignment": tables.number("embeddings.alignment", "%.4f"),
        "alignment_interval": tables.text("embeddings.interval", "compare.interval_help"),
        "uniformity": tables.number("embeddings.uniformity", "%.3f"),
        "uniformity_interval": tables.text("embeddings.interval", "compare.interval_help"),
        "anisotropy": tables.number("embeddings.anisotropy", "%.3f"),
        "anisotropy_interval": tables.text("embeddings.interval", "compare.interval_help"),
        "half": tables.number("embeddings.directions", "%d"),
    }
    st.dataframe(points, hide_index=True, column_order=[one for one in columns if one in points], column_config=columns)
    with st.expander(word("compare.as_table")):
        if len(path):
            st.dataframe(path, hide_index=True, column_config=columns | {"step": tables.number("embeddings.step")})
        wide = spectra.pivot_table(index="rank", columns="model", values="value", sort=False).sort_index()
        st.dataframe(wide.rename_axis(word("embeddings.rank")))
