"""Layers judged by pairs that people scored: whose cosines follow the scores best."""

from collections.abc import Mapping

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from data.pairs.audit import part_to_measure
from data.pairs.records import PairKind
from data.pairs.store import StoredPairs
from language.inside.layers import LayerScores, Pooling
from views.language.inside import asked, told, watched
from views.language.layer_figures import draw_figures, draw_table, pooling_name
from views.names import pair_set_name
from views.resources.language import MOST_PAIRS, scores_by_layer
from views.resources.pairs import parts_of, stored_pairs
from views.ui.state import choose
from views.ui.words import word

_NAME = "measure_layers"


def draw(model: str, answer: DeltaGenerator, controls: DeltaGenerator) -> None:
    """Draw Spearman's correlation by layer and pooling, once a click had it measured."""
    sets = {one.key: one for one in stored_pairs() if one.kind is PairKind.SCORED}
    if not sets:
        st.info(word("inside.no_scored"), icon=":material/info:")
        return
    with controls:
        data = _pick_set(sets)
        wanted = asked(_NAME, (model, data.key), word("inside.measure_layers"))
    if not wanted:
        answer.info(word("inside.layers_about", most=MOST_PAIRS), icon=":material/info:")
        return
    part = part_to_measure(parts_of(data.key))
    with told(), watched(_NAME, (model, data.key)) as tell:
        found = scores_by_layer(model, data.key, part, tell)
        answer.markdown(_answer(found))
        draw_figures(found.spearman, y=word("embeddings.spearman"))
        st.caption(word("inside.layers_help"))
        draw_table(found.spearman)


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
