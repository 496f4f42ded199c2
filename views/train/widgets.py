"""One field of a training's form: the widget that suits an option, its words and its range."""

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from typing import Any

import streamlit as st

from retrieval.evaluation.measures import Measure
from training.options.common import Report
from training.options.questions import BestBy
from views.train.models import KINDS, hold_model, model_choices, model_field
from views.train.pairs import judging_sets
from views.ui.state import offer, relabel
from views.ui.words import word, word_or

_SMALL = {"learning_rate", "question_regularizer", "passage_regularizer"}
_STEPS = {"epochs": 1.0, "save_minutes": 1.0, "temperature": 0.01, "teacher_temperature": 0.5}


@dataclass(frozen=True)
class Field:
    """An option of a kind to be entered: what it is offered with, and its smallest and largest value if a number."""

    kind: str
    name: str
    key: str
    start: Any
    low: float | None = None
    high: float | None = None
    help: str = ""  # where there are no words for it
    model: str = ""  # which kind of model it names, where it is another than its name says


def draw_field(field: Field) -> Any:
    """Draw the widget of an option; returns what is entered, None for a number left empty."""
    hold_field(field)
    if field.name in KINDS:
        return model_field(_words(field), _model_choices(field), optional=field.name == "teacher")
    if field.name == "judged_on":
        sets = _judging_sets()
        return str(st.selectbox(**_words(field), options=list(sets), format_func=sets.__getitem__))
    if isinstance(field.start, StrEnum):
        return _choice(field)
    if isinstance(field.start, bool):
        return st.checkbox(**_words(field))
    if isinstance(field.start, str):
        return st.text_input(**_words(field), max_chars=200)
    return _number(field)


def hold_field(field: Field) -> Any:
    """Offer what an option starts with, and return what is entered, of a field that may be folded away."""
    if field.name in KINDS:
        return hold_model(field.name, field.key, field.start, _model_choices(field))
    if field.name == "judged_on":
        offer(field.key, field.start if field.start in _judging_sets() else "")
    elif isinstance(field.start, StrEnum):
        offer(field.key, field.start.value)
        if st.session_state[field.key] not in _choices(field):  # such as a package that was removed
            st.session_state[field.key] = _choices(field)[0]
    else:
        offer(field.key, field.start)
    return st.session_state[field.key]


def tell_of_packages() -> None:
    """Tell which places the curves could go to besides, and how."""
    if missing := [report.value for report in Report if not _installed(report)]:
        st.caption(word("train.report_to_more", packages=" ".join(missing)))


def _model_choices(field: Field) -> list[str]:
    return model_choices(field.name, field.model or KINDS[field.name])


def _judging_sets() -> dict[str, str]:
    return {"": word("train.judged_by_itself")} | judging_sets()


def _choices(field: Field) -> list[str]:
    return [choice.value for choice in type(field.start) if not isinstance(choice, Report) or _installed(choice)]


def _choice(field: Field) -> str:
    relabel(field.key)
    words = partial(_choice_words, field)
    return str(st.selectbox(**_words(field), options=_choices(field), format_func=words))


def _choice_words(field: Field, choice: str) -> str:
    if isinstance(field.start, BestBy):
        return Measure.parse(choice).long
    return word_or(f"choice.{field.name}_{choice}", choice)


def _number(field: Field) -> float | int | None:
    made = type(field.start)
    return st.number_input(
        **_words(field),
        value=None,  # what it is offered with stands in the session; an emptied field falls back to it
        placeholder=_shown(field.start),
        min_value=None if field.low is None else made(field.low),
        max_value=None if field.high is None else made(field.high),
        step=1 if made is int else _step(field),
        format=None if made is int else "%g",
    )


def _words(field: Field) -> dict[str, Any]:
    help_text = word_or(f"option_help.{field.name}_{field.kind}", word_or(f"option_help.{field.name}", field.help))
    if field.low is not None:
        key = "train.range" if field.high is not None else "train.range_open"
        help_text += " " + word(key, low=_shown(field.low), high=_shown(field.high or 0))
    # kept for the session: a look at another page loses nothing that was entered
    label = word_or(f"option.{field.name}", field.name)
    return {"label": label, "help": help_text, "key": field.key, "persist_state": "session"}


def _step(field: Field) -> float:
    if field.name in _SMALL:
        return float(f"{field.start / 2:.0e}")
    return _STEPS.get(field.name, 0.05)


def _installed(report: Report) -> bool:
    return report is Report.NONE or find_spec(report.value) is not None


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
