"""The report's charts: scales and legends, and pictures as SVG."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd
from markupsafe import Markup

from mrc_workbench.retrieval.report.drawing import colour_of, draw, shape_of

_SHORT = 22  # letters of a name that has room for another one beside it


def colour(field: str, drawn: Sequence[str], names: Sequence[str], legend: alt.Legend | None = None) -> alt.Color:
    """Return the colours of the names `drawn`; `names` are all there are, in their fixed order."""
    scale = alt.Scale(domain=list(drawn), range=[colour_of(name, names) for name in drawn])
    return alt.Color(field, type="nominal", scale=scale, legend=legend)


def shape(field: str, drawn: Sequence[str], names: Sequence[str], legend: alt.Legend | None = None) -> alt.Shape:
    """Return the marks of the names `drawn`, so that colour alone never tells."""
    scale = alt.Scale(domain=list(drawn), range=[shape_of(name, names) for name in drawn])
    return alt.Shape(field, type="nominal", scale=scale, legend=legend)


def columns_for(names: Sequence[str]) -> int:
    """Return in how many columns a legend stands below a chart of half a page, so that no name is cut."""
    return 2 if max(map(len, names), default=0) <= _SHORT else 1


def legend(**options: Any) -> alt.Legend:
    """Return the legend below a chart, without a title: each name says what it is.

    Its symbols are opaque, whatever the opacity of the marks: half-transparent ones are hard to read on dark.
    """
    return alt.Legend(**{"orient": "bottom", "title": None, "labelLimit": 400, "symbolOpacity": 1, **options})


_WIDTH = 400
_ROW = 13  # height of one retriever in a row of a chart
_INK = {
    "background": "transparent",
    "font": "system-ui, -apple-system, 'Segoe UI', 'Noto Sans KR', 'Malgun Gothic', sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "domainColor": "currentColor",
        "tickColor": "currentColor",
        "gridColor": "currentColor",
        "domainOpacity": 0.4,
        "tickOpacity": 0.4,
        "gridOpacity": 0.12,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 220,
    },
}


def pictures(charts: Sequence[Any]) -> list[Markup | None]:
    """Draw charts as SVGs whose words are text and whose ink is the reader's text colour; None where that failed."""
    drawn = draw([chart.configure(**_INK).to_dict() for chart in charts])
    return [None if one is None else Markup(one) for one in drawn]  # noqa: S704 - the renderer escapes every text


def curves(
    table: pd.DataFrame, names: Sequence[str], *, x: str, y: str, legend: alt.Legend | None = None
) -> alt.LayerChart:
    """One line a retriever with the band of its intervals: columns "retriever", "k", "mean", "low", "high" (shares)."""
    lowest = max(0.0, float(table["low"].min()) - 0.01)
    base = alt.Chart(table).encode(
        x=alt.X("k:O", title=x, axis=alt.Axis(labelAngle=0)),
        color=colour("retriever", names, names, legend),
        detail="retriever:N",
    )
    scale = alt.Scale(domain=[lowest, 1.0], nice=False)
    height = alt.Y("mean:Q", title=y, scale=scale, axis=alt.Axis(format=_percent(1 - lowest)))
    band = base.mark_area(opacity=0.14).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q")
    marks = base.mark_point(filled=True, size=55, opacity=1).encode(
        y=height, shape=shape("retriever", names, names, legend)
    )
    return (band + base.mark_line(strokeWidth=2).encode(y=height) + marks).properties(width=_WIDTH, height=260)


def intervals(table: pd.DataFrame, names: Sequence[str], *, row: str, order: Sequence[str], x: str) -> alt.LayerChart:
    """One mark a retriever in each row, with its interval: columns `row`, "retriever", "mean", "low", "high"."""
    low, high = float(table["low"].min()), float(table["high"].max())
    scale = alt.Scale(domain=[max(0.0, low - 0.01), min(1.0, high + 0.01)], nice=False)
    side = {"yOffset": alt.YOffset("retriever:N", sort=list(names))} if row != "retriever" else {}
    y = alt.Y(row, type="nominal", sort=list(order), title=None, axis=alt.Axis(ticks=False, domain=False))
    base = alt.Chart(table).encode(y=y, color=colour("retriever", names, names), **side)
    axis = alt.Axis(format=_percent(high - low), tickCount=4, labelOverlap="greedy")
    rule = base.mark_rule(strokeWidth=2, opacity=0.55).encode(
        x=alt.X("low:Q", title=x, scale=scale, axis=axis), x2="high:Q"
    )
    marks = base.mark_point(filled=True, size=50, opacity=1).encode(
        x=alt.X("mean:Q", scale=scale), shape=shape("retriever", names, names)
    )
    rows = len(order) * (len(names) * _ROW + 8) if side else len(order) * 34
    return (rule + marks).properties(width=_WIDTH, height=rows)


def stacked(
    table: pd.DataFrame, names: Sequence[str], *, parts: Sequence[str], colours: Sequence[str], x: str
) -> alt.Chart:
    """One bar a retriever, stacked of parts: columns "retriever", "part", "count"."""
    return (
        alt.Chart(table)
        .mark_bar(height={"band": 0.7})
        .encode(
            y=alt.Y("retriever:N", sort=list(names), title=None, axis=alt.Axis(ticks=False, domain=False)),
            x=alt.X("count:Q", title=x, axis=alt.Axis(tickMinStep=1, tickCount=6, format=",.0f")),
            color=alt.Color("part:N", scale=alt.Scale(domain=list(parts), range=list(colours)), legend=None),
            order="place:Q",
        )
        .properties(width=2 * _WIDTH, height=len(names) * 34)
    )


def _percent(span: float) -> str:
    return ".1%" if span < 0.05 else ".0%"
