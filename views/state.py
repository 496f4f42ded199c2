"""What a person has chosen, kept in the address so that a reload or a shared link shows the same."""

from collections.abc import Sequence

import streamlit as st

from data.store import StoredSet
from views.resources.sets import stored_sets


def chosen_set() -> StoredSet:
    """Return the question set in use: the one in the address, else the last one chosen, else the newest."""
    sets = stored_sets()
    wanted = st.query_params.get("data") or st.session_state.get("data")
    return next((kept for kept in sets if kept.key == wanted), sets[0])


def use_set(key: str) -> None:
    """Make a set the one in use, on every page."""
    st.session_state["data"] = key
    st.query_params["data"] = key


def remembered(name: str, default: str, allowed: Sequence[str]) -> str:
    """Return a choice from the address or the session, `default` where there is none that is allowed."""
    value = st.query_params.get(name) or st.session_state.get(f"kept_{name}")
    return str(value) if value in allowed else default


def remember(name: str, value: str) -> None:
    """Keep a choice in the address and for the other pages."""
    st.session_state[f"kept_{name}"] = value
    st.query_params[name] = value
