"""The cards of ended trainings: head, parts and dialog with details; and one that stopped early: resumed, or used with
its best checkpoint."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Literal

import pandas as pd
import streamlit as st

from mrc_workbench.data.jobs.folder import DAMAGED, RESUMABLE, State, Status
from mrc_workbench.retrieval.report.charts import PALETTE
from mrc_workbench.training.engine.checkpoints import newest_checkpoint, step_of
from mrc_workbench.training.jobs import QUEUE, Ablation, BestModelJob, CompositeRun, Search, best_checkpoint, find_job
from mrc_workbench.training.recipes import recipe_of
from mrc_workbench.training.results import MEASURES, curves
from mrc_workbench.training.runs import Plan, Run, all_runs
from mrc_workbench.workbench.views.names import base_name, kind_name, run_name, set_name
from mrc_workbench.workbench.views.train.charts import best_by, draw_figure, draw_run_figure, pick_measure
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.job import draw_log, follow
from mrc_workbench.workbench.views.ui.words import (
    attempt,
    duration,
    label_and_help,
    moment,
    plain,
    tell_training_failure,
    word,
    word_or,
)

_OPEN = "run_dialog"  # in the session: the dialog's name and the run's id
BADGES = {  # of the states of jobs that have ended
    State.DONE: ("green", ":material/check_circle:"),
    State.STOPPED: ("gray", ":material/stop_circle:"),
    State.FAILED: ("red", ":material/error:"),
    State.INTERRUPTED: ("orange", ":material/power_off:"),
}


def open_dialog(name: str, run: Run) -> None:
    """Have the dialog drawn from the next run of the page on."""
    st.session_state[_OPEN] = (name, run.id)


def close_dialog() -> None:
    st.session_state.pop(_OPEN, None)


def draw_dialog(contents: dict[str, Callable[[Run], None]]) -> None:
    """Draw the dialog that is open, if any; `contents` draws what is in it, by its name."""
    name, run_id = st.session_state.get(_OPEN, ("", ""))
    run = find_job(run_id)
    if run is None:  # none was opened, or somebody else has deleted the run
        close_dialog()
        return
    title = f"{word(f'train.{name}')}: {plain(run_name(run.plan())[:80])}"
    st.dialog(title, width="large" if name == "details" else "small", on_dismiss=close_dialog)(contents[name])(run)


def draw_button(name: str, run: Run, icon: str, help_text: str | None = None, **look: Any) -> bool:
    return st.button(word(f"train.{name}"), key=f"{name}_{run.id}", icon=icon, help=help_text, **look)


def draw_dialog_button(name: Literal["details", "delete"], run: Run) -> None:
    if draw_button(name, run, ":material/info:" if name == "details" else ":material/delete:"):
        open_dialog(name, run)


def draw_head(plan: Plan, status: Status) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{plain(run_name(plan))}**", width="content")
        colour, icon = BADGES[status.state]
        st.badge(word(f"state.{status.state.value}"), icon=icon, color=colour)  # type: ignore[arg-type]
    details = [*about(plan), plain(moment(plan.created))]
    if status.spent:
        details.append(word("train.about_seconds", duration=duration(status.spent)))
    if plan.is_training and status.state in RESUMABLE:
        details.append(word("train.came_to" if status.total_steps else "train.came_nowhere", **_steps(status)))
    st.caption(" · ".join(details))


def _steps(status: Status) -> dict[str, str]:
    return {"step": f"{status.step:,}", "total": f"{status.total_steps:,}"}


def about(plan: Plan) -> list[str]:
    """Return, as Markdown, the kind, the base and the data of a training."""
    return [
        kind_name(plan.kind),
        word("train.about_base", base=plain(base_name(plan.options.base, plan.kind))),
        word("train.about_data", data=plain(set_name(plan.data_name))),
    ]


def tell_failure(plan: Plan, status: Status, **details: str) -> None:
    if status.state in (State.FAILED, State.INTERRUPTED):
        code = status.code if status.state is State.FAILED or status.code == DAMAGED else "interrupted"
        tell_training_failure(code, status.message, plan.options.base, **details)


def draw_parts(whole: CompositeRun, parts: Sequence[Run], heading: str, name: Callable[[Run], str]) -> None:
    """Draw the parts, each of which is a training that can be looked at, and the log; `name` is no Markdown."""
    if not parts and not whole.log():
        return
    with st.expander(heading, icon=":material/science:"):
        for run in parts:
            with st.container(horizontal=True, vertical_alignment="center"):
                st.markdown(
                    f"**{plain(name(run))}** · {word('train.came_to', **_steps(run.status()))}", width="stretch"
                )
                # an ablation may show a training that stands elsewhere, too
                if st.button(word("train.details"), key=f"part_{whole.id}_{run.id}", icon=":material/info:"):
                    open_dialog("details", run)
                    st.rerun()
        if whole.log():
            draw_log(whole, 50)


def latest_stopped(jobs: Sequence[Run]) -> Run | None:
    """Return the training that was last at work if it stopped before its end, None if that ended well."""
    ended = [(status.heartbeat, run) for run in jobs if (status := run.status()).heartbeat and not status.at_work]
    # a training made of a checkpoint did not run itself
    latest = next((run for _, run in sorted(ended, reverse=True) if not run.provenance().get("checkpoint")), None)
    if latest is None or isinstance(latest, CompositeRun) or latest.plan().trial is not None:
        return None
    return latest if latest.status().state in RESUMABLE else None


def draw_stopped(run: Run) -> None:
    plan, status = run.plan(), run.status()
    with st.container(border=True, key="stopped_training"):
        if status.state is State.STOPPED:
            text = word("train.stopped_at" if status.total_steps else "train.stopped", **_steps(status))
            st.warning(text, icon=":material/stop_circle:")
        draw_head(plan, status)
        tell_failure(plan, status)
        with st.container(horizontal=True):
            draw_resume(run, primary=True)
            draw_use_best(run)
            draw_dialog_button("details", run)
            draw_dialog_button("delete", run)
        draw_making(run)


def draw_resume(run: Run, *, primary: bool = False) -> None:
    if isinstance(run, Search | Ablation):
        words = label_and_help("settings.resume" if isinstance(run, Search) else "ablation.resume")
    else:
        checkpoint = newest_checkpoint(run.folder)
        step = f"{step_of(checkpoint):,}" if checkpoint else ""
        help_text = word("train.resume_from", step=step) if checkpoint else word("train.resume_anew")
        words = {"label": word("train.resume"), "help": help_text}
    look: dict[str, Any] = {"icon": ":material/resume:", "type": "primary" if primary else "secondary"}
    if st.button(**words, key=f"resume_{run.id}", **look):
        st.toast(word("train.resumed"), icon=":material/resume:")
        if attempt(lambda: QUEUE.resume(run), "train.not_resumed", errors=(OSError, ValueError)):
            st.rerun()


def draw_use_best(run: Run) -> None:
    """Draw the button that makes a finished training of the best checkpoint so far; nothing where none was saved."""
    checkpoint = None if isinstance(run, CompositeRun) else best_checkpoint(run)
    if checkpoint is None:
        return
    job = BestModelJob.of(run)
    words = label_and_help("train.use_best", step=f"{step_of(checkpoint):,}")
    look: dict[str, Any] = {"icon": ":material/flag:", "disabled": job.done or job.running}
    pressed = st.button(**words, key=f"use_best_{run.id}", **look)
    if pressed and not job.running and attempt(job.start, "train.not_started"):
        st.rerun()


def draw_making(run: Run) -> None:
    job = BestModelJob.of(run)
    if job.running:
        follow(job, lambda _: word("train.making_best"))
    elif job.failed:
        status = job.status()
        tell_training_failure(status.code or "unexpected", status.message, run.plan().options.base)
    elif job.done and (made := job.made):
        st.success(word("train.made_best", name=plain(made.plan().name)), icon=":material/check_circle:")


def draw_details(run: Run) -> None:
    plan = run.plan()
    names = ("curves", "settings", "provenance", "log")
    curves_tab, settings, provenance, log = st.tabs([word(f"train.tab_{name}") for name in names])
    with curves_tab:
        _draw_curves(run, plan)
    with settings:
        options = {name: value for name, value in asdict(plan.options).items() if name != "base"}
        rows = [
            (word("train.base"), base_name(plan.options.base, plan.kind)),
            (word("train.row_data"), set_name(plan.data_name)),
            *((_option(name), value) for name, value in (options | _split(asdict(plan.split))).items()),
            (word("train.row_folder"), str(run.folder)),
        ]
        _table(rows, word("train.row_option"))
    with provenance:
        _draw_provenance(run)
    with log:
        draw_log(run, 200)


def _draw_provenance(run: Run) -> None:
    provenance = run.provenance()
    if not provenance:
        st.caption(word("train.no_provenance"))
        return
    st.caption(word("train.provenance_about"))
    groups = {name: facts for name, facts in provenance.items() if isinstance(facts, dict)}
    _table([(_fact(name), value) for name, value in provenance.items() if name not in groups], word("train.row_fact"))
    for name, facts in groups.items():
        tables.draw_heading(_fact(name))
        rows = _split(facts) if name == "split" else facts
        label = _option if name in ("split", "options", "settled") else _fact
        _table([(label(fact), value) for fact, value in rows.items()], word("train.row_fact"))
    content = json.dumps(provenance, ensure_ascii=False, indent=2)
    tables.draw_file("train.provenance_json", content, f"{run.id}-provenance.json", "application/json")


def _split(facts: dict[str, Any]) -> dict[str, Any]:
    """Rename the split's seed, which is another one than that of the training."""
    return {"split_seed" if name == "seed" else name: value for name, value in facts.items()}


