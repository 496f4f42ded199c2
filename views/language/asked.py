"""Work of seconds or minutes that a person asks for by a click, watches, and may stop."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import streamlit as st

from data.problems import Failure
from views.ui.words import word

_ASKED = "asked_inside"  # of the session


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
                st.button(stop, icon=icon, key=f"stop_{name}", on_click=_forget, args=(name, what))
        bars[0].progress(min(1.0, share))

    try:
        yield tell
    except Failure:
        place.empty()
        raise
    place.empty()


def _forget(name: str, what: Hashable) -> None:
    st.session_state[_ASKED].discard((name, what))
