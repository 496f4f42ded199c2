"""The Map view: the sentences of the measured part on a plane, to wander in, drawn by WebGL, with their text."""

import html
import json
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import pydeck
import streamlit as st
from pydeck.bindings.json_tools import default_serialize

from mrc_workbench.data.pairs import Label, PairKind
from mrc_workbench.labs.embeddings.geometry import Map, Projection
from mrc_workbench.labs.embeddings.judgement import band_labels, bands
from mrc_workbench.labs.embeddings.pages.page import EvaluationView, distinct_of, finished, pick_model
from mrc_workbench.labs.embeddings.results import MapRequest
from mrc_workbench.retrieval.report.charts import READABLE
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.state import choose, typed
from mrc_workbench.workbench.views.ui.words import word

# of bands from the lowest to the highest, and of labels: apart for colour-blind eyes, readable on light and dark
BAND_COLOURS = ("#4477AA", "#56B4E9", "#009E73", "#E69F00", "#D55E00")
_HALF = 170  # pixels from the middle to the farthest point, before anybody zooms
_HEIGHT = 520
_FEW, _MANY = 3_000, 20_000
_LETTERS = {False: 120, True: 40}  # of a sentence that is told when it is pointed at; fewer where there are many
_FAINT, _FULL = 50, 210
_RADII = {False: 5.0, True: 2.5}  # pixels, smaller where there are many
_LISTED = 1000  # rows of a table: a browser asks for all of them, and the file has every one
_PAIRS = 50
_DRAWN_AT_ONCE = 5_000  # points that every browser draws within moments


def draw_map(view: EvaluationView) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        model = pick_model(view, "map_of")
        look: dict[str, Any] = {"format_func": lambda one: word(f"embeddings.projection_{one}")}
        look["help"], ways = word("embeddings.projection_help"), [one.value for one in Projection]
        label = word("embeddings.projection")
        projection = Projection(choose(st.segmented_control, "projection", label, ways, ways[0], **look))
        searched = typed(_search_field, "find", word("embeddings.find"), "", width=260)
    if projection is Projection.UMAP and find_spec("umap") is None:
        st.info(word("embeddings.no_umap"), icon=":material/info:")
        return
    placed = _placed(view, model, projection)
    if placed is None:
        return
    table, groups = _table(view, placed.points)
    matching = table["sentence"].str.contains(searched, case=False, regex=False).to_numpy() if searched else None
    mark = '<span style="white-space:nowrap"><span style="color:{}">●</span> {}</span>'
    marks = [mark.format(colour, html.escape(group)) for colour, group in zip(BAND_COLOURS, groups, strict=False)]
    if marks:
        label = html.escape(word("embeddings.coloured_by"))
        st.html(f'<div style="font-size:0.875rem">{label}: {" &nbsp; ".join(marks)}</div>')
    key = f"map_{view.data.key}_{view.part}_{model}_{projection}"
    chosen = _draw_points(table, len(groups) or 1, _shown(len(table), matching), matching, key=key)
    if len(placed.explained):
        first, second = (f"{share:.0%}" for share in placed.explained)
        st.caption(word("embeddings.about_pca", first=first, second=second))
    else:
        st.caption(word("embeddings.about_umap"))
    if chosen is not None:
        _draw_chosen(view, model, table, chosen)
    else:
        _draw_list(table if matching is None else table[matching], len(table))
    tables.draw_csv("embeddings.map_csv", lambda: table.drop(columns="place"), "map.csv", "map_csv")


def _search_field(label: str, **look: Any) -> str:
    field: str = st.text_input(label, **look)
    return field.strip()[:200]


def _placed(view: EvaluationView, model: str, projection: Projection) -> Map | None:
    """The sentences on the plane; None while the job is not done, with its progress drawn."""
    if projection is Projection.PCA:
        return view.evaluation.measured[model].plane
    request = MapRequest(data=view.data.key, model=model, part=view.part, projection=projection)
    result = finished(request, view.data, view.names, start=word("embeddings.start_umap"))
    return Map(**result.arrays) if result else None


def _shown(every: int, matching: np.ndarray | None) -> np.ndarray:
    """Select the drawn rows, `(every,)` bool: of many, a random sample and all matches unless the user wants all."""
    if every <= _DRAWN_AT_ONCE:
        return np.ones(every, dtype=bool)
    shown = np.zeros(every, dtype=bool)
    shown[np.random.default_rng(0).choice(every, _DRAWN_AT_ONCE, replace=False)] = True
    words = {"some": word("embeddings.points_some", shown=f"{_DRAWN_AT_ONCE:,}"), "all": f"{every:,}"}
    look: dict[str, Any] = {"format_func": lambda one: words[one]}
    look["help"] = word("embeddings.points_drawn_help", shown=words["some"], every=words["all"])
    wanted = choose(st.segmented_control, "points", word("embeddings.points_drawn"), [*words], "some", **look)
    if wanted == "all":
        return np.ones(every, dtype=bool)
    return shown if matching is None else shown | matching


