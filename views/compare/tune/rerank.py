"""The reranking lab: how many passages a reranker should read, how much it should count, and what that costs."""

import pandas as pd
import streamlit as st

from retrieval.analysis.labs import DEPTHS, best, rerank_lab
from retrieval.comparison.multistage import RerankSpec
from views.compare.charts import bands, heat, steps
from views.compare.tune.bench import Bench, LabResult, draw_table, draw_verdict, figure_columns, names_of, run
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.state import choose, choose_several
from views.ui.words import word


def draw(bench: Bench) -> None:
    """Draw the choice of a reranker, and what was found of its depths and weights."""
    names = names_of(bench, RerankSpec)
    if not names:
        st.info(word("tune.needs_reranker"), icon=":material/info:")
        return
    with st.container(border=True):
        left, right = st.columns([2, 3])
        label, help_text = word("tune.present"), word("tune.present_help")
        present = choose(left.selectbox, "reranker", label, names, names[0], follows=True, help=help_text)
        label, help_text, every = word("tune.depths"), word("tune.depths_help"), [str(depth) for depth in DEPTHS]
        depths = choose_several(right.pills, "depths", label, every, every, key="lab_depths", help=help_text)
        if depths:
            pairs = bench.questions * max(int(depth) for depth in depths)
            st.caption(word("tune.pairs", pairs=f"{pairs:,}"))
    if not depths:
        st.info(word("tune.pick_values"), icon=":material/info:")
        return
    found = run(bench, rerank_lab(bench.view.comparison.experiment, present, [int(depth) for depth in depths]))
    if found:
        _draw_found(bench, found, present)


def _draw_found(bench: Bench, found: LabResult, present: str) -> None:
    table = found.table.assign(milliseconds=found.table["reranking_seconds"] / bench.questions * 1000)
    leader = best(table)
    answer = st.container()
    _draw_depths(bench, table[table["tried"]], leader)
    st.markdown(f"**{word('tune.depth_and_weight', figure=bench.measure.long)}**")
    bounds = (float(table["value"].min()), float(table["value"].max()))
    x, y = ("weight", word("tune.weight")), ("depth", word("tune.depth"))
    draw_chart(heat, table, leader, x=x, y=y, value=bench.measure.long, bounds=bounds, key="rerank_heat")
    name = draw_table(
        LabResult(found.experiment, found.opened, table),
        {
            "depth": tables.number("tune.depth", explained_by="tune.depths_help", pinned=True),
            "weight": tables.number("tune.weight", "%.1f"),
            **figure_columns(bench),
            "ceiling": tables.number("tune.ceiling"),
            "milliseconds": tables.number("tune.milliseconds", "%.1f"),
        },
        leader,
        key="rerank_table",
    )
    with answer:
        draw_verdict(bench, found, name, present, is_best=name == leader)


def _draw_depths(bench: Bench, table: pd.DataFrame, leader: str) -> None:
    """Draw the best weight of every depth: its figure with the ceiling, and its figure against its time."""
    ahead = table.loc[table.groupby("depth")["value"].idxmax()].sort_values("depth")
    ahead = ahead.assign(x=ahead["depth"], label=ahead["depth"].astype(str))
    names = [word("tune.best_weight"), word("tune.ceiling")]
    ceiling = dict.fromkeys(("value", "low", "high"), ahead["ceiling"])
    lines = pd.concat([ahead.assign(line=names[0]), ahead.assign(line=names[1], name="", **ceiling)])
    figure, depth, line = bench.measure.long, word("tune.depth"), ("line", "")
    left, right = st.columns(2)
    with left:
        st.markdown(f"**{word('tune.by_depth', figure=figure)}**")
        draw_chart(bands, lines, leader, x=depth, y=figure, detail=line, names=names, ordinal=True, key="rerank_depths")
    with right:
        st.markdown(f"**{word('tune.by_time', figure=figure)}**")
        costs = ahead.assign(x=ahead["milliseconds"], y=ahead["value"])
        draw_chart(steps, costs, x=word("tune.milliseconds"), y=figure, label=("label", depth), key="rerank_costs")
