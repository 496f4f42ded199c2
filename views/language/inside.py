"""The Inside tab: a model is picked, and looked into by one of the views."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module

import streamlit as st

from data.problems import Failure
from models.hub import ModelError
from models.sources import DEFAULT_MASKED_LANGUAGE_MODEL, STARTER, default_model, find_model
from training.options.language_model import LANGUAGE_MODEL
from views.choices import finished_runs, model_place
from views.names import base_name, is_a_starter, told_with_download
from views.navigation import open_page
from views.ui.problems import failure_text
from views.ui.state import choose, choose_view
from views.ui.words import plain, word

TABS = {"in_context": ("contexts", "attention"), "gaps": ("fill_mask", "over_steps"), "layers": ("layers",)}
_TYPED = "typed_networks"  # of the session
_LET_IN = "networks_let_in"  # of the session: models of the hub that a click had fetched
_REFERENCE = re.compile(r"[\w./:-]{1,200}")


def draw() -> None:
    """Draw the choice of the model, and the view chosen."""
    names = _names()
    model = _pick(names)
    name, place = choose_view("inside", TABS, lambda one: word(f"inside.view_{one}"))
    with place:
        if _let_in(model):
            import_module(f"views.language.{name}").draw(model, names)


@contextmanager
def told() -> Iterator[None]:
    """Show why a model or a text cannot be looked into, raised inside, and how long the wait is."""
    try:
        with st.spinner(word("inside.at_work"), show_time=True):
            yield
    except Failure as error:
        st.error(plain(reason(error)), icon=":material/error:")


def reason(error: Failure) -> str:
    """Return why a model cannot be looked into, the model called as it is picked: not Markdown."""
    if name := _names().get(str(error.details.get("model"))):
        error = type(error)(error.code, str(error), **{**error.details, "model": name})
    return failure_text(error)


def _names() -> Mapping[str, str]:
    """Names by reference: the packaged base, finished trainings of transformers, what was typed, and one of the hub."""
    first = [] if default_model() == STARTER else [default_model()]
    runs = {model_place(run): run.plan().name for run in finished_runs() if not is_a_starter(model_place(run))}
    typed = st.session_state.setdefault(_TYPED, {})
    given = st.query_params.get("network", "")
    if given not in (*first, *runs) and _REFERENCE.fullmatch(given):
        typed[given] = given
    others = dict.fromkeys([*typed, DEFAULT_MASKED_LANGUAGE_MODEL])
    return {one: base_name(one) for one in first} | runs | {one: one for one in others if one not in runs}


def _pick(names: Mapping[str, str]) -> str:
    references = [*names]
    return choose(
        st.selectbox,
        "network",
        word("inside.model"),
        references,
        references[0],
        follows=True,
        format_func=lambda one: told_with_download(one, names.get(one, one)),
        help=word("inside.model_help"),
        accept_new_options=True,
        width=360,
    )


def draw_way_to_training() -> None:
    """Draw the button that leads to the training of a language model."""
    if st.button(word("inside.to_train"), icon=":material/model_training:", key="to_train"):
        open_page("train", train=LANGUAGE_MODEL)


def is_open(model: str) -> bool:
    """Whether a model is on this machine, or a click said that it may be fetched; one that is nowhere is told later."""
    try:
        on_the_hub = find_model(model).hub_id is not None
    except ModelError:
        return True
    return not on_the_hub or model in st.session_state.get(_LET_IN, ())


def _let_in(model: str) -> bool:
    if is_open(model):
        return True
    st.info(word("inside.fetch_about", model=plain(model)), icon=":material/info:")
    if st.button(word("inside.fetch"), type="primary", icon=":material/download:", key="fetch_network"):
        let_in(model)
    return False


def let_in(model: str) -> None:
    """Note that a click said that a model may be fetched, and draw the page anew."""
    st.session_state.setdefault(_LET_IN, set()).add(model)
    st.rerun()
