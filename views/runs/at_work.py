"""The training at work: how far it is, how it goes, and the button that ends it."""

from datetime import timedelta

import streamlit as st

from training.runs.curves import MEASURES, Curves, curves
from training.runs.queue import end, stop
from training.runs.runs import Phase, Plan, Run, State, Status
from views.runs.charts import COLOUR, MEASURE_NAMES, draw_figure, pick_measure
from views.words import duration, plain, word

_POLL = timedelta(seconds=1.5)
_LOG_LINES = 15
_DRAWN = ("loss", "learning_rate", "grad_norm")


@st.fragment(run_every=_POLL)
def follow(run: Run) -> None:
    """Draw the run anew every moment until it has come to an end. It goes on without the page, too."""
    status = run.status()
    if not status.at_work:
        st.rerun()
    plan = run.plan()
    found = curves(run, [*_DRAWN, "examples_per_second", *MEASURES])
    with st.container(border=True):
        head, buttons = st.columns([4, 1], vertical_alignment="center")
        head.markdown(f"**{plain(plan.name)}** · {word(f'train.kind_{plan.kind.value}')} · {plain(plan.data_name)}")
        with buttons:
            _stop(run, status)
        st.progress(_share(status), text=_phase_words(status))
        _figures(plan, status, found)
        _charts(run, plan, status, found)
        with st.expander(word("train.tab_log"), icon=":material/terminal:"):
            draw_log(run, _LOG_LINES)


def draw_log(run: Run, lines: int) -> None:
    """Draw the end of what the run's process wrote."""
    text = "\n".join(run.log().splitlines()[-lines:])
    st.code(text or word("train.log_empty"), language=None, height=400, wrap_lines=True)


def _share(status: Status) -> float:
    return min(1.0, status.step / status.total_steps) if status.total_steps else 0.0


def _phase_words(status: Status) -> str:
    if status.state is State.STOPPING:
        return word("train.stopping_step" if status.phase is Phase.TRAINING else "train.stopping")
    phase = word(f"phase.{status.phase.value}")
    if status.seconds_left and status.phase is Phase.TRAINING:
        return word("sidebar.left", phase=phase, left=duration(status.seconds_left))
    return phase


def _figures(plan: Plan, status: Status, found: Curves) -> None:
    known = bool(status.total_steps)
    done = f"{status.step / status.total_steps * plan.options.epochs:.1f} / {plan.options.epochs:g}" if known else "–"
    left = duration(status.seconds_left) if status.seconds_left and status.phase is Phase.TRAINING else "–"
    best_by = plan.options.best_by.value
    first, second = st.columns(4), st.columns(4)
    for column, name, value in (
        (first[0], "step", f"{status.step:,} / {status.total_steps:,}" if known else "–"),
        (first[1], "epoch", done),
        (first[2], "left", left),
        (first[3], "examples_per_second", _last(found, "examples_per_second", ",.0f")),
        (second[0], "loss", _last(found, "loss", ".4f")),
        (second[1], "learning_rate", _last(found, "learning_rate", ".2e")),
        (second[2], "grad_norm", _last(found, "grad_norm", ".3f")),
    ):
        column.metric(word(f"train.{name}"), value, help=word(f"train.{name}_help"))
    second[3].metric(MEASURE_NAMES[best_by], _last(found, best_by, ".2%"), help=word("train.best_by_help"))


def _last(found: Curves, name: str, number: str) -> str:
    points = found.points[name]
    return format(points[-1][1], number) if points else "–"


def _charts(run: Run, plan: Plan, status: Status, found: Curves) -> None:
    measure = pick_measure(f"measure_{run.id}", plan.options.best_by.value)
    for left, right in (("loss", measure), ("learning_rate", "grad_norm")):
        for column, name in zip(st.columns(2), (left, right), strict=True):
            with column:
                draw_figure(
                    name,
                    {plan.name: found.points[name]},
                    [COLOUR[plan.kind]],
                    last_step=status.total_steps,
                    bm25=found.bm25.get(name),
                )


def _stop(run: Run, status: Status) -> None:
    asked = status.state is State.STOPPING
    name, icon, press = ("end", "dangerous", end) if asked else ("stop", "stop", stop)
    st.button(
        word(f"train.{name}"),
        on_click=press,
        args=(run,),
        icon=f":material/{icon}:",
        help=word(f"train.{name}_help"),
        key=f"{name}_{run.id}",
        width="stretch",
    )
