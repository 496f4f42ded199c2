"""The form of a training: what is entered is checked at once, and nothing of it is lost; searches for settings and
earlier trainings fill it in."""

from collections.abc import Set
from dataclasses import replace
from itertools import count

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from data.pairs.records import split_pairs
from data.pairs.store import StoredPairs
from data.split import Part, SplitOptions
from data.store import StoredSet
from language.texts import PassageCorpus, StoredText, opened
from models.hub import ModelError
from models.sources import find_model
from training.options.common import OptionError, TrainingOptions
from training.options.language_model import LANGUAGE_MODEL
from training.options.rankers import BI_ENCODER, BiEncoderOptions
from training.recipe import ranking_kinds, recipe_of
from training.runs.rehearsal import RehearsalTask
from training.runs.runs import Plan, Run, all_runs, mined_by, new_plan
from training.runs.sweeps import Findings, create_search
from training.sweeps.halving import changes_of
from views.names import kind_name
from views.resources.sets import pair_set, question_set, split_of
from views.runs.search import setting_words
from views.texts import Learned, reference_of
from views.train.ablation import draw_ablation
from views.train.base import Base
from views.train.fields import OptionFields, entered_value, field_key
from views.train.options import NEEDED
from views.train.start import (
    asked_of,
    begin,
    draw_ask_button,
    draw_estimate,
    draw_known_time,
    draw_negatives,
    draw_poolings,
    draw_start_button,
    pressed_once,
    trainings_started,
)
from views.ui.state import offer, remember
from views.ui.words import word, word_or

_MINUTES, _MOST_MINUTES = 10, 600
_MINUTES_WIDTH = 220  # pixels
_LONGEST_NAME = 80


def use_settings(plan: Plan, found: Findings) -> None:
    """Fill what was found into the form, with kind, base and objective; only as a callback."""
    names = {name for one in found.tried for name in one.changed}
    _fill_in(plan.kind, plan.options.base, replace(plan.options, **found.changes), names)


def fill_in_another_round(run: Run) -> None:
    """Fill in the form; only while no field is drawn, as in a callback."""
    plan = run.plan()
    if isinstance(plan.options, BiEncoderOptions):
        options = replace(mined_by(run.id, plan.options), rounds=1)
        _fill_in(plan.kind, run.id, options, {"negatives_from", "negatives", "negatives_model", "rounds"})


def _fill_in(kind: str, base: str, options: TrainingOptions, names: Set[str]) -> None:
    for name, chosen in {"train": kind, "base": base, "objective": options.objective.value}.items():
        remember(name, chosen)
    for name in {"objective", *names}:
        st.session_state[field_key(kind, name)] = entered_value(getattr(options, name))


@st.fragment
def draw_form(kind: str, base: Base, objective: str, data: Learned | StoredPairs) -> None:
    """Draw the form. What is entered counts at once, so that neither another base nor another page loses it."""
    form = OptionFields(kind, base, objective)
    with st.container(border=True):
        with st.container(key="settings_first"):  # a narrow screen shows what is needed to start, and these when asked
            name_column, *columns = st.columns(4)
            with name_column:
                name = _name_field(kind)
            form.draw_first(columns)
        form.draw_needed()
        with st.container(key="settings_more"):
            form.draw_more()
            found = form.draw_negatives()
        buttons = st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="right")
        told = st.container()  # below the buttons: they must not move while they are pressed
        with told:
            entered = _planned(form, data, kind, name.strip() or _free_name(kind))
        plan = entered if base.usable else None
        estimate = asked_of(plan, RehearsalTask.ESTIMATE)
        with buttons:
            _draw_way_back(form)
            if not base.usable:
                st.caption(word("train.base_first"), width="content")
            draw_known_time(plan)
            draw_ask_button(RehearsalTask.ESTIMATE, estimate, told)
            draw_start_button(plan, told)
        with told:
            draw_estimate(estimate, form)
    if found is not None:
        with found:
            draw_negatives(asked_of(plan, RehearsalTask.NEGATIVES))
    if kind == LANGUAGE_MODEL:
        draw_ablation(plan)
    elif kind in ranking_kinds():
        _draw_several(kind, plan, base)


def _draw_several(kind: str, plan: Plan | None, base: Base) -> None:
    """Draw the ways to several trainings around the one of the form, once they are opened."""
    key, icon = "train_several_open", ":material/experiment:"
    title = word("settings.find" if base.starter or kind != BI_ENCODER else "train.several")
    with st.expander(title, icon=icon, key=key, on_change="rerun") as fold:
        if not fold.open:
            return
        told = st.container()
        _draw_find(plan, told)
        draw_poolings(plan, base, told)


