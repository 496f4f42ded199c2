"""What a training makes smaller."""

import streamlit as st

from data.pairs.store import StoredPairs
from views.texts import Learned
from views.train.base import Base, suited_to
from views.train.options import objectives, usual_objective
from views.ui.state import offer, relabel, remember, remembered
from views.ui.words import word, word_or


def pick_objective(kind: str, base: Base, data: Learned | StoredPairs) -> str:
    """Draw the choice of what training makes smaller, with what that does and needs."""
    pairs = data.kind if isinstance(data, StoredPairs) else None
    choices, key = objectives(kind, starter=base.starter, pairs=pairs), f"train_{kind}_objective"
    if not choices:
        st.info(word("train.no_objective"), icon=":material/info:")
        st.stop()
    options = base.run.plan().options if base.run else suited_to(kind, base)
    usual = usual_objective(options.objective.value, choices)
    if st.session_state.get(key) not in choices:
        st.session_state[key] = remembered("objective", usual, choices)
    offer(key, usual)
    relabel(key)
    left, right = st.columns(2, vertical_alignment="bottom")
    chosen = left.selectbox(
        word("train.objective"),
        choices,
        format_func=lambda choice: word_or(f"objective.{choice}", choice),
        key=key,
        help=word("train.objective_help"),
        persist_state="session",
    )
    remember("objective", chosen)
    right.caption(word_or(f"objective_does.{chosen}", ""))
    return chosen
