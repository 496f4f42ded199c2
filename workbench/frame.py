"""What Streamlit draws for every visitor; `app.py` serves it."""

import logging
from pathlib import Path

from mrc_workbench.data.jobs.processes import make_ready

make_ready()  # while the page is made

import pandas as pd
import streamlit as st

from mrc_workbench.workbench.views import access, sidebar
from mrc_workbench.workbench.views.navigation import UPLOADS, draw_document, draw_ways, pages
from mrc_workbench.workbench.views.resources.sets import require_set
from mrc_workbench.workbench.views.sidebar import set_title
from mrc_workbench.workbench.views.ui.words import errors_told, word

# a page's tables are small, and their styles are written a cell at a time: Arrow would copy a column for each
pd.set_option("mode.string_storage", "python")
VIEWS = Path(__file__).parent / "views"
icon = (VIEWS / "icon.svg").read_text(encoding="utf-8")  # one by name would be asked of another host
st.set_page_config(page_icon=icon, layout="wide")

st.html(VIEWS / "look.css")
draw_document()
try:
    with errors_told():
        if access.granted():
            page = st.navigation(pages(), position="top")
            sidebar.draw()
            draw_ways(page.url_path)
            set_title(page.url_path)
            require_set()
            with UPLOADS.refusal_told():
                page.run()
        else:
            st.set_page_config(page_title=word("app.title"))
except Exception:
    logging.getLogger(__name__).exception("a page failed")
    st.error(word("app.error"), icon=":material/error:")
