"""Tune: labs that find the values which suit these data, on questions that the test part never shows.

The labs of what models do are here: fusion, reranking depth, smaller indexes, layers of late interaction.
"""

from collections.abc import Callable
from typing import Any

import pandas as pd
import streamlit as st

from mrc_workbench.data.split import FEWEST_QUESTIONS, Part
from mrc_workbench.models.inference import TokenLayers
from mrc_workbench.retrieval.analysis.labs import (
    DEPTHS,
    FIRST_WEIGHTS,
    RERANKER_WEIGHTS,
    best,
    hybrid_lab,
    index_lab,
    layers_lab,
    rerank_lab,
)
from mrc_workbench.retrieval.combine import Fusion
from mrc_workbench.retrieval.comparison.experiment import Lab
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.dense import IndexKind
from mrc_workbench.retrieval.significance import question_groups
from mrc_workbench.workbench.views.compare.bench import (
    Bench,
    LabResult,
    bands,
    difference_columns,
    draw_table,
    draw_tried,
    draw_use,
    figure_columns,
    heat,
    names_of,
    pick_present,
    run,
    scattered,
    steps,
)
from mrc_workbench.workbench.views.compare.bm25 import draw_changes, draw_values
from mrc_workbench.workbench.views.compare.scores import ComparisonView
from mrc_workbench.workbench.views.names import draw_few, draw_split, retriever_name, retriever_names
from mrc_workbench.workbench.views.resources.sets import question_set, split_of
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.charts import draw_chart
from mrc_workbench.workbench.views.ui.state import choose, choose_several
from mrc_workbench.workbench.views.ui.tables import draw_heading
from mrc_workbench.workbench.views.ui.words import plain, signed_interval, word


def _draw_layers(bench: Bench) -> None:
    answer = st.container()
    present = pick_present(bench, (LateSpec,), "tokens", "needs_late", help=word("tune.layers_help"))
    if not present:
        return
    labels = {layers.value: word(f"tune.layers_{layers.replace('-', '_')}") for layers in TokenLayers}
    tries = word("tune.tries", values=", ".join(labels.values()))
    with answer:
        found = run(bench, layers_lab(bench.view.comparison.experiment, present), tries)
        if found:
            table = found.table.assign(title=found.table["layers"].map(str).map(labels))
            columns = {
                "title": tables.text("tune.layers", pinned=True),
                **figure_columns(bench),
                **difference_columns("tune.gained"),
            }
            draw_tried(bench, found, table, columns, present, key="layers_table", answer=st.container())


_FEW = 200  # questions whose interval is wider than what tuning usually gains


@st.fragment
def draw(view: ComparisonView) -> None:
    options = view.comparison.experiment.split_options
    parts = split_of(view.data.key, options)
    asked = parts.questions(question_set(view.data.key), Part.VALIDATION)
    if not asked.questions:
        st.warning(word("tune.no_validation"), icon=":material/warning:")
        return
    questions, passages = len(asked.questions), int(question_groups(asked).max()) + 1
    labs = {lab.value: word(f"tune.lab_{lab}") for lab in LABS}
    first, label = next(iter(labs)), word("tune.lab")
    lab = Lab(choose(st.segmented_control, "lab", label, [*labs], first, format_func=labs.get))
    st.caption(word("tune.about", questions=f"{questions:,}", passages=f"{passages:,}"))
    draw_split(parts)
    draw_few(questions, Part.VALIDATION)
    if FEWEST_QUESTIONS <= questions < _FEW:
        st.caption(f":material/info: {word('tune.few', questions=f'{questions:,}')}")
    LABS[lab](Bench(view, view.figure, questions))


def _draw_hybrid(bench: Bench) -> None:
    names = names_of(bench)
    if len(names) < 2:
        st.info(word("tune.needs_two"), icon=":material/info:")
        return
    place = st.container()
    with st.container(border=True):
        left, right = st.columns(2)
        called = retriever_names(names)
        look: dict[str, Any] = {"format_func": lambda name: called.get(name, name), "help": word("tune.mix_help")}
        usual = (names_of(bench, BM25Spec) or names)[0]
        first = choose(left.selectbox, "mix_first", word("tune.mix_first"), names, usual, follows=True, **look)
        others = [name for name in names if name != first]
        usual = next((name for name in names_of(bench, DenseSpec) if name != first), others[0])
        second = choose(right.selectbox, "mix_second", word("tune.mix_second"), others, usual, follows=True, **look)
    with place:
        tries = word("tune.tries_mixes", fusions=len(Fusion), weights=len(FIRST_WEIGHTS))
        if found := run(bench, hybrid_lab(bench.view.comparison.experiment, first, second), tries):
            _draw_mixtures(bench, found, first, second)


