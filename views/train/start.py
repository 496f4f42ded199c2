"""The buttons that start trainings: at once, or after those that are at work."""

from collections.abc import Callable
from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from data.limits import LimitError
from training.options.bi_encoder import BiEncoderOptions, Pooling
from training.runs.line import LINE
from training.runs.rounds import create_rounds, rounds_of
from training.runs.runs import Plan
from views.train.base import Base
from views.ui.problems import failure_text
from views.ui.words import plain, word

_COMPARED = (Pooling.MEAN, Pooling.CLS, Pooling.MAX)
_STARTED = "trainings_started"


def trainings_started() -> int:
    """Return how many trainings this session has started."""
    return int(st.session_state.get(_STARTED, 0))


def draw_start_button(plan: Plan | None, told: DeltaGenerator) -> None:
    """Draw the button that starts the planned training, or queues it; what went wrong is told in `told`."""
    busy = LINE.at_work() is not None or bool(LINE.queued())
    pressed = st.button(
        word("train.enqueue" if busy else "train.start"),
        type="primary",
        icon=":material/playlist_add:" if busy else ":material/play_arrow:",
        disabled=plan is None,
        help=word("train.enqueue_help") if busy else None,
        key=f"train_start_{trainings_started()}",  # the second press of a double click starts nothing
    )
    if pressed and plan:
        _start([plan], told)


def draw_poolings(plan: Plan | None, base: Base, told: DeltaGenerator) -> None:
    """Draw the way to train a pretrained bi-encoder with each of the poolings, all else the same."""
    if base.starter or plan is None or not isinstance(plan.options, BiEncoderOptions):
        return
    st.divider()
    st.markdown(f"**{word('train.poolings')}**")
    st.markdown(word("train.poolings_about"))
    if st.button(word("train.poolings_start"), icon=":material/filter_3:", key=f"train_poolings_{trainings_started()}"):
        options = [(pooling, replace(plan.options, pooling=pooling)) for pooling in _COMPARED]
        _start([replace(plan, name=f"{plan.name} · {pooling}", options=one) for pooling, one in options], told)


def _start(plans: list[Plan], told: DeltaGenerator) -> None:
    def make() -> None:
        for plan in plans:
            create_rounds(plan)

    begin(make, told, sum(rounds_of(plan.options) for plan in plans))


def begin(make: Callable[[], object], told: DeltaGenerator, count: int = 1) -> None:
    """Make so many jobs and have them begin; what went wrong is told in `told`."""
    try:
        LINE.admit(count)
        make()
        LINE.start_worker()
    except OSError as error:
        told.error(word("train.not_started", reason=plain(str(error))), icon=":material/error:")
        return
    except LimitError as error:
        told.error(plain(failure_text(error)), icon=":material/error:")
        return
    st.session_state[_STARTED] = trainings_started() + 1
    st.toast(word("train.started"), icon=":material/play_arrow:")
    st.rerun()
