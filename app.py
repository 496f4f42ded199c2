"""The MRC retrieval workbench: `streamlit run app.py`."""

import logging
from pathlib import Path

from jobs.detached import make_ready
from retrieval import preparation
from views import access

access.begin()  # before anything asks for a workspace, or for what the environment says
if make_ready():  # while the page is made
    preparation.begin(signs_in=access.is_on())

import pandas as pd
import streamlit as st

from views import sidebar
from views.navigation import draw_ways, pages
from views.problem_words import errors_told
from views.words import word

# a page's tables are small, and their styles are written a cell at a time: Arrow would copy a column for each
pd.set_option("mode.string_storage", "python")
VIEWS = Path(__file__).parent / "views"
icon = (VIEWS / "icon.svg").read_text(encoding="utf-8")  # one by name would be asked of another host
st.set_page_config(page_title="MRC Retrieval Workbench", page_icon=icon, layout="wide")

st.html(VIEWS / "look.css")
try:
    with errors_told():
        if access.granted():
            page = st.navigation(pages(), position="top")
            sidebar.draw()
            draw_ways(page.url_path)
            page.run()
except Exception:
    logging.getLogger(__name__).exception("a page failed")
    st.error(word("app.error"), icon=":material/error:")
