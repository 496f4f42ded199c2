"""Answers: what a reader and a language model say from the passages found, and how often that is right."""

from importlib import import_module

import streamlit as st

from views.choices import choices_for
from views.reading.controls import readers_at_hand
from views.reading.generated import language_model
from views.reading.start import draw_start
from views.resources.sets import chosen_set
from views.ui.state import choose_tab
from views.ui.words import word

TABS = {"ask": "views.reading.ask", "evaluate": "views.reading.evaluate"}


def draw() -> None:
    """Draw the page; where nothing can answer yet, the one thing to do about it."""
    data, readers = chosen_set(), readers_at_hand()
    st.title(word("answers.purpose"), anchor=False)
    if not readers.names and not language_model():
        draw_start(data)
        return
    name, place = choose_tab("answers", {name: word(f"answers.tab_{name}") for name in TABS})
    with place:
        if name == "evaluate" and not readers.names:
            draw_start(data)
        else:
            import_module(TABS[name]).draw(data, choices_for(data), readers)
