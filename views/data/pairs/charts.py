"""The charts of sets of sentence pairs. Each draws a table that the page also shows."""

import altair as alt
import pandas as pd

from retrieval.report.colours import PALETTE
from views.ui.charts import tips

_HEIGHT = 240
_A_LABEL = 44  # pixels


def score_bars(table: pd.DataFrame, *, x: str, y: str) -> alt.Chart:
    """Bars over ranges of the scale, columns "from", "to" and "count"; the last range holds the scale's end."""
    edges = [*table["from"], float(table["to"].iloc[-1])]
    scale = alt.Scale(domain=[edges[0], edges[-1]], nice=False)
    return (
        alt.Chart(table)
        .mark_bar(color=PALETTE[0])
        .encode(
            x=alt.X("from:Q", bin="binned", title=x, axis=alt.Axis(values=edges, format="~g"), scale=scale),
            x2="to",
            y=alt.Y("count:Q", title=y, axis=alt.Axis(tickMinStep=1)),
            tooltip=tips(("from:Q", "≥", "~g"), ("to:Q", "<", "~g"), ("count:Q", y, ",")),
        )
        .properties(height=_HEIGHT)
    )


def label_bars(table: pd.DataFrame, *, x: str, y: str) -> alt.Chart:
    """One bar a "label" as long as its "count", in their order."""
    return (
        alt.Chart(table)
        .mark_bar(color=PALETTE[0])
        .encode(
            y=alt.Y("label:N", sort=[*table["label"]], title=None, axis=alt.Axis(labelLimit=220)),
            x=alt.X("count:Q", title=x, axis=alt.Axis(tickMinStep=1)),
            tooltip=tips(("label", y), ("count:Q", x, ","), ("share:Q", "%", ".1%")),
        )
        .properties(height=50 + _A_LABEL * len(table))
    )
