"""The trainings that have ended: what each gained, and what can be done with it."""

from collections.abc import Callable

import streamlit as st

from data.store import StoredSet, stored
from jobs.status import State, Status
from training.engine.checkpoints import newest_checkpoint, step_of
from training.options.language_model import LANGUAGE_MODEL
from training.options.questions import READER
from training.options.rankers import BiEncoderOptions
from training.runs.runs import Plan, Run, damaged_runs
from training.runs.sweeps import QUEUE, Ablation, CompositeRun, Search
from views.choices import model_place
from views.names import run_name
from views.navigation import open_page, page_called
from views.runs.ablation import draw_ablation, draw_ablation_buttons
from views.runs.details import draw_details
from views.runs.head import close_dialog, draw_dialog, draw_head, has_ended, open_dialog, tell_failure
from views.runs.model import compare_with_untrained, draw_download, draw_push, draw_push_button
from views.runs.scores import draw_scores
from views.runs.search import Use, draw_search
from views.ui.problems import attempt, draw_damaged
from views.ui.words import language, plain, word

_SHOWN_FIRST = 5


def draw_runs(
    runs: list[Run],
    another_round: Callable[[Run], None],
    use_settings: Use,
    does_it_help: Callable[[Run], None],
    *,
    at_work: bool = False,
) -> None:
    """Draw those of the runs that have ended, newest first, older ones on request; and the dialog that is open.

    `another_round` is called for a finished bi-encoder that is to find the hard negatives of its next training,
    `use_settings` for what a search has found; `does_it_help` draws what asks that of a finished language model. The
    trainings of a search or an ablation stand folded under it.
    """
    st.subheader(word("train.list"))
    ended = [(run, status) for run in runs if has_ended(status := run.status())]
    if not ended:
        st.info(word("train.list_going" if at_work else "train.list_empty"), icon=":material/info:")
    shown = st.session_state.setdefault("trainings_shown", _SHOWN_FIRST)
    for run, status in ended[:shown]:
        _draw(run, status, use_settings, another_round)
    older = len(ended) - shown
    if older > 0 and st.button(word("train.show_more", count=older), icon=":material/expand_more:"):
        st.session_state["trainings_shown"] = len(ended)
        st.rerun()
    damaged = {run.id: run for run in damaged_runs()}
    draw_damaged([*damaged], lambda name: damaged[name].delete())
    draw_dialog({"details": draw_details, "delete": ask_to_delete, "push": draw_push, "helps": does_it_help})


def _draw(run: Run, status: Status, use: Use, another_round: Callable[[Run], None]) -> None:
    plan, done = run.plan(), status.state is State.DONE
    with st.container(border=True):
        draw_head(plan, status)
        if isinstance(run, Search):
            draw_search(run, use)
        elif isinstance(run, Ablation):
            draw_ablation(run)
        elif done:
            draw_scores(run, plan, run.scores())
        tell_failure(plan, status, **({"minutes": f"{run.minutes_needed:,}"} if isinstance(run, Search) else {}))
        with st.container(horizontal=True):
            if isinstance(run, Ablation):
                draw_ablation_buttons(run)
            elif done and not isinstance(run, Search):
                _draw_ways_on(run, plan, another_round)
            if not done:
                _draw_resume(run)
            if not isinstance(run, CompositeRun) and _button("details", run, ":material/info:"):
                open_dialog("details", run)
            if _button("delete", run, ":material/delete:"):
                open_dialog("delete", run)


def _draw_ways_on(run: Run, plan: Plan, another_round: Callable[[Run], None]) -> None:
    """Draw what can be done with a finished model."""
    data = next((kept for kept in stored() if kept.fingerprint == plan.fingerprint), None)
    if plan.kind == READER:
        _draw_way_to_answers(run, data)
    elif plan.kind == LANGUAGE_MODEL:
        if _button("use_language", run, page_called("language").sign, help_text=word("train.use_language_help")):
            open_page("language", language_tab="inside", network=model_place(run), lang=language())
        if _button("helps", run, ":material/experiment:", help_text=word("train.helps_help")):
            open_dialog("helps", run)
    else:
        help_text = word("train.use_help" if data else "train.use_no_data")
        if _button("use", run, ":material/leaderboard:", disabled=data is None, help_text=help_text) and data:
            compare_with_untrained(plan, data)
    if isinstance(plan.options, BiEncoderOptions):
        st.button(
            word("train.another_round"),
            key=f"another_round_{run.id}",
            icon=":material/model_training:",
            help=word("train.another_round_help"),
            on_click=another_round,
            args=(run,),
        )
    draw_download(run, plan)
    draw_push_button(run)


def _draw_resume(run: Run) -> None:
    if isinstance(run, Search):
        label, help_text = word("settings.resume"), word("settings.resume_help")
    elif isinstance(run, Ablation):
        label, help_text = word("ablation.resume"), word("ablation.resume_help")
    else:
        kept = newest_checkpoint(run.folder)
        help_text = word("train.resume_from", step=f"{step_of(kept):,}") if kept else word("train.resume_anew")
        label = word("train.resume")
    if st.button(label, key=f"resume_{run.id}", icon=":material/resume:", help=help_text):
        st.toast(word("train.resumed"), icon=":material/resume:")
        _tried("train.not_resumed", lambda: QUEUE.resume(run))


def _button(name: str, run: Run, icon: str, *, disabled: bool = False, help_text: str | None = None) -> bool:
    return st.button(word(f"train.{name}"), key=f"{name}_{run.id}", icon=icon, disabled=disabled, help=help_text)


def _draw_way_to_answers(run: Run, data: StoredSet | None) -> None:
    """Draw the button that lets the reader answer, of passages of the set it was trained on where that is there."""
    if _button("use_reader", run, page_called("answers").sign, help_text=word("train.use_reader_help")):
        open_page("answers", **({"data": data.key} if data else {}), reader=run.id, lang=language())


def ask_to_delete(run: Run) -> None:
    """Ask once more, then remove the run and its model."""
    plan = run.plan()
    name = plain(run_name(plan))
    if plan.ablation:
        st.markdown(word("ablation.delete_question", name=name))
    else:
        st.markdown(word("settings.delete_question" if plan.minutes else "train.delete_question", name=name))
    with st.container(horizontal=True):
        sure = st.button(word("train.delete_yes"), icon=":material/delete:", key="delete_yes")
        if st.button(word("train.delete_no"), key="delete_no"):
            close_dialog()
            st.rerun()
    if sure:
        _tried("train.not_deleted", lambda: _remove(run))


def _remove(run: Run) -> None:
    if run.status().state is State.QUEUED:
        run.stop()  # a command may stand in line with it
    run.delete()


def _tried(problem: str, action: Callable[[], None]) -> None:
    if attempt(action, problem, errors=(OSError, ValueError)):
        close_dialog()
        st.rerun()
