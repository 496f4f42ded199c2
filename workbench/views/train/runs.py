"""The running, queued and ended trainings of the Train page, and the actions on a model: compare, download, push."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import streamlit as st

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.store import StoredSet, stored
from mrc_workbench.data.workspace import user
from mrc_workbench.models.sources import ModelSource, is_starter
from mrc_workbench.retrieval.comparison.experiment import add_retriever
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.comparison.multistage import BM25_NAME
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.training.jobs import QUEUE, Ablation, CompositeRun, DryRunJob, DryRunTask, SettingsSearch
from mrc_workbench.training.ranker_options import BiEncoderOptions
from mrc_workbench.training.recipes import get_recipe
from mrc_workbench.training.results import MEASURES, Curves, PushError, push, read_curves, zip_model
from mrc_workbench.training.runs import Run, TrainingPlan, damaged_runs
from mrc_workbench.training.text_options import LANGUAGE_MODEL, READER
from mrc_workbench.workbench.views.choices import RetrieverChoices, choices_for, model_reference
from mrc_workbench.workbench.views.names import base_name, kind_name, phase_words, run_name, set_name
from mrc_workbench.workbench.views.navigation import find_page, has_page, open_page
from mrc_workbench.workbench.views.resources.sets import use_set
from mrc_workbench.workbench.views.train import cards, charts, composite
from mrc_workbench.workbench.views.train.ablation import draw_helps_dialog
from mrc_workbench.workbench.views.train.cards import draw_button
from mrc_workbench.workbench.views.train.charts import draw_scores
from mrc_workbench.workbench.views.train.fields import fill_in_another_round
from mrc_workbench.workbench.views.ui import words
from mrc_workbench.workbench.views.ui.job import draw_log, follow
from mrc_workbench.workbench.views.ui.words import label_and_help, plain, word

_FIRST_RUNS = 5
_TILES = 4  # in a row
_LOADED_OTHERWISE = {READER: "train.load_reader", LANGUAGE_MODEL: "train.load_language"}


def draw_running(run: Run) -> None:
    plan = run.plan()
    with st.container(border=True):
        st.markdown(f"**{plain(run_name(plan))}** · {kind_name(plan.kind)} · {plain(set_name(plan.data_name))}")
        follow(run, partial(phase_words, run), partial(_draw_progress, run, plan), interval=1.5)


def _draw_progress(run: Run, plan: TrainingPlan, status: Status) -> None:
    if isinstance(run, SettingsSearch):
        composite.draw_search(run, is_running=True)
        return
    if isinstance(run, Ablation):
        composite.draw_ablation(run, is_running=True)
        return
    run_curves = read_curves(run, ["loss", "learning_rate", "grad_norm", "examples_per_second", *MEASURES])
    best_by = charts.checkpoint_metric(run, plan)
    _draw_status_metrics(run, plan, status, run_curves, best_by)
    if any(run_curves.points[name] for name in ("loss", *MEASURES)):
        measure = charts.pick_measure(f"measure_{run.id}", plan.kind, best_by)
        for names in (("loss", measure), ("learning_rate", "grad_norm")):
            names_of_row = [name for name in names if run_curves.points[name]]
            for column, name in zip(st.columns(2), names_of_row, strict=False):
                with column:
                    charts.draw_run_chart(name, run_curves, get_recipe(plan.kind).colour, last_step=status.total_steps)
    with st.expander(word("train.tab_log"), icon=":material/terminal:"):
        draw_log(run, 15)


def _draw_status_metrics(run: Run, plan: TrainingPlan, status: Status, run_curves: Curves, measure: str) -> None:
    epochs = plan.options.epochs
    metrics: dict[str, str] = {}
    if total := status.total_steps:
        metrics["step"] = f"{status.step:,} / {total:,}"
        metrics["epoch"] = f"{status.step / total * epochs:.1f} / {epochs:g}"
    if left := _seconds_left(run, plan, status):
        metrics["left"] = words.duration(left)
    forms: dict[str, Callable[[float], str]] = {
        "examples_per_second": lambda rate: word("train.per_second", rate=words.plain_number(rate)),
        "loss": lambda loss: f"{loss:.4f}",
        "learning_rate": words.plain_number,
        "grad_norm": lambda norm: f"{norm:.3f}",
    }
    metrics |= {name: form(run_curves.points[name][-1][1]) for name, form in forms.items() if run_curves.points[name]}
    tiles = [label_and_help(f"train.{name}") | {"value": value} for name, value in metrics.items()]
    if points := run_curves.points[measure]:
        value = f"{points[-1][1]:.2%}"
        tiles.append({"label": charts.measure_name(measure), "help": word("train.best_by_help"), "value": value})
    for first in range(0, len(tiles), _TILES):
        for column, tile in zip(st.columns(_TILES), tiles[first : first + _TILES], strict=False):
            column.metric(**tile)


def _seconds_left(run: Run, plan: TrainingPlan, status: Status) -> float:
    """Return the remaining seconds that the process reports, else those of the plan's estimate; 0 if unknown."""
    if status.remaining_seconds:
        return status.remaining_seconds
    estimate = DryRunJob.for_plan(plan, DryRunTask.ESTIMATE)
    if status.step or not estimate.done:
        return 0.0
    return max(0.0, estimate.estimate().seconds - run.status().total_seconds)


