"""Embeddings: how well sentence encoders follow human judgement, and how their vectors lie in space.

The user selects the pairs and their part, the models, and the metric. Views draw from an `EvaluationView`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.jobs.folder import Status
from mrc_workbench.data.pairs import PairKind, part_to_measure
from mrc_workbench.data.pairs.store import StoredPairs
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.labs.embeddings.encoder import Distinct, add, added, remove
from mrc_workbench.labs.embeddings.results import Evaluation, EvaluationRequest, ModelResult, Request, load
from mrc_workbench.labs.embeddings.study import STUDY, TaskResult, load_task
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import DEFAULT_BI_ENCODER, STARTER, default_model, find_model
from mrc_workbench.retrieval.comparison import experiment
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.comparison.multistage import BM25_NAME
from mrc_workbench.training.recipes import recipe_of
from mrc_workbench.training.runs import Run
from mrc_workbench.workbench.views.choices import choices_for, finished_runs, model_place
from mrc_workbench.workbench.views.names import base_name, pair_set_name, set_name, told_with_download
from mrc_workbench.workbench.views.navigation import open_page
from mrc_workbench.workbench.views.resources.sets import cached, chosen_set, opened, pair_set, parts_of, stored_pairs
from mrc_workbench.workbench.views.ui.job import begin, draw_job
from mrc_workbench.workbench.views.ui.state import choose, choose_named, choose_several, choose_view
from mrc_workbench.workbench.views.ui.words import failure_text, free_name, known, plain, word

CORRELATIONS = ("spearman", "pearson")
ACCURACY = "nli_accuracy"
SHARES = (*CORRELATIONS, ACCURACY)  # told a hundredfold, as papers do


@cached(max_entries=8)
def distinct_of(key: str, part: Part) -> Distinct:
    return Distinct.of(pair_set(key).at(parts_of(key)[part]))


def open_evaluation(folder: Path) -> Evaluation | None:
    return opened(load, folder)


@dataclass(frozen=True)
class EvaluationView:
    """An evaluation of a part of a stored set, and the selected measure, empty if the set's kind has none.

    `names` are those of all models, by reference in their fixed order; `runs` the trained ones.
    """

    data: StoredPairs
    evaluation: Evaluation
    names: Mapping[str, str]
    runs: Mapping[str, Run]
    measure: str

    @property
    def every(self) -> list[str]:
        return [*self.names.values()]

    @property
    def part(self) -> Part:
        return self.evaluation.part

    @cached_property
    def measured(self) -> dict[str, ModelResult]:
        """The models with metrics, by name, the best first."""
        found = [(self.names[one.model], one) for one in self.evaluation.measured.values()]
        if self.measure:
            found.sort(key=lambda pair: -pair[1].figures[self.measure].value if self.measure in pair[1].figures else 1)
        return dict(found)

    @property
    def references(self) -> dict[str, str]:
        """References of the measured models by name, in the order picked."""
        return {self.names[reference]: reference for reference in self.evaluation.measured}


def pick_model(view: EvaluationView, name: str, label: str = "embeddings.model") -> str:
    """Draw the choice of a model, the best first, stored in the address by `name`; returns the reference."""
    names = {view.references[one]: one for one in view.measured}
    return choose_named(name, word(label), names, next(iter(names)), width=320)


def finished(
    request: Request, data: StoredPairs, names: Mapping[str, str], *, start: str | None = None
) -> TaskResult | None:
    """Return the result of a request; if there is none, draw its job, which starts by a button `start` or by itself."""
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
    job: StudyJob[Any, Any], request: Request, names: Mapping[str, str], *, start: str | None = None, about: str = ""
) -> None:
    """Draw a job's progress or failure; without a `start` label it starts once per session."""

    def at_work(status: Status) -> str:
        model = names.get(status.phase, status.phase)
        return word("embeddings.at_work", model=plain(model)) if model else word("embeddings.starting")

    def reason(status: Status) -> str:
        # in the person's language where the model is all that the words ask for, else as the process told it
        key = f"model.{status.code}" if known(f"model.{status.code}") else f"embeddings.failed_{status.code}"
        try:
            return word(key, model=getattr(request, "model", ""))
        except KeyError:
            return status.message

    begin, label = partial(job.start, request), start or word("embeddings.start")
    draw_job(job, begin, at_work, "embeddings", label, about=about, reason=reason, by_itself=start is None)


TABS = {
    "measures": ("measures",),
    "sentences": ("sentences",),
    "wrong": ("wrong",),
    "vectors": ("map", "density", "space"),
    "further": ("retrieval", "cost"),
}
_MODULES = dict.fromkeys(("sentences", "wrong", "density"), "cosines")
_MODULES |= {"space": "measures"} | dict.fromkeys(("map", "retrieval", "cost"), "further")
_LONGEST_NAME = 60
_BI_ENCODER = "sentence-similarity"  # what the hub calls the task of models that make one vector of a sentence
_PICKED_RUNS = 2
_MOST = 20  # models that one evaluation measures
_ROUND = "models_round"  # how often something else than a click changed which models are picked
_SEPARATOR = "|"  # of references in the address


