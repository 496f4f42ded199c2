"""The Embeddings page: how well sentence encoders follow human ratings, and the geometry of their vectors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.jobs.folder import Status
from mrc_workbench.data.pairs import PairKind, evaluation_part
from mrc_workbench.data.pairs.store import StoredPairs
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.labs.embeddings import results
from mrc_workbench.labs.embeddings.encoder import DistinctSentences, add_model, added_models, remove_model
from mrc_workbench.labs.embeddings.study import STUDY, TaskResult, load_task
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import DEFAULT_BI_ENCODER, STARTER, default_model, find_model
from mrc_workbench.retrieval.comparison import experiment
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.comparison.multistage import BM25_NAME
from mrc_workbench.training.recipes import get_recipe
from mrc_workbench.training.runs import Run
from mrc_workbench.workbench.views.choices import choices_for, finished_runs, model_reference
from mrc_workbench.workbench.views.names import base_name, name_with_download_note, pair_set_name, set_name
from mrc_workbench.workbench.views.navigation import open_page
from mrc_workbench.workbench.views.resources.sets import cached, opened, pair_set, parts_of, selected_set, stored_pairs
from mrc_workbench.workbench.views.ui.job import begin, draw_job
from mrc_workbench.workbench.views.ui.state import choose, choose_named, choose_several, choose_view
from mrc_workbench.workbench.views.ui.words import failure_text, free_name, has_text, label_and_help, plain, word

CORRELATIONS = ("spearman", "pearson")
ACCURACY = "nli_accuracy"
SHARES = (*CORRELATIONS, ACCURACY)  # displayed times 100, as in papers
TABS = {
    "measures": ("measures",),
    "sentences": ("sentences",),
    "wrong": ("wrong",),
    "vectors": ("map", "density", "space"),
    "further": ("retrieval", "cost"),
}
_LONGEST_NAME = 60
_BI_ENCODER = "sentence-similarity"  # the hub's name of the task of bi-encoders
_DEFAULT_RUNS = 2
_MAX_MODELS = 20  # of one evaluation
_SELECTION_ROUND = "models_round"  # counts changes of the selection other than clicks
_SEPARATOR = "|"  # of references in the address


@cached(max_entries=8)
def distinct_of(key: str, part: Part) -> DistinctSentences:
    return DistinctSentences.from_pairs(pair_set(key).at(parts_of(key)[part]))


def open_evaluation(folder: Path) -> results.EncoderEvaluation | None:
    return opened(results.load, folder)


@dataclass(frozen=True)
class EvaluationView:
    """An evaluation of a part of a stored set, and the selected measure, empty if the set's kind has none.

    `names` are display names of all models by reference, in a fixed order; `runs` are the trained models.
    """

    data: StoredPairs
    evaluation: results.EncoderEvaluation
    names: Mapping[str, str]
    runs: Mapping[str, Run]
    measure: str

    @property
    def model_names(self) -> list[str]:
        return [*self.names.values()]

    @property
    def part(self) -> Part:
        return self.evaluation.part

    @cached_property
    def results_by_name(self) -> dict[str, results.ModelResult]:
        values = self.evaluation.results_by_model.values()
        scores = {item.model: item.metrics[self.measure].value for item in values if self.measure in item.metrics}
        ranked = sorted(values, key=lambda result: -scores.get(result.model, -1.0))
        return {self.names[result.model]: result for result in ranked}

    @property
    def references(self) -> dict[str, str]:
        return {self.names[reference]: reference for reference in self.evaluation.results_by_model}


def pick_model(view: EvaluationView, name: str, label: str = "embeddings.model") -> str:
    """Draw the choice of a model, the best first, stored in the address by `name`; returns the reference."""
    names = {view.references[name_of_model]: name_of_model for name_of_model in view.results_by_name}
    return choose_named(name, word(label), names, next(iter(names)), width=320)


def run_request(
    request: results.EmbeddingRequest, data: StoredPairs, names: Mapping[str, str], *, start: str | None = None
) -> TaskResult | None:
    """Return the result of a request; if missing, draw its job, which starts by a button `start` or automatically."""
    try:
        job = STUDY.job(request, data.fingerprint)
    except ModelError as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
        return None
    if job.done:
        return load_task(job.folder)
    draw_request(job, request, names, start=start)
    return None


def draw_request(
    job: StudyJob[Any, Any],
    request: results.EmbeddingRequest,
    names: Mapping[str, str],
    *,
    start: str | None = None,
    about: str = "",
) -> None:
    """Draw a job's progress or failure; without a `start` label it starts once per session."""

    def progress_text(status: Status) -> str:
        model = names.get(status.phase, status.phase)
        return word("embeddings.at_work", model=plain(model)) if model else word("embeddings.starting")

    def reason(status: Status) -> str:
        # translated if the text needs only the model, else the message of the process
        key = f"model.{status.code}" if has_text(f"model.{status.code}") else f"embeddings.failed_{status.code}"
        try:
            return word(key, model=getattr(request, "model", ""))
        except KeyError:
            return status.message

    start_job = partial(job.start, request)
    label = start or word("embeddings.start")
    draw_job(job, start_job, progress_text, "embeddings", label, about=about, reason=reason, by_itself=start is None)