@st.fragment(run_every=2.0)
def draw_queue(previous_running: Run | None, previous_waiting: list[Run]) -> None:
    """Draw the queue, if any; polls also while empty, because another user or a command may start a training."""
    running = QUEUE.running_job()
    waiting = QUEUE.queued()
    if (running, waiting) != (previous_running, previous_waiting):
        st.rerun()
    if not waiting:
        return
    st.subheader(word("train.queue", count=len(waiting)), help=word("train.queue_help"))
    if not running and (holder := QUEUE.holder()):
        since = datetime.fromtimestamp(holder.since, UTC).isoformat()
        message = word("train.machine_held", name=plain(holder.name), moment=plain(words.moment(since)))
        # users do not see the trainings of others
        st.info(word("train.machine_in_use") if user() else message, icon=":material/hourglass:")
    is_long = len(waiting) > 4  # then the list scrolls
    with st.container(height=330 if is_long else "content", border=is_long):
        for position, run in enumerate(waiting, start=1):
            _draw_waiting(position, run)


def _draw_waiting(position: int, run: Run) -> None:
    plan = run.plan()
    since = datetime.fromtimestamp(run.status().queued, UTC).isoformat()
    queued_since = word("train.queued_since", moment=plain(words.moment(since)))
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        with st.container(width="stretch", gap=None):
            badge = f" :blue-badge[{word('train.queue_next')}]" if position == 1 else ""
            st.markdown(f"**{position}\\. {plain(run_name(plan))}**{badge}")
            st.caption(" · ".join([*cards.plan_details(plan), queued_since]))
        if draw_button("take_out", run, ":material/playlist_remove:", word("train.take_out_help")):
            run.stop()
            st.rerun()
        if draw_button("delete", run, ":material/delete:"):
            cards.open_dialog("delete", run)
            st.rerun()


def draw_runs(runs: list[Run], *, is_training: bool = False) -> None:
    """Draw the ended runs, newest first and older ones on request, and the open dialog."""
    st.subheader(word("train.list"))
    ended = [(run, status) for run in runs if (status := run.status()).state in cards.BADGES]
    if not ended:
        st.info(word("train.list_going" if is_training else "train.list_empty"), icon=":material/info:")
    displayed_count = st.session_state.setdefault("trainings_shown", _FIRST_RUNS)
    for run, status in ended[:displayed_count]:
        with st.container(border=True):
            _draw(run, status)
    older = len(ended) - displayed_count
    if older > 0 and st.button(word("train.show_more", count=older), icon=":material/expand_more:"):
        st.session_state["trainings_shown"] = len(ended)
        st.rerun()
    damaged = {run.id: run for run in damaged_runs()}
    words.draw_damaged([*damaged], lambda name: damaged[name].delete())
    dialogs = {"details": cards.draw_details, "delete": _ask_to_delete, "push": _draw_push}
    cards.draw_dialog({**dialogs, "helps": draw_helps_dialog})


def _draw(run: Run, status: Status) -> None:
    plan = run.plan()
    done = status.state is State.DONE
    cards.draw_head(plan, status)
    if isinstance(run, SettingsSearch):
        composite.draw_search(run)
    elif isinstance(run, Ablation):
        composite.draw_ablation(run)
    elif done:
        draw_scores(run, plan, run.scores())
    minutes = {"minutes": f"{run.minutes_needed:,}"} if isinstance(run, SettingsSearch) else {}
    cards.draw_failure(plan, status, **minutes)
    with st.container(horizontal=True):
        if isinstance(run, Ablation):
            composite.draw_ablation_buttons(run)
        elif done and not isinstance(run, SettingsSearch):
            _draw_model_actions(run, plan)
        if not done:
            cards.draw_resume(run)
            cards.draw_use_best(run)
        if not isinstance(run, CompositeRun):
            cards.draw_dialog_button("details", run)
        cards.draw_dialog_button("delete", run)
    if not done and not isinstance(run, CompositeRun):
        cards.draw_best_model_job(run)


def _draw_page_button(name: str, run: Run, page: str, help_text: str) -> bool:
    """Draw the button that opens a lab's page, unless the lab was removed; returns whether it was pressed."""
    return has_page(page) and draw_button(name, run, find_page(page).material_icon, help_text)


