"""Figures by layer and pooling: as a chart, as a table, and in words."""

import numpy as np
import pandas as pd
import streamlit as st

from language.inside.layers import Pooling
from views.language import charts
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.words import word


def pooling_name(pooling: str) -> str:
    """Return the words for a pooling."""
    return word(f"inside.pooling_{pooling}")


def draw_figures(figures: np.ndarray, *, y: str) -> None:
    """Draw figures `(n_layers + 1, 3)` by layer and `Pooling`, 0 to 1, a hundredfold; `y` is what they are called."""
    names = [pooling_name(one) for one in Pooling]
    rows = [
        {"layer": str(layer), "pooling": name, "value": 100 * value}
        for layer, values in enumerate(figures.tolist())
        for name, value in zip(names, values, strict=True)
    ]
    long = pd.DataFrame(rows)
    draw_chart(charts.poolings, long.dropna(), names, y=y, alt=word("inside.view_layers"))


def draw_table(figures: np.ndarray) -> None:
    """Draw the same figures as a table."""
    names = [pooling_name(one) for one in Pooling]
    with st.expander(word("inside.as_table")):
        table = pd.DataFrame(100 * figures, columns=names)
        table.insert(0, "layer", range(len(table)))
        columns = {name: st.column_config.NumberColumn(name, format="%.2f") for name in names}
        columns["layer"] = tables.number("inside.layer", "%d", "")
        st.dataframe(table, hide_index=True, placeholder="–", column_config=columns)
