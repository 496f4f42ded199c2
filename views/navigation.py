"""The pages of the app, and the way from one to another."""

from functools import partial
from importlib import import_module
from typing import Any

import streamlit as st

from jobs.processes import without_collections
from views.ui.state import VISIT
from views.ui.words import word
from views.uploads import UPLOADS

_KEPT = ("data", "lang")  # of an address, on the way to another page
PAGES = {
    "compare": ":material/leaderboard:",
    "data": ":material/description:",
    "train": ":material/model_training:",
    "search": ":material/search:",
    "answers": ":material/question_answer:",
    "embeddings": ":material/scatter_plot:",
    "language": ":material/translate:",
}
MORE = ("embeddings", "language")  # pages that look into models themselves: one menu holds them
_FOLDERS = {"answers": "reading"}  # of pages that are called otherwise than their room


def pages() -> dict[str, list[Any]]:
    """Return the pages in their order by menu, no menu first, and the first page the one that opens.

    At its own name the first page is found, too.
    """
    first = next(iter(PAGES))
    title = word(f"page.{first}")
    named = st.Page(partial(_go_on, first), title=title, icon=PAGES[first], url_path=first, visibility="hidden")
    usual = [_page(name) for name in PAGES if name not in MORE]
    return {"": [*usual, named], word("page.more"): [_page(name) for name in MORE]}


def read_first_page() -> None:
    """Read what draws the page that opens, and what stands around it."""
    with without_collections():
        for name in ("views.sidebar", "views.compare.page", "views.compare.overview"):
            import_module(name)


def open_page(name: str, **parameters: str) -> None:
    """Go to a page, with these parameters and no others in its address."""
    st.switch_page(_page(name), query_params=parameters)


def draw_ways(opened: str) -> None:
    """Draw the pages in one row, for screens so narrow that Streamlit folds its own row away (`look.css`).

    The menu shows that the page `opened`, told by its place in the address, is one of its own.
    """
    kept = {name: st.query_params[name] for name in _KEPT if name in st.query_params}
    with st.container(horizontal=True, key="ways"):
        for name in PAGES:
            if name not in MORE:
                way_to(name, word(f"page.{name}"), **kept)
        inside = opened in MORE
        with (
            st.container(key="in_more" if inside else "not_in_more", width="content"),
            st.popover(word(f"page.{opened if inside else 'more'}"), type="tertiary"),
        ):
            for name in MORE:
                way_to(name, word(f"page.{name}"), **kept)


def way_to(name: str, label: str, **parameters: str) -> None:
    """Draw a link to a page in the row at hand, with these parameters in its address."""
    st.page_link(_page(name), label=label, icon=PAGES[name], query_params=parameters)


def _page(name: str) -> Any:
    title, is_first = word(f"page.{name}"), name == next(iter(PAGES))
    path = "first" if is_first else name  # Streamlit serves the first page without a path, and no other at its name
    return st.Page(partial(_draw, name), title=title, icon=PAGES[name], url_path=path, default=is_first)


def _go_on(name: str) -> None:
    """Go to a page with what its address asks for."""
    st.switch_page(_page(name), query_params={key: st.query_params.get_all(key) for key in st.query_params})


def _draw(name: str) -> None:
    """Draw a page, read when it is first opened: who opens the app waits for one page, not for all."""
    if st.session_state.get("page") != name:
        UPLOADS.leave_page()
        st.session_state["page"], st.session_state[VISIT] = name, st.session_state.get(VISIT, 0) + 1
    import_module(f"views.{_FOLDERS.get(name, name)}.page").draw()
