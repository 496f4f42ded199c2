"""The script that Streamlit runs for every session; `app.py` serves it."""

import logging
from pathlib import Path

from mrc_workbench.data.jobs.processes import prepare_fork_server

prepare_fork_server()  # starts while the page is drawn

import pandas as pd
import streamlit as st

from mrc_workbench.workbench.views import access, sidebar
from mrc_workbench.workbench.views.navigation import UPLOADS, draw_document, draw_page_links, pages
from mrc_workbench.workbench.views.resources.sets import require_set
from mrc_workbench.workbench.views.ui.words import show_errors, word

# tables are small, and Arrow would copy a column for each styled cell
pd.set_option("mode.string_storage", "python")
VIEWS = Path(__file__).parent / "views"
icon = (VIEWS / "icon.svg").read_text(encoding="utf-8")  # a named icon is loaded from another host
st.set_page_config(page_icon=icon, layout="wide")

st.html(VIEWS / "look.css")
draw_document()
try:
    with show_errors():
        if access.is_granted():
            page = st.navigation(pages(), position="top")
            sidebar.draw()
            draw_page_links(page.url_path)
            st.set_page_config(page_title=sidebar.title_of(page.url_path))
            require_set()
            with UPLOADS.show_refusal():
                page.run()
        else:
            st.set_page_config(page_title=word("app.title"))
except Exception:
    logging.getLogger(__name__).exception("a page failed")
    st.error(word("app.error"), icon=":material/error:")
