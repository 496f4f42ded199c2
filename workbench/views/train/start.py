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
from mrc_workbench.training.dry_run import Load
from mrc_workbench.training.halving import changes_of
from mrc_workbench.training.jobs import QUEUE, Rehearsal, RehearsalTask, create_search
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderOptions, Pooling
from mrc_workbench.training.runs import Plan, create_rounds, rounds_of
from mrc_workbench.workbench.views.choices import finished_runs
from mrc_workbench.workbench.views.names import base_name
from mrc_workbench.workbench.views.resources.sets import split_of
from mrc_workbench.workbench.views.train.base import Base
from mrc_workbench.workbench.views.train.composite import setting_words
from mrc_workbench.workbench.views.train.fields import OptionFields
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.job import follow
from mrc_workbench.workbench.views.ui.words import (
    attempt,
    duration,
    label_and_help,
    plain,
    plain_number,
    tell_training_failure,
    word,
    word_or,
)

# what a training's time does not depend on; it grows with the epochs
_FREE = {
    *("epochs", "learning_rate", "weight_decay", "warmup", "seed", "best_by", "patience"),
    *("temperature", "positive_margin", "negative_margin", "triplet_margin", "scale"),
    *("logging_steps", "save_limit", "save_minutes", "save_steps", "kept_models", "report_to"),
}
_ICONS = {RehearsalTask.ESTIMATE: ":material/timer:", RehearsalTask.NEGATIVES: ":material/visibility:"}
_SHOWN_ROWS = 500
_SHOWN_CHARACTERS = 200
_STARTED = "trainings_started"


def draw_known_time(plan: Plan | None) -> None:
    """Draw the time known from the newest training of the same kind, base, data and settings, by its epochs."""
    if plan is None:
        return
    decides = _decides(plan)
    for run, earlier in finished_runs().items():
        if (spent := run.status().spent) and _decides(earlier) == decides:
            seconds = spent * plan.options.epochs / earlier.options.epochs
            st.caption(word("train.known_time", time=duration(seconds), name=plain(earlier.name)), width="content")
            return


def _decides(plan: Plan) -> dict[str, Any]:
    options = {name: value for name, value in asdict(plan.options).items() if name not in _FREE}
    return options | {"kind": plan.kind, "data": plan.fingerprint, "split": plan.split}


class DryRun(NamedTuple):
    """The plan of the training as it is entered now, and the job that tries it out."""

    plan: Plan
    job: Rehearsal


def dry_run_of(plan: Plan | None, task: RehearsalTask) -> DryRun | None:
    """Return the dry run of a plan; that of a plan since changed is ended."""
    rehearsal = Rehearsal.of(plan, task) if plan else None
    key = _dry_run_key(task)
    earlier: Rehearsal | None = st.session_state.get(key)
    if earlier and rehearsal != earlier:
        earlier.end()
        del st.session_state[key]
    return DryRun(plan, rehearsal) if plan and rehearsal else None


def draw_ask_button(task: RehearsalTask, dry_run: DryRun | None, messages: DeltaGenerator) -> None:
    """Draw the button that starts a dry run; an error is drawn in `messages`."""
    name = f"ask_{task.value}"
    is_disabled = dry_run is None or dry_run.job.running
    words = label_and_help(f"train.{name}")
    pressed = st.button(**words, icon=_ICONS[task], disabled=is_disabled, key=f"train_{name}")
    if not (pressed and dry_run) or dry_run.job.running:  # the second press of a double click
        return
    if attempt(lambda: dry_run.job.start(dry_run.plan), "train.not_started", messages):
        st.session_state[_dry_run_key(task)] = dry_run.job


def estimate_by_itself(dry_run: DryRun | None, form: OptionFields) -> None:
    """Start the estimate of the default settings of a base on this machine, once a session, while nothing trains."""
    if dry_run is None or not starts_by_itself(dry_run.plan, form):
        return
    begun = f"train_estimated_{dry_run.job.id}"
    if begun in st.session_state or dry_run.job.done or dry_run.job.running:
        return
    st.session_state[begun] = True
    with suppress(OSError, LimitError):  # no user requested it; a request reports the reason
        dry_run.job.start(dry_run.plan)
        st.session_state[_dry_run_key(RehearsalTask.ESTIMATE)] = dry_run.job


