"""The trainings that have ended: what each gained, and what can be done with its model."""

from collections.abc import Callable

import streamlit as st

from data.store import StoredSet, stored
from training.archive import zipped_model
from training.runs import Plan, Run, State, Status
from views import compare_page
from views.choices import BM25_NAME, choices_for
from views.run_details import show_details
from views.run_scores import draw_scores
from views.state import use_set
from views.train_base import base_name
from views.words import duration, known, language, moment, plain, word

_SHOWN_FIRST = 5
_BADGES = {
    State.DONE: ("green", ":material/check_circle:"),
    State.STOPPED: ("gray", ":material/stop_circle:"),
    State.FAILED: ("red", ":material/error:"),
    State.INTERRUPTED: ("orange", ":material/power_off:"),
    State.WAITING: ("gray", ":material/schedule:"),
    State.RUNNING: ("blue", ":material/play_circle:"),
}
_TOLD_IN_FULL = ("data", "disk", "memory", "unexpected")


def draw_runs(runs: list[Run]) -> None:
    """Draw the runs, newest first; older ones on request."""
    st.subheader(word("train.list"))
    if not runs:
        st.info(word("train.list_empty"), icon=":material/info:")
        return
    shown = st.session_state.setdefault("trainings_shown", _SHOWN_FIRST)
    for run in runs[:shown]:
        _draw(run)
    if len(runs) > shown and st.button(word("train.show_more", count=len(runs) - shown), icon=":material/expand_more:"):
        st.session_state["trainings_shown"] = len(runs)
        st.rerun()


def _draw(run: Run) -> None:
    plan, status, scores = run.plan(), run.status(), run.scores()
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{plain(plan.name)}**", width="content")
            colour, icon = _BADGES[status.state]
            st.badge(word(f"state.{status.state.value}"), icon=icon, color=colour)  # type: ignore[arg-type]
        st.caption(_about(plan, scores.get("seconds")))
        if status.state is State.DONE:
            draw_scores(plan, scores)
        elif status.state in (State.FAILED, State.INTERRUPTED):
            _reason(plan, status)
        with st.container(horizontal=True):
            _buttons(run, plan, status)


def _about(plan: Plan, seconds: float | None) -> str:
    parts = [
        word(f"train.kind_{plan.kind.value}"),
        word("train.about_base", base=plain(base_name(plan.options.base))),
        word("train.about_data", data=plain(plan.data_name)),
        plain(moment(plan.created)),
    ]
    if seconds is not None:
        parts.append(word("train.about_seconds", duration=duration(seconds)))
    return " · ".join(parts)


def _reason(plan: Plan, status: Status) -> None:
    code = "interrupted" if status.state is State.INTERRUPTED else status.code
    key = f"failure.{code}" if known(f"failure.{code}") else "failure.unexpected"
    st.error(word(key, base=plain(plan.options.base)), icon=":material/error:")
    if code in _TOLD_IN_FULL and status.message:
        st.code(status.message, language=None, wrap_lines=True)


def _buttons(run: Run, plan: Plan, status: Status) -> None:
    if status.state is State.DONE:
        data = next((kept for kept in stored() if kept.fingerprint == plan.fingerprint), None)
        help_text = None if data else word("train.use_no_data")
        if _button("use", run, ":material/leaderboard:", disabled=data is None, help_text=help_text) and data:
            _use(plan, data)
        st.download_button(
            word("train.download"),
            lambda: zipped_model(run),
            f"{run.id}.zip",
            "application/zip",
            key=f"download_{run.id}",
            icon=":material/download:",
            help=word("train.download_help"),
            on_click="ignore",
        )
    if _button("details", run, ":material/info:"):
        st.dialog(plan.name[:80], width="large")(show_details)(run)
    if _button("delete", run, ":material/delete:"):
        st.dialog(word("train.delete_title"))(ask_to_delete)(run)


def _button(name: str, run: Run, icon: str, *, disabled: bool = False, help_text: str | None = None) -> bool:
    return st.button(word(f"train.{name}"), key=f"{name}_{run.id}", icon=icon, disabled=disabled, help=help_text)


def _use(plan: Plan, data: StoredSet) -> None:
    """Open the comparison of this model with BM25 on the test questions of the set it was trained on."""
    use_set(data.key)
    choices = choices_for(data, st.session_state.get(f"added_{data.key}", []))
    names = [BM25_NAME, *(name for name, known_plan in choices.trained.items() if known_plan == plan)]
    page = st.Page(compare_page.draw, url_path="compare", default=True)
    chosen = {"data": data.key, "retrievers": "|".join(names), "part": "test", "lang": language()}
    st.switch_page(page, query_params=chosen)


def ask_to_delete(run: Run) -> None:
    """Ask once more, then remove the run and its model."""
    plan = run.plan()
    st.markdown(word("train.delete_question", name=plain(plan.name)))
    with st.container(horizontal=True):
        if st.button(word("train.delete_yes"), icon=":material/delete:", key="delete_yes"):
            _removed(run.delete)
        if st.button(word("train.delete_no"), key="delete_no"):
            st.rerun()


def _removed(delete: Callable[[], None]) -> None:
    try:
        delete()
    except (OSError, ValueError) as error:
        st.error(word("train.not_deleted", reason=plain(str(error))), icon=":material/error:")
    else:
        st.rerun()
