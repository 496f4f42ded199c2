"""Embeddings: how well sentence encoders follow people's judgement, and how their vectors lie in space."""

from importlib import import_module

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from data.pairs.store import StoredPairs
from embeddings.job import EmbeddingJob, EvaluationRequest
from models.hub import ModelError
from views.embeddings import evaluation_view, to_compare
from views.embeddings import figures as evaluation_answer
from views.embeddings.controls import Models, models_at_hand, pick_measure, pick_models, pick_part, pick_set, problem_of
from views.embeddings.evaluation_view import EvaluationView
from views.resources.pairs import open_evaluation, stored_pairs
from views.ui.problems import failure_text
from views.ui.state import choose_view
from views.ui.words import plain, word

TABS = {
    "measures": ("measures",),
    "sentences": ("sentences",),
    "wrong": ("wrong",),
    "vectors": ("map", "density", "space"),
    "further": ("retrieval", "cost"),
}
_FILES = {"retrieval": "in_retrieval"}  # of views that are called otherwise than their file


def draw() -> None:
    """Draw the page: the models picked, measured on a part of the set picked."""
    st.title(word("embeddings.purpose"), anchor=False)
    about, buttons = st.columns([3, 2], vertical_alignment="center")
    about.caption(word("embeddings.about"))
    place = buttons.container(horizontal=True, horizontal_alignment="right")
    sets, models = stored_pairs(), models_at_hand()
    if not sets:
        st.info(word("embeddings.no_pairs"), icon=":material/info:")
        return
    answer = st.container()
    picked = pick_models(models)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        data = pick_set(sets)
        part = pick_part(data)
        measure = pick_measure(data)
    if not picked:
        answer.info(word("embeddings.pick_one"), icon=":material/info:")
        return
    able = _able(picked, models, answer)
    if not able or part is None:
        return
    request = EvaluationRequest(data=data.key, models=tuple(able), part=part)
    job = EmbeddingJob.of(request, data.fingerprint)
    if view := _view(job, data, models, measure):
        with place:
            to_compare.draw(able, models)
            _draw_again(job, request)
        _draw_evaluation(view, answer)
        return
    with answer:
        evaluation_view.draw(job, request, models.names)


def _able(picked: list[str], models: Models, answer: DeltaGenerator) -> list[str]:
    """Those picked that can be measured; of the others it is told why not."""
    problems: dict[str, ModelError] = {one: error for one in picked if (error := problem_of(one))}
    for reference, error in problems.items():
        answer.error(_failed(models.names[reference], error), icon=":material/error:")
    return [one for one in picked if one not in problems]


def _view(job: EmbeddingJob, data: StoredPairs, models: Models, measure: str) -> EvaluationView | None:
    evaluation = open_evaluation(job.folder) if job.done else None
    return EvaluationView(data, evaluation, models.names, models.runs, measure) if evaluation else None


def _draw_again(job: EmbeddingJob, request: EvaluationRequest) -> None:
    label, icon = word("embeddings.again"), ":material/replay:"
    if st.button(label, type="primary", icon=icon, disabled=job.running, key="measure_again"):
        job.start(request)
        st.rerun()


def _draw_evaluation(view: EvaluationView, answer: DeltaGenerator) -> None:
    with answer:
        evaluation_answer.draw_answer(view)
        for one in view.evaluation.results:
            if one.error:
                st.error(_failed(view.names[one.model], one.error), icon=":material/error:")
    if not view.measured:
        return
    name, place = choose_view("look", TABS, lambda one: word(f"embeddings.view_{one}"))
    with place:
        # read when it is first drawn: who opens the app does not wait for Altair
        import_module(f"views.embeddings.{_FILES.get(name, name)}").draw(view)


def _failed(name: str, error: Exception) -> str:
    return word("embeddings.model_failed", model=plain(name), reason=plain(failure_text(error)))
