"""What can be asked before a training starts, each in a process of its own: its time and memory, its hard negatives."""

import time
from dataclasses import dataclass
from functools import cached_property, partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from data.limits import LimitError
from jobs.status import Status
from training.runs.line import LINE
from training.runs.rehearsal import Estimate, Rehearsal, Task
from training.runs.rounds import rounds_of
from training.runs.runs import Plan
from views.names import base_name
from views.train.fields import OptionFields
from views.ui.job import follow
from views.ui.problems import failure_text, tell_training_failure
from views.ui.words import duration, plain, word, word_or

_GIGABYTE = 1e9
_ICONS = {Task.ESTIMATE: ":material/timer:", Task.NEGATIVES: ":material/visibility:"}


@dataclass(frozen=True)
class Asked:
    """What can be asked of the training as it is entered now."""

    plan: Plan
    task: Task

    @cached_property
    def rehearsal(self) -> Rehearsal:
        """Where its answer is, or will be."""
        return Rehearsal.of(self.plan, self.task)


def asked_of(plan: Plan | None, task: Task) -> Asked | None:
    """Return what can be asked of the plan; the process that answers for a plan since changed is ended."""
    asked = Asked(plan, task) if plan else None
    key = f"train_asked_{task.value}"
    earlier: Rehearsal | None = st.session_state.get(key)
    if earlier and (asked is None or asked.rehearsal != earlier):
        earlier.end()
        del st.session_state[key]
    return asked


def draw_ask_button(task: Task, asked: Asked | None, told: DeltaGenerator) -> None:
    """Draw the button that asks, and starts no training; what went wrong is told in `told`."""
    pressed = st.button(
        word(f"train.ask_{task.value}"),
        icon=_ICONS[task],
        help=word(f"train.ask_{task.value}_help"),
        disabled=asked is None or asked.rehearsal.running,
        key=f"train_ask_{task.value}",
    )
    if not (pressed and asked) or asked.rehearsal.running:  # the second press of a double click
        return
    try:
        asked.rehearsal.start(asked.plan)
    except OSError as error:
        told.error(word("train.not_started", reason=plain(str(error))), icon=":material/error:")
    except LimitError as error:
        told.error(plain(failure_text(error)), icon=":material/error:")
    else:
        st.session_state[f"train_asked_{task.value}"] = asked.rehearsal


def is_answered(asked: Asked) -> bool:
    """Whether the answer is there; if not, draw how it stands."""
    if asked.rehearsal.done:
        return True
    if asked.rehearsal.running:
        follow(asked.rehearsal, partial(_at_work, asked.task))
    elif asked.rehearsal.failed:
        base = base_name(asked.plan.options.base, asked.plan.kind)
        tell_training_failure(*asked.rehearsal.problem(), base, unforeseen="train.not_answered")
    return False


def draw_estimate(asked: Asked | None, form: OptionFields) -> None:
    """Draw what the training would take, and first of all what to do where it does not fit."""
    if asked is None or not is_answered(asked):
        return
    found = asked.rehearsal.estimate()
    sizes = {"memory": _gigabytes(found.memory), "available": _gigabytes(found.memory_available)}
    if not found.fits:
        _tell_too_large(found, form)
    st.info(
        word("train.estimate", time=duration(found.seconds), steps=f"{found.steps:,}", **sizes),
        icon=_ICONS[Task.ESTIMATE],
    )
    parts = {"step": f"{found.seconds_a_step:.3g}", "measuring": duration(found.seconds_measuring)}
    parts["loading"] = duration(found.seconds_loading)
    st.caption(word("train.estimate_parts", device=plain(found.device), **parts))
    if (rounds := rounds_of(asked.plan.options)) > 1:
        st.caption(word("train.estimate_rounds", rounds=rounds, time=duration(rounds * found.seconds)))
    if found.seconds_teaching:
        st.caption(word("train.estimate_teaching", teaching=duration(found.seconds_teaching)))
    if LINE.at_work():
        st.caption(word("train.estimate_busy"))


def _tell_too_large(found: Estimate, form: OptionFields) -> None:
    if not found.instead:
        st.error(word("train.too_large"), icon=":material/memory:")
        return
    wanted = ", ".join(_told(name, value) for name, value in found.instead.items())
    st.error(word("train.too_large_instead", options=wanted), icon=":material/memory:")
    st.button(
        word("train.use_instead"),
        on_click=form.enter,
        args=(found.instead,),
        icon=":material/check:",
        key="train_use_instead",
    )


def _told(name: str, value: object) -> str:
    """An option and its value, as the form has them; a box is ticked where only its words are told."""
    label = word(f"option.{name}")
    if isinstance(value, str):
        return f"{label}: {word_or(f'choice.{name}_{value}', value)}"
    return label if value is True else f"{label} {value:,}"


def _at_work(task: Task, status: Status) -> str:
    return word(f"train.answering_{task.value}", time=duration(time.time() - status.started))


def _gigabytes(number_of_bytes: int) -> str:
    return f"{number_of_bytes / _GIGABYTE:.1f}"
