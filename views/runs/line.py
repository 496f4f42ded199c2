"""The trainings that stand in line, in their order, and what can be done with each."""

from datetime import UTC, datetime, timedelta

import streamlit as st

from data.workspace import user
from training.runs.line import LINE
from training.runs.runs import Run
from views.names import base_name, kind_name, run_name, set_name
from views.runs.head import open_dialog
from views.ui.words import moment, plain, word

_POLL = timedelta(seconds=2)
_SHOWN = 4  # rows, before the list scrolls
_HEIGHT = 330  # pixels


def draw_queue() -> None:
    """Draw the queue, if anything waits; draws the page anew once another training is at work or in line.

    It looks even while nothing waits: another person, or a command, may start a training.
    """
    _follow_queue((LINE.at_work(), LINE.queued()))


@st.fragment(run_every=_POLL)
def _follow_queue(seen: tuple[Run | None, list[Run]]) -> None:
    at_work, waiting = LINE.at_work(), LINE.queued()
    if (at_work, waiting) != seen:
        st.rerun()
    if not waiting:
        return
    st.subheader(word("train.queue", count=len(waiting)), help=word("train.queue_help"))
    holder = None if at_work else LINE.holder()
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
    about = [
        kind_name(plan.kind),
        word("train.about_base", base=plain(base_name(plan.options.base, plan.kind))),
        word("train.about_data", data=plain(set_name(plan.data_name))),
        word("train.queued_since", moment=plain(moment(since))),
    ]
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