def _option(name: str) -> str:
    return word_or(f"option.{name}", word_or(f"train.{name}", name))


def _fact(name: str) -> str:
    return word_or(f"provenance.{name}", name)


def _table(rows: list[tuple[str, Any]], heading: str) -> None:
    def as_text(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:g}"
        return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)

    columns = [heading, word("train.row_value")]
    st.dataframe(pd.DataFrame([(name, as_text(value)) for name, value in rows], columns=columns), hide_index=True)


def _draw_curves(run: Run, plan: Plan) -> None:
    plans = {one: own for one in all_runs() if (own := one.plan()).kind == plan.kind}
    labels = {one: run_name(own) for one, own in plans.items()}
    counts = Counter(labels.values())
    for one, name in labels.items():
        if counts[name] > 1:
            labels[one] = f"{name} · {moment(plans[one].created)} · {one.id[-4:]}"
    left, right = st.columns(2, vertical_alignment="bottom")
    with left:
        others = {one.id: one for one in labels if one != run and one.progress()}
        look: dict[str, Any] = {"format_func": lambda run_id: labels[others[run_id]], "disabled": not others}
        look |= {"placeholder": word("train.beside_placeholder") if others else word("train.beside_none")}
        look |= {"options": list(others), "max_selections": 5, "key": f"beside_{run.id}"}
        beside = [others[run_id] for run_id in st.multiselect(**label_and_help("train.beside"), **look)]
    with right:
        measure = pick_measure(f"details_measure_{run.id}", plan.kind, best_by(run, plan))
    compared = [plan, *(plans[one] for one in beside)]
    if len({(of.fingerprint, of.split, of.options.evaluation_limit) for of in compared}) > 1:
        st.warning(word("train.other_questions"), icon=":material/warning:")
    shown = [run, *beside]
    names = ("loss", measure, "learning_rate", "grad_norm")
    found = {labels[one]: curves(one, names) for one in shown}
    bm25 = {one.bm25.get(measure) for one in found.values()}  # drawn where it is the same for all
    columns = st.columns(2)
    last_step = max(one.status().total_steps for one in shown)
    for number, name in enumerate(names):
        with columns[number % 2]:
            if not beside:
                kept, colour = run.scores().get("kept_step", 0), recipe_of(plan.kind).colour
                draw_run_figure(name, found[labels[run]], colour, last_step=last_step, kept_step=kept)
                continue
            draw_figure(
                name,
                {label: one.points[name] for label, one in found.items()},
                PALETTE[1 : len(shown) + 1],  # the first one is BM25's
                last_step=last_step,
                bm25=next(iter(bm25)) if name in MEASURES and len(bm25) == 1 else None,
            )
