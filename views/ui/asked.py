"""What a model is asked only where a person wants it: loading it takes seconds."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import streamlit as st

from views.ui.problems import search_failure_text
from views.ui.words import plain, word

logger = logging.getLogger(__name__)
T = TypeVar("T")


def once_asked(name: str, ask: str, tell: Callable[[], T]) -> T | None:
    """Draw the button `ask` for a retriever and, once it was pressed, return what `tell` computes.

    None before, and where the model cannot be asked, which is said.
    """
    wanted = f"why_model_{name}"
    if not st.session_state.get(wanted):
        look: dict[str, Any] = {"icon": ":material/psychology:", "key": f"ask_{wanted}"}
        st.button(ask, on_click=lambda: st.session_state.update({wanted: True}), **look)
        return None
    try:
        with st.spinner(word("search.loading"), show_time=True):
            return tell()
    except Exception as error:
        logger.warning("the model of %r cannot be asked: %s", name, error)
        st.error(plain(search_failure_text(error)), icon=":material/error:")
        return None
