"""What every ended training is shown by: its head, the dialog about it, and the trainings it is made of, folded under
it."""

from collections.abc import Callable, Sequence

import streamlit as st

from jobs.status import DAMAGED, RESUMABLE, State, Status
from training.runs.runs import Plan, Run
from training.runs.sweeps import CompositeRun, find_job
from views.names import base_name, kind_name, run_name, set_name
from views.ui.job import draw_log
from views.ui.problems import tell_training_failure
from views.ui.words import duration, moment, plain, word

_OPEN = "run_dialog"  # in the session: its name and the run's id
_BADGES = {
    State.DONE: ("green", ":material/check_circle:"),
    State.STOPPED: ("gray", ":material/stop_circle:"),
    State.FAILED: ("red", ":material/error:"),
    State.INTERRUPTED: ("orange", ":material/power_off:"),
}
_LOG_LINES = 50


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


def draw_parts(whole: CompositeRun, parts: Sequence[Run], heading: str, name: Callable[[Run], str]) -> None:
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
