"""The running, queued and ended trainings of the Train page, with what can be done with each and with its model:
compared with its base, downloaded, or pushed to a model hub."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import streamlit as st

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.store import StoredSet, stored
from mrc_workbench.data.workspace import user
from mrc_workbench.models.sources import ModelSource, is_starter
from mrc_workbench.retrieval.comparison.experiment import add
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.comparison.multistage import BM25_NAME
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.training.jobs import QUEUE, Ablation, CompositeRun, Rehearsal, RehearsalTask, Search
from mrc_workbench.training.ranker_options import BiEncoderOptions
from mrc_workbench.training.recipes import recipe_of
from mrc_workbench.training.results import MEASURES, Curves, PushError, curves, push, zipped_model
from mrc_workbench.training.runs import Plan, Run, damaged_runs
from mrc_workbench.training.text_options import LANGUAGE_MODEL, READER
from mrc_workbench.workbench.views.choices import Choices, choices_for, model_place
from mrc_workbench.workbench.views.names import base_name, kind_name, phase_words, run_name, set_name
from mrc_workbench.workbench.views.navigation import open_page, page_called
from mrc_workbench.workbench.views.resources.sets import use_set
from mrc_workbench.workbench.views.train import cards, charts, composite
from mrc_workbench.workbench.views.train.ablation import draw_does_it_help
from mrc_workbench.workbench.views.train.cards import draw_button
from mrc_workbench.workbench.views.train.charts import draw_scores
from mrc_workbench.workbench.views.train.fields import fill_in_another_round
from mrc_workbench.workbench.views.ui.job import draw_log, follow
from mrc_workbench.workbench.views.ui.words import (
    attempt,
    draw_damaged,
    duration,
    free_name,
    known,
    label_and_help,
    language,
    moment,
    plain,
    plain_number,
    word,
)

_SHOWN_FIRST = 5
_TILES = 4  # in a row
_LOADED_OTHERWISE = {READER: "train.load_reader", LANGUAGE_MODEL: "train.load_language"}


def draw_at_work(run: Run) -> None:
    plan = run.plan()
    with st.container(border=True):
        st.markdown(f"**{plain(run_name(plan))}** · {kind_name(plan.kind)} · {plain(set_name(plan.data_name))}")
        follow(run, partial(phase_words, run), partial(_draw_progress, run, plan), every=1.5)


def _draw_progress(run: Run, plan: Plan, status: Status) -> None:
    if isinstance(run, Search):
        composite.draw_search(run, is_running=True)
        return
    if isinstance(run, Ablation):
        composite.draw_ablation(run, is_running=True)
        return
    found = curves(run, ["loss", "learning_rate", "grad_norm", "examples_per_second", *MEASURES])
    best_by = charts.best_by(run, plan)
    _draw_figures(run, plan, status, found, best_by)
    if any(found.points[name] for name in ("loss", *MEASURES)):
        measure = charts.pick_measure(f"measure_{run.id}", plan.kind, best_by)
        for names in (("loss", measure), ("learning_rate", "grad_norm")):
            names_of_row = [name for name in names if found.points[name]]
            for column, name in zip(st.columns(2), names_of_row, strict=False):
                with column:
                    charts.draw_run_figure(name, found, recipe_of(plan.kind).colour, last_step=status.total_steps)
    with st.expander(word("train.tab_log"), icon=":material/terminal:"):
        draw_log(run, 15)


def _draw_figures(run: Run, plan: Plan, status: Status, found: Curves, measure: str) -> None:
    step, total, epochs = status.step, status.total_steps, plan.options.epochs
    figures: dict[str, str] = {}
    if total:
        figures["step"] = f"{step:,} / {total:,}"
        figures["epoch"] = f"{step / total * epochs:.1f} / {epochs:g}"
    if left := _seconds_left(run, plan, status):
        figures["left"] = duration(left)
    forms: dict[str, Callable[[float], str]] = {
        "examples_per_second": lambda rate: word("train.per_second", rate=plain_number(rate)),
        "loss": lambda loss: f"{loss:.4f}",
        "learning_rate": plain_number,
        "grad_norm": lambda norm: f"{norm:.3f}",
    }
    figures |= {name: form(found.points[name][-1][1]) for name, form in forms.items() if found.points[name]}
    tiles = [label_and_help(f"train.{name}") | {"value": value} for name, value in figures.items()]
    if points := found.points[measure]:
        value = f"{points[-1][1]:.2%}"
        tiles.append({"label": charts.measure_name(measure), "help": word("train.best_by_help"), "value": value})
    for first in range(0, len(tiles), _TILES):
        for column, tile in zip(st.columns(_TILES), tiles[first : first + _TILES], strict=False):
            column.metric(**tile)


def _seconds_left(run: Run, plan: Plan, status: Status) -> float:
    """Return the seconds left: as the process reports, else by the estimate of the plan; 0 if neither is known."""
    if status.left:
        return status.left
    estimate = Rehearsal.of(plan, RehearsalTask.ESTIMATE)
    if status.step or not estimate.done:
        return 0.0
    return max(0.0, estimate.estimate().seconds - run.status().spent)


@st.fragment(run_every=2.0)
def draw_queue(drawn_at_work: Run | None, drawn_waiting: list[Run]) -> None:
    """Draw the queue, if any; it polls even while empty: another user, or a command, may start a training."""
    at_work, waiting = QUEUE.at_work(), QUEUE.queued()
    if (at_work, waiting) != (drawn_at_work, drawn_waiting):
        st.rerun()
    if not waiting:
        return
    st.subheader(word("train.queue", count=len(waiting)), help=word("train.queue_help"))
    if not at_work and (holder := QUEUE.holder()):
        since = datetime.fromtimestamp(holder.since, UTC).isoformat()
        told = word("train.machine_held", name=plain(holder.name), moment=plain(moment(since)))
        # what others train, and since when, is theirs
        st.info(word("train.machine_in_use") if user() else told, icon=":material/hourglass:")
    is_long = len(waiting) > 4  # then the list scrolls
    with st.container(height=330 if is_long else "content", border=is_long):
        for place, run in enumerate(waiting, start=1):
            _draw_waiting(place, run)


def _draw_waiting(place: int, run: Run) -> None:
    plan = run.plan()
    since = datetime.fromtimestamp(run.status().queued, UTC).isoformat()
    queued_since = word("train.queued_since", moment=plain(moment(since)))
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        with st.container(width="stretch", gap=None):
            badge = f" :blue-badge[{word('train.queue_next')}]" if place == 1 else ""
            st.markdown(f"**{place}\\. {plain(run_name(plan))}**{badge}")
            st.caption(" · ".join([*cards.about(plan), queued_since]))
        if draw_button("take_out", run, ":material/playlist_remove:", word("train.take_out_help")):
            run.stop()
            st.rerun()
        if draw_button("delete", run, ":material/delete:"):
            cards.open_dialog("delete", run)
            st.rerun()


def draw_runs(runs: list[Run], *, at_work: bool = False) -> None:
    """Draw the runs that have ended, newest first, older ones on request; and the dialog that is open."""
    st.subheader(word("train.list"))
    ended = [(run, status) for run in runs if (status := run.status()).state in cards.BADGES]
    if not ended:
        st.info(word("train.list_going" if at_work else "train.list_empty"), icon=":material/info:")
    shown = st.session_state.setdefault("trainings_shown", _SHOWN_FIRST)
    for run, status in ended[:shown]:
        with st.container(border=True):
            _draw(run, status)
    older = len(ended) - shown
    if older > 0 and st.button(word("train.show_more", count=older), icon=":material/expand_more:"):
        st.session_state["trainings_shown"] = len(ended)
        st.rerun()
    damaged = {run.id: run for run in damaged_runs()}
    draw_damaged([*damaged], lambda name: damaged[name].delete())
    dialogs = {"details": cards.draw_details, "delete": _ask_to_delete, "push": _draw_push}
    cards.draw_dialog({**dialogs, "helps": draw_does_it_help})


def _draw(run: Run, status: Status) -> None:
    plan, done = run.plan(), status.state is State.DONE
    cards.draw_head(plan, status)
    if isinstance(run, Search):
        composite.draw_search(run)
    elif isinstance(run, Ablation):
        composite.draw_ablation(run)
    elif done:
        draw_scores(run, plan, run.scores())
    cards.tell_failure(plan, status, **({"minutes": f"{run.minutes_needed:,}"} if isinstance(run, Search) else {}))
    with st.container(horizontal=True):
        if isinstance(run, Ablation):
            composite.draw_ablation_buttons(run)
        elif done and not isinstance(run, Search):
            _draw_ways_on(run, plan)
        if not done:
            cards.draw_resume(run)
            cards.draw_use_best(run)
        if not isinstance(run, CompositeRun):
            cards.draw_dialog_button("details", run)
        cards.draw_dialog_button("delete", run)
    if not done and not isinstance(run, CompositeRun):
        cards.draw_making(run)


def _draw_ways_on(run: Run, plan: Plan) -> None:
    data = next((kept for kept in stored() if kept.fingerprint == plan.fingerprint), None)
    if plan.kind == READER:
        if draw_button("use_reader", run, page_called("answers").sign, word("train.use_reader_help")):
            open_page("answers", **({"data": data.key} if data else {}), reader=run.id, lang=language())
    elif plan.kind == LANGUAGE_MODEL:
        if draw_button("use_language", run, page_called("language").sign, word("train.use_language_help")):
            open_page("language", language_tab="inside", network=model_place(run), lang=language())
        if draw_button("helps", run, ":material/experiment:", word("train.helps_help")):
            cards.open_dialog("helps", run)
    else:
        help_text = word("train.use_help" if data else "train.use_no_data")
        if draw_button("use", run, ":material/leaderboard:", help_text, disabled=data is None) and data:
            _compare_with_untrained(plan, data)
    if isinstance(plan.options, BiEncoderOptions):
        icon, help_text = ":material/model_training:", word("train.another_round_help")
        draw_button("another_round", run, icon, help_text, on_click=fill_in_another_round, args=(run,))
    try:
        starter = is_starter(ModelSource(run.id, folder=run.model_folder))
    except (OSError, ValueError, LookupError):  # the folder was changed by hand: whatever loads it will say so
        starter = False
    _draw_download(run, plan, starter=starter)
    help_text = word("train.push_starter" if starter else "train.push_help")
    if draw_button("push", run, ":material/cloud_upload:", help_text, disabled=starter):
        cards.open_dialog("push", run)


def _ask_to_delete(run: Run) -> None:
    def remove() -> None:
        if run.status().state is State.QUEUED:
            run.stop()  # a command may stand in line with it
        run.delete()

    plan = run.plan()
    key = "settings.delete_question" if plan.minutes else "train.delete_question"
    st.markdown(word("ablation.delete_question" if plan.ablation else key, name=plain(run_name(plan))))
    with st.container(horizontal=True):
        sure = st.button(word("train.delete_yes"), icon=":material/delete:", key="delete_yes")
        cancelled = st.button(word("train.delete_no"), key="delete_no")
    if cancelled or (sure and attempt(remove, "train.not_deleted", errors=(OSError, ValueError))):
        cards.close_dialog()
        st.rerun()


def _compare_with_untrained(plan: Plan, data: StoredSet) -> None:
    """Open the comparison that tells what the training was worth, on the test questions of the set it learned from."""
    use_set(data.key)
    choices = choices_for(data)
    trained = next((name for name, known in choices.trained.items() if known == plan), None)
    before = _untrained(choices.specs[trained], plan, choices, data) if trained else None
    names = [name for name in (BM25_NAME, before, trained) if name]
    parameters = {"retrievers": "|".join(names), "baseline": before or BM25_NAME, "part": "test", "run": "now"}
    open_page("compare", data=data.key, **parameters, lang=language())


def _untrained(trained: Spec, plan: Plan, choices: Choices, data: StoredSet) -> str | None:
    """Return the retriever of the same kind with the untrained base, added if it is dense; None if it cannot search."""
    base, title = plan.options.base, getattr(trained, "title", True)
    for name, spec in choices.specs.items():
        if (spec.kind, getattr(spec, "model", None), getattr(spec, "title", True)) == (trained.kind, base, title):
            return name
    if not isinstance(trained, DenseSpec):
        return None
    short = base_name(base, plan.kind).replace("|", "/").rstrip("/").rsplit("/", maxsplit=1)[-1]
    added = DenseSpec(name=free_name(f"Dense · {short}", choices.specs), model=base, title=title, windows=True)
    add(data.fingerprint, added)
    return added.name


def _draw_download(run: Run, plan: Plan, *, starter: bool) -> None:
    recipe = recipe_of(plan.kind)
    with st.popover(word("train.download"), icon=":material/download:"):
        st.markdown(word("train.load_starter" if starter else _LOADED_OTHERWISE.get(plan.kind, "train.load")))
        imports, model = (starter and recipe.loading_a_starter) or recipe.loading
        lines = f"{imports}\nmodel = {model.format(folder='path/of/the/folder')}"
        st.code(lines, language="python", wrap_lines=True)
        file = (lambda: zipped_model(run), f"{run.id}.zip", "application/zip")
        look: dict[str, Any] = {"icon": ":material/folder_zip:", "help": word("train.download_help")}
        st.download_button(word("train.download_zip"), *file, key=f"download_{run.id}", on_click="ignore", **look)


def _draw_push(run: Run) -> None:
    number = st.session_state.setdefault("push_attempt", 0)
    token_key = f"push_token_{number}"  # another one for every attempt: the field is empty again
    outcome_key = f"pushed_{run.id}"
    with st.form(f"push_form_{run.id}", border=False):
        look: dict[str, Any] = {"placeholder": "name/my-model", "max_chars": 200, "key": f"push_repository_{run.id}"}
        repository = st.text_input(**label_and_help("train.push_repository"), **look)
        look = {"type": "password", "autocomplete": "off", "max_chars": 500, "key": token_key}
        token = st.text_input(**label_and_help("train.push_token"), **look)
        private = st.toggle(**label_and_help("train.push_private"), value=True, key=f"push_private_{run.id}")
        pressed = st.form_submit_button(word("train.push_now"), type="primary", icon=":material/cloud_upload:")
    if pressed:
        del st.session_state[token_key]
        st.session_state["push_attempt"] = number + 1
        with st.spinner(word("train.pushing")):
            try:
                st.session_state[outcome_key] = "", push(run, repository, token, private=private)
            except PushError as error:
                st.session_state[outcome_key] = error.code, str(error)
        st.rerun()
    code, text = st.session_state.get(outcome_key, ("", ""))  # of a problem with its message, or the model's address
    if code:
        key = f"push.{code}" if known(f"push.{code}") else "push.refused"
        st.error(word(key, repository=plain(repository.strip()), reason=plain(text)), icon=":material/error:")
    elif text:
        st.success(word("train.pushed"), icon=":material/check_circle:")
        st.code(text, language=None, wrap_lines=True)
