"""The charts of the Answers page. Each draws a table that the page also shows; retrievers keep colour and mark."""

from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from retrieval.report.colours import READABLE
from retrieval.report.scales import colour, legend, shape
from views.ui.charts import with_interval
from views.ui.words import word

_HEIGHT = 340
FATE_COLOURS = {"right": "#009E73", "outranked": "#E69F00", "misread": "#D55E00", "not_found": "#7A8290"}


def curves(
    table: pd.DataFrame, names: Sequence[str], oracle: float, *, chosen: int, y: str, label: str
) -> alt.LayerChart:
    """One line a "retriever" of its "value" over "k" in its band, its "ceiling" dashed; a rule at the `oracle`."""
    drawn = [name for name in names if name in set(table["retriever"])]
    lowest = max(0.0, min(float(table["low"].min()), oracle) - 0.03)
    scale = alt.Scale(domain=[lowest, 1.0], nice=False)
    axis = alt.Axis(format="%", tickCount=6)
    tips = [alt.Tooltip("retriever:N", title=word("compare.retriever")), alt.Tooltip("k:O", title="K")]
    base = alt.Chart(table).encode(
        x=alt.X("k:O", title=word("answers.first_passages"), axis=alt.Axis(labelAngle=0)),
        color=colour("retriever", drawn, names, legend(columns=2, symbolOpacity=1)),
    )
    value = alt.Y("value:Q", title=y, scale=scale, axis=axis)
    bands = base.mark_area(fillOpacity=0.12).encode(y=alt.Y("low:Q", title=y, scale=scale, axis=axis), y2="high:Q")
    told = [*tips, *with_interval("value", y), alt.Tooltip("ceiling:Q", title=word("answers.ceiling"), format=".2%")]
    marks = base.mark_point(filled=True, size=70, opacity=1).encode(
        y=value, shape=shape("retriever", drawn, names, legend(columns=2)), tooltip=told
    )
    ceilings = base.mark_line(strokeDash=[5, 4], strokeWidth=1.5, opacity=0.8).encode(
        y=alt.Y("ceiling:Q", title=y, scale=scale, axis=axis)
    )
    above = alt.Chart(pd.DataFrame({"oracle": [oracle], "label": [label], "k": [int(table["k"].min())]}))
    rule = above.mark_rule(color=READABLE, strokeWidth=2).encode(y=alt.Y("oracle:Q", scale=scale))
    words = above.mark_text(align="left", dx=-14, dy=-8, color=READABLE, fontWeight="bold").encode(
        x=alt.X("k:O"), y=alt.Y("oracle:Q", scale=scale), text="label:N"
    )
    here = alt.Chart(pd.DataFrame({"k": [chosen]})).mark_rule(color=READABLE, opacity=0.18, strokeWidth=16)
    return alt.layer(
        here.encode(x="k:O"), bands, rule, ceilings, base.mark_line(strokeWidth=2.5).encode(y=value), marks, words
    ).properties(height=_HEIGHT)


def lost(table: pd.DataFrame, *, order: Sequence[str], fates: Mapping[str, str], x: str) -> alt.Chart:
    """One bar a "retriever", cut by what became of its questions ("label"): their "share" of all.

    `fates` are the fates by their label, in the order of the pieces.
    """
    places = {label: place for place, label in enumerate(fates)}
    scale = alt.Scale(domain=list(fates), range=[FATE_COLOURS[fate] for fate in fates.values()])
    bars = (
        alt.Chart(table.assign(place=table["label"].map(places)))
        .mark_bar()
        .encode(
            y=alt.Y("retriever:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=160, labelOverlap=False)),
            x=alt.X("share:Q", stack="zero", title=x, axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("label:N", scale=scale, legend=legend(columns=2)),
            order=alt.Order("place:Q"),
            tooltip=[
                alt.Tooltip("retriever:N", title=word("compare.retriever")),
                alt.Tooltip("label:N", title=word("where.fate")),
                alt.Tooltip("count:Q", title=word("where.questions"), format=","),
                alt.Tooltip("share:Q", title=x, format=".1%"),
            ],
        )
    )
    return bars.properties(height=130 + 36 * len(order))
