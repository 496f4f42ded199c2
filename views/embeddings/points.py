"""Many points on a plane, drawn by WebGL: hundreds or a hundred thousand, with their sentences as plain text."""

import html
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pydeck
import streamlit as st
from pydeck.bindings.json_tools import default_serialize

from retrieval.report.colours import READABLE
from views.ui.words import word

# of bands from the lowest to the highest, and of labels: apart for colour-blind eyes, readable on light and dark
BAND_COLOURS = ("#4477AA", "#56B4E9", "#009E73", "#E69F00", "#D55E00")
_HALF = 170  # pixels from the middle to the farthest point, before anybody zooms
_HEIGHT = 520
_FEW, _MANY = 3_000, 20_000
_LETTERS = {False: 120, True: 40}  # of a sentence that is told when it is pointed at; fewer where there are many
_FAINT, _FULL = 50, 210
_RADII = {False: 5.0, True: 2.5}  # pixels, smaller where there are many


class _Deck(pydeck.Deck):
    def to_json(self) -> str:
        """Write it without the spaces and escapes of the library's own way: they are two thirds of what is sent."""
        return json.dumps(self, default=default_serialize, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def draw_points(
    table: pd.DataFrame, groups: int, shown: np.ndarray, matching: np.ndarray | None, *, key: str
) -> int | None:
    """Draw rows "x", "y", "sentence" and "place", the group that gives the colour; returns the row that is chosen.

    Only those `shown` `(n_rows,)` bool are drawn. Those `matching` stand out, where it is given.
    """
    scaled = _scaled(table)
    radius, found = _RADII[int(shown.sum()) > _FEW], shown
    layers = []
    if matching is not None:
        radius, found = max(_RADII.values()), matching & shown
        layers.append(_layer("others", scaled[shown & ~matching], READABLE, _FAINT, min(_RADII.values())))
    for place in range(groups):
        inside = found & (scaled["place"] == place)
        layers.append(_layer(f"group{place}", scaled[inside], BAND_COLOURS[place], _FULL, radius))
    deck = _Deck(
        layers=layers,
        views=[pydeck.View(type="OrthographicView", controller=True)],
        initial_view_state={"target": [0, 0, 0], "zoom": 0.2, "minZoom": -2, "maxZoom": 10},
        map_provider=None,  # no map lies below, so nothing is asked of other hosts
        map_style=None,
        tooltip={"text": "{t}", "style": {"maxWidth": "260px", "fontSize": "0.8rem", "color": "white"}},
    )
    chosen: Any = st.pydeck_chart(
        deck,
        height=_HEIGHT,
        on_select="rerun",
        selection_mode="single-object",
        key=key,
        alt=word("embeddings.map_alt", sentences=f"{int(shown.sum()):,}"),
    )
    objects = [one for layer in chosen["selection"]["objects"].values() for one in layer]
    row = objects[0].get("i") if objects else None
    return int(row) if row is not None and 0 <= int(row) < len(table) else None


def draw_legend(groups: Sequence[tuple[str, str]]) -> None:
    """Draw what the colours mean, name and colour each."""
    mark = '<span style="white-space:nowrap"><span style="color:{}">●</span> {}</span>'
    marks = " &nbsp; ".join(mark.format(colour, html.escape(name)) for name, colour in groups)
    if marks:
        st.html(f'<div style="font-size:0.875rem">{html.escape(word("embeddings.coloured_by"))}: {marks}</div>')


def _scaled(table: pd.DataFrame) -> pd.DataFrame:
    """The points around the middle in pixels, and no more of each than is sent to the browser."""
    points = table[["x", "y"]].to_numpy(dtype=np.float64)
    points = points - (points.max(axis=0) + points.min(axis=0)) / 2
    points = np.round(points * _HALF / (np.abs(points).max() or 1.0), 3)
    texts = table["sentence"].str.slice(0, _LETTERS[len(table) > _MANY])
    return pd.DataFrame(
        {"x": points[:, 0], "y": points[:, 1], "t": texts, "i": np.arange(len(table)), "place": table["place"]}
    )


def _layer(name: str, rows: pd.DataFrame, colour: str, opacity: int, radius: float) -> pydeck.Layer:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return pydeck.Layer(
        "ScatterplotLayer",
        id=name,
        data=rows[["x", "y", "t", "i"]],
        get_position="[x, y]",
        get_fill_color=[red, green, blue, opacity],
        get_radius=radius,
        radius_units="'pixels'",
        pickable=True,
    )