def starts_by_itself(plan: Plan, form: OptionFields) -> bool:
    """Whether the settings are the defaults, nothing trains or waits, and nothing would be downloaded."""
    if form.changed or QUEUE.at_work() or QUEUE.queued():
        return False
    hub_id = find_model(plan.options.base).hub_id
    return hub_id is None or bool(downloaded_commits(hub_id))


def _dry_run_key(task: RehearsalTask) -> str:
    return f"train_asked_{task.value}"


def _is_answered(dry_run: DryRun) -> bool:
    """Whether the answer is there; if not, draw how it stands."""
    if dry_run.job.done:
        return True
    if dry_run.job.running:
        key = f"train.answering_{dry_run.job.task.value}"
        follow(dry_run.job, lambda status: word(key, time=duration(time.time() - status.started)))
    elif dry_run.job.failed:
        base = base_name(dry_run.plan.options.base, dry_run.plan.kind)
        tell_training_failure(*dry_run.job.problem(), base, unforeseen="train.not_answered")
    return False


def draw_estimate(dry_run: DryRun | None, form: OptionFields) -> None:
    if dry_run is None or not _is_answered(dry_run):
        return
    found = dry_run.job.estimate()
    if not found.fits and not found.instead:
        st.error(word("train.too_large"), icon=":material/memory:")
    elif not found.fits:
        options = ", ".join(_option_text(name, value) for name, value in found.instead.items())
        st.error(word("train.too_large_instead", options=options), icon=":material/memory:")
        look: dict[str, Any] = {"icon": ":material/check:", "key": "train_use_instead"}
        st.button(word("train.use_instead"), on_click=form.enter, args=(found.instead,), **look)
    is_busy = Load(others=found.others, own=0.0).is_busy
    key = "train.estimate_on_busy" if is_busy else "train.estimate_rough" if found.rough else "train.estimate"
    values = {
        "time": duration(found.seconds),
        "alone": duration(found.seconds_alone or found.seconds),
        "steps": f"{found.steps:,}",
        "memory": f"{found.memory / 1e9:.1f}",
        "available": f"{found.memory_available / 1e9:.1f}",
    }
    st.info(word(key, **values), icon=_ICONS[RehearsalTask.ESTIMATE])
    parts = {
        "device": plain(found.device.upper()),
        "step": plain_number(found.seconds_a_step),
        "measuring": duration(found.seconds_measuring),
        "loading": duration(found.seconds_loading),
    }
    st.caption(word("train.estimate_parts", **parts))
    if (rounds := rounds_of(dry_run.plan.options)) > 1:
        st.caption(word("train.estimate_rounds", rounds=rounds, time=duration(rounds * found.seconds)))
    if found.seconds_teaching:
        st.caption(word("train.estimate_teaching", teaching=duration(found.seconds_teaching)))
    if QUEUE.at_work():
        st.caption(word("train.estimate_busy"))


def _option_text(name: str, value: object) -> str:
    """Return an option and its value as in the form; a ticked box is its label alone."""
    label = word(f"option.{name}")
    if isinstance(value, str):
        return f"{label}: {word_or(f'choice.{name}_{value}', value)}"
    return label if value is True else f"{label} {value:,}"


