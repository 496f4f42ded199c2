"""Embeddings: how well sentence encoders follow people's judgement, and how their vectors lie in space."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import PurePath

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from data.store import StoredSet
from embeddings.bootstrap import Difference
from embeddings.results import EmbeddingJob, EvaluationRequest, ModelResult
from models.hub import ModelError
from models.sources import STARTER
from retrieval.comparison.experiment import add
from retrieval.comparison.first_stage import DenseSpec
from views.choices import BM25_NAME, choices_for, free_name
from views.embeddings import evaluation_view
from views.embeddings.controls import (
    Models,
    has_seen,
    models_at_hand,
    pick_measure,
    pick_models,
    pick_part,
    pick_set,
    problem_of,
)
from views.embeddings.evaluation_view import ACCURACY, EvaluationView
from views.names import set_name
from views.navigation import open_page
from views.resources.sets import chosen_set, open_evaluation, stored_pairs
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
_FILES = {
    "sentences": "cosines",
    "wrong": "cosines",
    "density": "cosines",
    "space": "measures",
    "retrieval": "further",
    "cost": "further",
}
_LONGEST_NAME = 60


def draw() -> None:
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
    problems: dict[str, ModelError] = {one: error for one in picked if (error := problem_of(one))}
    for reference, error in problems.items():
        answer.error(_failed(models.names[reference], error), icon=":material/error:")
    able = [one for one in picked if one not in problems]
    if not able or part is None:
        return
    request = EvaluationRequest(data=data.key, models=tuple(able), part=part)
    job = EmbeddingJob.of(request, data.fingerprint)
    if evaluation := open_evaluation(job.folder) if job.done else None:
        with place:
            _draw_to_compare(able, models)
            _draw_again(job, request)
        _draw_evaluation(EvaluationView(data, evaluation, models.names, models.runs, measure), answer)
        return
    with answer:
        evaluation_view.draw(job, request, models.names)


def _draw_again(job: EmbeddingJob, request: EvaluationRequest) -> None:
    label, icon = word("embeddings.again"), ":material/replay:"
    if st.button(label, type="primary", icon=icon, disabled=job.running, key="measure_again"):
        job.start(request)
        st.rerun()


def _draw_evaluation(view: EvaluationView, answer: DeltaGenerator) -> None:
    with answer:
        _draw_answer(view)
        for one in view.evaluation.results:
            if one.error:
                st.error(_failed(view.names[one.model], one.error), icon=":material/error:")
    if not view.measured:
        return
    name, place = choose_view("look", TABS, lambda one: word(f"embeddings.view_{one}"))
    with place:
        # read when it is first drawn: who opens the app does not wait for Altair
        getattr(import_module(f"views.embeddings.{_FILES.get(name, name)}"), f"draw_{name}")(view)


def _failed(name: str, error: Exception) -> str:
    return word("embeddings.model_failed", model=plain(name), reason=plain(failure_text(error)))


def _draw_answer(view: EvaluationView) -> None:
    """Say which model is best by the measure looked at; and what else bears on that."""
    known = {name: one for name, one in view.measured.items() if view.measure in one.figures}
    if known:
        st.markdown(_sentence(view, known))
    elif view.measured:
        st.markdown(word("embeddings.answer_none" if not view.measure else "embeddings.answer_no_probe"))
    measured = [(view.names[one], run) for one, run in view.runs.items() if one in view.evaluation.measured]
    if seen := [name for name, run in measured if has_seen(run, view.data, view.part)]:
        st.warning(word("embeddings.has_seen", models=", ".join(map(plain, seen))), icon=":material/warning:")


def _sentence(view: EvaluationView, known: dict[str, ModelResult]) -> str:
    (best, first), *others = known.items()
    figure = first.figures[view.measure]
    told = {
        "best": plain(best),
        "value": f"{figure.value * 100:.1f}",
        "measure": word(f"embeddings.{view.measure}"),
        "pairs": f"{len(first.probe.correct) if first.probe else len(view.evaluation.rows):,}",
    }
    kind = "accuracy" if view.measure == ACCURACY else "people"
    if not others:
        ends = {"low": f"{figure.low * 100:.1f}", "high": f"{figure.high * 100:.1f}"}
        return word(f"embeddings.answer_{kind}_one", **told, **ends)
    second, other = others[0]
    test = _between(view, first.model, other.model)
    told |= {"second": plain(second), "other": f"{other.figures[view.measure].value * 100:.1f}"}
    if test is None:
        return word(f"embeddings.answer_{kind}_one", **told, low="–", high="–")
    told |= {"points": _signed(test.difference), "low": _signed(test.low), "high": _signed(test.high)}
    return word(f"embeddings.answer_{kind}_{'sure' if test.sure else 'unsure'}", **told)


def _between(view: EvaluationView, first: str, second: str) -> Difference | None:
    tests = view.evaluation.differences.get(view.measure, [])
    both_ways = (test for one in tests for test in (one, one.turned))
    return next((one for one in both_ways if (one.a, one.b) == (first, second)), None)


def _signed(share: float) -> str:
    return f"{share * 100:+.1f}".replace("inf", "∞")  # an open end, where too little is known


def _draw_to_compare(picked: Sequence[str], models: Models) -> None:
    """Draw the quiet button that opens Compare with these models, searched on the question set in use."""
    data = chosen_set()
    about = word("embeddings.to_compare_help", data=plain(set_name(data.name)))
    if st.button(
        word("embeddings.to_compare"),
        type="tertiary",
        icon=":material/arrow_forward:",
        icon_position="right",
        help=about if data.questions else word("embeddings.no_questions"),
        disabled=not data.questions,
        key="to_compare",
    ):
        names = [BM25_NAME, *retriever_names(picked, models, data)]
        open_page("compare", data=data.key, retrievers="|".join(names))


def retriever_names(picked: Sequence[str], models: Models, data: StoredSet) -> list[str]:
    """Return what Compare calls the dense retrievers of these models; one that it has not is added to the set."""
    names = []
    for reference in picked:
        specs = choices_for(data).specs
        dense = [spec for spec in specs.values() if isinstance(spec, DenseSpec)]
        known = next((spec.name for spec in dense if spec.model == reference), None)
        if known is None:
            model = models.names[reference]
            short = (PurePath(model).name or model).replace("|", "/")[:_LONGEST_NAME]  # a bar parts names in an address
            known = free_name(f"{word('kind_short.dense')} · {short}", specs)
            add(data.fingerprint, DenseSpec(name=known, model=reference, windows=reference != STARTER))
        names.append(known)
    return names