@dataclass(frozen=True)
class Models:
    """Names by reference in a fixed order, the default selection, added references, and trained models."""

    names: dict[str, str]
    first_picked: tuple[str, ...]
    added: tuple[str, ...]
    runs: dict[str, Run]


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
    picked = _pick_models(models)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        data = _pick_set(sets)
        part = _pick_part(data)
        measure = _pick_measure(data)
    if not picked:
        answer.info(word("embeddings.pick_one"), icon=":material/info:")
        return
    able = []
    for one in picked:
        if error := problem_of(one):
            answer.error(_failed(models.names[one], error), icon=":material/error:")
        else:
            able.append(one)
    if not able or part is None:
        return
    request = EvaluationRequest(data=data.key, models=tuple(able), part=part)
    job = STUDY.job(request, data.fingerprint)
    if evaluation := open_evaluation(job.folder) if job.done else None:
        with place:
            label, icon = word("embeddings.again"), ":material/replay:"
            if st.button(label, type="tertiary", icon=icon, disabled=job.running, key="measure_again"):
                begin(partial(job.start, request))
            _draw_to_compare(able, models)
        _draw_evaluation(EvaluationView(data, evaluation, models.names, models.runs, measure), answer)
        return
    names, pairs = ", ".join(plain(models.names[reference]) for reference in able), len(parts_of(data.key)[part])
    about_job = word("embeddings.will_measure", models=names, pairs=f"{pairs:,}")
    with answer:
        draw_request(job, request, models.names, start=word("embeddings.start"), about=about_job)


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
        module = import_module(f"mrc_workbench.labs.embeddings.pages.{_MODULES.get(name, name)}")
        getattr(module, f"draw_{name}")(view)


def _failed(name: str, error: Exception) -> str:
    return word("embeddings.model_failed", model=plain(name), reason=plain(failure_text(error)))


def _draw_answer(view: EvaluationView) -> None:
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
    pairs = len(first.probe.correct) if first.probe else len(view.evaluation.rows)
    told = {"best": plain(best), "value": f"{figure.value * 100:.1f}", "pairs": f"{pairs:,}"}
    told["measure"] = word(f"embeddings.{view.measure}")
    kind = "accuracy" if view.measure == ACCURACY else "people"
    if not others:
        ends = {"low": f"{figure.low * 100:.1f}", "high": f"{figure.high * 100:.1f}"}
        return word(f"embeddings.answer_{kind}_one", **told, **ends)
    second, other = others[0]
    tests = view.evaluation.differences.get(view.measure, [])
    both_ways = (test for one in tests for test in (one, one.reversed))
    test = next((one for one in both_ways if (one.a, one.b) == (first.model, other.model)), None)
    told |= {"second": plain(second), "other": f"{other.figures[view.measure].value * 100:.1f}"}
    if test is None:
        return word(f"embeddings.answer_{kind}_one", **told, low="–", high="–")
    told |= {"points": _signed(test.difference), "low": _signed(test.low), "high": _signed(test.high)}
    return word(f"embeddings.answer_{kind}_{'sure' if test.sure else 'unsure'}", **told)


def _signed(share: float) -> str:
    return f"{share * 100:+.1f}".replace("inf", "∞")  # an open end, where too little is known


def _draw_to_compare(picked: Sequence[str], models: Models) -> None:
    """Draw the button that opens Compare with these models as dense retrievers on the current dataset."""
    data = chosen_set()
    look: dict[str, Any] = {"type": "primary", "icon": ":material/arrow_forward:", "icon_position": "right"}
    about = word("embeddings.to_compare_help", data=plain(set_name(data.name)))
    look["help"] = about if data.questions else word("embeddings.no_questions")
    one = word("embeddings.to_compare", model=plain(models.names[picked[0]]))
    label = one if len(picked) == 1 else word("embeddings.to_compare_several", count=len(picked))
    if st.button(label, key="to_compare", disabled=not data.questions, **look):
        names = [BM25_NAME, *retriever_names(picked, models, data)]
        open_page("compare", data=data.key, retrievers="|".join(names))


