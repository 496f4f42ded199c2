"""A comparison that is still going on: how far it is, what is there already, and a way to stop it."""

from functools import partial

import streamlit as st

from data.store import StoredSet
from jobs.status import Status
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.job import ComparisonJob
from retrieval.evaluation.measures import CUT, Measure
from views import job as job_view
from views.compare.scores import draw_table
from views.resources.comparisons import finished_part
from views.words import plain, word

_POLL_SECONDS = 0.5


def draw(job: ComparisonJob, experiment: Experiment, data: StoredSet) -> None:
    """Start the comparison nobody has run yet, or that cannot be opened any more, once; and show how far it is."""
    started = f"started_{data.key}_{job.id}"
    if started not in st.session_state and not job.running:
        st.session_state[started] = True
        job.start(experiment)
        st.rerun()  # the button above is drawn already, and must not offer to start it again
    follow(job, experiment, data)


def follow(job: ComparisonJob, experiment: Experiment, data: StoredSet) -> None:
    """Show how far a comparison or a lab is, until it ends; or say that it does not run, and what it wrote last."""
    if job.running:
        job_view.follow(job, _at_work, partial(_draw_finished, experiment, data), every=_POLL_SECONDS)
        return
    st.warning(word("compare.lab_not_run") if experiment.lab else word("compare.not_run"), icon=":material/info:")
    if not job.done and (log := job.log(lines=40)):
        with st.expander(word("compare.log")):
            st.code(log, language=None)


def _at_work(status: Status) -> str:
    return word("compare.at_work", name=plain(status.phase)) if status.phase else word("compare.starting")


def _draw_finished(experiment: Experiment, data: StoredSet, status: Status) -> None:
    """Draw what is ready: it need not wait for the rest."""
    finished = int(status.share * len(experiment.retriever) + 1e-6)
    if finished and not experiment.lab:
        first = experiment.model_copy(update={"retriever": experiment.retriever[:finished]})
        found = finished_part(data.key, first.model_dump_json())
        if found:
            draw_table(found.results, Measure("recall", CUT), experiment.ks)
