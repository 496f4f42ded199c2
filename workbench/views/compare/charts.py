"""Charts of slices, lost questions, ceilings and mixes. Each draws a table that the page also shows."""

from collections.abc import Mapping, Sequence
from math import ceil

import altair as alt
import pandas as pd
import streamlit as st

from mrc_workbench.retrieval.report.charts import FATE_COLOURS, PALETTE, READABLE, colour, columns_for, legend, shape
from mrc_workbench.workbench.views.names import retriever_names, with_display_names
from mrc_workbench.workbench.views.ui import findings
from mrc_workbench.workbench.views.ui.charts import (
    HEIGHT,
    apart,
    difference_scale,
    draw_chart,
    no_difference,
    share_scale,
    tips,
    with_interval,
)
from mrc_workbench.workbench.views.ui.tables import draw_heading
from mrc_workbench.workbench.views.ui.words import plain, word

_ROW = 14  # pixels a retriever in a slice
_ROOM = 1.08  # how much wider than its data a logarithmic axis is, at each end
_AXIS, _LEGEND_ROW = 56, 24  # pixels of an axis with its title, and of a row of the legend


def on_slices(
    table: pd.DataFrame, drawn: Sequence[str], names: Sequence[str], order: Sequence[str], *, x: str, kind: str = "mean"
) -> alt.LayerChart:
    """One row a slice ("row", in `order`), in it one mark a retriever, in the order of `drawn`, with its interval.

    `kind` is "mean" with "low" to "high", or "difference" with "difference_low" to "difference_high": fractions,
    drawn in percent and points.
    """
    is_difference = kind == "difference"
    ends, form = ("difference_", "+.1f") if is_difference else ("", ".1f")
    figures = {"value": table[kind], "low": table[f"{ends}low"], "high": table[f"{ends}high"]}
    data = table[["row", "retriever", "questions"]].assign(**{name: 100 * of for name, of in figures.items()})
    low, high = float(data["low"].min()), float(data["high"].max())
    scale, axis = (difference_scale(low, high), alt.Axis()) if is_difference else share_scale(low, high, whole=100)
    columns, keys = columns_for(drawn), legend(columns=columns_for(drawn))
    titles = tips(("row:N", word("where.slice")), ("retriever:N", word("compare.retriever")))
    base = alt.Chart(data).encode(
        y=alt.Y("row:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=190, grid=True, tickBand="extent")),
        yOffset=alt.YOffset("retriever:N", sort=drawn),
        color=colour("retriever", drawn, names, keys),
        tooltip=[*titles, *with_interval("value", x, form)],
    )
    along, mark = alt.X("low:Q", title=x, scale=scale, axis=axis), shape("retriever", drawn, names, keys)
    intervals = base.mark_rule(strokeWidth=2, opacity=0.7).encode(x=along, x2="high:Q")
    marks = base.mark_point(filled=True, size=70, opacity=1).encode(x="value:Q", shape=mark)
    layers = [*([no_difference()] if is_difference else []), intervals, marks]
    height = _below(len(drawn), columns) + len(order) * (len(drawn) * _ROW + 12)
    described = data.assign(name=data["row"] + ", " + data["retriever"])
    told = findings.describe(x, findings.intervals(described, "name", "value", form))
    return alt.layer(*layers).properties(height=height, description=told)


def _below(names: int, columns: int) -> int:
    return _AXIS + _LEGEND_ROW * ceil(names / columns)


def draw_slices(
    table: pd.DataFrame,
    drawn: Sequence[str],
    names: Sequence[str],
    order: Sequence[str],
    *,
    baseline: str,
    heading: str,
    figure: str,
) -> None:
    """Draw the metrics of slices and, of several retrievers, their differences from the baseline."""
    called = retriever_names(dict.fromkeys((*names, *drawn)))
    displayed = with_display_names(table, called)
    shown, every = [called[name] for name in drawn], [called[name] for name in names]
    left, right = st.columns(2)
    with left:
        draw_heading(plain(heading))
        draw_chart(on_slices, displayed, shown, every, order, x=word("where.with_interval", figure=figure))
    if len(drawn) > 1:
        with right:
            draw_heading(word("where.from_first", first=plain(called[baseline])))
            others = displayed[table["retriever"] != baseline]
            draw_chart(on_slices, others, shown, every, order, x=word("where.points"), kind="difference")


def lost_questions(table: pd.DataFrame, *, order: Sequence[str], fates: Mapping[str, str], x: str) -> alt.LayerChart:
    """One bar a retriever of the questions it loses ("count"), cut by fate ("label"), in the order of `fates`."""
    places = {label: place for place, label in enumerate(fates)}
    totals = table.groupby("retriever", as_index=False)["count"].sum()
    room = alt.Scale(domain=[0, float(totals["count"].max()) * 1.08], nice=False)  # for the totals beside the bars
    data = table.assign(place=table["label"].map(places))
    base = alt.Chart(data).encode(
        y=alt.Y("retriever:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=220, labelOverlap=False)),
        x=alt.X("count:Q", stack="zero", title=x, scale=room, axis=alt.Axis(tickMinStep=1, format=",d")),
        order=alt.Order("place:Q"),
        tooltip=tips(("retriever:N", word("compare.retriever")), ("label:N", word("where.fate")), ("count:Q", x, ",")),
    )
    scale = alt.Scale(domain=list(fates), range=[FATE_COLOURS[fate] for fate in fates.values()])
    bars = base.mark_bar().encode(color=alt.Color("label:N", scale=scale, legend=legend(columns=2)))
    total = alt.Text("count:Q", format=",")
    at_ends = alt.Chart(totals).encode(y=alt.Y("retriever:N", sort=list(order)), x="count:Q", text=total)
    ends = at_ends.mark_text(align="left", dx=6, color=READABLE)
    description = findings.describe(x, findings.totals(table, "retriever", "label", "count", (",", ",d")))
    return (bars + ends).properties(height=_below(len(fates), 2) + 36 * len(order), description=description)


def ceilings(curves: pd.DataFrame, own: pd.DataFrame, names: Sequence[str], *, x: str, y: str) -> alt.LayerChart:
    """One line a retriever of its "ceiling" over the "depth" of its candidates, and dashed what it makes of them.

    `own` says at which "depth" it reads, its "hit" there, and its "ceiling"; the gap of the two is drawn upright.
    """
    drawn = [*dict.fromkeys(curves["retriever"])]
    depths = sorted(curves["depth"].unique().tolist())
    # a little wider than the depths: the upright line at the deepest must not lie on the border of the plot
    scale = alt.Scale(type="log", domain=[depths[0] / _ROOM, depths[-1] * _ROOM], nice=False)
    across = alt.X("depth:Q", title=x, scale=scale, axis=alt.Axis(values=depths, format="d"))
    of_retriever, mark = apart("retriever", drawn, names, legend(columns=columns_for(drawn)))
    lowest = min(float(curves["ceiling"].min()), float(own["hit"].min()) if len(own) else 1.0)
    up, axis = share_scale(lowest, float(curves["ceiling"].max()))
    said = tips(("retriever:N", word("compare.retriever")), ("depth:Q", x))
    ceiling_tip = alt.Tooltip("ceiling:Q", title=word("where.ceiling"), format=".2%")
    lines = alt.Chart(curves).encode(x=across, y=alt.Y("ceiling:Q", title=y, scale=up, axis=axis), color=of_retriever)
    own_tips = [*said, *tips(("hit:Q", word("where.own"), ".2%")), ceiling_tip]
    at_depth = alt.Chart(own).encode(color=of_retriever, tooltip=own_tips)
    told = [
        word("chart.row_ceiling", name=row["retriever"], value=f"{row['hit']:.1%}", ceiling=f"{row['ceiling']:.1%}")
        for row in own.to_dict("records")
    ]
    return (
        lines.mark_line()
        + lines.mark_point(size=30, filled=True).encode(tooltip=[*said, ceiling_tip])
        + at_depth.mark_rule(strokeDash=[6, 4]).encode(y="hit:Q")
        + at_depth.mark_rule(strokeWidth=2).encode(x=across, y="hit:Q", y2="ceiling:Q")
        + at_depth.mark_point(size=90, filled=True, opacity=1).encode(x=across, y="hit:Q", shape=mark)
    ).properties(height=HEIGHT, description=findings.describe(y, told))


def signal_bars(table: pd.DataFrame, *, x: str) -> alt.Chart:
    """One bar a "signal" of a mix, as long as its "share" in percent, in the order of the table."""
    names = table["signal"].tolist()
    base = alt.Chart(table).encode(
        y=alt.Y("signal:N", sort=names, title=None, axis=alt.Axis(labelLimit=190, labelOverlap=False)),
        x=alt.X("share:Q", title=x),
        tooltip=tips(("signal:N", " "), ("share:Q", x, ".1f")),
    )
    description = findings.describe(x, findings.values(names, [*table["share"]], ".1f"))
    return base.mark_bar(color=PALETTE[0]).properties(height=_AXIS + 24 * len(names), description=description)