def _draw_find(plan: Plan | None, told: DeltaGenerator) -> None:
    """Draw the way to a search: what it tries, how long it may take, and its start; `plan` is None where none fits."""
    st.markdown(f"**{word('settings.find')}**")
    st.markdown(word("settings.about"))
    if plan is None:
        return
    tried = "\n".join(f"1. {setting_words(changes)}" for changes in changes_of(plan.options))
    st.caption(word("settings.tried") + "\n\n" + tried)
    key = "train_settings_minutes"
    st.session_state.setdefault(key, _MINUTES)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        minutes = st.number_input(
            word("settings.minutes"),
            min_value=1,
            max_value=_MOST_MINUTES,
            key=key,
            help=word("settings.minutes_help"),
            width=_MINUTES_WIDTH,
            persist_state="session",
        )
        pressed = pressed_once(word("settings.start", minutes=minutes), "train_find")
    if pressed and minutes:
        begin(lambda: create_search(plan, float(minutes)), told)


def _draw_way_back(form: OptionFields) -> None:
    """Say how many settings differ from their defaults, which may be folded away, and offer to take them back."""
    if changed := form.changed:
        st.button(
            word("train.take_back", count=len(changed)),
            on_click=form.take_back,
            icon=":material/undo:",
            type="tertiary",
            help=", ".join(word_or(f"option.{name}", name) for name in changed),
            key="train_take_back",
        )


def _planned(form: OptionFields, data: Learned | StoredPairs, kind: str, name: str) -> Plan | None:
    """Return the plan of what was entered, or tell beside its field what does not fit."""
    try:
        split, options = SplitOptions(*form.split()), recipe_of(kind).options(**form.options())
        learned = _checked(kind, data, split, options)
        for field, model in form.models().items():
            _check_model(field, model)
    except OptionError as error:
        _tell(form, error.option, word_or(f"option_problem.{error.code}", str(error)))
        return None
    except ValueError:  # all that is left are the shares of the split
        _tell(form, "validation", word("option_problem.validation"))
        return None
    return new_plan(kind, name, learned, split, options)


def _checked(
    kind: str, data: Learned | StoredPairs, split: SplitOptions, options: TrainingOptions
) -> tuple[str, str, str]:
    """Reference, name and fingerprint of what a training learns from. Raises `OptionError` where it cannot."""
    family = recipe_of(kind).family
    if kind == LANGUAGE_MODEL and not isinstance(data, StoredPairs):  # its documents are split by their hashes
        corpus = opened(data) if isinstance(data, StoredText) else PassageCorpus(question_set(data.key))
        family.check(corpus, options)
        return reference_of(data), data.name, corpus.fingerprint
    if isinstance(data, StoredSet):
        family.check(question_set(data.key), options)
        rows = split_of(data.key, split.validation, split.test, split.seed).rows
    else:
        pairs = pair_set(data.key)
        family.check(pairs, options)
        rows = split_pairs(pairs, split)
    judged = bool(len(rows[Part.VALIDATION])) or bool(getattr(options, "judged_on", ""))
    if len(rows[Part.TRAIN]) < 2 or not judged:
        raise OptionError("validation", "validation_empty", "leaves nothing to train on or to measure on")
    return data.key, data.name, data.fingerprint


def _check_model(field: str, model: str) -> None:
    try:
        find_model(model)
    except ModelError as error:
        raise OptionError(field, error.code, str(error)) from error


def _tell(form: OptionFields, name: str, text: str) -> None:
    """Tell a problem beside its field, and by the button where the field may be folded away."""
    form.tell(name, text)
    if name not in NEEDED:
        st.error(f"**{word_or(f'option.{name}', name)}**: {text}", icon=":material/error:")


def _name_field(kind: str) -> str:
    # a new name is offered after every start; until then what was typed stays
    key = f"train_{kind}_name_{trainings_started()}"
    offer(key, _free_name(kind))
    return st.text_input(word("train.name"), key=key, max_chars=_LONGEST_NAME, persist_state="session")


def _free_name(kind: str) -> str:
    """The kind and the first number that is free: short, so that tables can show what searches with it."""
    taken = {run.plan().name.split(" · ")[0] for run in all_runs()}  # those of a comparison share their beginning
    return next(name for number in count(1) if (name := f"{kind_name(kind)} {number}") not in taken)
