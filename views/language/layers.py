"""The view of layers: which of them, pooled how, makes sentence vectors that follow people best."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from data.pairs.records import PairKind
from data.pairs.split import part_to_measure
from data.pairs.store import StoredPairs
from language.layers import LayerScores, Pooling
from views import tables
from views.data_words import pair_set_name
from views.language import charts
from views.language.inside import told
from views.resources.charts import draw_chart
from views.resources.language import MOST_PAIRS, scores_by_layer
from views.resources.pairs import parts_of, stored_pairs
from views.state import choose
from views.words import word

_MEASURED = "layers_measured"  # of the session


def draw(model: str, names: Mapping[str, str]) -> None:
    """Draw Spearman's correlation by layer and pooling, once a click had it measured."""
    del names
    sets = {one.key: one for one in stored_pairs() if one.kind is PairKind.SCORED}
    if not sets:
        st.info(word("inside.no_scored"), icon=":material/info:")
        return
    answer = st.container()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        data = _pick_set(sets)
        pressed = st.button(word("inside.measure"), type="primary", icon=":material/play_arrow:", key="measure_layers")
    measured = st.session_state.setdefault(_MEASURED, set())
    if pressed:
        measured.add((model, data.key))
    if (model, data.key) not in measured:
        answer.info(word("inside.layers_about", most=MOST_PAIRS), icon=":material/info:")
        return
    part = part_to_measure(parts_of(data.key))
    bar = st.progress(0.0)
    with told():
        found = scores_by_layer(model, data.key, part, on_progress=lambda share: _tell(bar, share))
        answer.markdown(_answer(found))
        _draw_scores(found)
    bar.empty()


def _tell(bar: DeltaGenerator, share: float) -> None:
    bar.progress(share)


def _pick_set(sets: Mapping[str, StoredPairs]) -> StoredPairs:
    key = choose(
        st.selectbox,
        "layer_pairs",
        word("embeddings.pairs"),
        [*sets],
        next(iter(sets)),
        follows=True,
        format_func=lambda one: pair_set_name(sets[one]) if one in sets else one,
        width=240,
    )
    return sets[key]


def _answer(found: LayerScores) -> str:
    layer, pooling = found.best
    values = {"pooling": pooling_name(pooling), "best": f"{100 * np.nanmax(found.spearman):.1f}", "pairs": found.pairs}
    last = found.spearman[-1]
    if layer == len(found.spearman) - 1:
        return word("inside.layers_answer_last", layer=layer, **values)
    usual = int(np.nanargmax(last))
    last_best, last_pooling = f"{100 * last[usual]:.1f}", pooling_name([*Pooling][usual])
    return word("inside.layers_answer", layer=layer, last=last_best, usual=last_pooling, **values)


def pooling_name(pooling: str) -> str:
    """Return the words for a pooling."""
    return word(f"inside.pooling_{pooling}")


def _draw_scores(found: LayerScores) -> None:
    names = [pooling_name(one) for one in Pooling]
    rows = [
        {"layer": str(layer), "pooling": name, "value": 100 * value}
        for layer, values in enumerate(found.spearman.tolist())
        for name, value in zip(names, values, strict=True)
    ]
    long = pd.DataFrame(rows)
    draw_chart(charts.poolings, long.dropna(), names, y=word("embeddings.spearman"), alt=word("inside.view_layers"))
    st.caption(word("inside.layers_help"))
    with st.expander(word("inside.as_table")):
        table = pd.DataFrame(100 * found.spearman, columns=names)
        table.insert(0, "layer", range(len(table)))
        columns = {name: st.column_config.NumberColumn(name, format="%.2f") for name in names}
        columns["layer"] = tables.number("inside.layer", "%d", "")
        st.dataframe(table, hide_index=True, column_config=columns)
