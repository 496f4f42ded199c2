"""Answers: what a reader and a language model say from the passages found, and how often that is right."""

from importlib import import_module

import streamlit as st

from views.choices import choices_for
from views.reading.readers import readers_at_hand
from views.state import choose_tab, chosen_set
from views.words import word

TABS = {"ask": "views.reading.ask", "evaluate": "views.reading.evaluate"}


def draw() -> None:
    """Draw the page."""
    data = chosen_set()
    st.title(word("answers.purpose"), anchor=False)
    name, place = choose_tab("answers", {name: word(f"answers.tab_{name}") for name in TABS})
    with place:
        import_module(TABS[name]).draw(data, choices_for(data), readers_at_hand())
