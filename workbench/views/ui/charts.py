"""Charts with a description for screen readers. The page also shows the table of each chart.

`draw_chart` renders Altair's charts to Vega-Lite and caches them: Streamlit's rendering changes the settings of all
threads, so that a chart rendered at the same time would lack its data.
"""

import json
from collections.abc import Callable, Sequence
from threading import Lock
from types import FunctionType
from typing import Any, Literal

import altair as alt
import pandas as pd
import pyarrow as pa
import streamlit as st

from mrc_workbench.retrieval.report import charts as report_charts
from mrc_workbench.retrieval.report.charts import PALETTE, TEXT_COLOUR, colour, legend, legend_columns, shape
from mrc_workbench.workbench.views.ui.words import language, word

HEIGHT = 320
_CURVES_HEIGHT = 260
_DISTRIBUTION_HEIGHT = 240
# Pixels of a row and of the axis
_FOREST_ROW = 34
_FOREST_AXIS = 60
TICKS = 6  # Vega draws 4 to 8, at round numbers
_MOST_ROWS = 12  # in a description; the table beside the chart has every row
# Streamlit's theme leaves up to 80 pixels between an axis, its title and the legend
_CONFIG: dict[str, Any] = {
    "axis": {"titlePadding": 6, "labelPadding": 6},
    "axisQuantitative": {"tickCount": TICKS},
    "legend": {"offset": 6, "padding": 0, "labelPadding": 4},
}
_PADDING = {"left": 0, "top": 4, "right": 8, "bottom": 4}
_CELLS = ("#eef3f8", "#0072B2")
_altair_lock = Lock()  # all threads share Altair's settings


def tooltips(*columns: tuple[str, str] | tuple[str, str, str]) -> list[alt.Tooltip]:
    """Return tooltips of columns ("value:Q") with their titles and, for numbers, their format."""
    return [alt.Tooltip(field, title=title, **({"format": form[0]} if form else {})) for field, title, *form in columns]


def interval_tooltips(value: str, title: str, form: str = ".2%") -> list[alt.Tooltip]:
    """Return tooltips of a metric, a column with its title, and of its interval "low" to "high"."""
    titles = {value: title, "low": word("compare.low"), "high": word("compare.high")}
    return tooltips(*((f"{name}:Q", title, form) for name, title in titles.items()))


def names_in_column(names: Sequence[str], column: "pd.Series[str]") -> list[str]:
    return [name for name in names if name in set(column)]


def percent_scale(low: float, high: float, *, whole: float = 1.0) -> tuple[alt.Scale, alt.Axis]:
    """Return a scale with margins and its axis in percent; `whole` is 100%, and larger ticks have no label."""
    margin = max(0.005 * whole, (high - low) * 0.08)
    form = ".1f" if high - low < 0.05 * whole else ".0f"
    times, sign = (100, "%") if whole == 1 else (1, "")
    label = f"datum.value > {1.0001 * whole} ? '' : format(datum.value * {times}, '{form}') + '{sign}'"
    domain = [max(0.0, low - margin), high + margin]
    return alt.Scale(domain=domain, nice=False), alt.Axis(labelExpr=label, tickCount=TICKS)


def difference_scale(low: float, high: float) -> alt.Scale:
    low = min(0.0, low)
    high = max(0.0, high)
    margin = max(0.5, (high - low) * 0.06) if high > low else 1.0
    return alt.Scale(domain=[low - margin, high + margin], nice=False)


def color_and_shape(
    field: str, displayed_names: Sequence[str], names: Sequence[str], chart_legend: alt.Legend | None = None
) -> tuple[alt.Color, alt.Shape]:
    return colour(field, displayed_names, names, chart_legend), shape(field, displayed_names, names, chart_legend)


def marked_lines(base: alt.Chart, mark: alt.Shape | None = None, *, size: int = 70, **line: Any) -> list[alt.Chart]:
    """Return lines with a filled mark at each point; `line` has the properties of Altair's lines."""
    marks = base.mark_point(filled=True, size=size, opacity=1)
    return [base.mark_line(**line), marks if mark is None else marks.encode(shape=mark)]


