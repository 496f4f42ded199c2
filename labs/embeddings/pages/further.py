"""The Retrieval, Cost and Map views: retrieval quality of the same models, the cost of reading pairs, and a map."""

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
from mrc_workbench.labs.embeddings.encoder import COST_ADAPTER, CostComparison, CostPoint, Method
from mrc_workbench.labs.embeddings.geometry import ProjectedPoints, Projection
from mrc_workbench.labs.embeddings.judgement import assign_bands, band_labels
from mrc_workbench.labs.embeddings.pages import page
from mrc_workbench.labs.embeddings.pages.page import EvaluationView
from mrc_workbench.labs.embeddings.results import REIMERS, CostRequest, MapRequest
from mrc_workbench.labs.embeddings.study import STUDY
from mrc_workbench.models.sources import default_model
from mrc_workbench.retrieval.comparison.store import list_comparisons, read_provenance
from mrc_workbench.retrieval.report.charts import PALETTE, TEXT_COLOUR, colour, legend, shape
from mrc_workbench.retrieval.significance import Interval
from mrc_workbench.workbench.views.names import base_name, set_name
from mrc_workbench.workbench.views.resources.sets import selected_set
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.charts import draw_chart, marked_lines, names_in_column, tooltips
from mrc_workbench.workbench.views.ui.state import choose, draw_text_field
from mrc_workbench.workbench.views.ui.words import duration, label_and_help, plain, word

_MEASURE = "ndcg@10"
_METRIC_TITLE = "nDCG@10"
_SECONDS = ("10", "30", "60", "300")
# Reimers & Gurevych 2019, section 1: 10,000 sentences, about 50 million pairs, BERT on a V100
_PUBLISHED_SECONDS = {Method.CROSS_ENCODER: 65 * 3600.0, Method.EXACT: 5.0}
_PUBLISHED_SENTENCES = 10_000
_MIN_SPAN = 4.0  # points that the scale of a few models covers at least
# bands from the lowest to the highest, or labels; colour-blind safe, readable on light and dark
BAND_COLOURS = ("#4477AA", "#56B4E9", "#009E73", "#E69F00", "#D55E00")
_HALF_WIDTH = 170  # pixels from the middle to the farthest point before zooming
_HEIGHT = 520
_FEW = 3_000
_MANY = 20_000
_MAX_TOOLTIP_CHARACTERS = 120
_MAX_TOOLTIP_CHARACTERS_OF_MANY = 40
_FAINT_OPACITY = 50
_FULL_OPACITY = 210
_LARGE_RADIUS = 5.0  # pixels
_SMALL_RADIUS = 2.5
_MAX_TABLE_ROWS = 1000  # the browser loads all rows of a table; the CSV file has every sentence
_MAX_PAIRS = 50
_MAX_RENDERED_POINTS = 5_000  # points that any browser draws quickly


def draw_retrieval(view: EvaluationView) -> None:
    data = selected_set()
    st.caption(word("embeddings.retrieval_help", data=plain(set_name(data.name))))
    human_scores = _stored_metrics(view.data, view.part, "spearman")
    part, scores = _retrieval_scores(data, set(human_scores))
    rows = [
        (view.names.get(reference, reference), 100 * metric.value, 100 * scores[reference])
        for reference, metric in human_scores.items()
        if reference in scores
    ]
    if not rows:
        st.info(word("embeddings.retrieval_none"), icon=":material/info:")
        return
    table = pd.DataFrame(rows, columns=["model", "spearman", "value"]).sort_values(
        "spearman", ascending=False, ignore_index=True
    )
    draw_chart(correlation_chart, table, [*dict.fromkeys([*view.model_names, *table["model"]])], y=_METRIC_TITLE)
    columns = {
        "model": tables.text("embeddings.model", "", pinned=True, width="medium"),
        "spearman": tables.number("embeddings.spearman", "%.2f"),
        "value": st.column_config.NumberColumn(_METRIC_TITLE, format="%.2f", help=word("help.ndcg")),
    }
    st.dataframe(table, hide_index=True, column_config=columns)
    st.caption(word("embeddings.retrieval_of", part=word(f"part.{part}")))


