"""A job at work, whatever it does: how far it is, how long it takes yet, and the way to end it."""

from collections.abc import Callable

import streamlit as st

from jobs.folder import Job
from jobs.status import State, Status
from views.ui.words import duration, word


def follow(
    job: Job, at_work: Callable[[Status], str], below: Callable[[Status], None] | None = None, *, every: float = 1.0
) -> None:
    """Draw the job anew `every` so many seconds until it comes to an end. It goes on without the page, too.

    `at_work` says what it does, `below` draws more of it.
    """
    st.fragment(_draw, run_every=every)(job, at_work, below)


def _draw(job: Job, at_work: Callable[[Status], str], below: Callable[[Status], None] | None) -> None:
    if not job.running:
        st.rerun()
    status = job.status()
    bar, button = st.columns([5, 1], vertical_alignment="bottom")
    bar.progress(min(1.0, status.share), text=with_time_left(at_work(status), status))
    with button:
        _stop(job, status)
    if below:
        below(status)


def with_time_left(text: str, status: Status) -> str:
    """Return what a job does, with the time it takes yet where that is known."""
    if status.state is State.STOPPING or not status.left:
        return text
    return word("job.left", at_work=text, left=duration(status.left))


def draw_log(job: Job, lines: int) -> None:
    """Draw the end of what the job's process wrote."""
    st.code(job.log(lines) or word("job.log_empty"), language=None, height=400, wrap_lines=True)


def _stop(job: Job, status: Status) -> None:
    """Draw the button. A job that saves is asked first, and ended at once where that is not enough."""
    asked = status.state is State.STOPPING
    name, icon = ("end", "dangerous") if asked else ("stop", "stop")
    st.button(
        word(f"job.{name}"),
        on_click=job.stop if job.saves and not asked else job.end,
        icon=f":material/{icon}:",
        help=word(f"job.{name}_help") if job.saves else None,
        key=f"{name}_{job.id}",
        width="stretch",
    )
