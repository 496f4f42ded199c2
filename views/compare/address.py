"""Choices of the Why view that lie in the address, which alone remembers them, and the way there with some of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from views.ui.state import keep


def choose(
    name: str,
    options: Sequence[str],
    chosen: str,
    label: str,
    labels: Sequence[str],
    *,
    also: Sequence[str] = (),
    disabled: bool = False,
) -> None:
    """Draw a choice that lies in the address; a change takes the parameters `also` out of it."""
    words = dict(zip(options, labels, strict=True))
    place = tie(name, chosen, *also)
    st.selectbox(label, options, format_func=lambda option: words.get(option, option), disabled=disabled, **place)


def tie(name: str, value: str, *also: str) -> dict[str, Any]:
    """Return what ties a widget to a parameter of the address: it shows `value`, and what is entered goes there.

    A change takes the parameters `also` out of the address.
    """
    key = f"why_{name}"
    st.session_state[key] = value
    return {"key": key, "on_change": _enter, "args": (name, key, *also)}


def _enter(name: str, key: str, *also: str) -> None:
    change({**dict.fromkeys(also, ""), name: str(st.session_state.get(key) or "").strip()})


def change(parameters: Mapping[str, str]) -> None:
    """Set parameters of the address, or take away those that are empty, in one step of the browser's history."""
    kept = {name: value for name, value in st.query_params.to_dict().items() if name not in parameters}
    st.query_params.from_dict(kept | {name: value for name, value in parameters.items() if value})


def set_parameter(name: str, value: str) -> None:
    """Set a parameter of the address, or take it away where it is set already."""
    change({name: "" if st.query_params.get(name) == value else value})


FILTERS = ("quadrant", "block", "of", "fate", "slice", "within", "words")  # their names in the address


def clear_filters() -> None:
    """Take every filter out of the address."""
    change(dict.fromkeys(FILTERS, ""))


def show_why(filters: Mapping[str, str]) -> None:
    """Have the page show the Why view with these filters and no others."""
    keep("view", "why")
    change({**dict.fromkeys((*FILTERS, "question"), ""), **filters, "view": "why"})