def _stored_metrics(data: StoredPairs, part: Part, measure: str) -> dict[str, Interval]:
    metrics: dict[str, Interval] = {}
    for job in STUDY.stored():  # newest first
        evaluation = page.open_evaluation(job.folder)
        if evaluation and (evaluation.data_fingerprint, evaluation.part) == (data.fingerprint, part):
            for model, result in evaluation.results_by_model.items():
                if measure in result.metrics:
                    metrics.setdefault(model, result.metrics[measure])
    return metrics


def correlation_chart(table: pd.DataFrame, names: Sequence[str], *, y: str) -> alt.LayerChart:
    """A retrieval metric ("value") over "spearman", a point for each "model"."""
    models = names_in_column(names, table["model"])
    base = alt.Chart(table).encode(
        x=alt.X("spearman:Q", title=word("embeddings.spearman"), scale=_padded_scale(table["spearman"])),
        y=alt.Y("value:Q", title=y, scale=_padded_scale(table["value"])),
    )
    marks = base.mark_point(filled=True, size=120, opacity=1).encode(
        color=colour("model", models, names, legend(columns=2)),
        shape=shape("model", models, names),
        tooltip=["model", alt.Tooltip("spearman:Q", format=".4f"), *tooltips(("value:Q", y, ".4f"))],
    )
    rows = charts.coordinates(table, "model", ("spearman", "value"), (".2f", ".2f"))
    described = charts.describe(f"{word('embeddings.spearman')}, {y}", rows)
    return alt.layer(marks).properties(height=300, description=described)


def _padded_scale(values: "pd.Series[float]") -> alt.Scale:
    low = float(values.min())
    high = float(values.max())
    margin = max(0.1 * (high - low), (_MIN_SPAN - (high - low)) / 2)
    return alt.Scale(domain=[low - margin, high + margin])


def _retrieval_scores(data: StoredSet, models: set[str]) -> tuple[str, dict[str, float]]:
    """Return the part with most of these models, and nDCG@10 by model from the newest comparison."""
    by_part: dict[str, dict[str, float]] = {}
    for stored in list_comparisons():  # newest first
        if stored.data_fingerprint != data.fingerprint or stored.lab is not None:
            continue
        specs = read_provenance(stored.folder).get("experiment", {}).get("retriever", [])
        dense = {spec["model"]: spec["name"] for spec in specs if spec.get("kind") == "dense" and "model" in spec}
        scores = {model: stored.metrics.get(name, {}).get(_MEASURE) for model, name in dense.items() if model in models}
        known = by_part.get(stored.part.value, {})
        by_part[stored.part.value] = {model: score for model, score in scores.items() if score is not None} | known
    return max(by_part.items(), key=lambda item: len(item[1]), default=("all", {}))


def draw_cost(view: EvaluationView) -> None:
    st.caption(word("embeddings.cost_help"))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        bi_encoder = page.pick_model(view, "cost_of", "embeddings.bi_encoder")
        label = label_and_help("embeddings.cross_encoder")
        cross_encoder = draw_text_field(_model_field, "cross_encoder", default=default_model(), **label)
        look = label_and_help("embeddings.cost_seconds") | {"format_func": lambda option: duration(float(option))}
        seconds = float(choose(st.selectbox, "cost_seconds", options=_SECONDS, default="10", width=170, **look))
    request = CostRequest(
        data=view.data.key, bi_encoder=bi_encoder, cross_encoder=cross_encoder, seconds=float(seconds)
    )
    result = page.run_request(request, view.data, view.names, start=word("embeddings.measure_cost"))
    if result is None:
        return
    try:
        cost = COST_ADAPTER.validate_python(result.content)
    except ValueError:
        st.error(word("embeddings.unreadable"), icon=":material/error:")
        return
    _draw_seconds(cost, view.names[bi_encoder], base_name(cross_encoder))


def _model_field(label: str, **look: Any) -> str:
    return st.text_input(label, **look).strip() or default_model()


