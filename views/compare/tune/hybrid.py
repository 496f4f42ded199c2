"""The hybrid lab: how two retrievers are best fused, and how much each should count."""

import streamlit as st

from retrieval.analysis.labs import best, hybrid_lab
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.first_stage import BM25Spec, DenseSpec
from retrieval.comparison.multistage import HybridSpec
from retrieval.hybrid import Fusion
from views.compare.charts import bands
from views.compare.tune.bench import Bench, LabResult, draw_table, draw_verdict, figure_columns, names_of, run
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.state import choose
from views.ui.words import plain, word


def draw(bench: Bench) -> None:
    """Draw the choice of two retrievers, and what was found of their mixtures."""
    names = names_of(bench)
    if len(names) < 2:
        st.info(word("tune.needs_two"), icon=":material/info:")
        return
    with st.container(border=True):
        left, right = st.columns(2)
        note = word("tune.mix_help")
        usual = (names_of(bench, BM25Spec) or names)[0]
        first = choose(left.selectbox, "mix_first", word("tune.mix_first"), names, usual, follows=True, help=note)
        others = [name for name in names if name != first]
        usual = next((name for name in names_of(bench, DenseSpec) if name != first), others[0])
        second = choose(right.selectbox, "mix_second", word("tune.mix_second"), others, usual, follows=True, help=note)
    experiment = hybrid_lab(bench.view.comparison.experiment, first, second)
    found = run(bench, experiment)
    if found:
        _draw_found(bench, found, first, second)


def _draw_found(bench: Bench, found: LabResult, first: str, second: str) -> None:
    table = found.table.assign(x=found.table["weight"])
    leader = best(table)
    answer = st.container()
    figure, x = bench.measure.long, word("tune.weight_of", name=first)
    st.markdown(f"**{word('tune.curve', figure=figure)}**")
    st.caption(word("tune.curve_help", first=plain(first), second=plain(second)))
    fusions = [str(fusion) for fusion in Fusion]
    detail = ("fusion", word("tune.fusion"))
    draw_chart(bands, table, leader, x=x, y=figure, detail=detail, names=fusions, ordinal=False, key="mix_curve")
    name = draw_table(
        found,
        {
            "fusion": tables.text("tune.fusion", pinned=True),
            "weight": st.column_config.NumberColumn(x, format="%.2f"),
            **figure_columns(bench),
        },
        leader,
        key="hybrid_table",
    )
    with answer:
        draw_verdict(bench, found, name, _present(found, first), is_best=name == leader)


def _present(found: LabResult, first: str) -> str:
    """Return the hybrid there is of the two, else the better one of them."""
    hybrids = _given_hybrids(found.experiment)
    if hybrids:
        return hybrids[0]
    alone = found.table[~found.table["tried"]]
    return best(alone) if len(alone) else first


def _given_hybrids(experiment: Experiment) -> list[str]:
    return [spec.name for spec in experiment.retriever[2:] if isinstance(spec, HybridSpec) and not spec.chosen_on]
