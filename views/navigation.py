"""The pages of the app, and the way from one to another."""

from functools import partial
from importlib import import_module
from typing import Any

import streamlit as st

from views.words import word

PAGES = {
    "compare": ":material/leaderboard:",
    "data": ":material/description:",
    "train": ":material/model_training:",
    "search": ":material/search:",
}


def pages() -> list[Any]:
    """Return the pages in their order, the first one the one that opens."""
    return [_page(name) for name in PAGES]


def open_page(name: str, **parameters: str) -> None:
    """Go to a page, with these parameters and no others in its address."""
    st.switch_page(_page(name), query_params=parameters)


def way_to(name: str, label: str, **parameters: str) -> None:
    """Draw a link to a page in the row at hand, with these parameters in its address."""
    st.page_link(_page(name), label=label, icon=PAGES[name], query_params=parameters)


def _page(name: str) -> Any:
    title, first = word(f"page.{name}"), next(iter(PAGES))
    return st.Page(partial(_draw, name), title=title, icon=PAGES[name], url_path=name, default=name == first)


def _draw(name: str) -> None:
    """Draw a page, read when it is first opened: who opens the app waits for one page, not for all."""
    import_module(f"views.{name}.page").draw()
