"""Models that are asked only where a person wants it: some take seconds to load, and language models are elsewhere."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import streamlit as st

from chat.endpoint import ADDRESS, MODEL, Endpoint, may_be_given
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


@dataclass(frozen=True)
class LanguageModel:
    """A model by name, and what was typed of where it is; what was not typed is the environment's."""

    name: str
    address: str = field(default="", repr=False)
    key: str = field(default="", repr=False)

    def endpoint(self) -> Endpoint:
        """Where it is asked. Raises `EndpointError`."""
        return Endpoint.of(self.address, self.key)


def language_model() -> LanguageModel | None:
    """Return the model that was named; None where none is, or nobody knows where it is."""
    address, key = (_told("address"), _told("secret")) if may_be_given() else ("", "")
    name = str(st.session_state.get("answers_model", os.environ.get(MODEL, ""))).strip()
    known = bool(address or os.environ.get(ADDRESS, "").strip())
    return LanguageModel(name, address, key) if name and known else None


def pick_language_model() -> LanguageModel | None:
    """Draw the choice behind a button; returns it as `language_model` does."""
    named = language_model()
    label = word("answers.language_model_is", model=plain(named.name)) if named else word("answers.no_language_model")
    with st.popover(label, icon=":material/smart_toy:"):
        draw_language_model()
    return language_model()


def draw_language_model() -> None:
    st.caption(word("answers.language_model_about"))
    typed = may_be_given()
    with st.form("answers_language_model", border=False):  # so that nobody is asked before all is typed
        if typed:
            _draw_text("address", placeholder="http://localhost:11434/v1")
        _draw_text("model", value=os.environ.get(MODEL, "").strip())
        if typed:
            _draw_text("secret", type="password", autocomplete="off")
        st.form_submit_button(word("answers.use_model"), key="use_model", type="primary", width="stretch")


def _told(name: str) -> str:
    return str(st.session_state.get(f"answers_{name}", "")).strip()


def _draw_text(name: str, **look: str) -> None:
    st.text_input(word(f"made.{name}"), key=f"answers_{name}", help=word(f"answers.{name}_help"), **look)  # type: ignore[call-overload]
