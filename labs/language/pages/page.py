"""Language: how text is cut and learned, and what a language model makes of it, layer by layer."""

from importlib import import_module

import streamlit as st

from mrc_workbench.workbench.views.ui.state import choose_tab
from mrc_workbench.workbench.views.ui.words import word

TABS = {
    "tokenizers": "mrc_workbench.labs.language.pages.tokenizers",
    "inside": "mrc_workbench.labs.language.pages.inside",
}


def draw() -> None:
    st.title(word("language_page.purpose"), anchor=False)
    name, place = choose_tab("language_tab", {name: word(f"language_page.tab_{name}") for name in TABS})
    with place:
        import_module(TABS[name]).draw()
