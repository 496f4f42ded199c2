"""The charts of the Embeddings page. Each draws a table that the page also shows; a model keeps its colour and mark."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from retrieval.report.colours import PALETTE, READABLE, colour_of
from retrieval.report.scales import colour, legend, shape
from views.charts import with_interval
from views.words import word

_HEIGHT = 300
_RIDGE = 48  # pixels from one ridge's foot to the next
_OVERLAP = 1.6  # a ridge is as much higher than that
_DIVERGING = ("#2166ac", "#f7f7f7", "#b2182b")


def dots(table: pd.DataFrame, names: Sequence[str], *, x: str) -> alt.LayerChart:
    """One row a "model": its "value" with "low" to "high"; others' figures, "ours" False, are hollow and have none."""
    drawn = [*table["model"]]
    name = alt.Tooltip("model:N", title=word("embeddings.model"))
    base = alt.Chart(table).encode(y=alt.Y("model:N", sort=drawn, title=None, axis=alt.Axis(labelLimit=320)))
    scale = alt.Scale(zero=False, padding=12)
    own = [one for one in names if one in set(drawn)]
    ours = base.transform_filter("datum.ours").encode(
        color=colour("model", own, names), tooltip=[name, *with_interval("value", x, ".2f")]
    )
    intervals = ours.mark_rule(strokeWidth=3).encode(x=alt.X("low:Q", title=x, scale=scale), x2="high:Q")
    marks = ours.mark_point(filled=True, size=110, opacity=1).encode(
        x=alt.X("value:Q", scale=scale), shape=shape("model", own, names)
    )
    published = (
        base.transform_filter("!datum.ours")
        .mark_point(size=80, strokeWidth=2, color=READABLE)
        .encode(
            x=alt.X("value:Q", scale=scale),
            tooltip=[
                name,
                alt.Tooltip("value:Q", title=x, format=".2f"),
                alt.Tooltip("source:N", title=word("embeddings.source")),
            ],
        )
    )
    return (intervals + marks + published).properties(height=100 + 30 * len(drawn))


def ridges(table: pd.DataFrame, bands: Sequence[str], name: str, names: Sequence[str], *, x: str) -> alt.Chart:
    """One model's density of cosine, a ridge a band of the people's scores, the highest band on top.

    Columns "band", "place" (from 0, the lowest), "cosine" and "density", the densities of all bands on one scale; the
    rows of the highest band stand first, so that its ridge is drawn first and the others over its foot.
    """
    highest = float(table["density"].max()) or 1.0
    drawn = table.assign(top=table["place"] + _OVERLAP * table["density"] / highest)
    feet = [*range(len(bands))]
    labels = ", ".join(f"'{band}'" for band in bands)
    axis = alt.Axis(values=feet, labelExpr=f"[{labels}][datum.value]", grid=False, domain=False, ticks=False)
    scale = alt.Scale(domain=[0, len(bands) - 1 + _OVERLAP], nice=False)
    return (
        alt.Chart(drawn)
        .mark_area(fillOpacity=0.75, line={"color": "white", "strokeWidth": 0.8}, color=colour_of(name, names))
        .encode(
            x=alt.X("cosine:Q", title=x, scale=alt.Scale(nice=False), axis=alt.Axis(format=".1f", labelAngle=0)),
            y=alt.Y("place:Q", title=word("embeddings.band"), axis=axis, scale=scale),
            y2="top:Q",
            detail=alt.Detail("place:O", sort="descending"),
            tooltip=[
                alt.Tooltip("band:N", title=word("embeddings.band")),
                alt.Tooltip("cosine:Q", title=x, format=".2f"),
                alt.Tooltip("density:Q", title=word("embeddings.density"), format=".2f"),
            ],
        )
        .properties(height=90 + _RIDGE * len(bands))
    )


def plane(table: pd.DataFrame, path: pd.DataFrame, names: Sequence[str]) -> alt.LayerChart:
    """Alignment against uniformity, less of both being better: models as points, a training's measurements as a path.

    Columns "model", "alignment", "uniformity"; of the path also "step".
    """
    drawn = [name for name in names if name in {*table["model"], *path["model"]}]
    across = alt.X("uniformity:Q", title=word("embeddings.uniformity"), scale=alt.Scale(zero=False, padding=16))
    up = alt.Y("alignment:Q", title=word("embeddings.alignment"), scale=alt.Scale(zero=False, padding=16))
    tooltip = [
        alt.Tooltip("model", title=word("embeddings.model")),
        alt.Tooltip("uniformity:Q", title=word("embeddings.uniformity"), format=".3f"),
        alt.Tooltip("alignment:Q", title=word("embeddings.alignment"), format=".4f"),
    ]
    points = (
        alt.Chart(table)
        .mark_point(filled=True, size=130, opacity=1)
        .encode(
            across, up, colour("model", drawn, names, legend(columns=2)), shape("model", drawn, names), tooltip=tooltip
        )
    )
    steps = alt.Chart(path).encode(across, up, colour("model", drawn, names), detail="model:N", order="step:Q")
    walked = steps.mark_line(strokeWidth=1.5, opacity=0.7) + steps.mark_point(filled=True, size=24, opacity=0.8).encode(
        tooltip=[*tooltip, alt.Tooltip("step:Q", title=word("embeddings.step"))]
    )
    return (walked + points).properties(height=_HEIGHT + 40)


