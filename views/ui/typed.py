"""Texts that a person types, which lie in the address where it can hold them."""

from collections.abc import Callable
from typing import Any

import streamlit as st

_LONGEST_ADDRESS = 1500  # characters of a text that an address takes along


def typed(draw: Callable[..., str], name: str, label: str, usual: str, **look: Any) -> str:
    """Draw a field, as `st.text_input` does, with the text of the address, `usual` where there is none; returns it."""
    key = f"typed_{name}"
    if key not in st.session_state:
        st.session_state[key] = st.query_params.get(name) or usual
    text = draw(label, key=key, **look)
    if text.strip() == usual or len(text) > _LONGEST_ADDRESS:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = text
    return text


def lines_of(text: str, most: int, letters: int) -> list[str]:
    """Return the different lines that hold something, `most` of them, each cut after so many letters."""
    lines = dict.fromkeys(line.strip()[:letters] for line in text.splitlines() if line.strip())
    return [*lines][:most]
