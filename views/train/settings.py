"""The way to settings that suit base and data: a search is started here, and what it found fills in the form."""

from dataclasses import replace
from enum import Enum
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from training.runs.runs import Plan
from training.runs.searches import Findings, create_search
from training.settings.grid import changes_of
from views.runs.search import setting_words
from views.train.fields import field_key
from views.train.start import begin, trainings_started
from views.ui.state import remember
from views.ui.words import word

_MINUTES, _MOST_MINUTES = 10, 600
_MINUTES_WIDTH = 220  # pixels


def draw_find(plan: Plan | None, told: DeltaGenerator) -> None:
    """Draw the way to a search: what it tries, how long it may take, and its start; `plan` is None where none fits."""
    st.markdown(f"**{word('settings.find')}**")
    st.markdown(word("settings.about"))
    if plan is None:
        return
    tried = "\n".join(f"1. {setting_words(changes)}" for changes in changes_of(plan.options))
    st.caption(word("settings.tried") + "\n\n" + tried)
    key = "train_settings_minutes"
    st.session_state.setdefault(key, _MINUTES)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        minutes = st.number_input(
            word("settings.minutes"),
            min_value=1,
            max_value=_MOST_MINUTES,
            key=key,
            help=word("settings.minutes_help"),
            width=_MINUTES_WIDTH,
            persist_state="session",
        )
        pressed = st.button(
            word("settings.start", minutes=minutes),
            icon=":material/play_arrow:",
            key=f"train_find_{trainings_started()}",  # the second press of a double click starts nothing
        )
    if pressed and minutes:
        begin(lambda: create_search(plan, float(minutes)), told)


def use_settings(plan: Plan, found: Findings) -> None:
    """Fill what was found into the form, with kind, base and objective; only as a callback."""
    options = replace(plan.options, **found.changes)
    names = {name for one in found.tried for name in one.changed} - {"objective"}
    remember("train", plan.kind)
    remember("base", plan.options.base)
    st.session_state[field_key(plan.kind, "objective")] = options.objective.value
    remember("objective", options.objective.value)
    for name in names:
        st.session_state[field_key(plan.kind, name)] = _entered(getattr(options, name))


def _entered(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value
