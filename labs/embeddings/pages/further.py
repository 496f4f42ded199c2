"""The Retrieval, Cost and Map views: retrieval quality of the same models, the cost of reading pairs, and a map.

Retrieval is measured on the dataset in use. Cost compares reading every pair with a cross-encoder and encoding every
sentence once. The map shows the sentences of the measured part on a plane, drawn with WebGL.
"""

import html
import json
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pydeck
import streamlit as st
from pydeck.bindings.json_tools import default_serialize

from mrc_workbench.data.pairs import Label, PairKind
from mrc_workbench.data.pairs.store import StoredPairs
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.workspace import workspace
from mrc_workbench.labs.embeddings.encoder import COST, Cost, Method, Point
from mrc_workbench.labs.embeddings.geometry import Map, Projection
from mrc_workbench.labs.embeddings.judgement import band_labels, bands
from mrc_workbench.labs.embeddings.pages.page import EvaluationView, distinct_of, finished, open_evaluation, pick_model
from mrc_workbench.labs.embeddings.results import REIMERS, CostRequest, MapRequest
from mrc_workbench.models.sources import default_model
from mrc_workbench.retrieval.comparison.store import kept_comparisons, origin_of
from mrc_workbench.retrieval.report.charts import PALETTE, READABLE, colour, legend, shape
from mrc_workbench.retrieval.significance import Interval
from mrc_workbench.workbench.views.names import base_name, set_name
from mrc_workbench.workbench.views.resources.sets import chosen_set
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.charts import draw_chart, marked_lines, present, tips
from mrc_workbench.workbench.views.ui.state import choose, typed
from mrc_workbench.workbench.views.ui.words import duration, plain, word

_MEASURE, _LONG = "ndcg@10", "nDCG@10"
_SECONDS = ("10", "30", "60", "300")
# Reimers & Gurevych 2019, section 1: 10,000 sentences, about 50 million pairs, BERT on a V100
_THEIRS = {Method.CROSS_ENCODER: 65 * 3600.0, Method.EXACT: 5.0}
_THEIR_SENTENCES = 10_000
_LEAST_SPAN = 4.0  # points of a scale around the figures of a few models


def draw_retrieval(view: EvaluationView) -> None:
    data = chosen_set()
    st.caption(word("embeddings.retrieval_help", data=plain(set_name(data.name))))
    people = _stored_figures(view.data, view.part, "spearman")
    part, found = _searched(data, set(people))
    rows = [
        {"model": view.names.get(one, one), "spearman": 100 * figure.value, "value": 100 * found[one]}
        for one, figure in people.items()
        if one in found
    ]
    if not rows:
        st.info(word("embeddings.retrieval_none"), icon=":material/info:")
        return
    table = pd.DataFrame(rows).sort_values("spearman", ascending=False, ignore_index=True)
    draw_chart(against, table, [*dict.fromkeys([*view.every, *table["model"]])], y=_LONG)
    columns = {
        "model": tables.text("embeddings.model", "", pinned=True, width="medium"),
        "spearman": tables.number("embeddings.spearman", "%.2f"),
        "value": st.column_config.NumberColumn(_LONG, format="%.2f", help=word("help.ndcg")),
    }
    st.dataframe(table, hide_index=True, column_config=columns)
    st.caption(word("embeddings.retrieval_of", part=word(f"part.{part}")))


def _stored_figures(data: StoredPairs, part: Part, measure: str) -> dict[str, Interval]:
    """Return the newest metric of every model measured on this part of the set, by its reference."""
    paths = sorted((workspace() / "embeddings").glob("*/scores.json"), key=lambda path: -path.stat().st_mtime)
    found: dict[str, Interval] = {}
    for path in paths:
        evaluation = open_evaluation(path.parent)
        if evaluation and (evaluation.data_fingerprint, evaluation.part) == (data.fingerprint, part):
            for model, one in evaluation.measured.items():
                if measure in one.figures:
                    found.setdefault(model, one.figures[measure])
    return found


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
    rows = charts.coordinates(table, "model", ("spearman", "value"), (".2f", ".2f"))
    described = charts.describe(f"{word('embeddings.spearman')}, {y}", rows)
    return alt.layer(marks).properties(height=300, description=described)


def _around(values: "pd.Series[float]") -> alt.Scale:
    low, high = float(values.min()), float(values.max())
    margin = max(0.1 * (high - low), (_LEAST_SPAN - (high - low)) / 2)
    return alt.Scale(domain=[low - margin, high + margin])


def _searched(data: StoredSet, models: set[str]) -> tuple[str, dict[str, float]]:
    """The part on which most of these models were searched with, and nDCG@10 by model of the newest comparison."""
    by_part: dict[str, dict[str, float]] = {}
    for stored in kept_comparisons():  # the newest stands first
        if stored.data_fingerprint != data.fingerprint or stored.lab is not None:
            continue
        specs = origin_of(stored.folder).get("experiment", {}).get("retriever", [])
        dense = {spec["model"]: spec["name"] for spec in specs if spec.get("kind") == "dense" and "model" in spec}
        scores = {model: stored.figures.get(name, {}).get(_MEASURE) for model, name in dense.items() if model in models}
        known = by_part.get(stored.part.value, {})
        by_part[stored.part.value] = {model: score for model, score in scores.items() if score is not None} | known
    return max(by_part.items(), key=lambda one: len(one[1]), default=("all", {}))


