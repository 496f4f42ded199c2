"""The Wrong pairs and Density views: what models find alike against what people do, pair by pair and on the whole."""

import numpy as np
import pandas as pd
import streamlit as st

from data.pairs.records import PairKind
from embeddings.judgement import Densities, bands, densities, wrong_pairs
from views.embeddings import charts
from views.embeddings.evaluation_view import EvaluationView, band_labels, pick_model
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.state import choose
from views.ui.words import plain, word

_MOST = 100  # wrong pairs that are shown
_SIDES = ("both", "too_alike", "too_different")
_SIDE_BY_SIDE = 3  # models whose densities stand in a row


def draw_wrong(view: EvaluationView) -> None:
    """Draw the pairs that one model misplaces most, with the cosines of all."""
    if all("spearman" not in one.figures for one in view.measured.values()):
        st.info(word("embeddings.no_gold"), icon=":material/info:")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        of = pick_model(view, "wrong_of", "embeddings.wrong_of")
        side = choose(
            st.segmented_control,
            "wrong_side",
            word("embeddings.wrong_side"),
            _SIDES,
            "both",
            format_func=lambda one: word(f"embeddings.wrong_{one}"),
        )
    help_text = word("embeddings.cosine")
    columns = {
        "gold": tables.number("embeddings.gold", "%.1f"),
        **{name: st.column_config.NumberColumn(name, format="%.3f", help=help_text) for name in view.measured},
        "misplaced": tables.number("embeddings.misplaced", "%+.0f"),
        "first": tables.text("embeddings.first_sentence", "", width="large"),
        "second": tables.text("embeddings.second_sentence", "", width="large"),
    }
    table = _wrong_table(view, view.names[of], side)
    tables.draw(table, columns, height=560)
    st.caption(word("embeddings.wrong_help"))
    tables.draw_csv("embeddings.wrong_csv", lambda: table, "wrong_pairs.csv", "wrong_csv")


def _wrong_table(view: EvaluationView, of: str, side: str) -> pd.DataFrame:
    evaluation = view.evaluation
    cosines = {view.names[one]: column for one, column in evaluation.cosines.items()}
    found = wrong_pairs(cosines, evaluation.values, of, len(evaluation.rows))
    wanted = {"too_alike": found.misplaced > 0, "too_different": found.misplaced < 0}.get(side, found.misplaced != 0)
    places = found.rows[wanted][:_MOST]
    first, second = (column.at(evaluation.rows[places]) for column in view.pairs.texts[:2])
    low, high = view.data.scale
    return pd.DataFrame(
        {
            "first": first,
            "second": second,
            "gold": low + evaluation.values[places] * (high - low),
            **{name: column[wanted][:_MOST] for name, column in found.cosines.items()},
            "misplaced": 100 * found.misplaced[wanted][:_MOST],
        }
    )


def draw_density(view: EvaluationView) -> None:
    """Draw ridges, one model a column, and the numbers they are drawn of."""
    names, gold = view.evaluation.cosines, view.evaluation.values
    if view.evaluation.kind is not PairKind.SCORED or not names or not len(gold):
        st.info(word("embeddings.no_bands"), icon=":material/info:")
        return
    labels = band_labels(view.data.scale)
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
        _draw_quartiles(view, bands(gold), labels)


def _ridges(found: Densities, name: str, labels: list[str]) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"band": label, "place": place, "cosine": found.grid, "density": density})
        for place, (label, density) in enumerate(zip(labels, found.values[name], strict=True))
    ]
    return pd.concat(parts[::-1], ignore_index=True)  # the highest band first: those below are drawn over its foot


def _draw_quartiles(view: EvaluationView, band: np.ndarray, labels: list[str]) -> None:
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
