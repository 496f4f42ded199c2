"""The head of what has ended, a training or what is made of some: its name, how it ended, and what it was."""

import streamlit as st

from jobs.status import DAMAGED, RESUMABLE, State, Status
from training.runs.runs import Plan
from views.names import base_name, kind_name, run_name, set_name
from views.ui.problems import tell_training_failure
from views.ui.words import duration, moment, plain, word

_BADGES = {
    State.DONE: ("green", ":material/check_circle:"),
    State.STOPPED: ("gray", ":material/stop_circle:"),
    State.FAILED: ("red", ":material/error:"),
    State.INTERRUPTED: ("orange", ":material/power_off:"),
}


def has_ended(status: Status) -> bool:
    """Whether it came to an end, a good one or not."""
    return status.state in _BADGES


def draw_head(plan: Plan, status: Status) -> None:
    """Draw the head."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{plain(run_name(plan))}**", width="content")
        colour, icon = _BADGES[status.state]
        st.badge(word(f"state.{status.state.value}"), icon=icon, color=colour)  # type: ignore[arg-type]
    st.caption(_about(plan, status))


def tell_failure(plan: Plan, status: Status, **details: str) -> None:
    """Tell why it did not end well, where it did not."""
    if status.state in (State.FAILED, State.INTERRUPTED):
        code = status.code if status.state is State.FAILED or status.code == DAMAGED else "interrupted"
        tell_training_failure(code, status.message, plan.options.base, **details)


def _about(plan: Plan, status: Status) -> str:
    parts = [
        kind_name(plan.kind),
        word("train.about_base", base=plain(base_name(plan.options.base, plan.kind))),
        word("train.about_data", data=plain(set_name(plan.data_name))),
        plain(moment(plan.created)),
    ]
    if status.spent:
        parts.append(word("train.about_seconds", duration=duration(status.spent)))
    if not plan.is_training:
        return " · ".join(parts)
    if status.state in RESUMABLE:
        steps = {"step": f"{status.step:,}", "total": f"{status.total_steps:,}"}
        parts.append(word("train.came_to", **steps) if status.total_steps else word("train.came_nowhere"))
    return " · ".join(parts)
