"""What can be known before a training starts, its time and memory and its hard negatives; the buttons that start it,
and the ways to several: a search for settings, and all poolings."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.split import Part
from mrc_workbench.data.workspace import LimitError
from mrc_workbench.models.files import downloaded_commits
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.dry_run import Load
from mrc_workbench.training.halving import changes_of
from mrc_workbench.training.jobs import QUEUE, Estimate, Rehearsal, RehearsalTask, create_search
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderOptions, Pooling
from mrc_workbench.training.runs import Plan, create_rounds, rounds_of
from mrc_workbench.workbench.views.choices import finished_runs
from mrc_workbench.workbench.views.names import base_name
from mrc_workbench.workbench.views.resources.sets import split_of
from mrc_workbench.workbench.views.train.base import Base
from mrc_workbench.workbench.views.train.ended import setting_words
from mrc_workbench.workbench.views.train.fields import OptionFields
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.job import follow
from mrc_workbench.workbench.views.ui.words import (
    attempt,
    duration,
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
_TEXTS = ("question", "positive", "passage")
_COMPARED = (Pooling.MEAN, Pooling.CLS, Pooling.MAX)
_STARTED = "trainings_started"


def draw_known_time(plan: Plan | None) -> None:
    """Tell it by the newest training of the same kind, base, data and settings, and the epochs; else nothing."""
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


@dataclass(frozen=True)
class Asked:
    """What can be asked of the training as it is entered now."""

    plan: Plan
    task: RehearsalTask

    @cached_property
    def rehearsal(self) -> Rehearsal:
        """Where its answer is, or will be."""
        return Rehearsal.of(self.plan, self.task)


def asked_of(plan: Plan | None, task: RehearsalTask) -> Asked | None:
    """Return what can be asked of the plan; the process that answers for a plan since changed is ended."""
    asked = Asked(plan, task) if plan else None
    key = _asked_key(task)
    earlier: Rehearsal | None = st.session_state.get(key)
    if earlier and (asked is None or asked.rehearsal != earlier):
        earlier.end()
        del st.session_state[key]
    return asked


def draw_ask_button(task: RehearsalTask, asked: Asked | None, told: DeltaGenerator) -> None:
    """Draw the button that asks, and starts no training; what went wrong is told in `told`."""
    pressed = st.button(
        word(f"train.ask_{task.value}"),
        icon=_ICONS[task],
        help=word(f"train.ask_{task.value}_help"),
        disabled=asked is None or asked.rehearsal.running,
        key=f"train_ask_{task.value}",
    )
    if not (pressed and asked) or asked.rehearsal.running:  # the second press of a double click
        return
    plan = asked.plan
    if attempt(lambda: asked.rehearsal.start(plan), "train.not_started", told):
        st.session_state[_asked_key(task)] = asked.rehearsal


def estimate_by_itself(asked: Asked | None, form: OptionFields) -> None:
    """Start the estimate of the default settings of a base on this machine, once a session, while nothing trains."""
    if asked is None or not starts_by_itself(asked.plan, form):
        return
    begun = f"train_estimated_{asked.rehearsal.id}"
    if begun in st.session_state or asked.rehearsal.done or asked.rehearsal.running:
        return
    st.session_state[begun] = True
    with suppress(OSError, LimitError):  # nobody asked for it: what keeps it from starting is told when somebody does
        asked.rehearsal.start(asked.plan)
        st.session_state[_asked_key(RehearsalTask.ESTIMATE)] = asked.rehearsal


def starts_by_itself(plan: Plan, form: OptionFields) -> bool:
    """Whether the settings are the defaults, nothing trains or waits, and nothing would be downloaded."""
    if form.changed or QUEUE.at_work() or QUEUE.queued():
        return False
    hub_id = find_model(plan.options.base).hub_id
    return hub_id is None or bool(downloaded_commits(hub_id))


def _asked_key(task: RehearsalTask) -> str:
    return f"train_asked_{task.value}"


def end_estimate() -> None:
    """End the estimate that is being measured: a training that starts needs the machine."""
    asked: Rehearsal | None = st.session_state.pop(_asked_key(RehearsalTask.ESTIMATE), None)
    if asked and asked.running:
        asked.end()


def _is_answered(asked: Asked) -> bool:
    """Whether the answer is there; if not, draw how it stands."""
    if asked.rehearsal.done:
        return True
    if asked.rehearsal.running:
        key = f"train.answering_{asked.task.value}"
        follow(asked.rehearsal, lambda status: word(key, time=duration(time.time() - status.started)))
    elif asked.rehearsal.failed:
        base = base_name(asked.plan.options.base, asked.plan.kind)
        tell_training_failure(*asked.rehearsal.problem(), base, unforeseen="train.not_answered")
    return False


def draw_estimate(asked: Asked | None, form: OptionFields) -> None:
    """Draw what the training would take, and first of all what to do where it does not fit."""
    if asked is None or not _is_answered(asked):
        return
    found = asked.rehearsal.estimate()
    held = {"memory": found.memory, "available": found.memory_available}
    sizes = {name: f"{number_of_bytes / 1e9:.1f}" for name, number_of_bytes in held.items()}
    if not found.fits:
        _tell_too_large(found, form)
    key = "train.estimate_on_busy" if _is_busy(found) else "train.estimate_rough" if found.rough else "train.estimate"
    alone = duration(found.seconds_alone or found.seconds)
    st.info(
        word(key, time=duration(found.seconds), alone=alone, steps=f"{found.steps:,}", **sizes),
        icon=_ICONS[RehearsalTask.ESTIMATE],
    )
    measuring, loading = duration(found.seconds_measuring), duration(found.seconds_loading)
    parts = {"step": plain_number(found.seconds_a_step), "measuring": measuring, "loading": loading}
    st.caption(word("train.estimate_parts", device=plain(found.device.upper()), **parts))
    if (rounds := rounds_of(asked.plan.options)) > 1:
        st.caption(word("train.estimate_rounds", rounds=rounds, time=duration(rounds * found.seconds)))
    if found.seconds_teaching:
        st.caption(word("train.estimate_teaching", teaching=duration(found.seconds_teaching)))
    if QUEUE.at_work():
        st.caption(word("train.estimate_busy"))


def _is_busy(found: Estimate) -> bool:
    return Load(others=found.others, own=0.0).is_busy


def _tell_too_large(found: Estimate, form: OptionFields) -> None:
    if not found.instead:
        st.error(word("train.too_large"), icon=":material/memory:")
        return
    wanted = ", ".join(_told(name, value) for name, value in found.instead.items())
    st.error(word("train.too_large_instead", options=wanted), icon=":material/memory:")
    st.button(
        word("train.use_instead"),
        on_click=form.enter,
        args=(found.instead,),
        icon=":material/check:",
        key="train_use_instead",
    )


def _told(name: str, value: object) -> str:
    """An option and its value, as the form has them; a box is ticked where only its words are told."""
    label = word(f"option.{name}")
    if isinstance(value, str):
        return f"{label}: {word_or(f'choice.{name}_{value}', value)}"
    return label if value is True else f"{label} {value:,}"


def draw_negatives(asked: Asked | None) -> None:
    draw_ask_button(RehearsalTask.NEGATIVES, asked, st.container())
    if asked is None or not _is_answered(asked):
        return
    table = asked.rehearsal.negatives()
    questions = len(split_of(asked.plan.data, asked.plan.split).rows[Part.TRAIN])
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
            # made when it is asked for: there may be a hundred thousand rows
            lambda: table.to_json(orient="records", lines=True, force_ascii=False).encode(),
            "hard-negatives.jsonl",
            "application/jsonl",
            "train_negatives_jsonl",
        )
    _browse(table)


@st.fragment
def _browse(table: pd.DataFrame) -> None:
    wanted = st.text_input(
        word("train.negatives_search"), key="train_negatives_search", type="search", max_chars=200
    ).strip()
    found = table[table["question"].str.contains(wanted, case=False, regex=False)] if wanted else table
    shown = found.head(_SHOWN_ROWS).reset_index(drop=True)
    if len(found) > len(shown):
        st.caption(word("train.negatives_first", shown=f"{len(shown):,}", all=f"{len(found):,}"))
    short = shown.assign(**{name: shown[name].str.slice(0, _SHOWN_CHARACTERS) for name in _TEXTS})
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


def draw_start_button(plan: Plan | None, told: DeltaGenerator) -> None:
    """Draw the button that starts the planned training, or queues it; what went wrong is told in `told`."""
    busy = QUEUE.at_work() is not None or bool(QUEUE.queued())
    pressed = pressed_once(
        word("train.enqueue" if busy else "train.start"),
        "train_start",
        type="primary",
        icon=":material/playlist_add:" if busy else ":material/play_arrow:",
        disabled=plan is None,
        help=word("train.enqueue_help") if busy else None,
    )
    if pressed and plan:
        _start([plan], told)


def draw_several(kind: str, plan: Plan | None, base: Base) -> None:
    key, icon = "train_several_open", ":material/experiment:"
    title = word("settings.find" if base.starter or kind != BI_ENCODER else "train.several")
    with st.expander(title, icon=icon, key=key, on_change="rerun") as fold:
        if not fold.open:
            return
        told = st.container()
        _draw_find(plan, told)
        _draw_poolings(plan, base, told)


def _draw_find(plan: Plan | None, told: DeltaGenerator) -> None:
    """Draw the way to a search: what it tries, how long it may take, and its start; `plan` is None where none fits."""
    st.markdown(f"**{word('settings.find')}**")
    st.markdown(word("settings.about"))
    if plan is None:
        return
    tried = "\n".join(f"1. {setting_words(changes)}" for changes in changes_of(plan.options))
    st.caption(word("settings.tried") + "\n\n" + tried)
    key = "train_settings_minutes"
    st.session_state.setdefault(key, 10)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        minutes = st.number_input(
            word("settings.minutes"),
            min_value=1,
            max_value=600,
            key=key,
            help=word("settings.minutes_help"),
            width=220,
            persist_state="session",
        )
        pressed = pressed_once(word("settings.start", minutes=minutes), "train_find")
    if pressed and minutes:
        begin(lambda: create_search(plan, float(minutes)), told)


def _draw_poolings(plan: Plan | None, base: Base, told: DeltaGenerator) -> None:
    """Draw the way to train a pretrained bi-encoder with each of the poolings, all else the same."""
    if base.starter or plan is None or not isinstance(plan.options, BiEncoderOptions):
        return
    st.divider()
    st.markdown(f"**{word('train.poolings')}**")
    st.markdown(word("train.poolings_about"))
    if pressed_once(word("train.poolings_start"), "train_poolings", icon=":material/filter_3:"):
        options = [(pooling, replace(plan.options, pooling=pooling)) for pooling in _COMPARED]
        _start([replace(plan, name=f"{plan.name} · {pooling}", options=one) for pooling, one in options], told)


def _start(plans: list[Plan], told: DeltaGenerator) -> None:
    def make() -> None:
        for plan in plans:
            create_rounds(plan)

    begin(make, told, sum(rounds_of(plan.options) for plan in plans))


def begin(make: Callable[[], object], told: DeltaGenerator, count: int = 1) -> None:
    """Make so many jobs and have them begin; what went wrong is told in `told`."""

    def start() -> None:
        QUEUE.admit(count)
        end_estimate()
        make()
        QUEUE.start_worker()

    if attempt(start, "train.not_started", told):
        st.session_state[_STARTED] = trainings_started() + 1
        st.toast(word("train.started"), icon=":material/play_arrow:")
        st.rerun()
