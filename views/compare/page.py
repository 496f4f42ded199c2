"""Compare: what each retriever finds of the same questions, side by side."""

from collections.abc import Sequence
from importlib import import_module

import streamlit as st

from data.store import StoredSet
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.job import ComparisonJob
from retrieval.comparison.store import StoredComparison
from views.choices import choices_for
from views.compare import answer as compare_answer
from views.compare import export as compare_export
from views.compare import kept as compare_kept
from views.compare import notices as compare_notices
from views.compare import running as compare_running
from views.compare.comparison_view import ComparisonView
from views.compare.controls import pick_among, pick_figure, pick_retrievers, pick_view
from views.resources.comparisons import Address, comparison, finished_at
from views.state import chosen_set
from views.words import moment, plain, word

VIEWS = {
    "overview": "views.compare.overview",
    "where": "views.compare.where.view",
    "why": "views.compare.why.view",
    "tune": "views.compare.tune.view",
    "kept": "views.compare.kept",
}


def draw() -> None:
    """Draw the page: the comparison of what is picked, or a kept one that the address names."""
    if kept := compare_kept.asked_for():
        _draw_kept(kept)
        return
    data = chosen_set()
    choices = choices_for(data)
    title, buttons = st.columns([3, 2], vertical_alignment="bottom")
    title.title(word("compare.title"))
    answer = st.container()
    picked, part = pick_retrievers(choices, data)
    if not picked:
        st.info(word("compare.pick_one"), icon=":material/info:")
        return
    experiment = choices.experiment(data, picked, part)
    job = ComparisonJob.of(experiment, data.fingerprint)
    at = Address(data.key, str(job.folder), finished_at(job.folder)) if job.done else None
    shown = _shown(at, data, picked, list(choices.specs)) if at else None
    with buttons.container(horizontal=True, horizontal_alignment="right"):
        _draw_start(job, experiment, again=shown is not None)
        compare_export.draw(shown)
    with answer:
        if shown is None:
            compare_running.draw(job, experiment, data)
            return
        compare_answer.draw(shown)
        compare_notices.draw(shown, choices)
    _draw_view(pick_view(list(VIEWS)), shown)


def _draw_kept(kept: StoredComparison) -> None:
    data = chosen_set()
    title, buttons = st.columns([3, 2], vertical_alignment="bottom")
    title.title(plain(compare_kept.title_of(kept)))
    st.info(word("kept.shown", made=moment(kept.made), part=word(f"part.{kept.part}")), icon=":material/history:")
    answer = st.container()
    picked = pick_among(kept.retrievers, kept.key)
    at = Address(data.key, str(kept.folder), finished_at(kept.folder))
    shown = _shown(at, data, picked, kept.retrievers)
    with buttons.container(horizontal=True, horizontal_alignment="right"):
        st.button(word("kept.back"), icon=":material/arrow_back:", on_click=compare_kept.close)
        compare_export.draw(shown)
    with answer:
        if shown is None:
            st.error(word("kept.cannot_open"), icon=":material/error:")
            return
        if not picked:
            st.info(word("compare.pick_one"), icon=":material/info:")
            return
        compare_answer.draw(shown)
        compare_notices.draw(shown, choices_for(data))
    _draw_view(pick_view(list(VIEWS)), shown)


def _draw_view(name: str, view: ComparisonView) -> None:
    """Draw one of `VIEWS`, read when it is first drawn: who opens the app does not wait for Altair."""
    import_module(VIEWS[name]).draw(view)


def _draw_start(job: ComparisonJob, experiment: Experiment, *, again: bool) -> None:
    label = word("compare.run_again") if again else word("compare.run")
    if st.button(label, type="primary", icon=":material/play_arrow:", disabled=job.running, key="run"):
        job.start(experiment)
        st.rerun()


def _shown(at: Address, data: StoredSet, picked: list[str], names: Sequence[str]) -> ComparisonView | None:
    found = comparison(at)
    if found is None:
        return None
    results = tuple(result for result in found.results if result.name in picked)
    measure, k = pick_figure(found.experiment.ks)
    return ComparisonView(data, at, found, results, tuple(names), measure, k)