def draw_cost(view: EvaluationView) -> None:
    st.caption(word("embeddings.cost_help"))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        bi_encoder = pick_model(view, "cost_of", "embeddings.bi_encoder")
        label, explained = word("embeddings.cross_encoder"), word("embeddings.cross_encoder_help")
        cross_encoder = typed(_model_field, "cross_encoder", label, default_model(), help=explained)
        look: dict[str, Any] = {"format_func": lambda one: duration(float(one)), "width": 170}
        label, explained = word("embeddings.cost_seconds"), word("embeddings.cost_seconds_help")
        seconds = float(choose(st.selectbox, "cost_seconds", label, _SECONDS, _SECONDS[0], help=explained, **look))
    request = CostRequest(data=view.data.key, bi_encoder=bi_encoder, cross_encoder=cross_encoder, seconds=seconds)
    result = finished(request, view.data, view.names, start=word("embeddings.measure_cost"))
    if result is None:
        return
    try:
        cost = COST.validate_python(result.content)
    except ValueError:
        st.error(word("embeddings.unreadable"), icon=":material/error:")
        return
    _draw_seconds(cost, view.names[bi_encoder], base_name(cross_encoder))


def _model_field(label: str, **look: Any) -> str:
    return st.text_input(label, **look).strip() or default_model()


def _draw_seconds(cost: Cost, bi_encoder: str, cross_encoder: str) -> None:
    ways = {
        Method.CROSS_ENCODER: word("embeddings.way_cross_encoder", model=cross_encoder),
        Method.EXACT: word("embeddings.way_exact", model=bi_encoder),
        Method.HNSW: word("embeddings.way_hnsw", model=bi_encoder),
    }
    last = {point.method: point for point in cost.points}
    slow, fast = last[Method.CROSS_ENCODER], last[Method.EXACT]
    times = f"{slow.seconds / max(fast.seconds, 1e-9):,.0f}"
    told = {"cross_encoder": _told(slow), "bi_encoder": _told(fast), "times": times}
    st.markdown(word("embeddings.cost_answer", sentences=f"{fast.sentences:,}", **told))
    rows = [(ways[one.method], one.sentences, one.seconds, one.measured) for one in cost.points]
    table = pd.DataFrame(rows, columns=["way", "sentences", "seconds", "measured"])
    papers = [word(f"embeddings.paper_{method.name.lower()}") for method in _THEIRS]
    theirs = pd.DataFrame({"way": papers, "sentences": _THEIR_SENTENCES, "seconds": [*_THEIRS.values()]})
    draw_chart(costs, table, theirs)
    st.caption(word("embeddings.cost_paper", source=plain(REIMERS)))
    st.caption(word("embeddings.cost_agreement", share=f"{cost.agreement:.1%}"))
    shown = table.assign(how=[word(f"embeddings.{'measured' if one else 'computed'}") for one in table["measured"]])
    columns = {
        "way": tables.text("embeddings.way", "", width="medium"),
        "sentences": tables.number("embeddings.sentences", "localized"),
        "seconds": tables.number("embeddings.seconds", "%.2f"),
        "how": tables.text("embeddings.how", ""),
    }
    tables.draw(pd.concat([shown, theirs.assign(how=word("embeddings.not_measured_here"))]), columns)


def _told(point: Point) -> str:
    return word(f"embeddings.{'took' if point.measured else 'would_take'}", time=duration(point.seconds))


def costs(table: pd.DataFrame, theirs: pd.DataFrame) -> alt.LayerChart:
    """Seconds for all pairs of n sentences, a line a "way"; extrapolations are dashed, published results hollow."""
    ways = list(dict.fromkeys(table["way"]))
    sentences, seconds = word("embeddings.sentences"), word("embeddings.seconds")
    x = alt.X("sentences:Q", title=sentences, scale=alt.Scale(type="log", domain=[20, 12_000]))
    axis = alt.Axis(format=",.2~f", tickCount=6)
    y = alt.Y("seconds:Q", title=seconds, scale=alt.Scale(type="log"), axis=axis)
    tooltip = tips(("way:N", " "), ("sentences:Q", sentences, ","), ("seconds:Q", seconds, ",.2f"))
    scale = alt.Scale(domain=ways, range=list(PALETTE[: len(ways)]))
    tint = alt.Color("way:N", scale=scale, legend=legend(columns=1, symbolOpacity=1))
    base = alt.Chart(table).encode(x, y, tint, tooltip=tooltip)
    measured = base.transform_filter("datum.measured")
    reported = alt.Chart(theirs).mark_point(size=90, strokeWidth=2, color=READABLE).encode(x, y, tooltip=tooltip)
    layers = [base.mark_line(strokeDash=[5, 4]), *marked_lines(measured, size=60, strokeWidth=3), reported]
    described = charts.describe(seconds, charts.courses(table, "way", "sentences", "seconds", ",.2f"))
    return alt.layer(*layers).properties(height=380, description=described)


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
