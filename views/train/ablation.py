"""The way to an ablation: what is varied is chosen here, around what the form says, or told by a file."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.uploaded_file_manager import UploadedFile

from data.files.opening import set_name as named_by_file
from language.masking.architectures import Size
from language.masking.masker import WholeWords
from language.tokenizers.kinds import TokenizerKind
from models.sources import STARTER
from retrieval.comparison.experiment import ExperimentError, read_as, write_experiment
from training.ablations.experiment import AblationExperiment
from training.options.language_model import LanguageObjective, LanguageOptions
from training.runs.runs import Plan
from views.resources.sets import chosen_set
from views.runs.search import setting_words, value_words
from views.train.judges import experiment_around, pick_judges, start_ablation
from views.train.start import trainings_started
from views.ui.state import relabel
from views.ui.words import plain, word
from views.uploads import translate_field

_COLUMNS = 4
_OFFERED: dict[str, Sequence[Any]] = {
    "objective": [one.value for one in LanguageObjective],
    "pairs_weight": [0.5, 1.0, 3.0, 10.0],
    "whole_words": [one.value for one in WholeWords],
    "mask_share": [0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6],
    "size": [one.value for one in Size],
    "tokenizer_kind": [one.value for one in TokenizerKind],
    "vocabulary": [2000, 4000, 8000, 16_000, 32_000],
}
_OF_A_NEW_TOKENIZER = ("tokenizer_kind", "vocabulary")
_OF_A_NEW_MODEL = ("size", *_OF_A_NEW_TOKENIZER)
_EXPLAINED = {"objective": "objective_does.mlm-nsp", "seed": "ablation.seed_help"}  # the others as in the form
_LENGTHS = (0.25, 0.5, 2.0, 4.0)  # of the reference's epochs
_SEEDS = 3  # other ones
_LARGEST_FILE = 1  # MB


def draw_ablation(plan: Plan | None) -> None:
    """Draw the two ways to an ablation, around a training that was planned; None where it cannot be."""
    key, icon = "train_ablation_open", ":material/experiment:"
    with st.expander(word("ablation.title"), icon=icon, key=key, on_change="rerun") as fold:
        if not fold.open:
            return
        st.markdown(word("ablation.about"))
        if plan is None:
            st.caption(word("ablation.no_plan"))
        else:
            _draw_chosen(plan)
        st.divider()
        _draw_file()


def offered(options: LanguageOptions) -> dict[str, list[Any]]:
    """Return the values that each option can be varied to, without the one that it has."""
    decided = _decided(options) + (() if options.pairs else ("pairs_weight",))
    values = {name: list(known) for name, known in _OFFERED.items() if name not in decided}
    values["epochs"] = [round(options.epochs * length, 4) for length in _LENGTHS]
    values["seed"] = [options.seed + more for more in range(1, _SEEDS + 1)]
    return {name: [one for one in known if one != getattr(options, name)] for name, known in values.items()}


def _decided(options: LanguageOptions) -> tuple[str, ...]:
    """Options that the base decides, or a tokenizer that is there."""
    if options.base != STARTER:
        return _OF_A_NEW_MODEL
    return _OF_A_NEW_TOKENIZER if options.tokenizer.strip() else ()


def _draw_chosen(plan: Plan) -> None:
    if not isinstance(plan.options, LanguageOptions):
        return
    vary = _pick_values(plan.options)
    judges = pick_judges("train_ablation", (plan.data, chosen_set().key))
    untrained = st.checkbox(
        word("ablation.with_untrained"),
        value=True,
        key="train_ablation_untrained",
        help=word("ablation.with_untrained_help"),
        persist_state="session",
    )
    experiment = experiment_around(plan, judges, vary, untrained=untrained)
    _draw_start(experiment, plan.name, "train_ablation")


def _pick_values(options: LanguageOptions) -> dict[str, list[Any]]:
    """Draw a choice of several values for each option; returns what was picked of those that any was picked of."""
    picked: dict[str, list[Any]] = {}
    columns: list[DeltaGenerator] = []
    for name, values in offered(options).items():
        columns = columns or st.columns(_COLUMNS)
        with columns.pop(0):
            if chosen := _pick(name, values, getattr(options, name)):
                picked[name] = [one for one in values if one in chosen]
    return picked


def _pick(name: str, values: list[Any], reference: Any) -> list[Any]:
    key = f"train_ablation_vary_{name}"
    kept = st.session_state.get(key)
    if kept is not None and not set(kept) <= set(values):  # the reference is another by now
        st.session_state[key] = [one for one in kept if one in values]
    relabel(key)
    return st.multiselect(
        word("train.objective" if name == "objective" else f"option.{name}"),
        values,
        format_func=partial(value_words, name),
        key=key,
        placeholder=word("ablation.as_in_the_form", value=value_words(name, reference)),
        help=word(_EXPLAINED.get(name, f"option_help.{name}")),
        persist_state="session",
    )


def _draw_file() -> None:
    st.markdown(word("ablation.by_file"))
    translate_field("upload_ablation", megabytes=_LARGEST_FILE)
    file = st.file_uploader(
        word("ablation.experiment_file"),
        type="toml",
        key="upload_ablation",
        max_upload_size=_LARGEST_FILE,
        label_visibility="collapsed",
    )
    if not isinstance(file, UploadedFile):
        return
    try:
        experiment = _read(file)
        experiment.check()
    except ExperimentError as error:
        st.error(word("ablation.wrong", reason=plain(str(error))), icon=":material/error:")
        return
    name = named_by_file(file.name, "ablation").removesuffix(".toml")
    st.markdown("\n".join(f"1. {plain(setting_words(changes))}" for changes in experiment.changes.values() if changes))
    _draw_start(experiment, name, "train_ablation_of_file")


def _read(file: UploadedFile) -> AblationExperiment:
    """Read what was uploaded. Raises `ExperimentError`."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "experiment.toml")  # what a person called it is no path
        path.write_bytes(file.getvalue())
        return read_as(AblationExperiment, path)


def _draw_start(experiment: AblationExperiment, name: str, key: str) -> None:
    """Draw how many trainings an experiment makes, its start, and its file."""
    models = len(experiment.changes) - experiment.untrained
    tuned = len(experiment.changes) if experiment.questions else 0
    enough = len(experiment.changes) > 1
    st.caption(word("ablation.makes" if enough else "ablation.nothing_varied", models=models, tuned=tuned))
    with st.container(horizontal=True, horizontal_alignment="right"):
        st.download_button(
            word("ablation.file"),
            write_experiment(experiment),
            "experiment.toml",
            "application/toml",
            key=f"{key}_download",
            help=word("ablation.file_help"),
            icon=":material/download:",
            on_click="ignore",
        )
        pressed = st.button(
            word("ablation.start"),
            icon=":material/play_arrow:",
            disabled=not enough,
            key=f"{key}_start_{trainings_started()}",  # the second press of a double click starts nothing
        )
    if pressed:
        start_ablation(experiment, name, st.container())