def cells(base: alt.Chart, value: str, bounds: tuple[float, float], form: str, *, written: bool) -> alt.LayerChart:
    """Return cells shaded by a column within `bounds`, with the values as texts if `written`."""
    scale = alt.Scale(domain=[*bounds], range=list(_CELLS), clamp=True)
    shaded = base.mark_rect().encode(color=alt.Color(f"{value}:Q", scale=scale, legend=None))
    if not written:
        return alt.layer(shaded)
    on_dark = alt.condition(f"datum.{value} > {sum(bounds) / 2}", alt.value("white"), alt.value("#1f2430"))
    cell_texts = base.mark_text(fontSize=11).encode(text=alt.Text(f"{value}:Q", format=form), color=on_dark)
    return shaded + cell_texts


def no_difference() -> alt.Chart:
    return alt.Chart(pd.DataFrame({"zero": [0]})).mark_rule(color=TEXT_COLOUR, strokeDash=[4, 3]).encode(x="zero:Q")


def curves(
    table: pd.DataFrame, names: Sequence[str], *, x: str, y: str, detail: str, dashed: Sequence[str] = ()
) -> alt.LayerChart:
    """Draw a line with its interval for each retriever; columns `x`, `y` (a fraction), "low", "high" and `detail`."""
    retrievers = [*dict.fromkeys(table[detail])]
    scale, axis = percent_scale(float(table["low"].min()), float(table["high"].max()))
    color, mark = color_and_shape(detail, retrievers, names)
    base = alt.Chart(table).encode(
        x=alt.X(x, type="ordinal", axis=alt.Axis(labelAngle=0)),
        y=alt.Y(y, type="quantitative", scale=scale, axis=axis),
        tooltip=[alt.Tooltip(detail), alt.Tooltip(x), *interval_tooltips(y, y)],
    )
    band = base.mark_area(fillOpacity=0.15).encode(y=alt.Y("low:Q", title=y, scale=scale), y2="high:Q", color=color)
    labels = {name: f"{report_charts.mark_character(name, names)} {name}" for name in retrievers}
    piece = {"symbolType": "stroke", "symbolSize": 500, "symbolStrokeWidth": 2}
    lines = legend(columns=legend_columns(retrievers), labelExpr=f"({json.dumps(labels)})[datum.label]", **piece)
    dashes = alt.Scale(domain=retrievers, range=[[4, 3] if name in dashed else [1, 0] for name in retrievers])
    line = base.mark_line().encode(
        color=colour(detail, retrievers, names, lines),
        strokeDash=alt.StrokeDash(detail, type="nominal", scale=dashes, legend=lines),
    )
    points = base.mark_point(filled=True, size=70, opacity=1).encode(color=color, shape=mark)
    description = describe(y, line_texts(table, detail, x, y, ".1%"))
    layers = alt.layer(band, line, points).properties(height=_CURVES_HEIGHT, description=description)
    return layers.resolve_legend(color="independent", strokeDash="independent")  # a legend only for lines


def forest(table: pd.DataFrame, names: Sequence[str], *, x: str, detail: str) -> alt.LayerChart:
    """Draw a row for each retriever: its "difference" in percentage points, from "low" to "high"."""
    retrievers = [*table[detail]]
    scale = difference_scale(float(table["low"].min()), float(table["high"].max()))
    base = alt.Chart(table).encode(
        y=alt.Y(detail, type="nominal", sort=retrievers, title=None, axis=alt.Axis(labelLimit=260)),
        color=colour(detail, retrievers, names),
        tooltip=[alt.Tooltip(detail), *interval_tooltips("difference", x, "+.2f")],
    )
    ends = base.mark_rule(strokeWidth=3).encode(x=alt.X("low:Q", title=x, scale=scale), x2="high:Q")
    mark = shape(detail, retrievers, names)
    marks = base.mark_point(filled=True, size=110, opacity=1).encode(x="difference:Q", shape=mark)
    description = describe(x, intervals(table, detail, "difference", "+.1f"))
    height = _FOREST_AXIS + _FOREST_ROW * len(retrievers)
    return (no_difference() + ends + marks).properties(height=height, description=description)


