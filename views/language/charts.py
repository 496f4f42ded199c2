"""The charts of the Language page. Each draws a table that the page also shows."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from retrieval.report.charts import legend
from retrieval.report.drawing import PALETTE, READABLE
from views.ui.charts import apart, cells, marked_lines, tips
from views.ui.words import word

_HEIGHT = 260
_SHORT = 3  # letters of a name
_WITH_FIGURES = 13  # columns of a grid: of more there is no room to write in the cells


def plane(table: pd.DataFrame, reach: float) -> alt.LayerChart:
    """Points "x", "y" with their "label", "number" and "sentence", on scales that reach as far for every layer."""
    scale = alt.Scale(domain=[-1.1 * reach, 1.1 * reach], nice=False)
    axis = alt.Axis(tickCount=5, format=".2~f")
    base = alt.Chart(table).encode(
        x=alt.X("x:Q", title=word("inside.first_direction"), scale=scale, axis=axis),
        y=alt.Y("y:Q", title=word("inside.second_direction"), scale=scale, axis=axis),
        tooltip=tips(("number:N", word("inside.number")), ("sentence:N", word("inside.sentence"))),
    )
    points = base.mark_point(filled=True, size=130, opacity=1, color=PALETTE[0])
    labels = base.mark_text(align="left", dx=9, dy=-7, fontWeight="bold", fontSize=13, color=PALETTE[4])
    return (points + labels.encode(text="label:N")).properties(height=320)


def grid_cells(
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    first: Sequence[str] | None = None,
    second: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the cells of a `grid`; they are told by the names of their row and column unless these are given."""
    down, across = np.indices(values.shape).reshape(2, -1)
    told = {"row": (rows, down), "column": (columns, across)}
    told |= {"first": (first or rows, down), "second": (second or columns, across)}
    table = pd.DataFrame({name: [names[place] for place in places] for name, (names, places) in told.items()})
    return table.assign(value=values.ravel().astype(float))


def grid(
    table: pd.DataFrame, rows: Sequence[str], columns: Sequence[str], *, title: str, share: bool = False
) -> alt.LayerChart:
    """Cells "row", "column" with their "value", told by "first" and "second"; a `share` is written in percent."""
    low, high = (0.0, float(table["value"].max()) or 1.0) if share else (float(table["value"].min()), 1.0)
    form = ".0%" if share else ".2f"
    angle = -50 if max(map(len, columns)) > _SHORT else 0  # names that stand on a narrow screen, too
    across = {"labelAngle": angle, "labelOverlap": False, "grid": False}
    base = alt.Chart(table).encode(
        x=alt.X("column:N", sort=list(columns), title=None, axis=alt.Axis(orient="top", labelLimit=70, **across)),
        y=alt.Y("row:N", sort=list(rows), title=None, axis=alt.Axis(labelLimit=120, grid=False)),
        tooltip=tips(("first:N", word("inside.from")), ("second:N", word("inside.to")), ("value:Q", title, form)),
    )
    written = len(columns) <= _WITH_FIGURES
    shaded = cells(base, "value", (min(low, high - 1e-6), high), form, written=written)
    return shaded.properties(height=40 + (34 if written else 22) * len(rows))


def by_layer(table: pd.DataFrame, *, y: str) -> alt.LayerChart:
    """One line of "value" over "layer", in the order of the rows."""
    base = alt.Chart(table).encode(
        x=_layers(table),
        y=alt.Y("value:Q", title=y, scale=alt.Scale(zero=False, padding=8), axis=alt.Axis(format=".2f", tickCount=5)),
        tooltip=tips(("layer:N", word("inside.layer")), ("value:Q", y, ".3f")),
    )
    marks = base.mark_point(filled=True, size=60, opacity=1, color=PALETTE[0])
    return (base.mark_line(color=PALETTE[0], strokeWidth=2.5) + marks).properties(height=_HEIGHT)


def poolings(table: pd.DataFrame, order: Sequence[str], *, y: str) -> alt.LayerChart:
    """One line a "pooling" of "value" over "layer"."""
    tint, mark = apart("pooling", order, order, legend(symbolOpacity=1))
    base = alt.Chart(table).encode(
        x=_layers(table),
        y=alt.Y("value:Q", title=y, scale=alt.Scale(zero=False, padding=8), axis=alt.Axis(format=".0f", tickCount=5)),
        color=tint,
        tooltip=tips(("pooling:N", word("inside.pooling")), ("layer:N", word("inside.layer")), ("value:Q", y, ".1f")),
    )
    return alt.layer(*marked_lines(base, mark, strokeWidth=2.5)).properties(height=_HEIGHT + 60)


def over_steps(table: pd.DataFrame, order: Sequence[str], kept: int) -> alt.LayerChart:
    """One line a "word" of "probability" (0 to 1) over "step"; the step `kept`, if any, is marked by a dashed line."""
    tint, mark = apart("word", order, order, legend(symbolOpacity=1))
    base = alt.Chart(table).encode(
        x=alt.X("step:Q", title=word("inside.step"), axis=alt.Axis(format=",d", tickCount=6, grid=False)),
        y=alt.Y("probability:Q", title=word("inside.probability"), axis=alt.Axis(format=".2~%", tickCount=5)),
        color=tint,
        tooltip=tips(
            ("word:N", word("inside.word")),
            ("step:Q", word("inside.step"), ","),
            ("probability:Q", word("inside.probability"), ".3%"),
        ),
    )
    layers = marked_lines(base, mark, strokeWidth=2.5)
    if kept:
        rule = alt.Chart(pd.DataFrame({"step": [kept]})).mark_rule(strokeDash=[4, 4], color=READABLE)
        layers = [rule.encode(x="step:Q"), *layers]
    return alt.layer(*layers).properties(height=_HEIGHT + 60)


def guesses(table: pd.DataFrame, order: Sequence[str], reach: float) -> alt.Chart:
    """One bar a "piece", in this order, as long as its "probability" (0 to 1), on a scale that reaches so far."""
    scale, axis = alt.Scale(domain=[0, reach], nice=False), alt.Axis(format=".2~%", tickCount=4)
    base = alt.Chart(table).encode(
        y=alt.Y("piece:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=120)),
        x=alt.X("probability:Q", title=word("inside.probability"), scale=scale, axis=axis),
        tooltip=tips(("piece:N", word("inside.piece")), ("probability:Q", word("inside.probability"), ".2%")),
    )
    return base.mark_bar(color=PALETTE[0]).properties(height=60 + 24 * len(order))


def _layers(table: pd.DataFrame) -> alt.X:
    order = list(dict.fromkeys(table["layer"]))
    return alt.X("layer:N", sort=order, title=word("inside.layer"), axis=alt.Axis(labelAngle=0))
