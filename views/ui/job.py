"""A job, whatever it does: how far it is, how long it takes yet, the way to begin and to end it, and why it ended."""

from collections.abc import Callable

import streamlit as st

from jobs.folder import Job, State, Status
from views.ui.problems import errors_told
from views.ui.words import duration, plain, word

_POLL_SECONDS = 0.5
_LAST_LINES = 40


def draw_job(
    job: Job,
    start: Callable[[], object],
    at_work: Callable[[Status], str],
    words: str,
    label: str,
    *,
    about: str = "",
    reason: Callable[[Status], str] = lambda status: status.message,
    by_itself: bool = False,
) -> None:
    """Draw how far a job is; one that does not run, why it ended without a result, and the button that starts it.

    `words` is the section of the texts that tell its end ("failed", "interrupted", "stopped"), `about` is told above
    the button, whose label is given. `by_itself` starts a job that nobody has started yet, once a session.
    """
    if job.running:
        follow(job, at_work, every=_POLL_SECONDS)
        return
    begun = f"started_{job.id}"
    if by_itself and begun not in st.session_state:
        st.session_state[begun] = True
        begin(start)
    _tell_end(job, words, reason)
    if about:
        st.markdown(about)
    if st.button(label, type="primary", icon=":material/play_arrow:", key=f"start_{job.id}"):
        begin(start)


def begin(start: Callable[[], object]) -> None:
    """Start a job and draw the page anew, or say what keeps it from being started."""
    with errors_told():
        start()
        st.rerun()


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
    st.code(job.log(lines) or word("job.log_empty"), language=None, height=400, wrap_lines=True)


def draw_last_lines(job: Job, heading: str) -> None:
    """Draw what the job's process wrote last, folded away, where it wrote anything."""
    if log := job.log(lines=_LAST_LINES):
        with st.expander(heading):
            st.code(log, language=None)


def _tell_end(job: Job, words: str, reason: Callable[[Status], str]) -> None:
    status = job.status()
    if job.failed:
        failed = status.state is State.FAILED
        told = word(f"{words}.failed", reason=plain(reason(status))) if failed else word(f"{words}.interrupted")
        st.error(told, icon=":material/error:")
        draw_last_lines(job, word("job.log"))
    elif status.state is State.STOPPED:
        st.info(word(f"{words}.stopped"), icon=":material/info:")


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
