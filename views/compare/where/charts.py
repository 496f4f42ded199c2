"""Charts of the Where view. Each draws a table that the view also shows."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from retrieval.report.colours import FATE_COLOURS, READABLE
from retrieval.report.scales import colour, columns_for, legend, shape
from views.ui.charts import HEIGHT, with_interval
from views.ui.words import word

_ROW = 14  # pixels a retriever in a slice
_BELOW = 120  # pixels of axis and legend


def on_slices(
    table: pd.DataFrame, drawn: Sequence[str], names: Sequence[str], order: Sequence[str], *, x: str, kind: str = "mean"
) -> alt.LayerChart:
    """One row a slice ("row", in `order`), in it one mark a retriever with its interval.

    Retrievers stand in the order of `drawn`, so that two charts of the same slices agree row by row. `kind` is "mean"
    with "low" to "high", or "difference" with "difference_low" to "difference_high": shares, drawn in percent and
    points.
    """
    ends = {"mean": ("low", "high"), "difference": ("difference_low", "difference_high")}[kind]
    data = table[["row", "retriever", "questions"]].assign(
        value=table[kind] * 100, low=table[ends[0]] * 100, high=table[ends[1]] * 100
    )
    form = "+.1f" if kind == "difference" else ".1f"
    base = alt.Chart(data).encode(
        y=alt.Y("row:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=190, grid=True, tickBand="extent")),
        yOffset=alt.YOffset("retriever:N", sort=drawn),
        color=colour("retriever", drawn, names, legend(columns=columns_for(drawn))),
        tooltip=[
            alt.Tooltip("row:N", title=word("where.slice")),
            alt.Tooltip("retriever:N", title=word("compare.retriever")),
            *with_interval("value", x, form),
        ],
    )
    intervals = base.mark_rule(strokeWidth=2, opacity=0.7).encode(
        x=alt.X("low:Q", title=x, scale=alt.Scale(zero=False, nice=True)), x2="high:Q"
    )
    marks = base.mark_point(filled=True, size=70, opacity=1).encode(
        x="value:Q", shape=shape("retriever", drawn, names, legend(columns=columns_for(drawn)))
    )
    layers = [intervals, marks]
    if kind == "difference":
        nothing = alt.Chart(pd.DataFrame({"zero": [0]})).mark_rule(color=READABLE, strokeDash=[4, 3])
        layers.insert(0, nothing.encode(x="zero:Q"))
    return alt.layer(*layers).properties(height=_BELOW + len(order) * (len(drawn) * _ROW + 12))


def lost_questions(table: pd.DataFrame, *, order: Sequence[str], fates: Mapping[str, str], x: str) -> alt.LayerChart:
    """One bar a retriever of the questions it loses ("count"), cut by what became of them ("label").

    `fates` are the fates that occur by their label, in the order of the pieces.
    """
    places = {label: place for place, label in enumerate(fates)}
    totals = table.groupby("retriever", as_index=False)["count"].sum()
    room = alt.Scale(domain=[0, float(totals["count"].max()) * 1.08], nice=False)  # for the totals beside the bars
    data = table.assign(place=table["label"].map(places))
    base = alt.Chart(data).encode(
        y=alt.Y("retriever:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=220, labelOverlap=False)),
        x=alt.X("count:Q", stack="zero", title=x, scale=room, axis=alt.Axis(tickMinStep=1, format=",d")),
        order=alt.Order("place:Q"),
        tooltip=[
            alt.Tooltip("retriever:N", title=word("compare.retriever")),
            alt.Tooltip("label:N", title=word("where.fate")),
            alt.Tooltip("count:Q", title=x, format=","),
        ],
    )
    scale = alt.Scale(domain=list(fates), range=[FATE_COLOURS[fate] for fate in fates.values()])
    bars = base.mark_bar().encode(color=alt.Color("label:N", scale=scale, legend=legend(columns=2)))
    ends = (
        alt.Chart(totals)
        .mark_text(align="left", dx=6, color=READABLE)
        .encode(y=alt.Y("retriever:N", sort=list(order)), x="count:Q", text=alt.Text("count:Q", format=","))
    )
    return (bars + ends).properties(height=_BELOW + 40 + 36 * len(order))


def ceilings(curves: pd.DataFrame, own: pd.DataFrame, names: Sequence[str], *, x: str, y: str) -> alt.LayerChart:
    """One line a retriever of its "ceiling" over the "depth" of its candidates, and dashed what it makes of them.

    `own` says at which "depth" it reads, its "hit" there, and its "ceiling"; the gap of the two is drawn upright.
    """
    drawn = [name for name in names if name in set(curves["retriever"])]
    depths = sorted(curves["depth"].unique().tolist())
    scale: dict[str, Any] = {"type": "log", "domain": [depths[0], depths[-1]], "nice": False}
    across = alt.X("depth:Q", title=x, scale=alt.Scale(**scale), axis=alt.Axis(values=depths, format="d"))
    of_retriever = colour("retriever", drawn, names, legend(columns=columns_for(drawn)))
    mark = shape("retriever", drawn, names, legend(columns=columns_for(drawn)))
    up = alt.Scale(zero=False, nice=True)
    tips = [alt.Tooltip("retriever:N", title=word("compare.retriever")), alt.Tooltip("depth:Q", title=x)]
    ceiling_tip = alt.Tooltip("ceiling:Q", title=word("where.ceiling"), format=".2%")
    lines = alt.Chart(curves).encode(
        x=across, y=alt.Y("ceiling:Q", title=y, scale=up, axis=alt.Axis(format="%")), color=of_retriever
    )
    at_depth = alt.Chart(own).encode(
        color=of_retriever, tooltip=[*tips, alt.Tooltip("hit:Q", title=word("where.own"), format=".2%"), ceiling_tip]
    )
    return (
        lines.mark_line()
        + lines.mark_point(size=30, filled=True).encode(tooltip=[*tips, ceiling_tip])
        + at_depth.mark_rule(strokeDash=[6, 4]).encode(y="hit:Q")
        + at_depth.mark_rule(strokeWidth=2).encode(x=across, y="hit:Q", y2="ceiling:Q")
        + at_depth.mark_point(size=90, filled=True, opacity=1).encode(x=across, y="hit:Q", shape=mark)
    ).properties(height=HEIGHT)