def _draw_seconds(cost: CostComparison, bi_encoder: str, cross_encoder: str) -> None:
    method_names = {
        Method.CROSS_ENCODER: word("embeddings.method_cross_encoder", model=cross_encoder),
        Method.EXACT: word("embeddings.method_exact", model=bi_encoder),
        Method.HNSW: word("embeddings.method_hnsw", model=bi_encoder),
    }
    last = {point.method: point for point in cost.points}
    cross = last[Method.CROSS_ENCODER]
    exact = last[Method.EXACT]
    times = f"{cross.seconds / max(exact.seconds, 1e-9):,.0f}"
    values = {"cross_encoder": _duration_text(cross), "bi_encoder": _duration_text(exact), "times": times}
    st.markdown(word("embeddings.cost_answer", sentences=f"{exact.sentences:,}", **values))
    rows = [(method_names[item.method], item.sentences, item.seconds, item.is_measured) for item in cost.points]
    table = pd.DataFrame(rows, columns=["method", "sentences", "seconds", "is_measured"])
    published_names = [word(f"embeddings.paper_{method.name.lower()}") for method in _PUBLISHED_SECONDS]
    published = pd.DataFrame({"method": published_names, "seconds": [*_PUBLISHED_SECONDS.values()]})
    published["sentences"] = _PUBLISHED_SENTENCES
    draw_chart(cost_chart, table, published)
    st.caption(word("embeddings.cost_paper", source=plain(REIMERS)))
    st.caption(word("embeddings.cost_agreement", fraction=f"{cost.agreement:.1%}"))
    origins = {True: word("embeddings.measured"), False: word("embeddings.computed")}
    displayed = table.assign(how=table["is_measured"].map(origins))
    columns = {
        "method": tables.text("embeddings.method", "", width="medium"),
        "sentences": tables.number("embeddings.sentences", "localized"),
        "seconds": tables.number("embeddings.seconds", "%.2f"),
        "how": tables.text("embeddings.how", ""),
    }
    tables.draw(pd.concat([displayed, published.assign(how=word("embeddings.not_measured_here"))]), columns)


def _duration_text(point: CostPoint) -> str:
    return word(f"embeddings.{'took' if point.is_measured else 'would_take'}", time=duration(point.seconds))


def cost_chart(table: pd.DataFrame, published: pd.DataFrame) -> alt.LayerChart:
    """A line for each "method" of seconds over sentences; extrapolations are dashed, published results hollow."""
    methods = list(dict.fromkeys(table["method"]))
    sentences = word("embeddings.sentences")
    seconds = word("embeddings.seconds")
    x = alt.X("sentences:Q", title=sentences, scale=alt.Scale(type="log", domain=[20, 12_000]))
    axis = alt.Axis(format=",.2~f", tickCount=6)
    y = alt.Y("seconds:Q", title=seconds, scale=alt.Scale(type="log"), axis=axis)
    tooltip = tooltips(("method:N", " "), ("sentences:Q", sentences, ","), ("seconds:Q", seconds, ",.2f"))
    scale = alt.Scale(domain=methods, range=list(PALETTE[: len(methods)]))
    tint = alt.Color("method:N", scale=scale, legend=legend(columns=1, symbolOpacity=1))
    base = alt.Chart(table).encode(x, y, tint, tooltip=tooltip)
    measured = base.transform_filter("datum.is_measured")
    reported = alt.Chart(published).mark_point(size=90, strokeWidth=2, color=TEXT_COLOUR).encode(x, y, tooltip=tooltip)
    layers = [base.mark_line(strokeDash=[5, 4]), *marked_lines(measured, size=60, strokeWidth=3), reported]
    described = charts.describe(seconds, charts.line_texts(table, "method", "sentences", "seconds", ",.2f"))
    return alt.layer(*layers).properties(height=380, description=described)


