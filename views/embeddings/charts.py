"""The charts of the Embeddings page. Each draws a table that the page also shows; a model keeps its colour and mark."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from retrieval.report.charts import colour, legend, shape
from retrieval.report.drawing import PALETTE, READABLE, colour_of
from views.ui.charts import cells, present, tips, with_interval
from views.ui.words import word

LINE = " · "  # where a chart may begin a new line of a name
_HEIGHT = 300
_TIME = alt.Axis(format=",.2~f", tickCount=6)
_ROW, _ROW_OF_LINES = 30, 42
_RIDGE = 48  # pixels from one ridge's foot to the next
_OVERLAP = 1.6  # a ridge is as much higher than that
_WITH_FIGURES = 20  # sentences of a matrix: of more there is no room to write in the cells
_LEAST_SPAN = 4.0  # points of a scale around the figures of a few models


def dots(table: pd.DataFrame, names: Sequence[str], *, x: str) -> alt.LayerChart:
    """One row a "model": its "value" with "low" to "high"; others' figures, "ours" False, are hollow and have none."""
    drawn = [*table["model"]]
    name = alt.Tooltip("model:N", title=word("embeddings.model"))
    lines = alt.Axis(labelLimit=170, labelOverlap=False, labelLineHeight=12, labelExpr=f"split(datum.label, '{LINE}')")
    base = alt.Chart(table).encode(y=alt.Y("model:N", sort=drawn, title=None, axis=lines))
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
            tooltip=[name, *tips(("value:Q", x, ".2f"), ("source:N", word("embeddings.source")))],
        )
    )
    return (intervals + marks + published).properties(
        height=100 + (_ROW if table["ours"].all() else _ROW_OF_LINES) * len(drawn)
    )


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
    cosines = alt.Axis(format=".2~f", tickCount=5, labelAngle=0)
    return (
        alt.Chart(drawn)
        .mark_area(fillOpacity=0.75, line={"color": "white", "strokeWidth": 0.8}, color=colour_of(name, names))
        .encode(
            x=alt.X("cosine:Q", title=x, scale=alt.Scale(nice=False), axis=cosines),
            y=alt.Y("place:Q", title=word("embeddings.band"), axis=axis, scale=scale),
            y2="top:Q",
            detail="place:O",
            tooltip=tips(
                ("band:N", word("embeddings.band")),
                ("cosine:Q", x, ".2f"),
                ("density:Q", word("embeddings.density"), ".2f"),
            ),
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
    tint = colour("model", drawn, names, legend(columns=2))
    tooltip = tips(
        ("model:N", word("embeddings.model")),
        ("uniformity:Q", word("embeddings.uniformity"), ".3f"),
        ("alignment:Q", word("embeddings.alignment"), ".4f"),
    )
    points = (
        alt.Chart(table)
        .mark_point(filled=True, size=130, opacity=1)
        .encode(across, up, tint, shape("model", drawn, names, legend(columns=2)), tooltip=tooltip)
    )
    layers = [points]
    if len(path):
        steps = alt.Chart(path).encode(across, up, tint, detail="model:N", order="step:Q")
        small = steps.mark_point(filled=True, size=24, opacity=0.8)
        told = [*tooltip, *tips(("step:Q", word("embeddings.step")))]
        layers = [steps.mark_line(strokeWidth=1.5, opacity=0.7), small.encode(tooltip=told), points]
    return alt.layer(*layers).properties(height=_HEIGHT + 60)


def spectrum(table: pd.DataFrame, names: Sequence[str]) -> alt.Chart:
    """The singular values of each "model"'s space against their "rank", both on logarithmic scales."""
    drawn = present(names, table["model"])
    scale = alt.Scale(type="log", nice=False)
    return (
        alt.Chart(table)
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X("rank:Q", title=word("embeddings.rank"), scale=scale, axis=alt.Axis(grid=False, format="~s")),
            y=alt.Y(
                "value:Q",
                title=word("embeddings.singular_value"),
                scale=scale,
                axis=alt.Axis(tickCount=4, format=".2~g"),
            ),
            color=colour("model", drawn, names, legend(columns=2, symbolOpacity=1)),
            tooltip=tips(
                ("model:N", word("embeddings.model")),
                ("rank:Q", word("embeddings.rank")),
                ("value:Q", word("embeddings.singular_value"), ".4f"),
            ),
        )
        .properties(height=_HEIGHT + 60)
    )


def matrix(table: pd.DataFrame, order: Sequence[str]) -> alt.LayerChart:
    """Cosines of sentences with each other, columns "row", "column" (both of `order`), "first", "second", "cosine".

    Colour runs from the lowest to the highest cosine of two different sentences: a model whose cosines all lie near 1
    tells them apart within that range.
    """
    others = table.loc[table["row"] != table["column"], "cosine"]
    low, high = float(others.min()), max(float(others.max()), float(others.min()) + 1e-6)
    base = alt.Chart(table).encode(
        x=alt.X("column:N", sort=list(order), title=None, axis=alt.Axis(labelAngle=0, orient="top")),
        y=alt.Y("row:N", sort=list(order), title=None),
        tooltip=tips(("first:N", "1"), ("second:N", "2"), ("cosine:Q", word("embeddings.cosine"), ".3f")),
    )
    written = len(order) <= _WITH_FIGURES
    shaded = cells(base, "cosine", (low, high), ".2f", written=written)
    return shaded.properties(height=60 + (34 if written else 14) * len(order))


def costs(table: pd.DataFrame, theirs: pd.DataFrame) -> alt.LayerChart:
    """Seconds for all pairs of n sentences, a line a "way"; what is only computed ("measured" False) is dashed.

    What others reported, `theirs`, of the same columns but "measured", is hollow.
    """
    ways = list(dict.fromkeys(table["way"]))
    x = alt.X("sentences:Q", title=word("embeddings.sentences"), scale=alt.Scale(type="log", domain=[20, 12_000]))
    y = alt.Y("seconds:Q", title=word("embeddings.seconds"), scale=alt.Scale(type="log"), axis=_TIME)
    tooltip = tips(
        ("way:N", " "),
        ("sentences:Q", word("embeddings.sentences"), ","),
        ("seconds:Q", word("embeddings.seconds"), ",.2f"),
    )
    scale = alt.Scale(domain=ways, range=list(PALETTE[: len(ways)]))
    base = alt.Chart(table).encode(
        x, y, alt.Color("way:N", scale=scale, legend=legend(columns=1, symbolOpacity=1)), tooltip=tooltip
    )
    lines = base.mark_line(strokeDash=[5, 4])
    measured = base.transform_filter("datum.measured")
    reported = alt.Chart(theirs).mark_point(size=90, strokeWidth=2, color=READABLE).encode(x, y, tooltip=tooltip)
    return (
        lines + measured.mark_line(strokeWidth=3) + measured.mark_point(filled=True, size=60, opacity=1) + reported
    ).properties(height=_HEIGHT + 80)


def against(table: pd.DataFrame, names: Sequence[str], *, y: str) -> alt.LayerChart:
    """Spearman with people against a retrieval measure, a point a "model"; columns "spearman" and "value"."""
    drawn = present(names, table["model"])
    base = alt.Chart(table).encode(
        x=alt.X("spearman:Q", title=word("embeddings.spearman"), scale=_around(table["spearman"])),
        y=alt.Y("value:Q", title=y, scale=_around(table["value"])),
    )
    marks = base.mark_point(filled=True, size=120, opacity=1).encode(
        color=colour("model", drawn, names, legend(columns=2)),
        shape=shape("model", drawn, names),
        tooltip=["model", alt.Tooltip("spearman:Q", format=".4f"), *tips(("value:Q", y, ".4f"))],
    )
    return alt.layer(marks).properties(height=_HEIGHT)


def _around(values: "pd.Series[float]") -> alt.Scale:
    """Return a scale around figures in percent, so wide that next to no difference does not look like a large one."""
    low, high = float(values.min()), float(values.max())
    margin = max(0.1 * (high - low), (_LEAST_SPAN - (high - low)) / 2)
    return alt.Scale(domain=[low - margin, high + margin])
