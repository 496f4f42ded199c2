"""What every ended training is shown by: its head, the dialog about it, and the trainings it is made of, folded under
it."""

from collections.abc import Callable, Sequence

import streamlit as st

from jobs.folder import DAMAGED, RESUMABLE, State, Status
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
    return status.state in _BADGES


def draw_head(plan: Plan, status: Status) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{plain(run_name(plan))}**", width="content")
        colour, icon = _BADGES[status.state]
        st.badge(word(f"state.{status.state.value}"), icon=icon, color=colour)  # type: ignore[arg-type]
    said = [*made_of(plan), plain(moment(plan.created))]
    if status.spent:
        said.append(word("train.about_seconds", duration=duration(status.spent)))
    if plan.is_training and status.state in RESUMABLE:
        steps = {"step": f"{status.step:,}", "total": f"{status.total_steps:,}"}
        said.append(word("train.came_to", **steps) if status.total_steps else word("train.came_nowhere"))
    st.caption(" · ".join(said))


def made_of(plan: Plan) -> list[str]:
    """Return, as Markdown, its kind, its base and its data."""
    return [
        kind_name(plan.kind),
        word("train.about_base", base=plain(base_name(plan.options.base, plan.kind))),
        word("train.about_data", data=plain(set_name(plan.data_name))),
    ]


def tell_failure(plan: Plan, status: Status, **details: str) -> None:
    if status.state in (State.FAILED, State.INTERRUPTED):
        code = status.code if status.state is State.FAILED or status.code == DAMAGED else "interrupted"
        tell_training_failure(code, status.message, plan.options.base, **details)


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