def _draw_model_actions(run: Run, plan: TrainingPlan) -> None:
    data = next((dataset for dataset in stored() if dataset.fingerprint == plan.fingerprint), None)
    if plan.kind == READER:
        if _draw_page_button("use_reader", run, "answers", word("train.use_reader_help")):
            open_page("answers", **({"data": data.key} if data else {}), reader=run.id, lang=words.language())
    elif plan.kind == LANGUAGE_MODEL:
        if _draw_page_button("use_language", run, "language", word("train.use_language_help")):
            open_page("language", language_tab="inside", network=model_reference(run), lang=words.language())
        if draw_button("helps", run, ":material/experiment:", word("train.helps_help")):
            cards.open_dialog("helps", run)
    else:
        help_text = word("train.use_help" if data else "train.use_no_data")
        if draw_button("use", run, ":material/leaderboard:", help_text, disabled=data is None) and data:
            _compare_with_untrained(plan, data)
    if isinstance(plan.options, BiEncoderOptions):
        icon = ":material/model_training:"
        help_text = word("train.another_round_help")
        draw_button("another_round", run, icon, help_text, on_click=fill_in_another_round, args=(run,))
    try:
        starter = is_starter(ModelSource(run.id, folder=run.model_folder))
    except (OSError, ValueError, LookupError):  # the folder was changed by hand: loading it reports the error
        starter = False
    _draw_download(run, plan, starter=starter)
    help_text = word("train.push_starter" if starter else "train.push_help")
    if draw_button("push", run, ":material/cloud_upload:", help_text, disabled=starter):
        cards.open_dialog("push", run)


def _ask_to_delete(run: Run) -> None:
    def remove() -> None:
        if run.status().state is State.QUEUED:
            run.stop()  # a command may wait for it
        run.delete()

    plan = run.plan()
    key = "settings.delete_question" if plan.minutes else "train.delete_question"
    st.markdown(word("ablation.delete_question" if plan.ablation else key, name=plain(run_name(plan))))
    with st.container(horizontal=True):
        is_confirmed = st.button(word("train.delete_yes"), icon=":material/delete:", key="delete_yes")
        cancelled = st.button(word("train.delete_no"), key="delete_no")
    if cancelled or (is_confirmed and words.attempt(remove, "train.not_deleted", errors=(OSError, ValueError))):
        cards.close_dialog()
        st.rerun()


def _compare_with_untrained(plan: TrainingPlan, data: StoredSet) -> None:
    """Compare the trained model with its base and BM25, on the test questions of its question set."""
    use_set(data.key)
    choices = choices_for(data)
    trained = next((name for name, known in choices.trained.items() if known == plan), None)
    before = _untrained(choices.specs[trained], plan, choices, data) if trained else None
    names = [name for name in (BM25_NAME, before, trained) if name]
    parameters = {"retrievers": "|".join(names), "baseline": before or BM25_NAME, "part": "test", "run": "now"}
    open_page("compare", data=data.key, **parameters, lang=words.language())


def _untrained(trained: Spec, plan: TrainingPlan, choices: RetrieverChoices, data: StoredSet) -> str | None:
    """Return the retriever of the same kind with the untrained base, added if dense; None if the base cannot search."""
    base = plan.options.base
    title = getattr(trained, "title", True)
    for name, spec in choices.specs.items():
        if (spec.kind, getattr(spec, "model", None), getattr(spec, "title", True)) == (trained.kind, base, title):
            return name
    if not isinstance(trained, DenseSpec):
        return None
    short = base_name(base, plan.kind).replace("|", "/").rstrip("/").rsplit("/", maxsplit=1)[-1]
    added = DenseSpec(name=words.free_name(f"Dense · {short}", choices.specs), model=base, title=title, windows=True)
    add_retriever(data.fingerprint, added)
    return added.name


def _draw_download(run: Run, plan: TrainingPlan, *, starter: bool) -> None:
    recipe = get_recipe(plan.kind)
    with st.popover(word("train.download"), icon=":material/download:"):
        st.markdown(word("train.load_starter" if starter else _LOADED_OTHERWISE.get(plan.kind, "train.load")))
        imports, model = (starter and recipe.loading_starter) or recipe.loading
        lines = f"{imports}\nmodel = {model.format(folder='path/of/the/folder')}"
        st.code(lines, language="python", wrap_lines=True)
        kwargs: dict[str, Any] = {"icon": ":material/folder_zip:", "help": word("train.download_help")}
        kwargs |= {"data": lambda: zip_model(run), "file_name": f"{run.id}.zip", "mime": "application/zip"}
        st.download_button(word("train.download_zip"), key=f"download_{run.id}", on_click="ignore", **kwargs)


def _draw_push(run: Run) -> None:
    number = st.session_state.setdefault("push_attempt", 0)
    token_key = f"push_token_{number}"  # a new key for every attempt empties the field
    outcome_key = f"pushed_{run.id}"
    with st.form(f"push_form_{run.id}", border=False):
        kwargs: dict[str, Any] = {"placeholder": "name/my-model", "max_chars": 200, "key": f"push_repository_{run.id}"}
        repository = st.text_input(**label_and_help("train.push_repository"), **kwargs)
        kwargs = {"type": "password", "autocomplete": "off", "max_chars": 500, "key": token_key}
        token = st.text_input(**label_and_help("train.push_token"), **kwargs)
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
    code, text = st.session_state.get(outcome_key, ("", ""))  # an error code with its message, or "" and the address
    if code:
        key = f"push.{code}" if words.has_text(f"push.{code}") else "push.refused"
        st.error(word(key, repository=plain(repository.strip()), reason=plain(text)), icon=":material/error:")
    elif text:
        st.success(word("train.pushed"), icon=":material/check_circle:")
        st.code(text, language=None, wrap_lines=True)