def draw_negatives(dry_run: DryRun | None) -> None:
    draw_ask_button(RehearsalTask.NEGATIVES, dry_run, st.container())
    if dry_run is None or not _is_answered(dry_run):
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
        # written on request: there may be a hundred thousand rows
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
    wanted = st.text_input(word("train.negatives_search"), key=key, type="search", max_chars=200).strip()
    found = table[table["question"].str.contains(wanted, case=False, regex=False)] if wanted else table
    shown = found.head(_SHOWN_ROWS).reset_index(drop=True)
    if len(found) > len(shown):
        st.caption(word("train.negatives_first", shown=f"{len(shown):,}", all=f"{len(found):,}"))
    texts = ("question", "positive", "passage")
    short = shown.assign(**{name: shown[name].str.slice(0, _SHOWN_CHARACTERS) for name in texts})
    short["rank"] = short["rank"].where(short["rank"] > 0)  # a passage marked by hand may lie past the ranking
    columns = {  # what counts first
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
    row = shown.iloc[rows[0]]  # one negative beside the question's own passage, whole
    st.markdown(f"**{plain(str(row['question']))}**")
    for column, name in zip(st.columns(2, border=True), ("positive", "passage"), strict=True):
        with column:
            st.caption(word(f"train.negatives_{name}"))
            st.text(str(row[name]))


def pressed_once(label: str, name: str, **look: Any) -> bool:
    """Draw a button that starts trainings: the second press of a double click starts nothing."""
    return st.button(label, key=f"{name}_{trainings_started()}", **{"icon": ":material/play_arrow:", **look})


def trainings_started() -> int:
    return int(st.session_state.get(_STARTED, 0))


def draw_start_button(plan: Plan | None, messages: DeltaGenerator) -> None:
    """Draw the button that starts the planned training, or queues it; an error is drawn in `messages`."""
    busy = QUEUE.at_work() is not None or bool(QUEUE.queued())
    label, icon = ("enqueue", "playlist_add") if busy else ("start", "play_arrow")
    look = {"icon": f":material/{icon}:", "help": word("train.enqueue_help") if busy else None}
    pressed = pressed_once(word(f"train.{label}"), "train_start", type="primary", disabled=plan is None, **look)
    if pressed and plan:
        _start([plan], messages)


def draw_several(kind: str, plan: Plan | None, base: Base) -> None:
    title = word("settings.find" if base.starter or kind != BI_ENCODER else "train.several")
    look: dict[str, Any] = {"icon": ":material/experiment:", "key": "train_several_open"}
    with st.expander(title, on_change="rerun", **look) as fold:
        if not fold.open:
            return
        messages = st.container()
        st.markdown(f"**{word('settings.find')}**")
        st.markdown(word("settings.about"))
        if plan is None:
            return
        _draw_search(plan, messages)
        options = plan.options
        if base.starter or not isinstance(options, BiEncoderOptions):
            return
        st.divider()
        st.markdown(f"**{word('train.poolings')}**")
        st.markdown(word("train.poolings_about"))
        if pressed_once(word("train.poolings_start"), "train_poolings", icon=":material/filter_3:"):
            poolings = [Pooling.MEAN, Pooling.CLS, Pooling.MAX]
            variants = [(f"{plan.name} · {pooling}", replace(options, pooling=pooling)) for pooling in poolings]
            _start([replace(plan, name=name, options=variant) for name, variant in variants], messages)


def _draw_search(plan: Plan, messages: DeltaGenerator) -> None:
    tried = "\n".join(f"1. {setting_words(changes)}" for changes in changes_of(plan.options))
    st.caption(word("settings.tried") + "\n\n" + tried)
    key = "train_settings_minutes"
    st.session_state.setdefault(key, 10)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        look: dict[str, Any] = {"key": key, "width": 220, "persist_state": "session"}
        minutes = st.number_input(**label_and_help("settings.minutes"), min_value=1, max_value=600, **look)
        pressed = pressed_once(word("settings.start", minutes=minutes), "train_find")
    if pressed and minutes:
        begin(lambda: create_search(plan, float(minutes)), messages)


def _start(plans: list[Plan], messages: DeltaGenerator) -> None:
    begin(lambda: [create_rounds(plan) for plan in plans], messages, sum(rounds_of(plan.options) for plan in plans))


def begin(make: Callable[[], object], messages: DeltaGenerator, count: int = 1) -> None:
    """Create `count` jobs and start the queue; an error is drawn in `messages`."""

    def start() -> None:
        QUEUE.admit(count)
        estimate: Rehearsal | None = st.session_state.pop(_dry_run_key(RehearsalTask.ESTIMATE), None)
        if estimate and estimate.running:
            estimate.end()  # the training needs the machine
        make()
        QUEUE.start_worker()

    if attempt(start, "train.not_started", messages):
        st.session_state[_STARTED] = trainings_started() + 1
        st.toast(word("train.started"), icon=":material/play_arrow:")
        st.rerun()
