"""What a training makes smaller."""

import streamlit as st

from training.recipe import recipe_of, usual_base
from views.state import remember, remembered
from views.train.base import Base
from views.train.entered import offer, relabel
from views.train.options import objectives
from views.words import word, word_or


def pick_objective(kind: str, base: Base) -> str:
    """Draw the choice of what training makes smaller, with what that does and needs."""
    choices, key = objectives(kind, starter=base.starter), f"train_{kind}_objective"
    suited = recipe_of(kind).options.suited_to
    options = base.run.plan().options if base.run else suited(base.reference or usual_base(kind))
    if st.session_state.get(key) not in choices:
        st.session_state[key] = remembered("objective", options.objective.value, choices)
    offer(key, options.objective.value)
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
