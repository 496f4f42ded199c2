"""Before a training starts: its estimated time and memory, and its hard negatives; and the buttons that start it, a
search for settings, or a training with each pooling."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.split import Part
from mrc_workbench.data.workspace import LimitError
from mrc_workbench.models.files import downloaded_commits
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.dry_run import ProcessorLoad
from mrc_workbench.training.halving import propose_changes
from mrc_workbench.training.jobs import QUEUE, DryRunJob, DryRunTask, create_search
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderOptions, BiEncoderPooling
from mrc_workbench.training.runs import TrainingPlan, count_rounds, create_rounds
from mrc_workbench.workbench.views.choices import finished_runs
from mrc_workbench.workbench.views.names import base_name
from mrc_workbench.workbench.views.resources.sets import split_of
from mrc_workbench.workbench.views.train.base import Base
from mrc_workbench.workbench.views.train.composite import setting_words
from mrc_workbench.workbench.views.train.fields import OptionFields
from mrc_workbench.workbench.views.ui import tables, words
from mrc_workbench.workbench.views.ui.job import follow
from mrc_workbench.workbench.views.ui.words import duration, label_and_help, plain, word, word_or

# options without effect on the training time; it is proportional to the epochs
_TIME_INDEPENDENT = {
    *("epochs", "learning_rate", "weight_decay", "warmup", "seed", "best_by", "patience"),
    *("temperature", "positive_margin", "negative_margin", "triplet_margin", "scale"),
    *("logging_steps", "save_limit", "save_minutes", "save_steps", "max_snapshots", "report_to"),
}
_ICONS = {DryRunTask.ESTIMATE: ":material/timer:", DryRunTask.NEGATIVES: ":material/visibility:"}
_MAX_ROWS = 500
_MAX_CHARACTERS = 200
_STARTED = "trainings_started"


def draw_known_time(plan: TrainingPlan | None) -> None:
    """Draw the time of the newest training with the same kind, base, data and settings, scaled by the epochs."""
    if plan is None:
        return
    time_settings = _time_settings(plan)
    for run, earlier in finished_runs().items():
        if (spent := run.status().total_seconds) and _time_settings(earlier) == time_settings:
            seconds = spent * plan.options.epochs / earlier.options.epochs
            st.caption(word("train.known_time", time=duration(seconds), name=plain(earlier.name)), width="content")
            return


def _time_settings(plan: TrainingPlan) -> dict[str, Any]:
    options = {name: value for name, value in asdict(plan.options).items() if name not in _TIME_INDEPENDENT}
    return options | {"kind": plan.kind, "data": plan.fingerprint, "split": plan.split}


class DryRun(NamedTuple):
    """The plan in the form, and the job that tests it."""

    plan: TrainingPlan
    job: DryRunJob


def dry_run_of(plan: TrainingPlan | None, task: DryRunTask) -> DryRun | None:
    """Return the dry run of a plan, and end that of an earlier plan."""
    job = DryRunJob.for_plan(plan, task) if plan else None
    key = _dry_run_key(task)
    earlier: DryRunJob | None = st.session_state.get(key)
    if earlier and job != earlier:
        earlier.kill()
        del st.session_state[key]
    return DryRun(plan, job) if plan and job else None


def draw_dry_run_button(task: DryRunTask, dry_run: DryRun | None, messages: DeltaGenerator) -> None:
    name = f"ask_{task.value}"
    is_disabled = dry_run is None or dry_run.job.running
    pressed = st.button(**label_and_help(f"train.{name}"), icon=_ICONS[task], disabled=is_disabled, key=f"train_{name}")
    if not (pressed and dry_run) or dry_run.job.running:  # the second press of a double click
        return
    if words.attempt(lambda: dry_run.job.start(dry_run.plan), "train.not_started", messages):
        st.session_state[_dry_run_key(task)] = dry_run.job


def start_default_estimate(dry_run: DryRun | None, form: OptionFields) -> None:
    """Estimate the default settings of a base on this machine, once per session, while no training runs."""
    if dry_run is None or not may_start_without_request(dry_run.plan, form):
        return
    begun = f"train_estimated_{dry_run.job.id}"
    if begun in st.session_state or dry_run.job.done or dry_run.job.running:
        return
    st.session_state[begun] = True
    with suppress(OSError, LimitError):  # the button reports errors
        dry_run.job.start(dry_run.plan)
        st.session_state[_dry_run_key(DryRunTask.ESTIMATE)] = dry_run.job


def may_start_without_request(plan: TrainingPlan, form: OptionFields) -> bool:
    """Whether the settings are the defaults, the queue is empty, and the base is downloaded."""
    if form.changed or QUEUE.running_job() or QUEUE.queued():
        return False
    hub_id = find_model(plan.options.base).hub_id
    return hub_id is None or bool(downloaded_commits(hub_id))


def _dry_run_key(task: DryRunTask) -> str:
    return f"train_asked_{task.value}"


def _is_finished(dry_run: DryRun) -> bool:
    """Whether the dry run has ended well; if not, draw its progress or its failure."""
    if dry_run.job.done:
        return True
    if dry_run.job.running:
        key = f"train.answering_{dry_run.job.task.value}"
        follow(dry_run.job, lambda status: word(key, time=duration(time.time() - status.started)))
    elif dry_run.job.failed:
        base = base_name(dry_run.plan.options.base, dry_run.plan.kind)
        words.draw_training_failure(*dry_run.job.problem(), base, unforeseen="train.not_answered")
    return False


def draw_estimate(dry_run: DryRun | None, form: OptionFields) -> None:
    if dry_run is None or not _is_finished(dry_run):
        return
    estimate = dry_run.job.estimate()
    if not estimate.fits and not estimate.suggested_options:
        st.error(word("train.too_large"), icon=":material/memory:")
    elif not estimate.fits:
        options = ", ".join(_option_text(name, value) for name, value in estimate.suggested_options.items())
        st.error(word("train.too_large_instead", options=options), icon=":material/memory:")
        kwargs: dict[str, Any] = {"icon": ":material/check:", "key": "train_use_instead"}
        st.button(word("train.use_instead"), on_click=form.enter, args=(estimate.suggested_options,), **kwargs)
    is_loaded = ProcessorLoad(others_fraction=estimate.other_load, own_fraction=0.0).is_contended
    key = "train.estimate_on_busy" if is_loaded else "train.estimate_rough" if estimate.is_rough else "train.estimate"
    values = {
        "time": duration(estimate.seconds),
        "alone": duration(estimate.seconds_alone or estimate.seconds),
        "steps": f"{estimate.steps:,}",
        "memory": f"{estimate.memory / 1e9:.1f}",
        "available": f"{estimate.memory_available / 1e9:.1f}",
    }
    st.info(word(key, **values), icon=_ICONS[DryRunTask.ESTIMATE])
    parts = {
        "device": plain(estimate.device.upper()),
        "step": words.plain_number(estimate.seconds_per_step),
        "measuring": duration(estimate.seconds_evaluating),
        "loading": duration(estimate.seconds_loading),
    }
    st.caption(word("train.estimate_parts", **parts))
    if (rounds := count_rounds(dry_run.plan.options)) > 1:
        st.caption(word("train.estimate_rounds", rounds=rounds, time=duration(rounds * estimate.seconds)))
    if estimate.seconds_labelling:
        st.caption(word("train.estimate_teaching", teaching=duration(estimate.seconds_labelling)))
    if QUEUE.running_job():
        st.caption(word("train.estimate_busy"))


def _option_text(name: str, value: object) -> str:
    label = word(f"option.{name}")
    if isinstance(value, str):
        return f"{label}: {word_or(f'choice.{name}_{value}', value)}"
    return label if value is True else f"{label} {value:,}"


def draw_negatives(dry_run: DryRun | None) -> None:
    draw_dry_run_button(DryRunTask.NEGATIVES, dry_run, st.container())
    if dry_run is None or not _is_finished(dry_run):
        return
    table = dry_run.job.negatives()
    questions = len(split_of(dry_run.plan.data, dry_run.plan.split).rows[Part.TRAIN])
    counts = {"count": f"{len(table):,}", "with_some": f"{table['question_id'].nunique():,}", "all": f"{questions:,}"}
    st.markdown(word("train.negatives_found", **counts))
    if by_hand := int(table["marked"].sum()):
        st.caption(word("train.negatives_marked_by_hand", count=f"{by_hand:,}"))
    if table.empty:
        st.warning(word("train.negatives_none"), icon=":material/warning:")
        return
    with st.container(horizontal=True):
        tables.draw_csv("train.negatives_csv", lambda: table, "hard-negatives.csv", "train_negatives_csv")
        tables.draw_file(
            "train.negatives_jsonl",
            lambda: table.to_json(orient="records", lines=True, force_ascii=False).encode(),
            "hard-negatives.jsonl",
            "application/jsonl",
            "train_negatives_jsonl",
        )
    _browse(table)


@st.fragment
def _browse(table: pd.DataFrame) -> None:
    key = "train_negatives_search"
    query = st.text_input(word("train.negatives_search"), key=key, type="search", max_chars=200).strip()
    matches = table[table["question"].str.contains(query, case=False, regex=False)] if query else table
    displayed = matches.head(_MAX_ROWS).reset_index(drop=True)
    if len(matches) > len(displayed):
        st.caption(word("train.negatives_first", shown=f"{len(displayed):,}", all=f"{len(matches):,}"))
    texts = ("question", "positive", "passage")
    short = displayed.assign(**{name: displayed[name].str.slice(0, _MAX_CHARACTERS) for name in texts})
    short["rank"] = short["rank"].where(short["rank"] > 0)  # a passage marked by hand may be unranked
    columns = {
        "question": tables.text("train.negatives_question", width="medium"),
        "passage": tables.text("train.negatives_passage", width="medium"),
        "marked": tables.checkbox("train.negatives_marked", width=70),
        "rank": tables.number("train.negatives_rank", width=60),
        "score": tables.number("train.negatives_score", "%.3f", width=90),
        "positive_score": tables.number("train.negatives_positive_score", "%.3f", width=90),
        "positive": tables.text("train.negatives_positive", width="medium"),
        "title": tables.text("train.negatives_title", width="small"),
    }
    rows = tables.draw_choice(short, columns, "train_negatives_table")
    if not rows:
        st.caption(word("train.negatives_pick"))
        return
    row = displayed.iloc[rows[0]]
    st.markdown(f"**{plain(str(row['question']))}**")
    for column, name in zip(st.columns(2, border=True), ("positive", "passage"), strict=True):
        with column:
            st.caption(word(f"train.negatives_{name}"))
            st.text(str(row[name]))


def pressed_once(label: str, name: str, **kwargs: Any) -> bool:
    """Draw a button that starts trainings once, also on a double click."""
    return st.button(label, key=f"{name}_{trainings_started()}", **{"icon": ":material/play_arrow:", **kwargs})


def trainings_started() -> int:
    return int(st.session_state.get(_STARTED, 0))


def draw_start_button(plan: TrainingPlan | None, messages: DeltaGenerator) -> None:
    is_running = QUEUE.running_job() is not None or bool(QUEUE.queued())
    label, icon = ("enqueue", "playlist_add") if is_running else ("start", "play_arrow")
    kwargs = {"icon": f":material/{icon}:", "help": word("train.enqueue_help") if is_running else None}
    pressed = pressed_once(word(f"train.{label}"), "train_start", type="primary", disabled=plan is None, **kwargs)
    if pressed and plan:
        _start([plan], messages)


def draw_several(kind: str, plan: TrainingPlan | None, base: Base) -> None:
    title = word("settings.find" if base.is_starter or kind != BI_ENCODER else "train.several")
    kwargs: dict[str, Any] = {"icon": ":material/experiment:", "key": "train_several_open"}
    with st.expander(title, on_change="rerun", **kwargs) as fold:
        if not fold.open:
            return
        messages = st.container()
        st.markdown(f"**{word('settings.find')}**")
        st.markdown(word("settings.about"))
        if plan is None:
            return
        _draw_search(plan, messages)
        options = plan.options
        if base.is_starter or not isinstance(options, BiEncoderOptions):
            return
        st.divider()
        st.markdown(f"**{word('train.poolings')}**")
        st.markdown(word("train.poolings_about"))
        if pressed_once(word("train.poolings_start"), "train_poolings", icon=":material/filter_3:"):
            poolings = [BiEncoderPooling.MEAN, BiEncoderPooling.CLS, BiEncoderPooling.MAX]
            variants = [(f"{plan.name} · {pooling}", replace(options, pooling=pooling)) for pooling in poolings]
            _start([replace(plan, name=name, options=variant) for name, variant in variants], messages)


def _draw_search(plan: TrainingPlan, messages: DeltaGenerator) -> None:
    tried = "\n".join(f"1. {setting_words(changes)}" for changes in propose_changes(plan.options))
    st.caption(word("settings.tried") + "\n\n" + tried)
    key = "train_settings_minutes"
    st.session_state.setdefault(key, 10)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kwargs: dict[str, Any] = {"key": key, "width": 220, "persist_state": "session"}
        minutes = st.number_input(**label_and_help("settings.minutes"), min_value=1, max_value=600, **kwargs)
        pressed = pressed_once(word("settings.start", minutes=minutes), "train_find")
    if pressed and minutes:
        begin(lambda: create_search(plan, float(minutes)), messages)


def _start(plans: list[TrainingPlan], messages: DeltaGenerator) -> None:
    begin(lambda: [create_rounds(plan) for plan in plans], messages, sum(count_rounds(plan.options) for plan in plans))


def begin(make: Callable[[], object], messages: DeltaGenerator, count: int = 1) -> None:
    """Create `count` jobs and start the queue; draws errors in `messages`."""

    def start() -> None:
        QUEUE.admit(count)
        estimate: DryRunJob | None = st.session_state.pop(_dry_run_key(DryRunTask.ESTIMATE), None)
        if estimate and estimate.running:
            estimate.kill()  # the training needs the machine
        make()
        QUEUE.start_worker()

    if words.attempt(start, "train.not_started", messages):
        st.session_state[_STARTED] = trainings_started() + 1
        st.toast(word("train.started"), icon=":material/play_arrow:")
        st.rerun()
