"""How charts tell names apart, retrievers above all: by a scale of colours and one of marks, with a legend."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from retrieval.report.colours import colour_of, shape_of

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
    """Return the legend below a chart, without a title: each name says what it is."""
    return alt.Legend(**{"orient": "bottom", "title": None, "labelLimit": 400, **options})