def _table(view: EvaluationView, points: np.ndarray) -> tuple[pd.DataFrame, list[str]]:
    distinct = distinct_of(view.data.key, view.part)
    table = pd.DataFrame({"sentence": distinct.sentences, "x": points[:, 0], "y": points[:, 1]})
    first_row = np.full(len(table), len(distinct.places))
    for column in distinct.places.T:
        np.minimum.at(first_row, column, np.arange(len(column)))
    values = view.evaluation.values
    if view.evaluation.kind is PairKind.SCORED:
        groups, of_row = band_labels(view.data.scale), bands(values)
    elif view.evaluation.kind is PairKind.LABELLED:
        groups, of_row = [word(f"embeddings.label_{one.name.lower()}") for one in Label], values.astype(np.int64)
    else:
        return table.assign(place=0), []
    place = of_row[first_row]
    return table.assign(place=place, group=np.array(groups)[place]), groups


def _draw_chosen(view: EvaluationView, model: str, table: pd.DataFrame, chosen: int) -> None:
    st.markdown(f"**{word('embeddings.chosen')}**")
    st.text(table["sentence"].iloc[chosen])
    distinct = distinct_of(view.data.key, view.part)
    rows = np.flatnonzero((distinct.places == chosen).any(axis=1))[:_PAIRS]
    others = [[distinct.sentences[one] for one in distinct.places[row] if one != chosen] for row in rows]
    pairs = pd.DataFrame({"sentence": [" / ".join(one) or "–" for one in others]})
    columns = {"sentence": tables.text("embeddings.paired_with", "", width="large")}
    if view.evaluation.kind is PairKind.SCORED:
        low, high = view.data.scale
        pairs["gold"] = low + view.evaluation.values[rows] * (high - low)
        columns["gold"] = tables.number("embeddings.gold", "%.1f")
    if model in view.evaluation.cosines:
        pairs["cosine"] = view.evaluation.cosines[model][rows].astype(float)
        columns["cosine"] = tables.number("embeddings.cosine", "%.3f")
    tables.draw(pairs, columns)


def _draw_list(table: pd.DataFrame, every: int) -> None:
    with st.expander(word("embeddings.map_table", shown=f"{min(len(table), _LISTED):,}", every=f"{every:,}")):
        columns = {"sentence": tables.text("embeddings.sentence", "", width="large")}
        if "group" in table:
            columns["group"] = tables.text("embeddings.group", "")
        columns |= {axis: tables.figure(axis, "%.4f") for axis in ("x", "y")}
        tables.draw(table.head(_LISTED), columns)


class _Deck(pydeck.Deck):
    def to_json(self) -> str:
        """Write compact JSON: spaces and escapes are two thirds of pydeck's own."""
        return json.dumps(self, default=default_serialize, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _draw_points(
    table: pd.DataFrame, groups: int, shown: np.ndarray, matching: np.ndarray | None, *, key: str
) -> int | None:
    """Draw the rows `shown`, those `matching` highlighted, coloured by "place"; returns the selected row."""
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
    look: dict[str, Any] = {"height": _HEIGHT, "on_select": "rerun", "selection_mode": "single-object", "key": key}
    look["alt"] = word("embeddings.map_alt", sentences=f"{int(shown.sum()):,}")
    selected: Any = st.pydeck_chart(deck, **look)
    objects = [one for layer in selected["selection"]["objects"].values() for one in layer]
    row = objects[0].get("i") if objects else None
    return int(row) if row is not None and 0 <= int(row) < len(table) else None


def _scaled(table: pd.DataFrame) -> pd.DataFrame:
    """The points centred in pixels, with only the columns that the browser needs."""
    points = table[["x", "y"]].to_numpy(dtype=np.float64)
    points = points - (points.max(axis=0) + points.min(axis=0)) / 2
    points = np.round(points * _HALF / (np.abs(points).max() or 1.0), 3)
    texts = table["sentence"].str.slice(0, _LETTERS[len(table) > _MANY])
    columns = {"x": points[:, 0], "y": points[:, 1], "t": texts, "i": np.arange(len(table)), "place": table["place"]}
    return pd.DataFrame(columns)


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
