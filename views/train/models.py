"""Fields for a model that takes part in a training: one that guides it, teaches it, or finds its hard negatives."""

from typing import Any

import streamlit as st

from models.packaged.bases import base_at_hand
from models.sources import STARTER
from training.options.bi_encoder import BI_ENCODER
from training.options.cross_encoder import CROSS_ENCODER
from training.recipe import kinds_alike, recipe_of
from views.choices import finished_runs
from views.names import OTHER, is_a_starter, model_label
from views.ui.state import offer, relabel
from views.ui.words import word

ITSELF = ""  # a guide that is not named is the base
KINDS = {"guide": BI_ENCODER, "teacher": CROSS_ENCODER, "negatives_model": BI_ENCODER}


def model_field(words: dict[str, Any], choices: list[str], *, optional: bool) -> str:
    """Draw the choice of a model, offered by `hold_model`; returns its reference, empty where none is chosen.

    `words` are the widget's; what is `optional` may be left open.
    """
    key = words["key"]
    relabel(key)
    chosen = st.selectbox(
        **words,
        options=choices,
        index=None if optional else 0,
        format_func=_label,
        placeholder=word("train.pick_model"),
    )
    return (other_field(_other(key)) if chosen == OTHER else chosen) or ""


def hold_model(name: str, key: str, start: str, choices: list[str]) -> str:
    """Offer the model that a field starts with, and return the reference of the one entered."""
    known = start in choices or (name == "teacher" and not start)
    offer(key, (start or (ITSELF if name == "guide" else None)) if known else OTHER)
    if st.session_state[key] not in choices:  # such as a run that was deleted
        st.session_state[key] = choices[0] if name != "teacher" else None
    offer(_other(key), "" if known else start)
    chosen = st.session_state[key]
    return str((st.session_state[_other(key)] if chosen == OTHER else chosen) or "").strip()


def other_field(key: str) -> str:
    """Draw the field for a model that is in no list; returns its hub id or folder, empty where none is entered."""
    return st.text_input(
        word("train.other"),
        key=key,
        max_chars=1000,
        placeholder=word("train.other_example"),
        help=word("train.other_help"),
        persist_state="session",
    ).strip()


def model_choices(name: str, kind: str) -> list[str]:
    """Return what a field named so offers, of models of a kind."""
    kinds = kinds_alike(kind)
    runs = [run.id for run in finished_runs() if run.plan().kind in kinds]
    if name == "guide":  # it must read texts as the base does, and starters have no tokenizer
        return [ITSELF, *_packaged(), recipe_of(kind).base, *(run for run in runs if not is_a_starter(run)), OTHER]
    if kind == CROSS_ENCODER:  # the hub's default has not learned to score anything yet
        return [STARTER, *runs, OTHER]
    return [*_packaged(), STARTER, recipe_of(kind).base, *runs, OTHER]


def _other(key: str) -> str:
    return f"{key}_other"


def _packaged() -> list[str]:
    base = base_at_hand()
    return [base.reference] if base else []


def _label(choice: str) -> str:
    return word("train.guide_itself") if choice == ITSELF else model_label(choice)