_MODULES = dict.fromkeys(("sentences", "wrong", "density"), "cosines")
_MODULES |= {"space": "measures"} | dict.fromkeys(("map", "retrieval", "cost"), "further")


@dataclass(frozen=True)
class AvailableModels:
    """Names by reference in a fixed order, the default selection, added references, and trained models."""

    names: dict[str, str]
    default_selection: tuple[str, ...]
    added: tuple[str, ...]
    runs: dict[str, Run]


def draw() -> None:
    st.title(word("embeddings.purpose"), anchor=False)
    about, buttons = st.columns([3, 2], vertical_alignment="center")
    about.caption(word("embeddings.about"))
    container = buttons.container(horizontal=True, horizontal_alignment="right")
    sets = stored_pairs()
    models = available_models()
    if not sets:
        st.info(word("embeddings.no_pairs"), icon=":material/info:")
        return
    answer = st.container()
    selected = _pick_models(models)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        data = _pick_set(sets)
        part = _pick_part(data)
        measure = _pick_measure(data)
    if not selected:
        answer.info(word("embeddings.pick_one"), icon=":material/info:")
        return
    loadable = []
    for model in selected:
        if error := model_error(model):
            answer.error(_failure_text(models.names[model], error), icon=":material/error:")
        else:
            loadable.append(model)
    if not loadable or part is None:
        return
    request = results.EvaluationRequest(data=data.key, models=tuple(loadable), part=part)
    job = STUDY.job(request, data.fingerprint)
    if evaluation := open_evaluation(job.folder) if job.done else None:
        with container:
            look: dict[str, Any] = {"type": "tertiary", "icon": ":material/replay:", "key": "measure_again"}
            if st.button(word("embeddings.again"), disabled=job.running, **look):
                begin(partial(job.start, request))
            _draw_to_compare(loadable, models)
        _draw_evaluation(EvaluationView(data, evaluation, models.names, models.runs, measure), answer)
        return
    names = ", ".join(plain(models.names[reference]) for reference in loadable)
    about_job = word("embeddings.will_measure", models=names, pairs=f"{len(parts_of(data.key)[part]):,}")
    with answer:
        draw_request(job, request, models.names, start=word("embeddings.start"), about=about_job)


def _draw_evaluation(view: EvaluationView, answer: DeltaGenerator) -> None:
    with answer:
        _draw_answer(view)
        for item in view.evaluation.results:
            if item.error:
                st.error(_failure_text(view.names[item.model], item.error), icon=":material/error:")
    if not view.results_by_name:
        return
    name, container = choose_view("look", TABS, lambda item: word(f"embeddings.view_{item}"))
    with container:
        module = import_module(f"mrc_workbench.labs.embeddings.pages.{_MODULES.get(name, name)}")
        getattr(module, f"draw_{name}")(view)


def _failure_text(name: str, error: Exception) -> str:
    return word("embeddings.model_failed", model=plain(name), reason=plain(failure_text(error)))


