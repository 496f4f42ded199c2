"""The title of the browser's tab: page, dataset and app, in the language of the page."""

import streamlit as st

from mrc_workbench.workbench.views.names import set_name
from mrc_workbench.workbench.views.navigation import FIRST, PAGES
from mrc_workbench.workbench.views.resources.sets import chosen_set, missing_set
from mrc_workbench.workbench.views.ui.words import word


def set_title(opened: str) -> None:
    """Set the title for the page with the path `opened`."""
    st.set_page_config(page_title=title_of(opened))


def title_of(opened: str) -> str:
    page = PAGES[0] if opened in ("", FIRST) else next((page for page in PAGES if page.name == opened), None)
    if page is None:
        return word("app.tab", page=word("page.missing_title"))
    if page.inside or missing_set():  # pages of "More" work with other data; a missing dataset has no name
        return word("app.tab", page=page.title)
    return word("app.tab_of_data", page=page.title, data=set_name(chosen_set().name))
