"""Answers: what a reader and a language model say from the passages found, and how often that is right; where nothing
can answer yet, the one thing to do about it."""

import math
from importlib import import_module

import streamlit as st

from data.split import SplitOptions
from data.store import StoredSet
from training.options.questions import READER
from training.recipe import recipe_of, usual_base
from training.runs.rehearsal import Rehearsal, RehearsalTask
from training.runs.runs import Run, new_plan
from training.runs.sweeps import QUEUE
from views.choices import choices_for
from views.navigation import open_page
from views.reading.controls import draw_hub_model, readers_at_hand
from views.resources.sets import chosen_set
from views.ui.job import draw_language_model, language_model
from views.ui.state import choose_tab
from views.ui.words import word

TABS = {"ask": "views.reading.ask", "evaluate": "views.reading.evaluate"}


def draw_start(data: StoredSet) -> None:
    training = any(isinstance(one, Run) and one.plan().kind == READER for one in (QUEUE.at_work(), *QUEUE.queued()))
    st.markdown(word("answers.is_trained" if training else "answers.needs_reader"))
    if st.button(
        word("answers.see_training") if training else _offer(data),
        icon=":material/model_training:",
        type="primary",
        key="train_reader",
    ):
        open_page("train", train=READER)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(word("answers.or"), width="content")
        with st.popover(word("answers.use_hub_model"), type="tertiary", icon=":material/download:"):
            draw_hub_model()
        if not language_model():
            with st.popover(word("answers.use_language_model"), type="tertiary", icon=":material/smart_toy:"):
                draw_language_model()


def _offer(data: StoredSet) -> str:
    """What the button says; the minutes where they were measured: on this machine, for this set."""
    options = recipe_of(READER).options.suited_to(usual_base(READER))
    plan = new_plan(READER, "", (data.key, data.name, data.fingerprint), SplitOptions(), options)
    try:
        seconds = Rehearsal.of(plan, RehearsalTask.ESTIMATE).estimate().seconds
    except (OSError, ValueError):
        return word("answers.train_one")
    return word("answers.train_one_in", minutes=math.ceil(seconds / 60))


def draw() -> None:
    data, readers = chosen_set(), readers_at_hand()
    st.title(word("answers.purpose"), anchor=False)
    if not readers.names and not language_model():
        draw_start(data)
        return
    name, place = choose_tab("answers", {name: word(f"answers.tab_{name}") for name in TABS})
    with place:
        if name == "evaluate" and not readers.names:
            draw_start(data)
        else:
            import_module(TABS[name]).draw(data, choices_for(data), readers)