def _draw_answer(view: EvaluationView) -> None:
    scored = {name: item for name, item in view.results_by_name.items() if view.measure in item.metrics}
    if scored:
        st.markdown(_answer_text(view, scored))
    elif view.results_by_name:
        st.markdown(word("embeddings.answer_none" if not view.measure else "embeddings.answer_no_probe"))
    measured = [(view.names[item], run) for item, run in view.runs.items() if item in view.evaluation.results_by_model]
    if seen := [name for name, run in measured if has_seen(run, view.data, view.part)]:
        st.warning(word("embeddings.has_seen", models=", ".join(map(plain, seen))), icon=":material/warning:")


def _answer_text(view: EvaluationView, scored: dict[str, results.ModelResult]) -> str:
    (best, first), *others = scored.items()
    metric = first.metrics[view.measure]
    pairs = len(first.probe.correct) if first.probe else len(view.evaluation.rows)
    values = {"best": plain(best), "value": f"{metric.value * 100:.1f}", "pairs": f"{pairs:,}"}
    values["measure"] = word(f"embeddings.{view.measure}")
    kind = "accuracy" if view.measure == ACCURACY else "people"
    if not others:
        ends = {"low": f"{metric.low * 100:.1f}", "high": f"{metric.high * 100:.1f}"}
        return word(f"embeddings.answer_{kind}_one", **values, **ends)
    second, other = others[0]
    tests = view.evaluation.differences.get(view.measure, [])
    both_ways = (test for item in tests for test in (item, item.reversed))
    test = next((item for item in both_ways if (item.a, item.b) == (first.model, other.model)), None)
    values |= {"second": plain(second), "other": f"{other.metrics[view.measure].value * 100:.1f}"}
    if test is None:
        return word(f"embeddings.answer_{kind}_one", **values, low="–", high="–")
    values |= {"points": _signed(test.difference), "low": _signed(test.low), "high": _signed(test.high)}
    return word(f"embeddings.answer_{kind}_{'sure' if test.is_significant else 'unsure'}", **values)


def _signed(fraction: float) -> str:
    return f"{fraction * 100:+.1f}".replace("inf", "∞")


def _draw_to_compare(references: Sequence[str], models: AvailableModels) -> None:
    data = selected_set()
    look: dict[str, Any] = {"type": "primary", "icon": ":material/arrow_forward:", "icon_position": "right"}
    about = word("embeddings.to_compare_help", data=plain(set_name(data.name)))
    look["help"] = about if data.questions else word("embeddings.no_questions")
    single_label = word("embeddings.to_compare", model=plain(models.names[references[0]]))
    label = single_label if len(references) == 1 else word("embeddings.to_compare_several", count=len(references))
    if st.button(label, key="to_compare", disabled=not data.questions, **look):
        names = [BM25_NAME, *retriever_names(references, models, data)]
        open_page("compare", data=data.key, retrievers="|".join(names))


def retriever_names(references: Sequence[str], models: AvailableModels, data: StoredSet) -> list[str]:
    """Return the names of these models' dense retrievers in Compare; missing ones are added."""
    names = []
    for reference in references:
        specs = choices_for(data).specs
        dense = [spec for spec in specs.values() if isinstance(spec, DenseSpec)]
        name = next((spec.name for spec in dense if spec.model == reference), None)
        if name is None:
            model = models.names[reference]
            short = (PurePath(model).name or model).replace("|", "/")[:_LONGEST_NAME]  # addresses separate names by |
            name = free_name(f"{word('kind_short.dense')} · {short}", specs)
            spec = DenseSpec(name=name, model=reference, windows=reference != STARTER)
            experiment.add_retriever(data.fingerprint, spec)
        names.append(name)
    return names


def available_models() -> AvailableModels:
    defaults = list(dict.fromkeys((default_model(), STARTER)))
    trained = reversed(finished_runs().items())
    runs = {model_reference(run): run for run, plan in trained if get_recipe(plan.kind).hub_task == _BI_ENCODER}
    others = tuple(added_models())
    names: dict[str, str] = {}
    for reference in dict.fromkeys([*defaults, DEFAULT_BI_ENCODER, *runs, *others]):
        names[reference] = free_name(base_name(reference), [*names.values()])
    return AvailableModels(names, (*defaults, *[*runs][-_DEFAULT_RUNS:]), others, runs)


