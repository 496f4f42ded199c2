"""The MRC retrieval workbench: `streamlit run app.py`."""

import logging
from functools import partial
from importlib import import_module

import pandas as pd
import streamlit as st

from views import sidebar
from views.problem_words import errors_told
from views.words import word

# a page's tables are small, and their styles are written a cell at a time: Arrow would copy a column for each
pd.set_option("mode.string_storage", "python")
st.set_page_config(page_title="MRC Retrieval Workbench", page_icon=":material/manage_search:", layout="wide")

PAGES = {
    "compare": ":material/leaderboard:",
    "data": ":material/description:",
    "train": ":material/model_training:",
    "search": ":material/search:",
}


def draw(name: str) -> None:
    """Draw a page, read when it is first opened: who opens the app waits for one page, not for four."""
    import_module(f"views.{name}_page").draw()


page = st.navigation(
    [
        st.Page(partial(draw, name), title=word(f"page.{name}"), icon=icon, url_path=name, default=name == "compare")
        for name, icon in PAGES.items()
    ],
    position="top",
)
try:
    sidebar.draw()
    with errors_told():
        page.run()
except Exception:
    logging.getLogger(__name__).exception("a page failed")
    st.error(word("app.error"), icon=":material/error:")
