"""The MRC retrieval workbench: `streamlit run app.py`."""

import logging

import pandas as pd
import streamlit as st

from views import compare_page, data_page, search_page, sidebar, train_page
from views.problem_words import errors_told
from views.words import word

# a page's tables are small, and their styles are written a cell at a time: Arrow would copy a column for each
pd.set_option("mode.string_storage", "python")
st.set_page_config(page_title="MRC Retrieval Workbench", page_icon=":material/manage_search:", layout="wide")

PAGES = {
    "compare": (compare_page.draw, ":material/leaderboard:"),
    "data": (data_page.draw, ":material/description:"),
    "train": (train_page.draw, ":material/model_training:"),
    "search": (search_page.draw, ":material/search:"),
}

page = st.navigation(
    [
        st.Page(draw, title=word(f"page.{name}"), icon=icon, url_path=name, default=name == "compare")
        for name, (draw, icon) in PAGES.items()
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
