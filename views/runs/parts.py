"""The trainings that a search for settings or an ablation is made of, folded under it."""

from collections.abc import Callable, Sequence

import streamlit as st

from training.runs.parts import Whole
from training.runs.runs import Run
from views.runs.dialogs import open_dialog
from views.ui.job import draw_log
from views.ui.words import plain, word

_LOG_LINES = 50


def draw_parts(whole: Whole, parts: Sequence[Run], heading: str, name: Callable[[Run], str]) -> None:
    """Draw the parts, each of which is a training that can be looked at, and the log; `name` is no Markdown."""
    if not parts and not whole.log():
        return
    with st.expander(heading, icon=":material/science:"):
        for run in parts:
            status = run.status()
            with st.container(horizontal=True, vertical_alignment="center"):
                steps = word("train.came_to", step=f"{status.step:,}", total=f"{status.total_steps:,}")
                st.markdown(f"**{plain(name(run))}** · {steps}", width="stretch")
                # an ablation may show a training that stands elsewhere, too
                if st.button(word("train.details"), key=f"part_{whole.id}_{run.id}", icon=":material/info:"):
                    open_dialog("details", run)
                    st.rerun()
        if whole.log():
            draw_log(whole, _LOG_LINES)
