"""What a person has chosen, kept in the address so that a reload or a shared link shows the same.

Streamlit's own binding of widgets to the address would write the words of a choice there, which are of one language.
"""

from collections.abc import Callable, Sequence
from typing import Any

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


def choose(
    draw: Callable[..., Any],
    name: str,
    label: str,
    options: Sequence[str],
    usual: str,
    *,
    key: str = "",
    follows: bool = False,
    **look: Any,
) -> str:
    """Draw a choice of one that lies in the address, as `st.selectbox` and the like do; returns it.

    Where what is usual `follows` other choices, it stays out of the address until something else is chosen.
    """
    key = key or f"choice_{name}"
    if key in st.session_state and st.session_state[key] is None:  # taken away: what is usual is chosen again
        st.session_state.pop(f"kept_{name}", None)
    value = remembered(name, usual, options)
    draw(label, options, **in_address(name, value, key=key), **look)
    if not follows or value != usual or name in st.query_params:
        remember(name, value)
    return value


def choose_several(
    draw: Callable[..., Any],
    name: str,
    label: str,
    options: Sequence[str],
    usual: Sequence[str],
    *,
    key: str,
    **look: Any,
) -> list[str]:
    """Draw a choice of several that lies in the address, names between bars; returns them in the order of `options`."""
    given = st.query_params.get(name)
    none = given == "" and key in st.session_state  # taken away just now: else what is usual is shown
    named = (given or "").split("|")
    value = [] if none else [one for one in options if one in named] or [one for one in options if one in usual]
    draw(label, options, selection_mode="multi", **in_address(name, value, key=key), **look)
    if given is not None:
        st.query_params[name] = "|".join(value)
    return value


def in_address(name: str, value: Any, *also: str, key: str) -> dict[str, Any]:
    """Return what ties a widget to a parameter of the address: it shows `value`, and what is entered goes there.

    A change takes the parameters `also` out of the address.
    """
    st.session_state[key] = value  # every time: else a box would keep the words of another language
    return {"key": key, "on_change": _enter, "args": (name, key, *also)}


def _enter(name: str, key: str, *also: str) -> None:
    entered = st.session_state[key]
    if isinstance(entered, list):
        st.query_params[name] = "|".join(entered)
    elif entered and entered.strip():
        st.query_params[name] = entered.strip()
    else:
        st.query_params.pop(name, None)
    for other in also:
        st.query_params.pop(other, None)


def remembered(name: str, default: str, allowed: Sequence[str]) -> str:
    """Return a choice from the address or the session, `default` where there is none that is allowed."""
    value = st.query_params.get(name) or st.session_state.get(f"kept_{name}")
    return str(value) if value in allowed else default


def remember(name: str, value: str) -> None:
    """Keep a choice in the address and for the other pages."""
    st.session_state[f"kept_{name}"] = value
    st.query_params[name] = value