def draw_map(view: EvaluationView) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        model = page.pick_model(view, "map_of")
        look = label_and_help("embeddings.projection")
        look["format_func"] = lambda name: word(f"embeddings.projection_{name}")
        options = [name.value for name in Projection]
        projection = Projection(choose(st.segmented_control, "projection", options=options, default=options[0], **look))
        search_text = draw_text_field(_search_field, "find", word("embeddings.find"), "", width=260)
    if projection is Projection.UMAP and find_spec("umap") is None:
        st.info(word("embeddings.no_umap"), icon=":material/info:")
        return
    projected = _projected_points(view, model, projection)
    if projected is None:
        return
    table, groups = _table(view, projected.points)
    matching = table["sentence"].str.contains(search_text, case=False, regex=False).to_numpy() if search_text else None
    mark = '<span style="white-space:nowrap"><span style="color:{}">●</span> {}</span>'
    marks = [mark.format(colour, html.escape(group)) for colour, group in zip(BAND_COLOURS, groups, strict=False)]
    if marks:
        label = html.escape(word("embeddings.coloured_by"))
        st.html(f'<div style="font-size:0.875rem">{label}: {" &nbsp; ".join(marks)}</div>')
    key = f"map_{view.data.key}_{view.part}_{model}_{projection}"
    selected = _draw_points(table, len(groups) or 1, _rendered_rows(len(table), matching), matching, key=key)
    if len(projected.explained):
        first, second = (f"{share:.0%}" for share in projected.explained)
        st.caption(word("embeddings.about_pca", first=first, second=second))
    else:
        st.caption(word("embeddings.about_umap"))
    if selected is not None:
        _draw_selected(view, model, table, selected)
    else:
        _draw_list(table if matching is None else table[matching], len(table))
    tables.draw_csv("embeddings.map_csv", lambda: table.drop(columns="group_index"), "map.csv", "map_csv")


def _search_field(label: str, **look: Any) -> str:
    field: str = st.text_input(label, **look)
    return field.strip()[:200]


def _projected_points(view: EvaluationView, model: str, projection: Projection) -> ProjectedPoints | None:
    if projection is Projection.PCA:
        return view.evaluation.results_by_model[model].plane
    request = MapRequest(data=view.data.key, model=model, part=view.part, projection=projection)
    result = page.run_request(request, view.data, view.names, start=word("embeddings.start_umap"))
    return ProjectedPoints(**result.arrays) if result else None


def _rendered_rows(n_rows: int, matching: np.ndarray | None) -> np.ndarray:
    """Select the rows to draw, `(n_rows,)` bool: a random sample of many rows with all matches, or all rows."""
    if n_rows <= _MAX_RENDERED_POINTS:
        return np.ones(n_rows, dtype=bool)
    is_rendered = np.zeros(n_rows, dtype=bool)
    is_rendered[np.random.default_rng(0).choice(n_rows, _MAX_RENDERED_POINTS, replace=False)] = True
    words = {"some": word("embeddings.points_some", displayed=f"{_MAX_RENDERED_POINTS:,}"), "all": f"{n_rows:,}"}
    look: dict[str, Any] = {"format_func": lambda option: words[option]}
    look["help"] = word("embeddings.points_displayed_help", displayed=words["some"], total=words["all"])
    selected = choose(st.segmented_control, "points", word("embeddings.points_displayed"), [*words], "some", **look)
    if selected == "all":
        return np.ones(n_rows, dtype=bool)
    return is_rendered if matching is None else is_rendered | matching


def _table(view: EvaluationView, points: np.ndarray) -> tuple[pd.DataFrame, list[str]]:
    distinct = page.distinct_of(view.data.key, view.part)
    table = pd.DataFrame({"sentence": distinct.sentences, "x": points[:, 0], "y": points[:, 1]})
    first_row = np.full(len(table), len(distinct.sentence_rows))
    for column in distinct.sentence_rows.T:
        np.minimum.at(first_row, column, np.arange(len(column)))
    values = view.evaluation.values
    if view.evaluation.kind is PairKind.SCORED:
        groups = band_labels(view.data.scale)
        of_row = assign_bands(values)
    elif view.evaluation.kind is PairKind.LABELLED:
        groups = [word(f"embeddings.label_{label.name.lower()}") for label in Label]
        of_row = values.astype(np.int64)
    else:
        return table.assign(group_index=0), []
    group_index = of_row[first_row]
    return table.assign(group_index=group_index, group=np.array(groups)[group_index]), groups


def _draw_selected(view: EvaluationView, model: str, table: pd.DataFrame, selected: int) -> None:
    st.markdown(f"**{word('embeddings.selected_sentence')}**")
    st.text(table["sentence"].iloc[selected])
    distinct = page.distinct_of(view.data.key, view.part)
    rows = np.flatnonzero((distinct.sentence_rows == selected).any(axis=1))[:_MAX_PAIRS]
    others = [[distinct.sentences[item] for item in distinct.sentence_rows[row] if item != selected] for row in rows]
    pairs = pd.DataFrame({"sentence": [" / ".join(item) or "–" for item in others]})
    columns = {"sentence": tables.text("embeddings.paired_with", "", width="large")}
    if view.evaluation.kind is PairKind.SCORED:
        low, high = view.data.scale
        pairs["gold"] = low + view.evaluation.values[rows] * (high - low)
        columns["gold"] = tables.number("embeddings.gold", "%.1f")
    if model in view.evaluation.cosines:
        pairs["cosine"] = view.evaluation.cosines[model][rows].astype(float)
        columns["cosine"] = tables.number("embeddings.cosine", "%.3f")
    tables.draw(pairs, columns)


