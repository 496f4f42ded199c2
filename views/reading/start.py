"""Answers where nothing can answer yet: the one thing to do about it, and beside it what else there is."""

import math

import streamlit as st

from data.split import SplitOptions
from data.store import StoredSet
from training.options.reader import READER
from training.recipe import recipe_of, usual_base
from training.runs.line import LINE
from training.runs.rehearsal import Rehearsal, Task
from training.runs.runs import Run, new_plan
from views.navigation import open_page
from views.reading.controls import draw_hub_model
from views.reading.generated import draw_language_model, language_model
from views.ui.words import word


def draw_start(data: StoredSet) -> None:
    """Draw how to get a reader: trained here, of the hub, or a language model instead."""
    training = any(isinstance(one, Run) and one.plan().kind == READER for one in (LINE.at_work(), *LINE.queued()))
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
        seconds = Rehearsal.of(plan, Task.ESTIMATE).estimate().seconds
    except (OSError, ValueError):
        return word("answers.train_one")
    return word("answers.train_one_in", minutes=math.ceil(seconds / 60))
