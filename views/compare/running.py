"""A comparison that is still going on: what it does, how far it is, what is there already, and a way to stop it.

And what stands in its place: the last one that ended, so that an opened page shows figures and not a bar.
"""

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from threading import Thread

import streamlit as st

from data.store import StoredSet
from jobs.folder import Status
from retrieval.comparison.compare import Result
from retrieval.comparison.experiment import Experiment, needed
from retrieval.comparison.store import ComparisonJob, StoredComparison, kept_comparisons
from retrieval.evaluation.measures import CUT, Measure
from text.analyzers import Analyzer
from views.choices import method_line
from views.compare.scores import draw_table
from views.names import set_name
from views.resources.retrieval import finished_part
from views.ui import job as job_view
from views.ui.job import draw_last_lines
from views.ui.words import moment, plain, word

_POLL_SECONDS, _FIRST_POLL_SECONDS = 0.5, 0.3  # the first figures are waited for most
_NOW = "run"  # in the address of a link whose press means: compare these
_DRAWN_WITH = "views.compare.overview"
_ENDED = "ended_while_drawn"


def draw(job: ComparisonJob, experiment: Experiment, data: StoredSet, analyzer: Analyzer) -> None:
    """Start the comparison nobody has run yet, or that cannot be opened any more, once; and show how far it is."""
    started = f"started_{data.key}_{job.id}"
    if started not in st.session_state and not job.running:
        st.session_state[started] = True
        job.start(experiment)
        Thread(target=import_module, args=(_DRAWN_WITH,), daemon=True).start()  # while the figures are waited for
        st.rerun()  # the button above is drawn already, and must not offer to start it again
    follow(job, experiment, data, analyzer)


def follow(job: ComparisonJob, experiment: Experiment, data: StoredSet, analyzer: Analyzer = Analyzer.AUTO) -> None:
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
        below = partial(_draw_methods, job, experiment, analyzer, done)
        job_view.follow(job, _at_work, below, every=_POLL_SECONDS if done else _FIRST_POLL_SECONDS)
        _draw_figures(experiment, data, done)
        return
    st.warning(word("compare.lab_not_run") if experiment.lab else word("compare.not_run"), icon=":material/info:")
    if not job.done:
        draw_last_lines(job, word("compare.log"))


def is_asked_for() -> bool:
    """Whether the address asks for the comparison at once, as a link elsewhere may; it asks once."""
    return st.query_params.pop(_NOW, None) is not None


def last_finished(data: StoredSet, picked: Sequence[str], experiment: Experiment) -> StoredComparison | None:
    """Return the comparison of the set to show while nobody has run the one that is picked.

    Of those with any of the retrievers picked, one of the same questions goes before one of others, then the newest.
    """
    kept = [one for one in kept_comparisons() if one.data_fingerprint == data.fingerprint and not one.lab]
    with_any = [one for one in kept if set(one.retrievers) & set(picked)]
    return next((one for one in with_any if _is_asked(one, experiment)), with_any[0] if with_any else None)


def is_of(kept: StoredComparison, picked: Sequence[str], experiment: Experiment) -> bool:
    return _is_asked(kept, experiment) and set(picked) <= set(kept.retrievers)


def _is_asked(kept: StoredComparison, experiment: Experiment) -> bool:
    return (kept.part, kept.relevant_from) == (experiment.split, experiment.relevant_from)


def offer(job: ComparisonJob, experiment: Experiment, shown: StoredComparison, picked: Sequence[str]) -> None:
    new = [name for name in picked if name not in shown.retrievers]
    with st.container(horizontal=True, vertical_alignment="center", key="offer"):
        st.caption(
            word("compare.last_shown", made=moment(shown.made), part=word(f"part.{shown.part}")), width="stretch"
        )
        label = word("compare.with_new", names=", ".join(map(plain, new))) if new else word("compare.run_picked")
        if st.button(label, type="primary", icon=":material/play_arrow:", key="run"):
            job.start(experiment)
            st.rerun()


def _at_work(status: Status) -> str:
    return word("compare.at_work", name=plain(status.phase)) if status.phase else word("compare.starting")


def _draw_methods(
    job: ComparisonJob, experiment: Experiment, analyzer: Analyzer, drawn: set[str], status: Status
) -> None:
    """Draw each retriever with what it does and how it stands.

    Figures of those that are done stand below, drawn once: drawing them at every look takes a core from the search.
    """
    done, lines = _finished(job), []
    for name, spec in experiment.specs.items():
        icon = "check_circle" if name in done else "pending" if name == status.phase else "schedule"
        lines.append(f":material/{icon}: {plain(method_line(spec, experiment.specs, analyzer))}")
    st.caption("  \n".join(lines))
    if done != drawn:
        st.rerun()


def _draw_figures(experiment: Experiment, data: StoredSet, done: set[str]) -> None:
    """Draw a row for each retriever from the beginning: a browser reads what draws a table before it is filled."""
    rows = {name: Result(name) for name in experiment.specs}
    if names := [name for name in experiment.specs if name in done]:
        first = experiment.model_copy(update={"retriever": tuple(needed(experiment.specs, names))})
        found = finished_part(data.key, first.model_dump_json())
        rows |= {result.name: result for result in found.results} if found else {}
    draw_table([*rows.values()], Measure("recall", CUT), experiment.ks)


def _finished(job: ComparisonJob) -> set[str]:
    return {str(entry["finished"]) for entry in job.progress() if "finished" in entry}
