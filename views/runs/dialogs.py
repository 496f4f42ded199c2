"""The dialogs about a training. One is open at a time, and it stays open while the page behind it is drawn anew."""

from collections.abc import Callable

import streamlit as st

from training.runs.jobs import find_job
from training.runs.runs import Run
from views.names import run_name
from views.ui.words import plain, word

_OPEN = "run_dialog"  # in the session: its name and the run's id


def open_dialog(name: str, run: Run) -> None:
    """Have the dialog drawn from the next time on that the page is."""
    st.session_state[_OPEN] = (name, run.id)


def close_dialog() -> None:
    """Have it drawn no more."""
    st.session_state.pop(_OPEN, None)


def draw_dialog(contents: dict[str, Callable[[Run], None]]) -> None:
    """Draw the dialog that is open, if any; `contents` draws what is in it, by its name."""
    name, run_id = st.session_state.get(_OPEN, ("", ""))
    run = find_job(run_id)
    if run is None:  # none was opened, or somebody else has deleted the run
        close_dialog()
        return
    title = f"{word(f'train.{name}')}: {plain(run_name(run.plan())[:80])}"
    st.dialog(title, width="large" if name == "details" else "small", on_dismiss=close_dialog)(contents[name])(run)
