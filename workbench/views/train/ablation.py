"""Forms for an ablation: around the training form, from a file, or around a finished language model."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.uploaded_file_manager import UploadedFile

from mrc_workbench.data.formats.opening import derive_name as named_by_file
from mrc_workbench.data.pairs import PairKind
from mrc_workbench.data.problems import Failure
from mrc_workbench.models.language.masking import Size
from mrc_workbench.models.language.tokenizer_training import TokenizerKind
from mrc_workbench.models.language.tokenizers import WholeWords
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.retrieval.comparison.experiment import ExperimentError, read_experiment_as
from mrc_workbench.training.ablation import AblationExperiment
from mrc_workbench.training.cli import plan_ablation
from mrc_workbench.training.options import OptionError
from mrc_workbench.training.ranker_options import BiEncoderOptions
from mrc_workbench.training.recipes import get_recipe
from mrc_workbench.training.runs import Run, TrainingPlan
from mrc_workbench.training.text_options import LanguageObjective, LanguageOptions
from mrc_workbench.workbench.views.names import pair_set_name, set_name
from mrc_workbench.workbench.views.navigation import translate_field
from mrc_workbench.workbench.views.resources.sets import selected_set, stored_pairs, stored_sets
from mrc_workbench.workbench.views.train.cards import close_dialog
from mrc_workbench.workbench.views.train.composite import draw_experiment_file, setting_words, value_words
from mrc_workbench.workbench.views.train.fields import entered_value
from mrc_workbench.workbench.views.train.start import begin, pressed_once
from mrc_workbench.workbench.views.ui.state import offer, relabel
from mrc_workbench.workbench.views.ui.words import failure_text, label_and_help, plain, word, word_or

_NONE = ""
_EPOCHS = BiEncoderOptions(base="any").epochs
_OFFERED: dict[str, Sequence[Any]] = {
    "objective": [choice.value for choice in LanguageObjective],
    "pairs_weight": [0.5, 1.0, 3.0, 10.0],
    "whole_words": [choice.value for choice in WholeWords],
    "mask_fraction": [0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6],
    "size": [choice.value for choice in Size],
    "tokenizer_kind": [choice.value for choice in TokenizerKind],
    "vocabulary": [2000, 4000, 8000, 16_000, 32_000],
}
_EXPLAINED = {"objective": "objective_does.mlm-nsp", "seed": "ablation.seed_help"}  # others as in the form
_LARGEST_FILE = 1  # MB


def draw_ablation(plan: TrainingPlan | None) -> None:
    """Draw the forms for an ablation around a plan, if the training form is valid, and from a file."""
    kwargs: dict[str, Any] = {"icon": ":material/experiment:", "key": "train_ablation_open"}
    with st.expander(word("ablation.title"), on_change="rerun", **kwargs) as fold:
        if not fold.open:
            return
        st.markdown(word("ablation.about"))
        if plan is None:
            st.caption(word("ablation.no_plan"))
        else:
            _draw_variation(plan)
        st.divider()
        _draw_file()


def offered(options: LanguageOptions) -> dict[str, list[Any]]:
    """Return other values of each option, except for options that the base or a stored tokenizer determines."""
    decided = set() if options.pairs else {"pairs_weight"}
    if options.base != STARTER or options.tokenizer.strip():
        decided |= {"tokenizer_kind", "vocabulary"}
    if options.base != STARTER:
        decided.add("size")
    values = {name: list(known) for name, known in _OFFERED.items() if name not in decided}
    values["epochs"] = [round(options.epochs * length, 4) for length in (0.25, 0.5, 2.0, 4.0)]
    values["seed"] = [options.seed + more for more in (1, 2, 3)]
    return {name: [value for value in known if value != getattr(options, name)] for name, known in values.items()}


def _draw_variation(plan: TrainingPlan) -> None:
    if not isinstance(plan.options, LanguageOptions):
        return
    vary: dict[str, list[Any]] = {}
    columns: list[DeltaGenerator] = []
    for name, values in offered(plan.options).items():
        columns = columns or [*st.columns(4)]
        with columns.pop(0):
            vary[name] = _pick_values(name, values, getattr(plan.options, name))
    judges = _pick_judges("train_ablation", (plan.data, selected_set().key))
    kwargs: dict[str, Any] = {"key": "train_ablation_untrained", "persist_state": "session"}
    untrained = st.checkbox(**label_and_help("ablation.with_untrained"), value=True, **kwargs)
    experiment = _experiment_around(plan, judges, vary, untrained=untrained)
    _draw_start(experiment, plan.name, "train_ablation")


def _pick_values(name: str, values: list[Any], reference: Any) -> list[Any]:
    key = f"train_ablation_vary_{name}"
    if not set(st.session_state.get(key, ())) <= set(values):  # the reference has changed
        st.session_state[key] = [value for value in st.session_state[key] if value in values]
    relabel(key)
    kwargs: dict[str, Any] = {"format_func": partial(value_words, name), "key": key, "persist_state": "session"}
    kwargs["placeholder"] = word("ablation.as_in_the_form", value=value_words(name, reference))
    kwargs["help"] = word(_EXPLAINED.get(name, f"option_help.{name}"))
    label = word("train.objective" if name == "objective" else f"option.{name}")
    selected = st.multiselect(label, values, **kwargs)
    return [value for value in values if value in selected]


def _draw_file() -> None:
    st.markdown(word("ablation.by_file"))
    translate_field("upload_ablation", megabytes=_LARGEST_FILE)
    kwargs: dict[str, Any] = {"max_upload_size": _LARGEST_FILE, "label_visibility": "collapsed"}
    file = st.file_uploader(word("ablation.experiment_file"), type="toml", key="upload_ablation", **kwargs)
    if not isinstance(file, UploadedFile):
        return
    try:
        with TemporaryDirectory() as folder:
            path = Path(folder, "experiment.toml")  # the uploaded name is not a safe path
            path.write_bytes(file.getvalue())
            experiment = read_experiment_as(AblationExperiment, path)
        experiment.check()
    except ExperimentError as error:
        st.error(word("ablation.wrong", reason=plain(str(error))), icon=":material/error:")
        return
    st.markdown("\n".join(f"1. {plain(setting_words(changes))}" for changes in experiment.changes.values() if changes))
    _draw_start(experiment, named_by_file(file.name, "ablation").removesuffix(".toml"), "train_ablation_of_file")


def _draw_start(experiment: AblationExperiment, name: str, key: str) -> None:
    count = len(experiment.changes)
    counts = {"models": count - experiment.untrained, "tuned": count if experiment.questions else 0}
    st.caption(word("ablation.makes" if count > 1 else "ablation.nothing_varied", **counts))
    with st.container(horizontal=True, horizontal_alignment="right"):
        draw_experiment_file(experiment, "experiment.toml", f"{key}_download")
        pressed = pressed_once(word("ablation.start"), f"{key}_start", disabled=count < 2)
    if pressed:
        _start(experiment, name, st.container())


def draw_helps_dialog(run: Run) -> None:
    plan = run.plan()
    st.markdown(word("ablation.helps_about", name=plain(plan.name)))
    judges = _pick_judges(f"helps_{run.id}", (selected_set().key, plan.data))
    has_judge = bool(judges.questions or judges.sentences)
    pressed = pressed_once(word("ablation.helps_start"), "helps_start", type="primary", disabled=not has_judge)
    messages = st.container()
    if not has_judge:
        messages.caption(word("ablation.no_judges"))
    if not pressed:
        return
    try:
        if get_recipe(plan.kind).family.find(plan.data).fingerprint != plan.fingerprint:
            st.error(word("ablation.text_changed"), icon=":material/error:")  # the model would be trained again
            return
    except Failure as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
        return
    close_dialog()  # a start reruns the page
    _start(_experiment_around(plan, judges), plan.name, messages)


class _Judges(NamedTuple):
    """The keys of a question set and of scored pairs, if any, and the epochs of fine-tuning on the questions."""

    questions: str
    sentences: str
    epochs: float


def _pick_judges(name: str, preferred: Sequence[str]) -> _Judges:
    """Draw the choices; the default is the first question set of `preferred` that has questions."""
    questions = {known.key: set_name(known.name) for known in stored_sets() if known.questions}
    pairs = {known.key: pair_set_name(known) for known in stored_pairs() if known.kind is PairKind.SCORED}
    default = next((key for key in (*preferred, *questions) if key in questions), _NONE)
    left, middle, right = st.columns(3, vertical_alignment="bottom")
    with left:
        question_set = _choose_set(name, "questions", questions, default)
    with middle:
        key = f"{name}_epochs"
        offer(key, _EPOCHS)
        kwargs: dict[str, Any] = {"min_value": 0.01, "max_value": 100.0, "step": 1.0, "format": "%g", "value": None}
        kwargs |= {"placeholder": f"{_EPOCHS:g}", "key": key, "persist_state": "session"}
        epochs = st.number_input(**label_and_help("ablation.epochs"), disabled=not question_set, **kwargs)
    with right:
        scored_pairs = _choose_set(name, "pairs", pairs, _NONE)
    return _Judges(question_set, scored_pairs, float(epochs or _EPOCHS))


def _experiment_around(
    plan: TrainingPlan, judges: _Judges, vary: Mapping[str, Sequence[Any]] | None = None, *, untrained: bool = True
) -> AblationExperiment:
    """Return an experiment with the training of a plan as its reference."""
    return AblationExperiment(
        text=plan.data,
        questions=judges.questions,
        sentences=judges.sentences,
        validation_fraction=plan.split.validation,
        test_fraction=plan.split.test,
        seed=plan.split.seed,
        untrained=untrained,
        language_model={name: entered_value(value) for name, value in asdict(plan.options).items()},
        fine_tuning={"epochs": judges.epochs} if judges.questions else {},
        vary={name: tuple(map(entered_value, values)) for name, values in (vary or {}).items() if values},
    )


def _start(experiment: AblationExperiment, name: str, messages: DeltaGenerator) -> None:
    try:
        experiment.check()
        for base in {experiment.language_model_options(number).base for number in experiment.changes}:
            find_model(base)  # otherwise the job would fail later
        begin(lambda: plan_ablation(experiment, name), messages)
    except ExperimentError as error:
        messages.error(word("ablation.wrong", reason=plain(str(error))), icon=":material/error:")
    except OptionError as error:
        problem = word_or(f"option_problem.{error.code}", plain(str(error)))
        messages.error(f"**{word_or(f'option.{error.option}', error.option)}**: {problem}", icon=":material/error:")
    except Failure as error:
        messages.error(plain(failure_text(error)), icon=":material/error:")


def _choose_set(prefix: str, kind: str, names: Mapping[str, str], default: str) -> str:
    key = f"{prefix}_{kind}"
    names = {**names, _NONE: word("ablation.none")}
    offer(key, default)
    if st.session_state[key] not in names:  # a removed set
        st.session_state[key] = default
    relabel(key)
    kwargs: dict[str, Any] = {"format_func": names.__getitem__, "key": key, "persist_state": "session"}
    return str(st.selectbox(**label_and_help(f"ablation.{kind}_from"), options=[*names], **kwargs))
