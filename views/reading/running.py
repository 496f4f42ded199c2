"""An evaluation at work in a process of its own: how far it is, a way to stop it, and what went wrong."""

import streamlit as st

from jobs.status import State, Status
from reading.experiment import ReadingExperiment
from reading.job import ReadingJob
from views.ui import job as job_view
from views.ui.problems import errors_told
from views.ui.words import plain, word

_POLL_SECONDS = 0.5


def draw(job: ReadingJob, experiment: ReadingExperiment, pairs: str) -> None:
    """Draw how far a job is, or the button that starts it; `pairs` says how much is to be read at most."""
    if job.running:
        job_view.follow(job, lambda status: _at_work(status, experiment), every=_POLL_SECONDS)
        return
    _tell_end(job)
    st.markdown(pairs)
    if st.button(word("answers.evaluate"), type="primary", icon=":material/play_arrow:", key=f"evaluate_{job.id}"):
        start(job, experiment)


def start(job: ReadingJob, experiment: ReadingExperiment) -> None:
    """Start the job and draw the page anew, or say what keeps it from being started."""
    with errors_told():
        job.start(experiment)
        st.rerun()


def _at_work(status: Status, experiment: ReadingExperiment) -> str:
    if not status.phase:
        return word("answers.starting")
    reads = status.phase in {one.name for one in experiment.reader}
    return word("answers.reading" if reads else "answers.searching", name=plain(status.phase))


def _tell_end(job: ReadingJob) -> None:
    status = job.status()
    if job.failed:
        if status.state is State.FAILED:
            st.error(word("answers.failed", reason=plain(status.message)), icon=":material/error:")
        else:
            st.error(word("answers.interrupted"), icon=":material/error:")
        if log := job.log(lines=40):
            with st.expander(word("compare.log")):
                st.code(log, language=None)
    elif status.state is State.STOPPED:
        st.info(word("answers.stopped"), icon=":material/info:")
