"""Charts: the colours and marks of retrievers, the report's charts, and their SVGs.

A subprocess renders the SVGs, because a specification may crash the native renderer. Functions import altair, which is
slow to load.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from mrc_workbench.data.formats.tables import mend_text
from mrc_workbench.data.workspace import IMPORT_ROOT

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

# Okabe and Ito's colours, then four that colour-blind readers distinguish from these and from each other; all have a
# contrast of at least 2:1 on light and dark backgrounds
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#6782FB", "#666666", "#7B2FF2", "#BB1D33")
MARK_CHARACTERS = {"circle": "●", "square": "■", "triangle-up": "▲", "diamond": "◆", "cross": "✚", "triangle-down": "▼"}
SHAPES = tuple(MARK_CHARACTERS)
TEXT_COLOUR = "#7c818c"  # readable on light and dark: text inside a chart does not follow the theme
# by `RetrievalOutcome`, from grey to dark red: none resembles the colour of a retriever
OUTCOME_COLOURS = {
    "below": "#B9A6A2",
    "not_found": "#5E6066",
    "not_a_candidate": "#8E9098",
    "lost_in_fusion": "#C4776B",
    "lost_in_reranking": "#8F3B36",
}


def colour_of(name: str, names: Sequence[str]) -> str:
    """Return the colour of a retriever; `names` are all retrievers in a fixed order."""
    return PALETTE[list(names).index(name) % len(PALETTE)]


def shape_of(name: str, names: Sequence[str]) -> str:
    """Return the mark of a retriever, so that charts do not depend on colour."""
    return SHAPES[list(names).index(name) % len(SHAPES)]


def mark_character(name: str, names: Sequence[str]) -> str:
    """Return the mark as a character, for a legend in text."""
    return MARK_CHARACTERS[shape_of(name, names)]


def can_render() -> bool:
    """Whether the renderer of charts is installed (the extra `app`)."""
    return find_spec("vl_convert") is not None


def render_svgs(specifications: Sequence[dict[str, Any]]) -> list[str | None]:
    """Return the SVG of each Vega-Lite specification, None if the renderer is missing, fails or crashes."""
    if not can_render():
        return [None] * len(specifications)
    lines = [json.dumps(_sanitized(specification)).encode() + b"\n" for specification in specifications]
    rendered: list[str | None] = []
    while remaining := lines[len(rendered) :]:
        seconds = 60 + 30 * len(remaining)  # to start on a busy machine, and for each chart
        options: dict[str, Any] = {"cwd": IMPORT_ROOT, "capture_output": True, "timeout": seconds, "check": False}
        try:
            command = [sys.executable, "-m", "mrc_workbench.retrieval.report.charts"]
            output = subprocess.run(command, input=b"".join(remaining), **options).stdout  # noqa: S603, PLW1510
        except subprocess.TimeoutExpired as timeout:
            output = timeout.stdout or b""
        rendered += [json.loads(line) for line in output.splitlines(keepends=True) if line.endswith(b"\n")]
        if len(rendered) < len(lines):
            rendered.append(None)  # the process crashed here; the next one continues after it
    return rendered


def _sanitized(value: Any) -> Any:
    """Return a specification without the characters that XML forbids."""
    if isinstance(value, dict):
        return {_sanitized(name): _sanitized(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_sanitized(item) for item in value]
    return mend_text(value) if isinstance(value, str) else value


_MAX_SHORT_NAME = 22  # characters: two names of this length fit side by side


def colour(field: str, displayed: Sequence[str], names: Sequence[str], legend: alt.Legend | None = None) -> alt.Color:
    """Return the colours of the displayed retrievers; `names` are all retrievers in a fixed order."""
    import altair as alt

    scale = alt.Scale(domain=list(displayed), range=[colour_of(name, names) for name in displayed])
    return alt.Color(field, type="nominal", scale=scale, legend=legend)


def shape(field: str, displayed: Sequence[str], names: Sequence[str], legend: alt.Legend | None = None) -> alt.Shape:
    """Return the marks of the displayed retrievers."""
    import altair as alt

    scale = alt.Scale(domain=list(displayed), range=[shape_of(name, names) for name in displayed])
    return alt.Shape(field, type="nominal", scale=scale, legend=legend)


def legend_columns(names: Sequence[str]) -> int:
    """Return the number of legend columns below a chart of half a page, so that no name is cut."""
    return 2 if max(map(len, names), default=0) <= _MAX_SHORT_NAME else 1


def legend(**options: Any) -> alt.Legend:
    """Return a legend below the chart, without a title, with opaque symbols, which are readable on dark."""
    import altair as alt

    return alt.Legend(**{"orient": "bottom", "title": None, "labelLimit": 400, "symbolOpacity": 1, **options})


_WIDTH = 400
_ROW_HEIGHT = 13  # height of one retriever in a row of a chart
_STYLE = {
    "background": "transparent",
    "font": "system-ui, -apple-system, 'Segoe UI', 'Noto Sans KR', 'Malgun Gothic', sans-serif",
    "view": {"stroke": None},
    "axis": {
        **dict.fromkeys(("labelColor", "titleColor", "domainColor", "tickColor", "gridColor"), "currentColor"),
        "domainOpacity": 0.4,
        "tickOpacity": 0.4,
        "gridOpacity": 0.12,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 220,
    },
}


def render_charts(charts: Sequence[Any]) -> list[Markup | None]:
    """Render charts as SVGs in the text colour of the page, with text as text; None for failures."""
    rendered = render_svgs([chart.configure(**_STYLE).to_dict() for chart in charts])
    return [None if svg is None else Markup(svg) for svg in rendered]  # noqa: S704 - the renderer escapes every text


def curves(
    table: pd.DataFrame, names: Sequence[str], *, x: str, y: str, legend: alt.Legend | None = None
) -> alt.LayerChart:
    """Draw a line with its intervals per retriever: columns "retriever", "k", "mean", "low", "high" (0 to 1)."""
    import altair as alt

    lowest = max(0.0, float(table["low"].min()) - 0.01)
    base = alt.Chart(table).encode(
        x=alt.X("k:O", title=x, axis=alt.Axis(labelAngle=0)),
        color=colour("retriever", names, names, legend),
        detail="retriever:N",
    )
    scale = alt.Scale(domain=[lowest, 1.0], nice=False)
    height = alt.Y("mean:Q", title=y, scale=scale, axis=alt.Axis(format=_percent(1 - lowest)))
    band = base.mark_area(opacity=0.14).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q")
    shapes = shape("retriever", names, names, legend)
    marks = base.mark_point(filled=True, size=55, opacity=1).encode(y=height, shape=shapes)
    return (band + base.mark_line(strokeWidth=2).encode(y=height) + marks).properties(width=_WIDTH, height=260)


def intervals(table: pd.DataFrame, names: Sequence[str], *, row: str, order: Sequence[str], x: str) -> alt.LayerChart:
    """Draw a mark with its interval per retriever and row: columns `row`, "retriever", "mean", "low", "high"."""
    import altair as alt

    low = float(table["low"].min())
    high = float(table["high"].max())
    scale = alt.Scale(domain=[max(0.0, low - 0.01), min(1.0, high + 0.01)], nice=False)
    row_offset = {"yOffset": alt.YOffset("retriever:N", sort=list(names))} if row != "retriever" else {}
    y = alt.Y(row, type="nominal", sort=list(order), title=None, axis=alt.Axis(ticks=False, domain=False))
    base = alt.Chart(table).encode(y=y, color=colour("retriever", names, names), **row_offset)
    axis = alt.Axis(format=_percent(high - low), tickCount=4, labelOverlap="greedy")
    ends = {"x": alt.X("low:Q", title=x, scale=scale, axis=axis), "x2": "high:Q"}
    rule = base.mark_rule(strokeWidth=2, opacity=0.55).encode(**ends)
    shapes = shape("retriever", names, names)
    marks = base.mark_point(filled=True, size=50, opacity=1).encode(x=alt.X("mean:Q", scale=scale), shape=shapes)
    rows = len(order) * (len(names) * _ROW_HEIGHT + 8) if row_offset else len(order) * 34
    return (rule + marks).properties(width=_WIDTH, height=rows)


def stacked_bars(
    table: pd.DataFrame, names: Sequence[str], *, parts: Sequence[str], colours: Sequence[str], x: str
) -> alt.Chart:
    """Draw a stacked bar per retriever: columns "retriever", "part", "count", "order"."""
    import altair as alt

    return (
        alt.Chart(table)
        .mark_bar(height={"band": 0.7})
        .encode(
            y=alt.Y("retriever:N", sort=list(names), title=None, axis=alt.Axis(ticks=False, domain=False)),
            x=alt.X("count:Q", title=x, axis=alt.Axis(tickMinStep=1, tickCount=6, format=",.0f")),
            color=alt.Color("part:N", scale=alt.Scale(domain=list(parts), range=list(colours)), legend=None),
            order="order:Q",
        )
        .properties(width=2 * _WIDTH, height=len(names) * 34)
    )


def _percent(span: float) -> str:
    return ".1%" if span < 0.05 else ".0%"


def main() -> None:
    """Write a line for each specification in the input: the picture, or null."""
    import vl_convert

    for line in sys.stdin.buffer:
        try:
            svg = vl_convert.vegalite_to_svg(json.loads(line))
        except ValueError:
            svg = None
        sys.stdout.write(json.dumps(svg) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
