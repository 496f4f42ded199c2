"""The chart of the Tokenizers tab. It draws a table that the page also shows."""

from collections.abc import Sequence
from math import sqrt

import altair as alt
import pandas as pd

from retrieval.report.charts import colour, legend, shape
from retrieval.report.colours import READABLE
from views.ui.charts import present, tips
from views.ui.words import word

_HEIGHT = 340
_DASHES = ([1, 0], [6, 4])  # of the first split and of the second


def by_size(
    table: pd.DataFrame, models: pd.DataFrame, kinds: Sequence[str], splits: Sequence[str], *, y: str, share: bool
) -> alt.LayerChart:
    """One line a "kind" and "split" of "value" over "pieces", and a dashed rule for each of the `models`.

    Both tables have the columns "name", "kind", "split", "pieces", "value" and "able"; what is not able has a hollow
    mark. `kinds` are all there are, in their fixed order. A `share` is written in percent.
    """
    up = alt.Y("value:Q", title=y, scale=alt.Scale(zero=False, padding=14), axis=_axis(share))
    tooltip = tips(
        ("name:N", word("tokenizers.tokenizer")),
        ("pieces:Q", word("tokenizers.pieces"), ","),
        ("value:Q", y, ".1%" if share else ".2f"),
    )
    layers = [*_rules(models, up, tooltip)] if len(models) else []
    if len(table):
        base = alt.Chart(table).encode(x=_sizes(table), y=up, tooltip=tooltip)
        drawn = present(kinds, table["kind"])
        tint = colour("kind", drawn, kinds, legend(columns=2, symbolOpacity=1))
        mark = shape("kind", drawn, kinds, legend(columns=2))
        filled = base.transform_filter("datum.able").mark_point(filled=True, size=80, opacity=1)
        hollow = base.transform_filter("!datum.able").mark_point(size=80, strokeWidth=2)
        layers += [
            base.mark_line(strokeWidth=2.5).encode(color=tint, detail="split:N", strokeDash=_dashes(splits)),
            filled.encode(color=tint, shape=mark),
            hollow.encode(color=tint, shape=mark),
        ]
    return alt.layer(*layers).properties(height=_HEIGHT)


def _axis(share: bool) -> alt.Axis:
    return alt.Axis(format="%" if share else ".2~f", tickCount=5)


def _sizes(table: pd.DataFrame) -> alt.X:
    """Vocabularies on a logarithmic scale, a tick at each that was found, but for those that would overlap.

    It reaches over a factor of four at least: sizes that hardly differ stand close together.
    """
    ticks: list[int] = []
    sizes = sorted(set(table["pieces"]))
    for size in sizes:
        if not ticks or size > 1.3 * ticks[-1]:
            ticks.append(size)
    axis = alt.Axis(values=ticks, format=",", labelAngle=0, grid=False)
    middle = sqrt(sizes[0] * sizes[-1])
    domain = [min(sizes[0], middle / 2), max(sizes[-1], middle * 2)]
    scale = alt.Scale(type="log", domain=domain, nice=False, padding=24)
    return alt.X("pieces:Q", title=word("tokenizers.pieces"), scale=scale, axis=axis)


def _dashes(splits: Sequence[str]) -> alt.StrokeDash:
    scale = alt.Scale(domain=list(splits), range=list(_DASHES[: len(splits)]))
    told = legend(columns=1, symbolType="stroke", symbolSize=600) if len(splits) > 1 else None
    return alt.StrokeDash("split:N", scale=scale, legend=told)


def _rules(models: pd.DataFrame, up: alt.Y, tooltip: list[alt.Tooltip]) -> tuple[alt.Chart, alt.Chart]:
    base = alt.Chart(models).encode(y=up, tooltip=tooltip)
    names = base.mark_text(align="left", baseline="bottom", dx=4, dy=-2, color=READABLE, fontSize=12)
    return base.mark_rule(strokeDash=[2, 3], strokeWidth=2, color=READABLE), names.encode(x=alt.value(0), text="name:N")
