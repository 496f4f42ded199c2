"""The training, search or ablation at work, how far it is and how it goes, and those that stand in line."""

from datetime import UTC, datetime, timedelta
from functools import partial

import streamlit as st

from data.workspace import user
from jobs.folder import Status
from training.recipe import recipe_of
from training.runs.curves import MEASURES, Curves, curves
from training.runs.runs import Plan, Run
from training.runs.sweeps import QUEUE, Ablation, Search
from views.names import kind_name, phase_words, run_name, set_name
from views.runs.ablation import draw_ablation_so_far
from views.runs.charts import best_by, draw_run_figure, measure_name, pick_measure
from views.runs.head import made_of, open_dialog
from views.runs.search import draw_search_so_far
from views.ui.job import draw_log, follow
from views.ui.words import duration, moment, plain, word

_POLL_SECONDS = 1.5
_LOG_LINES = 15
_POLL = timedelta(seconds=2)
_SHOWN = 4  # rows, before the list scrolls
_HEIGHT = 330  # pixels


def draw_at_work(run: Run) -> None:
    """Draw what goes on, a training, a search or an ablation, until it has come to an end."""
    plan = run.plan()
    with st.container(border=True):
        st.markdown(f"**{plain(run_name(plan))}** · {kind_name(plan.kind)} · {plain(set_name(plan.data_name))}")
        follow(run, partial(phase_words, run), partial(_details, run, plan), every=_POLL_SECONDS)


def _details(run: Run, plan: Plan, status: Status) -> None:
    if isinstance(run, Search):
        draw_search_so_far(run)
        return
    if isinstance(run, Ablation):
        draw_ablation_so_far(run)
        return
    found = curves(run, ["loss", "learning_rate", "grad_norm", "examples_per_second", *MEASURES])
    usual = best_by(run, plan)
    _draw_figures(plan, status, found, usual)
    measure = pick_measure(f"measure_{run.id}", plan.kind, usual)
    for names in (("loss", measure), ("learning_rate", "grad_norm")):
        for column, name in zip(st.columns(2), names, strict=True):
            with column:
                draw_run_figure(name, found, recipe_of(plan.kind).colour, last_step=status.total_steps)
    with st.expander(word("train.tab_log"), icon=":material/terminal:"):
        draw_log(run, _LOG_LINES)


def _draw_figures(plan: Plan, status: Status, found: Curves, measure: str) -> None:
    def last(name: str, form: str) -> str:
        points = found.points[name]
        return format(points[-1][1], form) if points else "–"

    step, total, epochs = status.step, status.total_steps, plan.options.epochs
    figures = {
        "step": f"{step:,} / {total:,}" if total else "–",
        "epoch": f"{step / total * epochs:.1f} / {epochs:g}" if total else "–",
        "left": duration(status.left) if status.left else "–",
        "examples_per_second": last("examples_per_second", ",.0f"),
        "loss": last("loss", ".4f"),
        "learning_rate": last("learning_rate", ".2e"),
        "grad_norm": last("grad_norm", ".3f"),
    }
    columns = [*st.columns(4), *st.columns(4)]
    for column, (name, value) in zip(columns, figures.items(), strict=False):
        column.metric(word(f"train.{name}"), value, help=word(f"train.{name}_help"))
    columns[-1].metric(measure_name(measure), last(measure, ".2%"), help=word("train.best_by_help"))


def draw_queue() -> None:
    """Draw the queue, if anything waits; draws the page anew once another training is at work or in line.

    It looks even while nothing waits: another person, or a command, may start a training.
    """
    _follow_queue((QUEUE.at_work(), QUEUE.queued()))


@st.fragment(run_every=_POLL)
def _follow_queue(seen: tuple[Run | None, list[Run]]) -> None:
    at_work, waiting = QUEUE.at_work(), QUEUE.queued()
    if (at_work, waiting) != seen:
        st.rerun()
    if not waiting:
        return
    st.subheader(word("train.queue", count=len(waiting)), help=word("train.queue_help"))
    holder = None if at_work else QUEUE.holder()
    if holder:
        since = datetime.fromtimestamp(holder.since, UTC).isoformat()
        told = word("train.machine_held", name=plain(holder.name), moment=plain(moment(since)))
        # what others train, and since when, is theirs
        st.info(word("train.machine_in_use") if user() else told, icon=":material/hourglass:")
    with st.container(height=_HEIGHT if len(waiting) > _SHOWN else "content", border=len(waiting) > _SHOWN):
        for place, run in enumerate(waiting, start=1):
            _row(place, run)


def _row(place: int, run: Run) -> None:
    plan, status = run.plan(), run.status()
    since = datetime.fromtimestamp(status.queued, UTC).isoformat()
    about = [*made_of(plan), word("train.queued_since", moment=plain(moment(since)))]
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        with st.container(width="stretch", gap=None):
            badge = f" :blue-badge[{word('train.queue_next')}]" if place == 1 else ""
            st.markdown(f"**{place}\\. {plain(run_name(plan))}**{badge}")
            st.caption(" · ".join(about))
        if st.button(
            word("train.take_out"),
            key=f"take_out_{run.id}",
            icon=":material/playlist_remove:",
            help=word("train.take_out_help"),
        ):
            run.stop()
            st.rerun()
        if st.button(word("train.delete"), key=f"delete_{run.id}", icon=":material/delete:"):
            open_dialog("delete", run)
            st.rerun()
