"""The choice of one of the models that were measured, for views that look at one."""

import streamlit as st

from views.embeddings.evaluation_view import EvaluationView
from views.ui.state import choose
from views.ui.words import word


def pick_model(view: EvaluationView, name: str, label: str = "embeddings.model") -> str:
    """Draw the choice, the best model first; it lies in the address by this name. Returns the reference."""
    names = {view.references[one]: one for one in view.measured}
    return choose(
        st.selectbox,
        name,
        word(label),
        [*names],
        next(iter(names)),
        follows=True,
        format_func=lambda one: names.get(one, one),
        width=320,
    )