def _draw_mixtures(bench: Bench, found: LabResult, first: str, second: str) -> None:
    table = found.table.assign(x=found.table["weight"])
    answer = st.container()
    figure, x = bench.measure.long, word("tune.weight_of", name=retriever_name(first))
    draw_heading(word("tune.curve", figure=figure))
    st.caption(word("tune.curve_help", first=plain(retriever_name(first)), second=plain(retriever_name(second))))
    fusions, detail = [str(fusion) for fusion in Fusion], ("fusion", word("tune.fusion"))
    draw_chart(bands, table, best(table), x=x, y=figure, detail=detail, names=fusions, ordinal=False, key="mix_curve")
    columns = {
        "fusion": tables.text("tune.fusion", pinned=True),
        "weight": st.column_config.NumberColumn(x, format="%.2f"),
        **figure_columns(bench),
    }
    draw_tried(bench, found, table, columns, _present(found, first), key="hybrid_table", answer=answer)


def _present(found: LabResult, first: str) -> str:
    for spec in found.experiment.retriever[2:]:
        if isinstance(spec, HybridSpec) and not spec.chosen_on:
            return spec.name
    alone = found.table[~found.table["tried"]]
    return best(alone) if len(alone) else first


def _draw_reranking(bench: Bench) -> None:
    if not names_of(bench, RerankSpec):
        st.info(word("tune.needs_reranker"), icon=":material/info:")
        return
    place = st.container()
    with st.container(border=True):
        left, right = st.columns([2, 3])
        with left:
            present = pick_present(bench, (RerankSpec,), "reranker")
        label, help_text, every = word("tune.depths"), word("tune.depths_help"), [str(depth) for depth in DEPTHS]
        depths = choose_several(right.pills, "depths", label, every, every, key="lab_depths", help=help_text)
        if depths:
            pairs = bench.questions * max(int(depth) for depth in depths)
            st.caption(word("tune.pairs", pairs=f"{pairs:,}"))
    if not depths:
        st.info(word("tune.pick_values"), icon=":material/info:")
        return
    tries = word("tune.tries_depths", depths=", ".join(depths), weights=len(RERANKER_WEIGHTS))
    experiment = rerank_lab(bench.view.comparison.experiment, present, [int(depth) for depth in depths])
    with place:
        if found := run(bench, experiment, tries):
            _draw_reranked(bench, found, present)


def _draw_reranked(bench: Bench, found: LabResult, present: str) -> None:
    table = found.table.assign(milliseconds=found.table["reranking_seconds"] / bench.questions * 1000)
    leader = best(table)
    answer = st.container()
    _draw_depths(bench, table[table["tried"]], leader)
    draw_heading(word("tune.depth_and_weight", figure=bench.measure.long))
    bounds = (float(table["value"].min()), float(table["value"].max()))
    x, y = ("weight", word("tune.weight")), ("depth", word("tune.depth"))
    draw_chart(heat, table, leader, x=x, y=y, value=bench.measure.long, bounds=bounds, key="rerank_heat")
    columns = {
        "depth": tables.number("tune.depth", explained_by="tune.depths_help", pinned=True),
        "weight": tables.number("tune.weight", "%.1f"),
        **figure_columns(bench),
        "ceiling": tables.number("tune.ceiling"),
        "milliseconds": tables.number("tune.milliseconds", "%.1f"),
    }
    draw_tried(bench, found, table, columns, present, key="rerank_table", answer=answer)


def _draw_depths(bench: Bench, table: pd.DataFrame, leader: str) -> None:
    ahead = table.loc[table.groupby("depth")["value"].idxmax()].sort_values("depth")
    ahead = ahead.assign(x=ahead["depth"], label=ahead["depth"].astype(str))
    names = [word("tune.best_weight"), word("tune.ceiling")]
    ceiling = dict.fromkeys(("value", "low", "high"), ahead["ceiling"])
    lines = pd.concat([ahead.assign(line=names[0]), ahead.assign(line=names[1], name="", **ceiling)])
    figure, depth, line = bench.measure.long, word("tune.depth"), ("line", "")
    left, right = st.columns(2)
    with left:
        draw_heading(word("tune.by_depth", figure=figure))
        draw_chart(bands, lines, leader, x=depth, y=figure, detail=line, names=names, ordinal=True, key="rerank_depths")
    with right:
        draw_heading(word("tune.by_time", figure=figure))
        costs = ahead.assign(x=ahead["milliseconds"], y=ahead["value"])
        draw_chart(steps, costs, x=word("tune.milliseconds"), y=figure, label=("label", depth), key="rerank_costs")


