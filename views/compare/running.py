"""The comparison that is picked: started, followed while it runs, and what to show while it was never run."""

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from threading import Thread
from typing import Any

import pandas as pd
import streamlit as st

from data.store import StoredSet
from jobs.folder import Status
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.store import ComparisonJob, StoredComparison, kept_comparisons
from retrieval.evaluation.measures import CUT, Measure
from views.choices import Choices, method_line
from views.compare.scores import draw_table
from views.names import set_name
from views.ui import job as job_view
from views.ui.words import plain, word

_ENDED = "ended_while_drawn"  # of the session
_POLL_SECONDS, _FIRST_POLL_SECONDS = 0.5, 0.3  # the first figures are waited for most


def last_finished(data: StoredSet, picked: Sequence[str], experiment: Experiment) -> StoredComparison | None:
    """Return the comparison of the set to show while nobody has run the one that is picked.

    Of those with any of the retrievers picked, one of the same questions goes before one of others, then the newest.
    """
    kept = [one for one in kept_comparisons() if one.data_fingerprint == data.fingerprint and not one.lab]
    with_any = [one for one in kept if set(one.retrievers) & set(picked)]
    return next((one for one in with_any if _is_asked(one, experiment)), with_any[0] if with_any else None)


def holds(kept: StoredComparison, experiment: Experiment) -> bool:
    """Whether a comparison that is not the experiment's own holds it: it asked the same, of more retrievers.

    One of the same retrievers would be its own, had a setting or the program not changed since.
    """
    return _is_asked(kept, experiment) and set(experiment.specs) < set(kept.retrievers)


def _is_asked(kept: StoredComparison, experiment: Experiment) -> bool:
    return (kept.part, kept.relevant_from) == (experiment.split, experiment.relevant_from)


def begin(job: ComparisonJob, experiment: Experiment, data: StoredSet, choices: Choices) -> None:
    """Start the comparison nobody has run yet, or that cannot be opened any more, once; and show how far it is."""
    started = f"started_{data.key}_{job.id}"
    if started not in st.session_state and not job.running:
        st.session_state[started] = True
        job.start(experiment)
        # what draws the figures, while they are waited for
        Thread(target=import_module, args=("views.compare.overview",), daemon=True).start()
        st.rerun()  # the button above is drawn already, and must not offer to start it again
    follow(job, experiment, data, {spec.name: method_line(spec, choices) for spec in experiment.retriever})


def follow(job: ComparisonJob, experiment: Experiment, data: StoredSet, methods: dict[str, str] | None = None) -> None:
    """Show how far a comparison or a lab is, until it ends; or say that it does not run, and what it wrote last."""
    if job.done and st.session_state.get(_ENDED) != (ended := (job.id, job.status().started)):
        st.session_state[_ENDED] = ended  # while the page was drawn: it is opened now, unless it cannot be
        st.rerun()
    if job.running and experiment.lab:
        job_view.follow(job, _at_work, every=_POLL_SECONDS)
        return
    if job.running:
        counts = {"passages": f"{data.passages:,}", "questions": f"{data.questions:,}"}
        name, count = plain(set_name(data.name)), len(experiment.retriever)
        st.markdown(word("compare.comparing", name=name, count=count, **counts))
        done = _finished(job)
        below = partial(_draw_methods, job, methods or {}, set(done))
        job_view.follow(job, _at_work, below, every=_POLL_SECONDS if done else _FIRST_POLL_SECONDS)
        _draw_figures(experiment, done)
        return
    st.warning(word("compare.lab_not_run") if experiment.lab else word("compare.not_run"), icon=":material/info:")
    if not job.done:
        job_view.draw_last_lines(job, word("compare.log"))


def _at_work(status: Status) -> str:
    return word("compare.at_work", name=plain(status.phase)) if status.phase else word("compare.starting")


def _draw_methods(job: ComparisonJob, methods: dict[str, str], drawn: set[str], status: Status) -> None:
    """Draw each retriever with what it does and how it stands.

    Figures of those that are done stand below, drawn once: drawing them at every look takes a core from the search.
    """
    done, lines = _finished(job), []
    for name, line in methods.items():
        icon = "check_circle" if name in done else "pending" if name == status.phase else "schedule"
        lines.append(f":material/{icon}: {plain(line)}")
    st.caption("  \n".join(lines))
    if set(done) != drawn:
        st.rerun()


def _draw_figures(experiment: Experiment, done: dict[str, dict[str, Any]]) -> None:
    """Draw a row for each retriever from the beginning: a browser reads what draws a table before it is filled."""
    rows = [{"retriever": name, **done.get(name, {}).get("figures", {})} for name in experiment.specs]
    questions = max((note.get("questions", 0) for note in done.values()), default=0)
    draw_table(pd.DataFrame(rows), questions or 1, Measure("recall", CUT), experiment.ks)


def _finished(job: ComparisonJob) -> dict[str, dict[str, Any]]:
    """Return what was noted of the retrievers that are done, by name; by a process of an earlier version no figures."""
    return {str(note["finished"]): note for note in job.progress() if "finished" in note}
