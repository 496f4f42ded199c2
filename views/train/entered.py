"""What a person entered in the form of a training: it outlives a change of base or objective, and other pages."""

from collections.abc import Iterable
from typing import Any

import streamlit as st

from views.ui.words import language

_OFFERED, _SPOKEN = "train_offered", "train_spoken"


def offer(key: str, value: Any) -> None:
    """Fill in a field that nobody has touched, before it is drawn; what was entered stays."""
    offered = st.session_state.setdefault(_OFFERED, {})
    if key not in st.session_state or (key in offered and st.session_state[key] == offered[key] != value):
        st.session_state[key] = value
    offered[key] = value


def relabel(key: str) -> None:
    """Send a choice anew, before it is drawn, when the language changed: its box would keep the words of the other."""
    spoken = st.session_state.setdefault(_SPOKEN, {})
    if key in st.session_state and spoken.get(key, language()) != language():
        st.session_state[key] = st.session_state[key]
    spoken[key] = language()


def is_changed(key: str) -> bool:
    """Whether a field holds something else than it was offered with. An empty number field means the offer."""
    entered = st.session_state.get(key)
    return entered is not None and entered != st.session_state.get(_OFFERED, {}).get(key)


def take_back(keys: Iterable[str]) -> None:
    """Fill in what was offered; only while no field is drawn, as in a callback."""
    for key in keys:
        st.session_state[key] = st.session_state[_OFFERED][key]
