"""Compare: what each retriever finds of the same questions, side by side."""

import json
from collections.abc import Callable

import numpy as np
import streamlit as st

from data.split import Part
from data.store import StoredSet
from retrieval.experiment import Experiment, write_experiment
from retrieval.job import Job
from views import compare_overview, compare_running, compare_where, compare_why
from views.choices import Choices, choices_for
from views.compare_controls import pick_figure, pick_retrievers, pick_view
from views.resources import Address, comparison, finished_at
from views.shown import Shown
from views.state import chosen_set
from views.words import known, plain, word

VIEWS: dict[str, Callable[[Shown], None]] = {
    "overview": compare_overview.draw,
    "where": compare_where.draw,
    "why": compare_why.draw,
}


def draw() -> None:
    """Draw the page."""
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
    job = Job.of(experiment, data.fingerprint)
    shown = _finished(job, data, choices, picked)
    with buttons.container(horizontal=True, horizontal_alignment="right"):
        _draw_start(job, experiment)
        _draw_exports(shown)
    if shown is None:
        with answer:
            compare_running.draw(job, experiment, data)
        return
    with answer:
        compare_overview.draw_answer(shown)
        _draw_notices(shown, choices, part)
    VIEWS[pick_view(list(VIEWS))](shown)


def _draw_start(job: Job, experiment: Experiment) -> None:
    running = not job.done and job.progress() is not None
    label = word("compare.run_again") if job.done else word("compare.run")
    if st.button(label, type="primary", icon=":material/play_arrow:", disabled=running, key="run"):
        job.start(experiment)
        st.rerun()


def _finished(job: Job, data: StoredSet, choices: Choices, picked: list[str]) -> Shown | None:
    if not job.done:
        return None
    at = Address(data.key, str(job.folder), finished_at(job.folder))
    found = comparison(at)
    if found is None:
        return None
    results = tuple(result for result in found.results if result.name in picked)
    measure, k = pick_figure()
    return Shown(data, at, found, results, tuple(choices.specs), measure, k)


def _draw_exports(shown: Shown | None) -> None:
    with st.popover(word("compare.export"), icon=":material/download:", disabled=shown is None):
        if shown is None:
            return
        table = compare_overview.means(shown.found.results)
        st.download_button(word("compare.csv"), table.to_csv(index=False).encode("utf-8-sig"), "scores.csv", "text/csv")
        scores = json.dumps(shown.found.as_dict(), ensure_ascii=False, indent=2)
        st.download_button(word("compare.json"), scores, "scores.json", "application/json")
        file = write_experiment(shown.found.experiment)
        st.download_button(word("compare.experiment"), file, "experiment.toml", "application/toml")
        st.caption(word("compare.experiment_help"))


def _draw_notices(shown: Shown, choices: Choices, part: Part) -> None:
    for result in shown.results:
        if result.error is not None:
            code = f"model.{getattr(result.error, 'code', '')}"
            reason = word(code, model=getattr(result.error, "model", "")) if known(code) else str(result.error)
            st.error(word("compare.failed", name=plain(result.name), reason=reason), icon=":material/error:")
        elif shown.figure not in (result.scores.per_question if result.scores else {}):
            st.info(word("compare.not_deep_enough", name=plain(result.name), figure=shown.figure_label))
        elif result.unanswered:
            told = word("compare.unanswered", name=plain(result.name), questions=f"{result.unanswered:,}")
            st.caption(told)
    if part is not Part.TEST and any(result.name in choices.trained for result in shown.results):
        st.warning(word("compare.trained_on_these"), icon=":material/warning:")
    tuned = [plain(one.name) for one in shown.results if _is_tuned_on(shown.spec(one.name).chosen_on, part)]
    if tuned:
        st.warning(word("compare.tuned_on_these", names=", ".join(tuned)), icon=":material/warning:")
    several = (np.diff(shown.found.asked.relevance.indptr) > 1).any()
    st.caption(word("compare.recall_is_not_hit") if several else word("compare.recall_is_hit"))


def _is_tuned_on(chosen_on: Part | None, part: Part) -> bool:
    return chosen_on is not None and (chosen_on is part or Part.ALL in (chosen_on, part))
