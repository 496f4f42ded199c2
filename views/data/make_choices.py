"""What a person chooses before questions are made. Address and key of an endpoint stay in the session."""

import os
from dataclasses import dataclass, field

import streamlit as st

from chat.endpoint import MODEL, Endpoint, may_be_given
from data.records import Maker
from questions.drafts import MakerOptions, PromptLanguage
from questions.written import prompts
from views.ui.words import language, word

_USUAL = 2000  # passages: enough to train with, and made in a minute


@dataclass(frozen=True)
class Chosen:
    """How questions are to be made, and where a language model is asked."""

    by: Maker
    most: int = 0
    per_passage: int = 1
    model: str = ""
    prompt: str = ""
    address: str = field(default="", repr=False)
    key: str = field(default="", repr=False)

    def options(self, most: int = 0) -> MakerOptions:
        """Return the options, of `most` passages at most where told. Raises `QuestionsError`."""
        return MakerOptions(
            by=self.by,
            most=min(most or self.most, self.most),
            per_passage=self.per_passage,
            model=self.model,
            prompt=self.prompt,
            language=PromptLanguage(language()),
        )

    @property
    def endpoint(self) -> Endpoint | None:
        """Where the language model is; None where none is asked. Raises `EndpointError`."""
        return Endpoint.of(self.address, self.key) if self.by is Maker.MODEL else None


def pick(passages: int, articles: int) -> Chosen:
    """Draw the choices for a set of so many passages and articles; returns them."""
    chosen = st.segmented_control(
        word("made.how"),
        list(Maker),
        default=Maker.SENTENCE,
        required=True,
        format_func=lambda one: word(f"made.by_{one}"),
        key=f"made_by_{language()}",
    )
    by = Maker(chosen or Maker.SENTENCE)
    st.markdown(word(f"made.about_{by}"))
    left, right, _ = st.columns([1, 1, 2])
    unit, count = ("most_titles", articles) if by is Maker.TITLE else ("most", passages)
    with left:
        most = _number(unit, max(1, count), min(max(1, count), _USUAL))
    if by is Maker.TITLE:
        return Chosen(by, most)
    with right:
        per_passage = _number("per_passage", 20, 1)
    return _with_model(most, per_passage) if by is Maker.MODEL else Chosen(by, most, per_passage)


def _with_model(most: int, per_passage: int) -> Chosen:
    address, model, key = st.columns([2, 1, 1])
    usual = prompts()[language()]["instruction"].strip()
    return Chosen(
        Maker.MODEL,
        most,
        per_passage,
        address=_text(address, "address", placeholder="http://localhost:8000/v1") if may_be_given() else "",
        model=_text(model, "model", value=os.environ.get(MODEL, "")).strip(),
        key=_text(key, "secret", type="password", autocomplete="off") if may_be_given() else "",
        prompt=st.text_area(
            word("made.prompt"), usual, key=f"made_prompt_{language()}", help=word("made.prompt_help"), height=180
        ),
    )


def _number(name: str, most: int, usual: int) -> int:
    return int(
        st.number_input(word(f"made.{name}"), 1, most, usual, key=f"made_{name}_{most}", help=word(f"made.{name}_help"))
    )


def _text(place: "st.delta_generator.DeltaGenerator", name: str, **look: str) -> str:
    return str(
        place.text_input(word(f"made.{name}"), key=f"made_{name}", help=word(f"made.{name}_help"), **look)  # type: ignore[call-overload]
    )