def spectrum(table: pd.DataFrame, names: Sequence[str]) -> alt.Chart:
    """The singular values of each "model"'s space against their "rank", both on logarithmic scales."""
    drawn = [name for name in names if name in set(table["model"])]
    return (
        alt.Chart(table)
        .mark_line()
        .encode(
            x=alt.X("rank:Q", title=word("embeddings.rank"), scale=alt.Scale(type="log", nice=False)),
            y=alt.Y("value:Q", title=word("embeddings.singular_value"), scale=alt.Scale(type="log", nice=False)),
            color=colour("model", drawn, names, legend(columns=2, symbolOpacity=1)),
            tooltip=["model", "rank", alt.Tooltip("value:Q", format=".4f")],
        )
        .properties(height=_HEIGHT)
    )


def matrix(table: pd.DataFrame, order: Sequence[str]) -> alt.LayerChart:
    """Cosines of sentences with each other, columns "row", "column" (both of `order`), "first", "second", "cosine"."""
    base = alt.Chart(table).encode(
        x=alt.X("column:N", sort=list(order), title=None, axis=alt.Axis(labelAngle=0, orient="top")),
        y=alt.Y("row:N", sort=list(order), title=None),
        tooltip=[
            alt.Tooltip("first:N", title="1"),
            alt.Tooltip("second:N", title="2"),
            alt.Tooltip("cosine:Q", title=word("embeddings.cosine"), format=".3f"),
        ],
    )
    scale = alt.Scale(domain=[-1, 0, 1], range=list(_DIVERGING))
    cells = base.mark_rect().encode(color=alt.Color("cosine:Q", scale=scale, legend=None))
    light = alt.condition("abs(datum.cosine) > 0.6", alt.value("white"), alt.value("#1f2430"))
    figures = base.mark_text(fontSize=11).encode(text=alt.Text("cosine:Q", format=".2f"), color=light)
    return (cells + figures).properties(height=max(200, 60 + 34 * len(order)))


def costs(table: pd.DataFrame) -> alt.LayerChart:
    """Seconds for all pairs of n sentences, a line a "way"; what is only computed ("measured" False) is dashed."""
    ways = list(dict.fromkeys(table["way"]))
    base = alt.Chart(table).encode(
        x=alt.X("sentences:Q", title=word("embeddings.sentences"), scale=alt.Scale(type="log")),
        y=alt.Y("seconds:Q", title=word("embeddings.seconds"), scale=alt.Scale(type="log")),
        color=alt.Color("way:N", scale=alt.Scale(domain=ways, range=list(PALETTE[: len(ways)])), legend=legend()),
        tooltip=[
            alt.Tooltip("way:N", title=" "),
            alt.Tooltip("sentences:Q", title=word("embeddings.sentences"), format=","),
            alt.Tooltip("seconds:Q", title=word("embeddings.seconds"), format=",.2f"),
        ],
    )
    lines = base.mark_line(strokeDash=[5, 4])
    solid = base.transform_filter(alt.datum.measured).mark_line(strokeWidth=3)
    marks = base.mark_point(size=70, strokeWidth=2).encode(
        fill=alt.condition("datum.measured", alt.Color("way:N", legend=None), alt.value("transparent"))
    )
    return (lines + solid + marks).properties(height=_HEIGHT + 40)


def against(table: pd.DataFrame, names: Sequence[str], *, y: str) -> alt.LayerChart:
    """Spearman with people against a retrieval measure, a point a "model"; columns "spearman" and "value"."""
    drawn = [name for name in names if name in set(table["model"])]
    base = alt.Chart(table).encode(
        x=alt.X("spearman:Q", title=word("embeddings.spearman"), scale=alt.Scale(zero=False, padding=20)),
        y=alt.Y("value:Q", title=y, scale=alt.Scale(zero=False, padding=20)),
    )
    marks = base.mark_point(filled=True, size=120, opacity=1).encode(
        color=colour("model", drawn, names, legend(columns=2)),
        shape=shape("model", drawn, names),
        tooltip=["model", alt.Tooltip("spearman:Q", format=".4f"), alt.Tooltip("value:Q", title=y, format=".4f")],
    )
    return alt.layer(marks).properties(height=_HEIGHT)
