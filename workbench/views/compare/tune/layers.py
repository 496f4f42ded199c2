"""Tune which layers of a model represent the tokens that late interaction compares."""

import streamlit as st

from mrc_workbench.models.inference import TokenLayers
from mrc_workbench.retrieval.analysis.labs import layers_lab
from mrc_workbench.retrieval.comparison.first_stage import LateSpec
from mrc_workbench.workbench.views.compare.tune.bench import (
    Bench,
    LabResult,
    difference_columns,
    draw_tried,
    figure_columns,
    names_of,
    run,
)
from mrc_workbench.workbench.views.names import retriever_name
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.state import choose
from mrc_workbench.workbench.views.ui.words import word


def draw(bench: Bench) -> None:
    names = names_of(bench, LateSpec)
    if not names:
        st.info(word("tune.needs_late"), icon=":material/info:")
        return
    answer = st.container()
    present = choose(
        st.selectbox,
        "tokens",
        word("tune.present"),
        names,
        names[0],
        follows=True,
        format_func=retriever_name,
        help=word("tune.layers_help"),
    )
    values = ", ".join(_layers_words(layers) for layers in TokenLayers)
    with answer:
        if found := run(
            bench, layers_lab(bench.view.comparison.experiment, present), word("tune.tries", values=values)
        ):
            _draw_results(bench, found, present)


def _draw_results(bench: Bench, found: LabResult, present: str) -> None:
    table = found.table.assign(title=[_layers_words(TokenLayers(str(value))) for value in found.table["layers"]])
    columns = {
        "title": tables.text("tune.layers", pinned=True),
        **figure_columns(bench),
        **difference_columns("tune.gained"),
    }
    answer = st.container()
    draw_tried(bench, found, table, columns, present, key="layers_table", answer=answer)


def _layers_words(layers: TokenLayers) -> str:
    return word(f"tune.layers_{layers.replace('-', '_')}")