def model_error(reference: str) -> ModelError | None:
    """Return the error of a missing model, without loading it."""
    try:
        find_model(reference)
    except ModelError as error:
        return error
    return None


def has_seen(run: Run, data: StoredPairs, part: Part) -> bool:
    """Whether a training used, or with another split may have used, pairs of this part."""
    plan = run.plan()
    if plan.fingerprint != data.fingerprint:
        return False
    if part in (Part.ALL, Part.TRAIN):
        return True
    drew_otherwise = plan.split != SplitOptions()
    return drew_otherwise and not bool((pair_set(data.key).published[parts_of(data.key)[part]] >= 0).all())


def _pick_set(sets: Sequence[StoredPairs]) -> StoredPairs:
    names = {pair_set.key: pair_set_name(pair_set) for pair_set in sets}
    label = label_and_help("embeddings.pairs")
    key = choose_named("pairs", names=names, default=sets[0].key, width=200, **label)
    return next(pair_set for pair_set in sets if pair_set.key == key)


def _pick_part(data: StoredPairs) -> Part | None:
    rows = parts_of(data.key)
    names = {
        part.value: word("embeddings.part_of", part=word(f"part.{part}"), pairs=f"{len(rows[part]):,}")
        for part in Part
        if len(rows[part])
    }
    if not names:
        st.info(word("embeddings.empty"), icon=":material/info:")
        return None
    label = label_and_help("embeddings.part")
    return Part(choose_named("pairs_part", names=names, default=evaluation_part(rows).value, width=140, **label))


def _pick_measure(data: StoredPairs) -> str:
    """Draw the choice of the correlation for scored pairs; returns the measure, empty if none applies."""
    if data.kind is not PairKind.SCORED:
        return ACCURACY if data.kind is PairKind.LABELLED else ""
    look = label_and_help("embeddings.measure") | {"format_func": lambda name: word(f"embeddings.{name}")}
    if "figure" in st.query_params:  # in addresses of earlier versions
        st.query_params["metric"] = st.query_params.pop("figure")
    return choose(st.segmented_control, "metric", options=CORRELATIONS, default=CORRELATIONS[0], **look)


def _pick_models(models: AvailableModels) -> list[str]:
    look = label_and_help("embeddings.models") | {"wrap": True}
    look["key"] = f"models_{len(models.names)}_{st.session_state.get(_SELECTION_ROUND, 0)}"
    look["format_func"] = lambda reference: plain(name_with_download_note(reference, models.names[reference]))
    left, right = st.columns([6, 1], vertical_alignment="bottom")
    with left:
        selected = choose_several(st.pills, "models", options=[*models.names], default=models.default_selection, **look)
    with right, st.popover(word("compare.add"), icon=":material/add:", width="stretch"):
        _draw_model_form(models, selected)
    if len(selected) > _MAX_MODELS:
        st.warning(word("embeddings.too_many", most=_MAX_MODELS), icon=":material/info:")
    return selected[:_MAX_MODELS]


def _draw_model_form(models: AvailableModels, selected: Sequence[str]) -> None:
    explained = word("compare.add_model_help")
    reference = st.text_input(word("embeddings.add_model"), help=explained, key="add_encoder").strip()
    if st.button(word("compare.add_this"), type="primary", disabled=not reference, key="add_this_encoder"):
        _add(reference, selected)
    for added in models.added:
        left, right = st.columns([5, 1], vertical_alignment="center")
        left.markdown(plain(models.names[added]))
        explained = word("embeddings.remove_added")
        if right.button("", icon=":material/delete:", key=f"remove_{added}", help=explained):
            remove_model(added)
            _select_models(other for other in selected if other != added)


def _add(reference: str, selected: Sequence[str]) -> None:
    if _SEPARATOR in reference:
        st.error(word("embeddings.no_bar"), icon=":material/error:")
        return
    try:
        add_model(reference)
    except ModelError as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
        return
    _select_models([*selected, reference])


def _select_models(references: Iterable[str]) -> None:
    st.query_params["models"] = _SEPARATOR.join(dict.fromkeys(references))
    st.session_state[_SELECTION_ROUND] = st.session_state.get(_SELECTION_ROUND, 0) + 1
    st.rerun()
