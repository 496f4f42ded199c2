"""What a person entered in the form of a training: it outlives a change of base or objective, and other pages."""

from collections.abc import Iterable
from typing import Any

import streamlit as st

_OFFERED = "train_offered"


def offer(key: str, value: Any) -> None:
    """Fill in a field that nobody has touched, before it is drawn; what was entered stays."""
    offered = st.session_state.setdefault(_OFFERED, {})
    if key not in st.session_state or (key in offered and st.session_state[key] == offered[key] != value):
        st.session_state[key] = value
    offered[key] = value


def is_changed(key: str) -> bool:
    """Whether a field holds something else than it was offered with. An empty number field means the offer."""
    entered = st.session_state.get(key)
    return entered is not None and entered != st.session_state.get(_OFFERED, {}).get(key)


def take_back(keys: Iterable[str]) -> None:
    """Fill in what was offered; only while no field is drawn, as in a callback."""
    for key in keys:
        st.session_state[key] = st.session_state[_OFFERED][key]
