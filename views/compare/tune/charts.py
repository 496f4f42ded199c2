"""Charts of the labs. Each draws a table that the page also shows; shares between 0 and 1, drawn in percent."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from retrieval.report.colours import PALETTE, READABLE
from retrieval.report.scales import colour, legend, shape
from views.ui.charts import HEIGHT, with_interval

_CELL = 34


def heat(
    table: pd.DataFrame, best: str, *, x: tuple[str, str], y: tuple[str, str], value: str, bounds: tuple[float, float]
) -> alt.LayerChart:
    """One cell a setting, coloured by its "value" within `bounds`, the best one framed; `x`, `y`: column and title."""
    middle = sum(bounds) / 2
    base = alt.Chart(table).encode(
        x=alt.X(f"{x[0]}:O", title=x[1], axis=alt.Axis(labelAngle=0)),
        y=alt.Y(f"{y[0]}:O", title=y[1], sort="descending"),
        tooltip=[
            alt.Tooltip(f"{x[0]}:O", title=x[1]),
            alt.Tooltip(f"{y[0]}:O", title=y[1]),
            *with_interval("value", value),
        ],
    )
    scale = alt.Scale(scheme="viridis", domain=[*bounds])
    cells = base.mark_rect().encode(color=alt.Color("value:Q", scale=scale, legend=None))  # the figures stand in them
    texts = base.mark_text(fontSize=11).encode(
        text=alt.Text("percent:Q", format=".1f"),
        color=alt.condition(alt.datum["value"] > middle, alt.value("#111111"), alt.value("#ffffff")),
    )
    frame = base.transform_filter(alt.datum["name"] == best).mark_rect(
        filled=False, stroke=PALETTE[4], strokeWidth=4, fillOpacity=0
    )
    rows = table[y[0]].nunique()
    layers = (cells + texts + frame).properties(height=_CELL * rows + 20)
    return layers.transform_calculate(percent=alt.datum["value"] * 100)


def bands(
    table: pd.DataFrame, best: str, *, x: str, y: str, detail: tuple[str, str], names: Sequence[str], ordinal: bool
) -> alt.LayerChart:
    """One line a name of `detail` (column and title) over `x` in its band "low" to "high", the best setting ringed."""
    low, high = float(table["low"].min()), float(table["high"].max())
    scale = alt.Scale(domain=[max(0.0, low - 0.005), min(1.0, high + 0.005)])
    across = alt.X("x:O", title=x, axis=alt.Axis(labelAngle=0)) if ordinal else alt.X("x:Q", title=x)
    base = alt.Chart(table).encode(
        x=across,
        y=alt.Y("value:Q", title=y, scale=scale, axis=alt.Axis(format=".1%")),
        color=colour(detail[0], names, names, legend()),
        tooltip=[
            alt.Tooltip(f"{detail[0]}:N", title=detail[1]),
            alt.Tooltip("x:Q", title=x),
            *with_interval("value", y),
        ],
    )
    areas = base.mark_area(fillOpacity=0.1).encode(y=alt.Y("low:Q", title=y, scale=scale), y2="high:Q")
    points = base.mark_point(filled=True, size=45, opacity=1).encode(shape=shape(detail[0], names, names, legend()))
    ring = base.transform_filter(alt.datum["name"] == best).mark_point(
        size=260, stroke=READABLE, strokeWidth=3, filled=False, shape="circle"
    )
    return (areas + base.mark_line() + points + ring).properties(height=HEIGHT)


def steps(table: pd.DataFrame, *, x: str, y: str, label: tuple[str, str]) -> alt.LayerChart:
    """Points of "y" over the cost "x", joined by a line, each with its `label` (column and title)."""
    base = _against_cost(table, x, y, label)
    dots = base.mark_point(filled=True, size=90, opacity=1, color=PALETTE[0])
    words = base.mark_text(align="left", dx=9, dy=-9, color=READABLE).encode(text=f"{label[0]}:N")
    return (base.mark_line(color=PALETTE[0], opacity=0.4) + dots + words).properties(height=HEIGHT)


def scattered(table: pd.DataFrame, *, x: str, y: str, detail: tuple[str, str]) -> alt.Chart:
    """One point a name of `detail` (column and title) of "y" over the cost "x"."""
    names = table[detail[0]].tolist()
    points = _against_cost(table, x, y, detail).mark_point(filled=True, size=140, opacity=1)
    apart = (detail[0], names, names, legend())
    return points.encode(color=colour(*apart), shape=shape(*apart)).properties(height=HEIGHT)


def _against_cost(table: pd.DataFrame, x: str, y: str, label: tuple[str, str]) -> alt.Chart:
    low, high = float(table["y"].min()), float(table["y"].max())
    room = max(0.005, (high - low) * 0.15)
    shares = alt.Axis(labelExpr="datum.value > 1.0001 ? '' : format(datum.value, '.1%')")
    return alt.Chart(table).encode(
        x=alt.X("x:Q", title=x, scale=alt.Scale(domain=[0, float(table["x"].max()) * 1.15])),  # room for the words
        y=alt.Y("y:Q", title=y, scale=alt.Scale(domain=[low - room, high + room]), axis=shares),
        tooltip=[
            alt.Tooltip(f"{label[0]}:N", title=label[1]),
            alt.Tooltip("x:Q", title=x, format=".3f"),
            alt.Tooltip("y:Q", title=y, format=".2%"),
        ],
    )
