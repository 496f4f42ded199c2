"""Which language model answers, if any. Address and key stay in the session; nothing of them is written."""

import os
from dataclasses import dataclass, field

import streamlit as st

from chat.endpoint import ADDRESS, MODEL, Endpoint, may_be_given
from reading.generation.generator import Generator
from reading.generation.prompts import prompts
from views.ui.words import language, plain, word


@dataclass(frozen=True)
class LanguageModel:
    """A model by name, and what was typed of where it is; what was not typed is the environment's."""

    name: str
    address: str = field(default="", repr=False)
    key: str = field(default="", repr=False)

    def endpoint(self) -> Endpoint:
        """Where it is asked. Raises `EndpointError`."""
        return Endpoint.of(self.address, self.key)

    def generator(self, k: int) -> Generator:
        """How it is asked, with the first K passages. Raises `ReadingError`."""
        return Generator(name=self.name, model=self.name, prompt=prompts()[language()], most_passages=k)


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
    """Draw the boxes of name, address and key."""
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