def range_bars(
    table: pd.DataFrame, ends: tuple[float, float], axis: alt.Axis, *, x: str, y: str, form: str
) -> alt.Chart:
    """Draw bars over ranges, columns "from", "to" and "count"; `ends` of the scale, `form` of numbers in tooltips."""
    scale = alt.Scale(domain=[*ends], nice=False)
    base = alt.Chart(table).encode(
        x=alt.X("from:Q", bin="binned", title=x, axis=axis, scale=scale),
        x2="to",
        y=alt.Y("count:Q", title=y, axis=alt.Axis(tickMinStep=1)),
        tooltip=tooltips(("from:Q", "≥", form), ("to:Q", "<", form), ("count:Q", y, ",")),
    )
    return base.mark_bar(color=PALETTE[0])


def distribution(
    table: pd.DataFrame, *, x: str, y: str, median: float, label: str, percent: bool = False
) -> alt.LayerChart:
    """Draw bars over ranges, columns "from", "to" and "count", and a line at the median with its label."""
    form = ".0%" if percent else ",.0f"
    low, high = (0.0, 1.0) if percent else (float(table["from"].min()), float(table["to"].max()))
    axis = alt.Axis(format=form, tickMinStep=0.05 if percent else 1)
    bars = range_bars(table, (low, high), axis, x=x, y=y, form=form)
    middle = alt.Chart(pd.DataFrame({"median": [median], "label": [label]})).encode(x="median:Q")
    line = middle.mark_rule(color=PALETTE[4], strokeWidth=2, strokeDash=[6, 3])
    # The label is above the plot, where no bar hides it
    side, gap = ("right", -4) if median > (low + high) / 2 else ("left", 4)
    words = middle.mark_text(align=side, dx=gap, dy=-8, y=0, fontWeight="bold", color=PALETTE[4]).encode(text="label")
    form = form.removeprefix(",") if percent else form
    ends = {"low": format(low, form), "high": format(high, form)}
    description = word("chart.distribution", title=x, median=format(median, form), **ends)
    return (bars + line + words).properties(height=_DISTRIBUTION_HEIGHT, description=description)


def term_bars(table: pd.DataFrame, terms: Sequence[str], sides: Sequence[str], *, x: str, y: str) -> alt.Chart:
    """Draw two bars for each term, columns "term", "side" and "value", in the order of `terms`."""
    scale = alt.Scale(domain=list(sides), range=[PALETTE[2], PALETTE[4]])
    base = alt.Chart(table).encode(
        y=alt.Y("term:N", sort=list(terms), title=None, axis=alt.Axis(labelLimit=180)),
        yOffset=alt.YOffset("side:N", sort=list(sides)),
        x=alt.X("value:Q", title=x),
        color=alt.Color("side:N", scale=scale, legend=legend(orient="top")),
        tooltip=tooltips(("term", y), ("side", " "), ("value:Q", x, "+.3f")),
    )
    named = table["term"] + " (" + table["side"] + ")"
    description = describe(x, values([*named], [*table["value"]], "+.2f"))
    return base.mark_bar().properties(height=110 + 26 * len(terms), description=description)


def part_bars(table: pd.DataFrame, names: Sequence[str], *, x: str, title: str) -> alt.Chart:
    """Draw a stacked bar for each "side" with the "value" of each "part" (a retriever)."""
    sides = list(dict.fromkeys(table["side"]))
    parts = names_in_column(names, table["part"])
    base = alt.Chart(table).encode(
        y=alt.Y("side:N", sort=sides, title=None, axis=alt.Axis(labelLimit=220)),
        x=alt.X("value:Q", title=x),
        color=colour("part", parts, names, legend(orient="top")),
        tooltip=tooltips(("side", " "), ("part", title), ("value:Q", x, "+.4f")),
    )
    description = describe(x, totals(table, "side", "part", "value", (".3f", "+.3f")))
    return base.mark_bar(height=22).properties(height=98 + 38 * len(sides), description=description)


def draw_chart(
    make: Callable[..., Any],
    *args: Any,
    key: str | None = None,
    on_select: Literal["ignore"] | Callable[[], None] = "ignore",
    selection_mode: str | None = None,
    alt: str | None = None,
    **kwargs: Any,
) -> None:
    """Draw the Altair chart that `make` returns; `alt` replaces its description for screen readers."""
    spec = render_chart(language(), make, *args, **kwargs)
    if alt:
        spec = {**spec, "description": alt}
    st.vega_lite_chart(spec=spec, key=key, on_select=on_select, selection_mode=selection_mode)