def retriever_names(picked: Sequence[str], models: Models, data: StoredSet) -> list[str]:
    """Return the names of these models' dense retrievers in Compare; missing ones are added."""
    names = []
    for reference in picked:
        specs = choices_for(data).specs
        dense = [spec for spec in specs.values() if isinstance(spec, DenseSpec)]
        known = next((spec.name for spec in dense if spec.model == reference), None)
        if known is None:
            model = models.names[reference]
            short = (PurePath(model).name or model).replace("|", "/")[:_LONGEST_NAME]  # a bar parts names in an address
            known = free_name(f"{word('kind_short.dense')} · {short}", specs)
            experiment.add(data.fingerprint, DenseSpec(name=known, model=reference, windows=reference != STARTER))
        names.append(known)
    return names


def models_at_hand() -> Models:
    """Return the default model, the starter, one of the hub, finished bi-encoders and added models."""
    usual = list(dict.fromkeys((default_model(), STARTER)))
    trained = reversed(finished_runs().items())
    runs = {model_place(run): run for run, plan in trained if recipe_of(plan.kind).hub_task == _BI_ENCODER}
    others = tuple(added())
    names: dict[str, str] = {}
    for one in dict.fromkeys([*usual, DEFAULT_BI_ENCODER, *runs, *others]):
        names[one] = free_name(base_name(one), [*names.values()])
    return Models(names, (*usual, *[*runs][-_PICKED_RUNS:]), others, runs)


def problem_of(reference: str) -> ModelError | None:
    """Return why a model cannot be measured, as far as is known without loading it."""
    try:
        find_model(reference)
    except ModelError as error:
        return error
    return None


def has_seen(run: Run, data: StoredPairs, part: Part) -> bool:
    """Whether a training used, or may have used, pairs of this part: it may have split the same set otherwise."""
    plan = run.plan()
    if plan.fingerprint != data.fingerprint:
        return False
    if part in (Part.ALL, Part.TRAIN):
        return True
    drew_otherwise = plan.split != SplitOptions()
    return drew_otherwise and not bool((pair_set(data.key).published[parts_of(data.key)[part]] >= 0).all())


def _pick_set(sets: Sequence[StoredPairs]) -> StoredPairs:
    names = {one.key: pair_set_name(one) for one in sets}
    look: dict[str, Any] = {"help": word("embeddings.pairs_help"), "width": 200}
    key = choose_named("pairs", word("embeddings.pairs"), names, sets[0].key, **look)
    return next(one for one in sets if one.key == key)


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
    look: dict[str, Any] = {"help": word("embeddings.part_help"), "width": 140}
    return Part(choose_named("pairs_part", word("embeddings.part"), names, part_to_measure(rows).value, **look))


def _pick_measure(data: StoredPairs) -> str:
    """Draw the choice of the correlation, if there are two; returns the measure, empty if there is none."""
    if data.kind is not PairKind.SCORED:
        return ACCURACY if data.kind is PairKind.LABELLED else ""
    look: dict[str, Any] = {"format_func": lambda name: word(f"embeddings.{name}")}
    label, explained = word("embeddings.measure"), word("embeddings.measure_help")
    return choose(st.segmented_control, "figure", label, CORRELATIONS, CORRELATIONS[0], help=explained, **look)


def _pick_models(models: Models) -> list[str]:
    look: dict[str, Any] = {"wrap": True, "help": word("embeddings.models_help")}
    look["key"] = f"models_{len(models.names)}_{st.session_state.get(_ROUND, 0)}"
    look["format_func"] = lambda one: plain(told_with_download(one, models.names[one]))
    left, right = st.columns([6, 1], vertical_alignment="bottom")
    with left:
        label, usual = word("embeddings.models"), models.first_picked
        picked = choose_several(st.pills, "models", label, [*models.names], usual, **look)
    with right, st.popover(word("compare.add"), icon=":material/add:", width="stretch"):
        _draw_adding(models, picked)
    if len(picked) > _MOST:
        st.warning(word("embeddings.too_many", most=_MOST), icon=":material/info:")
    return picked[:_MOST]


def _draw_adding(models: Models, picked: Sequence[str]) -> None:
    label, explained = word("embeddings.add_model"), word("compare.add_model_help")
    reference = st.text_input(label, help=explained, key="add_encoder").strip()
    if st.button(word("compare.add_this"), type="primary", disabled=not reference, key="add_this_encoder"):
        _add(reference, picked)
    for one in models.added:
        left, right = st.columns([5, 1], vertical_alignment="center")
        left.markdown(plain(models.names[one]))
        if right.button("", icon=":material/delete:", key=f"remove_{one}", help=word("embeddings.remove_added")):
            remove(one)
            _pick(other for other in picked if other != one)


def _add(reference: str, picked: Sequence[str]) -> None:
    if _SEPARATOR in reference:
        st.error(word("embeddings.no_bar"), icon=":material/error:")
        return
    try:
        add(reference)
    except ModelError as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
        return
    _pick([*picked, reference])


def _pick(references: Iterable[str]) -> None:
    st.query_params["models"] = _SEPARATOR.join(dict.fromkeys(references))
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
    st.rerun()
