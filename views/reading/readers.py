"""The readers that can be picked: those trained here, and those of the hub that a person named."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from data.split import Part
from data.store import StoredSet
from training.options.reader import READER
from training.runs.runs import Run
from views.choices import finished_runs, model_place
from views.ui.state import choose
from views.ui.words import plain, word

_TYPED, _WANTED, _HUB_MODEL = "typed_readers", "wanted_readers", "answers_hub_model_name"  # of the session
_REFERENCE = re.compile(r"[\w./:-]{1,200}")


@dataclass(frozen=True)
class Readers:
    """Names by reference, the newest first, and the trainings they come from."""

    names: Mapping[str, str]
    runs: Mapping[str, Run]

    def has_seen(self, reference: str, data: StoredSet, part: Part) -> bool:
        """Whether a reader learned from questions of this part of the set."""
        run = self.runs.get(reference)
        trained_on_it = run is not None and run.plan().fingerprint == data.fingerprint
        return trained_on_it and part in (Part.ALL, Part.TRAIN)


def readers_at_hand() -> Readers:
    """Return the finished trainings of readers, what was typed in this session, and what the address names."""
    runs = {model_place(run): run for run in finished_runs() if run.plan().kind == READER}
    typed = st.session_state.setdefault(_TYPED, {})
    given = st.query_params.get("reader", "")
    if given not in runs and _REFERENCE.fullmatch(given):
        typed[given] = given
    names = {place: run.plan().name for place, run in runs.items()}
    return Readers(names | {one: one for one in typed if one not in names}, runs)


def pick_reader(readers: Readers) -> str:
    """Draw the choice of the reader, where one of the hub can be typed, too; returns it, empty without one."""
    references = [*readers.names] or [""]
    return choose(
        st.selectbox,
        "reader",
        word("answers.reader"),
        references,
        references[0],
        follows=True,
        format_func=lambda one: readers.names.get(one, one) or word("answers.type_reader"),
        help=word("answers.reader_help"),
        accept_new_options=True,
        width=200,
    )


def is_wanted(readers: Readers, reference: str) -> bool:
    """Whether a reader may be loaded: one trained here may; for any other a button is drawn, until it is pressed.

    Whoever follows an address has not asked for a model of the hub that it names.
    """
    wanted: set[str] = st.session_state.setdefault(_WANTED, set())
    if reference in readers.runs or reference in wanted:
        return True
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/info: {word('answers.not_loaded', reader=plain(reference))}", width="content")
        st.button(
            word("answers.load"), icon=":material/download:", key="load_reader", on_click=wanted.add, args=(reference,)
        )
    return False


def draw_hub_model() -> None:
    """Draw a box for a reader of the hub; who names one here has asked for it to be loaded."""
    with st.form("answers_hub_model", border=False):
        st.text_input(
            word("answers.hub_model"),
            key=_HUB_MODEL,
            placeholder=word("answers.hub_model_form"),
            help=word("answers.hub_model_help"),
        )
        st.form_submit_button(word("answers.use_model"), key="use_hub_model", type="primary", on_click=_use_hub_model)
    if st.session_state.get(_HUB_MODEL, "").strip():
        st.error(word("answers.no_hub_model"), icon=":material/error:")


def _use_hub_model() -> None:
    named = st.session_state[_HUB_MODEL].strip()
    if _REFERENCE.fullmatch(named):
        st.session_state.setdefault(_WANTED, set()).add(named)
        st.query_params["reader"] = named


def reader_name(readers: Readers, reference: str) -> str:
    """Return what a reader is called, as Markdown."""
    return plain(readers.names.get(reference, reference))