def _draw_index(bench: Bench) -> None:
    place = st.container()
    about = word("tune.vectors_help")
    present = pick_present(bench, (DenseSpec,), "vectors", "needs_dense", "tune.vectors", help=about)
    if not present:
        return
    kinds = ", ".join(word(f"tune.index_{kind}") for kind in IndexKind)
    with place:
        found = run(bench, index_lab(bench.view.comparison.experiment, present), word("tune.tries", values=kinds))
        if found and "overlap" in found.table:
            _draw_indexes(bench, found)


def _draw_indexes(bench: Bench, found: LabResult) -> None:
    exact = found.table.set_index("name").loc[IndexKind.EXACT]
    table = found.table.assign(
        milliseconds=found.table["search_seconds"] / bench.questions * 1000,
        building=found.table["build_seconds"] - exact["build_seconds"],
        megabytes=found.table["memory_bytes"] / 1e6,
        title=[word(f"tune.index_{name}") for name in found.table["name"]],
    )
    sound = table[table["difference_high"] >= 0]  # not surely worse than the exact one, which is among them
    smallest = str(sound.sort_values("memory_bytes", kind="stable")["name"].iloc[0])
    answer = st.container()
    k = bench.measure.cut
    costs = {"milliseconds": "search_time", "megabytes": "memory"}
    for place, (column, cost) in zip(st.columns(2), costs.items(), strict=True):
        with place:
            draw_heading(word(f"tune.against_{cost}"))
            points, detail = table.assign(x=table[column], y=table["overlap"]), ("title", word("tune.index"))
            x, y = word(f"tune.{cost}"), word("tune.overlap", k=k)
            draw_chart(scattered, points, x=x, y=y, detail=detail, key=f"by_{column}")
    columns = {
        "title": tables.text("tune.index", pinned=True),
        **figure_columns(bench),
        **difference_columns("tune.lost"),
        "overlap": tables.figure(word("tune.overlap", k=k), about=word("tune.overlap_help", k=k)),
        "milliseconds": tables.number("tune.search_time", "%.3f"),
        "building": tables.number("tune.build_time", "%+.2f"),
        "megabytes": tables.number("tune.memory", "%.2f"),
    }
    look = {"key": "index_table", "smallest_first": "memory_bytes", "caption": word("tune.choose_an_index")}
    name = draw_table(found, table, columns, smallest, **look)
    with answer, st.container(border=True):
        _draw_in_words(bench, table.set_index("name"), name)
        draw_use(bench, found.experiment, name, recommended=name != IndexKind.EXACT)


def _draw_in_words(bench: Bench, table: pd.DataFrame, name: str) -> None:
    rows: dict[str, dict[str, Any]] = table.to_dict("index")  # type: ignore[assignment]
    row, exact = rows[name], rows[IndexKind.EXACT]
    values = {
        "overlap": f"{row['overlap'] * 100:.1f}",
        **signed_interval(row["difference"], row["difference_low"], row["difference_high"]),
        "megabytes": f"{row['megabytes']:.3g}",
        "exact_megabytes": f"{exact['megabytes']:.3g}",
        "milliseconds": f"{row['milliseconds']:.2g}",
        "exact_milliseconds": f"{exact['milliseconds']:.2g}",
    }
    key = "tune.index_is_exact" if name == IndexKind.EXACT else "tune.index_in_words"
    st.markdown(word(key, index=row["title"], k=bench.measure.cut, figure=bench.measure.long, **values))


LABS: dict[Lab, Callable[[Bench], None]] = {
    Lab.BM25: draw_values,
    Lab.LEXICAL: draw_changes,
    Lab.HYBRID: _draw_hybrid,
    Lab.RERANK: _draw_reranking,
    Lab.INDEX: _draw_index,
    Lab.LAYERS: _draw_layers,
}
