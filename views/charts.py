"""Charts. Each draws a table that the page also shows."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from retrieval.report.colours import PALETTE, colour_of, shape_of
from views.words import word

_HEIGHT = 320
_READABLE = "#7c818c"  # on light and dark alike: figures inside a chart do not follow the theme
_DISTRIBUTION_HEIGHT = 240


def curves(table: pd.DataFrame, names: Sequence[str], *, x: str, y: str, detail: str) -> alt.LayerChart:
    """One line a retriever of `y` (a share) over `x` in its band; columns `x`, `y`, "low", "high" and `detail`."""
    shown = [name for name in names if name in set(table[detail])]
    low = max(0.0, float(table["low"].min()) - 0.01)
    colours = alt.Scale(domain=shown, range=[colour_of(name, names) for name in shown])
    base = alt.Chart(table).encode(
        x=alt.X(x, type="ordinal", axis=alt.Axis(labelAngle=0)),
        y=alt.Y(y, type="quantitative", scale=alt.Scale(domain=[low, 1.0]), axis=alt.Axis(format="%")),
        color=alt.Color(
            detail,
            type="nominal",
            scale=colours,
            legend=alt.Legend(orient="bottom", columns=2, title=None, labelLimit=300, symbolOpacity=1),
        ),
        tooltip=[
            alt.Tooltip(detail),
            alt.Tooltip(x),
            *_share_tooltips(y),
        ],
    )
    bands = base.mark_area(fillOpacity=0.15).encode(
        y=alt.Y("low:Q", title=y, scale=alt.Scale(domain=[low, 1.0])),
        y2="high:Q",
    )
    marks = base.mark_point(filled=True, size=70, opacity=1).encode(
        shape=alt.Shape(
            detail,
            type="nominal",
            scale=alt.Scale(domain=shown, range=[shape_of(name, names) for name in shown]),
            legend=None,
        )
    )
    return (bands + base.mark_line() + marks).properties(height=_HEIGHT)


def bars(table: pd.DataFrame, names: Sequence[str], *, value: str, detail: str) -> alt.LayerChart:
    """One bar a retriever, its interval ("low" to "high") across its end and its share behind."""
    shown = [name for name in names if name in set(table[detail])]
    base = alt.Chart(table).encode(
        y=alt.Y(detail, type="nominal", sort=shown, title=None, axis=alt.Axis(labelLimit=220)),
        x=alt.X(
            value,
            type="quantitative",
            scale=alt.Scale(domain=[0, 1.12]),  # room for the figures
            axis=alt.Axis(format="%", values=[0, 0.2, 0.4, 0.6, 0.8, 1]),
        ),
        tooltip=[
            alt.Tooltip(detail),
            *_share_tooltips(value),
        ],
    )
    filled = base.mark_bar().encode(
        color=alt.Color(
            detail,
            type="nominal",
            scale=alt.Scale(domain=shown, range=[colour_of(name, names) for name in shown]),
            legend=None,
        )
    )
    ends = base.mark_rule(color=_READABLE, strokeWidth=2).encode(x=alt.X("low:Q", title=value), x2="high:Q")
    labels = base.mark_text(align="left", dx=6, color=_READABLE).encode(
        x=alt.X("high:Q", title=value), text=alt.Text(value, format=".1%")
    )
    return (filled + ends + labels).properties(height=_HEIGHT)


def distribution(
    table: pd.DataFrame, *, x: str, y: str, median: float, label: str, percent: bool = False
) -> alt.LayerChart:
    """Bars over ranges, columns "from", "to" and "count", and a line at the median with its label."""
    shown = ".0%" if percent else ",.0f"
    low, high = (0.0, 1.0) if percent else (float(table["from"].min()), float(table["to"].max()))
    scale = alt.Scale(domain=[low, high], nice=False)
    axis = alt.Axis(format=shown, tickMinStep=0.05 if percent else 1)
    bars = (
        alt.Chart(table)
        .mark_bar(color=PALETTE[0])
        .encode(
            x=alt.X("from", type="quantitative", bin="binned", title=x, axis=axis, scale=scale),
            x2="to",
            y=alt.Y("count", type="quantitative", title=y, axis=alt.Axis(tickMinStep=1)),
            tooltip=[
                alt.Tooltip("from", type="quantitative", title="≥", format=shown),
                alt.Tooltip("to", type="quantitative", title="<", format=shown),
                alt.Tooltip("count", type="quantitative", title=y, format=","),
            ],
        )
    )
    middle = alt.Chart(pd.DataFrame({"median": [median], "label": [label]})).encode(x="median:Q")
    line = middle.mark_rule(color=PALETTE[4], strokeWidth=2, strokeDash=[6, 3])
    # beside the highest bars there is no place for words: they stand above the plot
    side, gap = ("right", -4) if median > (low + high) / 2 else ("left", 4)
    words = middle.mark_text(align=side, dx=gap, dy=-8, y=0, fontWeight="bold", color=PALETTE[4]).encode(text="label")
    return (bars + line + words).properties(height=_DISTRIBUTION_HEIGHT)


def term_bars(table: pd.DataFrame, terms: Sequence[str], sides: Sequence[str], *, x: str, y: str) -> alt.Chart:
    """Two bars a term, columns "term", "side" and "value", in the order of `terms`."""
    scale = alt.Scale(domain=list(sides), range=[PALETTE[2], PALETTE[4]])
    return (
        alt.Chart(table)
        .mark_bar()
        .encode(
            y=alt.Y("term", type="nominal", sort=list(terms), title=None, axis=alt.Axis(labelLimit=180)),
            yOffset=alt.YOffset("side", type="nominal", sort=list(sides)),
            x=alt.X("value", type="quantitative", title=x),
            color=alt.Color(
                "side", type="nominal", scale=scale, legend=alt.Legend(orient="top", title=None, labelLimit=300)
            ),
            tooltip=[
                alt.Tooltip("term", title=y),
                alt.Tooltip("side", title=" "),
                alt.Tooltip("value", type="quantitative", title=x, format="+.3f"),
            ],
        )
        .properties(height=110 + 26 * len(terms))  # legend and axis, and the bars
    )


def part_bars(table: pd.DataFrame, names: Sequence[str], *, x: str, title: str) -> alt.Chart:
    """One bar a "side", stacked of what each "part" (a retriever) adds, "value"."""
    shown = [name for name in names if name in set(table["part"])]
    sides = list(dict.fromkeys(table["side"]))
    return (
        alt.Chart(table)
        .mark_bar(height=22)
        .encode(
            y=alt.Y("side", type="nominal", sort=sides, title=None, axis=alt.Axis(labelLimit=220)),
            x=alt.X("value", type="quantitative", title=x),
            color=alt.Color(
                "part",
                type="nominal",
                scale=alt.Scale(domain=shown, range=[colour_of(name, names) for name in shown]),
                legend=alt.Legend(orient="top", title=None, labelLimit=300),
            ),
            tooltip=[
                alt.Tooltip("side", title=" "),
                alt.Tooltip("part", title=title),
                alt.Tooltip("value", type="quantitative", title=x, format="+.4f"),
            ],
        )
        .properties(height=200)
    )


def _share_tooltips(value: str) -> list[alt.Tooltip]:
    """What is said of a share and its interval."""
    titles = {value: value, "low": word("compare.low"), "high": word("compare.high")}
    return [alt.Tooltip(name, type="quantitative", title=title, format=".2%") for name, title in titles.items()]