def _draw_list(table: pd.DataFrame, n_sentences: int) -> None:
    counts = {"displayed": f"{min(len(table), _MAX_TABLE_ROWS):,}", "total": f"{n_sentences:,}"}
    with st.expander(word("embeddings.map_table", **counts)):
        columns = {"sentence": tables.text("embeddings.sentence", "", width="large")}
        if "group" in table:
            columns["group"] = tables.text("embeddings.group", "")
        columns |= {axis: tables.labelled_number(axis, "%.4f") for axis in ("x", "y")}
        tables.draw(table.head(_MAX_TABLE_ROWS), columns)


class _Deck(pydeck.Deck):
    def to_json(self) -> str:
        """Write compact JSON, a third of the size that pydeck writes."""
        return json.dumps(self, default=default_serialize, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _draw_points(
    table: pd.DataFrame, groups: int, rendered_rows: np.ndarray, matching: np.ndarray | None, *, key: str
) -> int | None:
    """Draw the rendered rows, coloured by "group_index", with matches highlighted; returns the selected row."""
    scaled = _scaled(table)
    radius = _SMALL_RADIUS if int(rendered_rows.sum()) > _FEW else _LARGE_RADIUS
    highlighted = rendered_rows
    layers = []
    if matching is not None:
        radius = _LARGE_RADIUS
        highlighted = matching & rendered_rows
        layers.append(_layer("others", scaled[rendered_rows & ~matching], TEXT_COLOUR, _FAINT_OPACITY, _SMALL_RADIUS))
    for group_index in range(groups):
        inside = highlighted & (scaled["group_index"] == group_index)
        layers.append(_layer(f"group{group_index}", scaled[inside], BAND_COLOURS[group_index], _FULL_OPACITY, radius))
    deck = _Deck(
        layers=layers,
        views=[pydeck.View(type="OrthographicView", controller=True)],
        initial_view_state={"target": [0, 0, 0], "zoom": 0.2, "minZoom": -2, "maxZoom": 10},
        map_provider=None,  # no background map, so no request to other hosts
        map_style=None,
        tooltip={"text": "{t}", "style": {"maxWidth": "260px", "fontSize": "0.8rem", "color": "white"}},
    )
    look: dict[str, Any] = {"height": _HEIGHT, "on_select": "rerun", "selection_mode": "single-object", "key": key}
    look["alt"] = word("embeddings.map_alt", sentences=f"{int(rendered_rows.sum()):,}")
    selected: Any = st.pydeck_chart(deck, **look)
    objects = [selected_object for layer in selected["selection"]["objects"].values() for selected_object in layer]
    row = objects[0].get("i") if objects else None
    return int(row) if row is not None and 0 <= int(row) < len(table) else None


def _scaled(table: pd.DataFrame) -> pd.DataFrame:
    points = table[["x", "y"]].to_numpy(dtype=np.float64)
    points = points - (points.max(axis=0) + points.min(axis=0)) / 2
    points = np.round(points * _HALF_WIDTH / (np.abs(points).max() or 1.0), 3)
    limit = _MAX_TOOLTIP_CHARACTERS_OF_MANY if len(table) > _MANY else _MAX_TOOLTIP_CHARACTERS
    texts = table["sentence"].str.slice(0, limit)
    columns = {"x": points[:, 0], "y": points[:, 1], "t": texts, "i": np.arange(len(table))}
    return pd.DataFrame(columns).assign(group_index=table["group_index"])


def _layer(name: str, rows: pd.DataFrame, colour: str, opacity: int, radius: float) -> pydeck.Layer:
    red, green, blue = (int(colour[offset : offset + 2], 16) for offset in (1, 3, 5))
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
