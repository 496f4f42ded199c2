"""The view of layers: which of them, pooled how, makes the best sentence vectors, as pairs or as questions judge it."""

from collections.abc import Mapping
from importlib import import_module

import streamlit as st

from views.ui.state import choose
from views.ui.words import word

JUDGES = {
    "people": "views.language.layers_by_people",
    "questions": "views.language.layers_by_questions",
}


def draw(model: str, names: Mapping[str, str]) -> None:
    """Draw the choice of the judge, and what it says."""
    del names
    answer, controls = st.container(), st.container(horizontal=True, vertical_alignment="bottom")
    with controls:
        judge = choose(
            st.segmented_control,
            "layers_by",
            word("inside.layers_by"),
            [*JUDGES],
            "people",
            format_func=lambda one: word(f"inside.layers_by_{one}"),
            help=word("inside.layers_by_help"),
            width="content",
        )
    import_module(JUDGES[judge]).draw(model, answer, controls)
