"""The Inside tab: a model is picked, and looked into by one of the views; work of minutes is asked for by a click."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from pkgutil import resolve_name
from typing import Any

import streamlit as st

from mrc_workbench.data.problems import Failure
from mrc_workbench.labs.language.pages.tokenizers import REFERENCE
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import DEFAULT_MASKED_LANGUAGE_MODEL, STARTER, default_model, find_model
from mrc_workbench.workbench.views.choices import finished_runs, model_place
from mrc_workbench.workbench.views.names import base_name, is_a_starter, told_with_download
from mrc_workbench.workbench.views.ui.state import choose, choose_view
from mrc_workbench.workbench.views.ui.words import failure_text, plain, word

TABS = {"in_context": ("contexts", "attention"), "gaps": ("fill_mask", "over_steps"), "layers": ("layers",)}
VIEWS = {
    "contexts": "in_context:draw_contexts",
    "attention": "in_context:draw_attention",
    "fill_mask": "gaps:draw_beside",
    "over_steps": "gaps:draw_course",
    "layers": "layers:draw",
}
_TYPED = "typed_networks"  # of the session
_LET_IN = "networks_let_in"  # of the session: models of the hub that a click had fetched
_ASKED = "asked_inside"  # of the session


def draw() -> None:
    names = _names()
    references, look = [*names], dict[str, Any](help=word("inside.model_help"), accept_new_options=True, width=360)
    look["format_func"] = lambda one: told_with_download(one, names.get(one, one))
    model = choose(st.selectbox, "network", word("inside.model"), references, references[0], follows=True, **look)
    name, place = choose_view("inside", TABS, lambda one: word(f"inside.view_{one}"))
    with place:
        if is_open(model):
            resolve_name(f"mrc_workbench.labs.language.pages.{VIEWS[name]}")(model, names)
            return
        st.info(word("inside.fetch_about", model=plain(model)), icon=":material/info:")
        if st.button(word("inside.fetch"), type="primary", icon=":material/download:", key="fetch_network"):
            let_in(model)


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
    runs = {place: plan.name for run, plan in finished_runs().items() if not is_a_starter(place := model_place(run))}
    typed = st.session_state.setdefault(_TYPED, {})
    given = st.query_params.get("network", "")
    if given not in (*first, *runs) and REFERENCE.fullmatch(given):
        typed[given] = given
    others = dict.fromkeys([*typed, DEFAULT_MASKED_LANGUAGE_MODEL])
    return {one: base_name(one) for one in first} | runs | {one: one for one in others if one not in runs}


def is_open(model: str) -> bool:
    """Whether a model is on this machine, or a click said that it may be fetched; one that is nowhere is told later."""
    try:
        on_the_hub = find_model(model).hub_id is not None
    except ModelError:
        return True
    return not on_the_hub or model in st.session_state.get(_LET_IN, ())


def let_in(model: str) -> None:
    """Note that a click said that a model may be fetched, and draw the page anew."""
    st.session_state.setdefault(_LET_IN, set()).add(model)
    st.rerun()


def asked(name: str, what: Hashable, label: str) -> bool:
    """Draw the button that starts the work of this name; returns whether this session asked for it, of `what`."""
    known = st.session_state.setdefault(_ASKED, set())
    if st.button(label, type="primary", icon=":material/play_arrow:", key=name):
        known.add((name, what))
    return (name, what) in known


@contextmanager
def watched(name: str, what: Hashable) -> Iterator[Callable[[float], None]]:
    """Yield what is told the share done, 0 to 1, of the work inside: a bar is drawn then, and a button that stops it.

    A click is heard when the next share is told.
    """
    place, bars = st.empty(), list[Any]()

    def tell(share: float) -> None:
        if not bars:
            with place.container(horizontal=True, vertical_alignment="center"):
                bars.append(st.progress(0.0))
                stop, icon = word("inside.stop"), ":material/stop:"
                forget = st.session_state[_ASKED].discard
                st.button(stop, icon=icon, key=f"stop_{name}", on_click=forget, args=((name, what),))
        bars[0].progress(min(1.0, share))

    try:
        yield tell
    except Failure:
        place.empty()
        raise
    place.empty()