def _content(table: pd.DataFrame) -> tuple[list[str], bytes]:
    """Return a hash of a table, many times faster than Streamlit's."""
    return [str(name) for name in table.columns], pd.util.hash_pandas_object(table).to_numpy().tobytes()


@st.cache_resource(
    show_spinner=False,
    max_entries=256,
    hash_funcs={FunctionType: lambda make: make.__qualname__ + make.__module__, pd.DataFrame: _content},
)
def render_chart(language: str, make: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
    del language  # a part of the cache key
    chart = make(*args, **kwargs)
    with _altair_lock, alt.data_transformers.enable("default", max_rows=None):
        spec: dict[str, Any] = chart.to_dict()
    spec["config"] = _CONFIG
    spec["padding"] = _PADDING
    for name, rows in spec["datasets"].items():  # convert rows to Arrow once, not at every run of the page
        table = pa.Table.from_pylist(rows)
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
        spec["datasets"][name] = stream.getvalue().to_pybytes()
    return spec


def describe(title: str, rows: Sequence[str]) -> str:
    """Return the title, the first `_MOST_ROWS` rows and the number of the others as one sentence."""
    if not rows:
        return title
    listed = [*rows[:_MOST_ROWS]]
    if len(rows) > _MOST_ROWS:
        listed.append(word("chart.more", count=len(rows) - _MOST_ROWS))
    return word("chart.finding", title=title, rows="; ".join(listed))


def values(names: Sequence[str], numbers: Sequence[float], form: str) -> list[str]:
    """Return a text for each name with its number; `form` is a Python format such as ".1%"."""
    return [word("chart.row", name=name, value=format(value, form)) for name, value in zip(names, numbers, strict=True)]


def intervals(table: pd.DataFrame, name: str, value: str, form: str) -> list[str]:
    """Return a text for each row of the table: name, value and the interval "low" to "high"."""
    texts = []
    for row in table.to_dict("records"):
        ends = {end: format(row[end], form) for end in ("low", "high")}
        texts.append(word("chart.row_interval", name=row[name], value=format(row[value], form), **ends))
    return texts


def totals(table: pd.DataFrame, name: str, part: str, value: str, forms: tuple[str, str]) -> list[str]:
    """Return a text for each name: the total of its values, and each part; `forms` of totals and parts."""
    rows = []
    for label, parts in table.groupby(name, sort=False):
        listed = ", ".join(values([*parts[part]], [*parts[value]], forms[1]))
        rows.append(word("chart.row_of", name=label, value=format(parts[value].sum(), forms[0]), parts=listed))
    return rows


def line_texts(table: pd.DataFrame, name: str, x: str, y: str, form: str) -> list[str]:
    """Return a text for each line of a chart: its value at the first and the last `x`."""
    rows = []
    for line, points in table.groupby(name, sort=False):
        first, last = points[[x, y]].iloc[[0, -1]].to_dict("records")
        ends = {"first": format(first[y], form), "last": format(last[y], form)}
        rows.append(word("chart.row_range", name=line, start=first[x], end=last[x], **ends))
    return rows


def best_setting(title: str, table: pd.DataFrame, name: str) -> str:
    """Return a text with the best setting and its value (0 to 1)."""
    value = float(table["value"].max())
    return word("chart.best_of", title=title, count=len(table), value=f"{value:.1%}", name=name)


def coordinates(table: pd.DataFrame, name: str, columns: tuple[str, str], forms: tuple[str, str]) -> list[str]:
    """Return a text for each point of a chart: its name and its two coordinates."""
    rows = []
    for point in table.to_dict("records"):
        x, y = (format(point[column], form) for column, form in zip(columns, forms, strict=True))
        rows.append(word("chart.row", name=point[name], value=f"{x}, {y}"))
    return rows


def extremes(title: str, table: pd.DataFrame, names: tuple[str, str], value: str, form: str) -> str:
    """Return a text with the highest and the lowest cell of a grid and the names of their rows and columns."""
    if table.empty:
        return title
    ranked = table.sort_values(value, kind="stable").to_dict("records")
    rows = []
    for key, cell in (("highest", ranked[-1]), ("lowest", ranked[0])):
        pair = f"{cell[names[0]]} – {cell[names[1]]}"
        rows.append(word(f"chart.{key}", name=pair, value=format(cell[value], form)))
    return describe(title, rows)
