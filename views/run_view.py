"""The training at work: how far it is, how it goes, and the button that ends it."""

from datetime import timedelta

import streamlit as st

from training.curves import Curves, curves
from training.launch import end
from training.options import Kind
from training.runs import Phase, Plan, Run, State, Status
from views.run_charts import draw_curves
from views.words import duration, plain, word

_POLL = timedelta(seconds=1.5)


@st.fragment(run_every=_POLL)
def follow(run: Run) -> None:
    """Draw the run anew every moment until it has come to an end. It goes on without the page, too."""
    status = run.status()
    if not status.at_work:
        st.rerun()
    plan = run.plan()
    found = curves(run, plan.kind)
    with st.container(border=True):
        head, buttons = st.columns([4, 1], vertical_alignment="center")
        head.markdown(f"**{plain(plan.name)}** · {word(f'train.kind_{plan.kind.value}')} · {plain(plan.data_name)}")
        with buttons:
            _stop(run)
        st.progress(_share(status), text=_phase_words(run, status))
        _figures(plan, status, found)
        draw_curves(found, plan.kind, status.total_steps)


def _share(status: Status) -> float:
    return min(1.0, status.step / status.total_steps) if status.total_steps else 0.0


def _phase_words(run: Run, status: Status) -> str:
    if run.asked_to_stop:
        return word("train.stopping")
    if status.state is State.WAITING:
        return word("train.starting")
    phase = word(f"phase.{status.phase.value}")
    if status.seconds_left and status.phase is Phase.TRAINING:
        return word("sidebar.left", phase=phase, left=duration(status.seconds_left))
    return phase


def _figures(plan: Plan, status: Status, found: Curves) -> None:
    epochs = plan.options.epochs
    known = bool(status.total_steps)
    done = f"{status.step / status.total_steps * epochs:.1f} / {epochs:g}" if known else "–"
    left = duration(status.seconds_left) if status.seconds_left and status.phase is Phase.TRAINING else "–"
    columns = st.columns(4)
    columns[0].metric(
        word("train.step"), f"{status.step:,} / {status.total_steps:,}" if known else "–", help=word("train.step_help")
    )
    columns[1].metric(word("train.epoch"), done, help=word("train.epoch_help"))
    columns[2].metric(word("train.left"), left, help=word("train.left_help"))
    columns[3].metric(
        word("train.loss"), f"{found.loss[-1][1]:.4f}" if found.loss else "–", help=word("train.loss_help")
    )


def _stop(run: Run) -> None:
    name, icon, press = (
        ("end", "dangerous", lambda: end(run)) if run.asked_to_stop else ("stop", "stop", run.ask_to_stop)
    )
    st.button(
        word(f"train.{name}"),
        on_click=press,
        icon=f":material/{icon}:",
        help=word(f"train.{name}_help"),
        key=f"{name}_{run.id}",
        width="stretch",
    )


def draw_run_curves(run: Run, kind: Kind) -> None:
    """Draw the curves of a run that has ended."""
    draw_curves(curves(run, kind), kind, run.status().total_steps)
