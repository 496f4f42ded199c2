"""A comparison that is still going on: how far it is, what is there already, and a way to stop it."""

import streamlit as st

from data.store import StoredSet
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.job import Job
from views.compare.scores import draw_table
from views.resources.comparisons import finished_part
from views.state import chosen_set
from views.words import duration, plain, word

_POLL_SECONDS = 0.5


def draw(job: Job, experiment: Experiment, data: StoredSet) -> None:
    """Start the comparison nobody has run yet, or that cannot be opened any more, once; and show how far it is."""
    started = f"started_{data.key}_{job.folder.name}"
    if started not in st.session_state and (job.done or job.progress() is None):
        st.session_state[started] = True
        job.start(experiment)
        st.rerun()  # the button above is drawn already, and must not offer to start it again
    follow(job, experiment)


def follow(job: Job, experiment: Experiment) -> None:
    """Show how far a comparison or a lab is, until it ends; or say that it does not run, and what it wrote last."""
    if not job.done and job.progress() is not None:
        _poll(experiment.model_dump_json())
        return
    st.warning(word("compare.lab_not_run") if experiment.lab else word("compare.not_run"), icon=":material/info:")
    if not job.done and (log := job.log()):
        with st.expander(word("compare.log")):
            st.code(log, language=None)


@st.fragment(run_every=_POLL_SECONDS)
def _poll(asked: str) -> None:
    experiment = Experiment.model_validate_json(asked)
    job = Job.of(experiment, chosen_set().fingerprint)
    progress = job.progress()
    if job.done or progress is None:
        st.rerun()
    at_work = word("compare.at_work", name=plain(progress.name)) if progress.name else word("compare.starting")
    left = progress.seconds * (1 - progress.share) / progress.share if progress.share > 0.1 else None
    text = word("compare.at_work_left", at_work=at_work, left=duration(left)) if left else at_work
    bar, stop = st.columns([5, 1], vertical_alignment="bottom")
    bar.progress(min(1.0, progress.share), text=text)
    if stop.button(word("compare.stop"), icon=":material/stop:", width="stretch", key=f"stop_{job.folder.name}"):
        job.stop()
        st.rerun(scope="fragment")
    finished = int(progress.share * len(experiment.retriever) + 1e-6)
    if finished and not experiment.lab:  # what is ready need not wait for the rest
        first = experiment.model_copy(update={"retriever": experiment.retriever[:finished]})
        found = finished_part(chosen_set().key, first.model_dump_json())
        if found:
            draw_table(found.results, "recall", experiment.ks)
