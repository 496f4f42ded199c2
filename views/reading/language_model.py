"""Which language model answers, if any. Address and key stay in the session; nothing of them is written."""

import os
from dataclasses import dataclass, field

import streamlit as st

from chat.endpoint import ADDRESS, MODEL, Endpoint, may_be_given
from reading.generation.generator import Generator
from reading.generation.prompts import prompts
from views.words import language, plain, word


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


def pick_language_model() -> LanguageModel | None:
    """Draw the choice; None where no model is named, or nobody knows where it is."""
    usual = os.environ.get(MODEL, "").strip()
    named = st.session_state.get("answers_model", usual).strip()
    label = word("answers.language_model_is", model=plain(named)) if named else word("answers.no_language_model")
    with st.popover(label, icon=":material/smart_toy:"):
        st.caption(word("answers.language_model_about"))
        typed = may_be_given()
        with st.form("answers_language_model", border=False):  # so that nobody is asked before all is typed
            address = _text("address", placeholder="http://localhost:11434/v1") if typed else ""
            model = _text("model", value=usual)
            key = _text("secret", type="password", autocomplete="off") if typed else ""
            st.form_submit_button(word("answers.use_model"), key="use_model", type="primary", width="stretch")
    known = bool(address or os.environ.get(ADDRESS, "").strip())
    return LanguageModel(model, address, key) if model and known else None


def _text(name: str, **look: str) -> str:
    key = f"answers_{name}"
    given = st.text_input(word(f"made.{name}"), key=key, help=word(f"answers.{name}_help"), **look)  # type: ignore[call-overload]
    return str(given).strip()
