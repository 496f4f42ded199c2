"""The Retrieval and Cost views: whether models that follow people better find more, too, and what they take.

Retrieval is on the question set in use. Cost is that of holding n sentences against each other, by reading every pair
with a cross-encoder, or every sentence once.
"""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from mrc_workbench.data.pairs.store import StoredPairs
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.workspace import workspace
from mrc_workbench.labs.embeddings.encoder import COST, Cost, Method, Point
from mrc_workbench.labs.embeddings.pages.page import EvaluationView, finished, open_evaluation, pick_model
from mrc_workbench.labs.embeddings.results import REIMERS, CostRequest
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
