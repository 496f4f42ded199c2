"""The cards of ended trainings: head, parts and details; and the actions for a training that stopped early."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Literal

import pandas as pd
import streamlit as st

from mrc_workbench.data.jobs.folder import DAMAGED, RESUMABLE, State, Status
from mrc_workbench.retrieval.report.charts import PALETTE
from mrc_workbench.training.engine.checkpoints import get_step, newest_checkpoint
from mrc_workbench.training.jobs import (
    QUEUE,
    Ablation,
    BestModelJob,
    CompositeRun,
    SettingsSearch,
    best_checkpoint,
    find_job,
)
from mrc_workbench.training.recipes import get_recipe
from mrc_workbench.training.results import MEASURES, read_curves
from mrc_workbench.training.runs import Run, TrainingPlan, all_runs
from mrc_workbench.workbench.views.names import base_name, kind_name, run_name, set_name
from mrc_workbench.workbench.views.train.charts import checkpoint_metric, draw_run_chart, draw_step_chart, pick_measure
from mrc_workbench.workbench.views.ui import tables, words
from mrc_workbench.workbench.views.ui.job import draw_log, follow
from mrc_workbench.workbench.views.ui.words import label_and_help, plain, word, word_or

_OPEN = "run_dialog"  # in the session: the dialog's name and the run's id
BADGES = {  # of the states of jobs that have ended
    State.DONE: ("green", ":material/check_circle:"),
    State.STOPPED: ("gray", ":material/stop_circle:"),
    State.FAILED: ("red", ":material/error:"),
    State.INTERRUPTED: ("orange", ":material/power_off:"),
}


def open_dialog(name: str, run: Run) -> None:
    st.session_state[_OPEN] = (name, run.id)


def close_dialog() -> None:
    st.session_state.pop(_OPEN, None)


def draw_dialog(contents: dict[str, Callable[[Run], None]]) -> None:
    """Draw the open dialog, if any, with the function that `contents` has for its name."""
    name, run_id = st.session_state.get(_OPEN, ("", ""))
    run = find_job(run_id)
    if run is None:  # no dialog is open, or another user has deleted the run
        close_dialog()
        return
    title = f"{word(f'train.{name}')}: {plain(run_name(run.plan())[:80])}"
    st.dialog(title, width="large" if name == "details" else "small", on_dismiss=close_dialog)(contents[name])(run)


def draw_button(name: str, run: Run, icon: str, help_text: str | None = None, **kwargs: Any) -> bool:
    return st.button(word(f"train.{name}"), key=f"{name}_{run.id}", icon=icon, help=help_text, **kwargs)


def draw_dialog_button(name: Literal["details", "delete"], run: Run) -> None:
    if draw_button(name, run, ":material/info:" if name == "details" else ":material/delete:"):
        open_dialog(name, run)


def draw_head(plan: TrainingPlan, status: Status) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{plain(run_name(plan))}**", width="content")
        colour, icon = BADGES[status.state]
        st.badge(word(f"state.{status.state.value}"), icon=icon, color=colour)  # type: ignore[arg-type]
    details = [*plan_details(plan), plain(words.moment(plan.created))]
    if status.total_seconds:
        details.append(word("train.about_seconds", duration=words.duration(status.total_seconds)))
    if plan.is_training and status.state in RESUMABLE:
        details.append(word("train.came_to" if status.total_steps else "train.came_nowhere", **_steps(status)))
    st.caption(" · ".join(details))


def _steps(status: Status) -> dict[str, str]:
    return {"step": f"{status.step:,}", "total": f"{status.total_steps:,}"}


def plan_details(plan: TrainingPlan) -> list[str]:
    """Return, as Markdown, the kind, the base and the data of a training."""
    return [
        kind_name(plan.kind),
        word("train.about_base", base=plain(base_name(plan.options.base, plan.kind))),
        word("train.about_data", data=plain(set_name(plan.data_name))),
    ]


def draw_failure(plan: TrainingPlan, status: Status, **details: str) -> None:
    if status.state in (State.FAILED, State.INTERRUPTED):
        code = status.code if status.state is State.FAILED or status.code == DAMAGED else "interrupted"
        words.draw_training_failure(code, status.message, plan.options.base, **details)


def draw_parts(composite: CompositeRun, parts: Sequence[Run], heading: str, name: Callable[[Run], str]) -> None:
    """Draw the log, and the parts with a button for the details of each; `name` returns plain text."""
    if not parts and not composite.log():
        return
    with st.expander(heading, icon=":material/science:"):
        for run in parts:
            with st.container(horizontal=True, vertical_alignment="center"):
                steps = word("train.came_to", **_steps(run.status()))
                st.markdown(f"**{plain(name(run))}** · {steps}", width="stretch")
                # the key includes the ablation: the page may list the same training twice
                if st.button(word("train.details"), key=f"part_{composite.id}_{run.id}", icon=":material/info:"):
                    open_dialog("details", run)
                    st.rerun()
        if composite.log():
            draw_log(composite, 50)


def latest_stopped(jobs: Sequence[Run]) -> Run | None:
    """Return the training that ran last if it stopped before its end, else None."""
    ended = [(status.heartbeat, run) for run in jobs if (status := run.status()).heartbeat and not status.is_running]
    # a run created from a checkpoint did not train
    latest = next((run for _, run in sorted(ended, reverse=True) if not run.provenance().get("checkpoint")), None)
    if latest is None or isinstance(latest, CompositeRun) or latest.plan().trial is not None:
        return None
    return latest if latest.status().state in RESUMABLE else None


def draw_stopped(run: Run) -> None:
    plan = run.plan()
    status = run.status()
    with st.container(border=True, key="stopped_training"):
        if status.state is State.STOPPED:
            text = word("train.stopped_at" if status.total_steps else "train.stopped", **_steps(status))
            st.warning(text, icon=":material/stop_circle:")
        draw_head(plan, status)
        draw_failure(plan, status)
        with st.container(horizontal=True):
            draw_resume(run, primary=True)
            draw_use_best(run)
            draw_dialog_button("details", run)
            draw_dialog_button("delete", run)
        draw_best_model_job(run)


def draw_resume(run: Run, *, primary: bool = False) -> None:
    if isinstance(run, SettingsSearch | Ablation):
        texts = label_and_help("settings.resume" if isinstance(run, SettingsSearch) else "ablation.resume")
    else:
        checkpoint = newest_checkpoint(run.folder)
        step = f"{get_step(checkpoint):,}" if checkpoint else ""
        help_text = word("train.resume_from", step=step) if checkpoint else word("train.resume_anew")
        texts = {"label": word("train.resume"), "help": help_text}
    kwargs: dict[str, Any] = {"icon": ":material/resume:", "type": "primary" if primary else "secondary"}
    if st.button(**texts, key=f"resume_{run.id}", **kwargs):
        st.toast(word("train.resumed"), icon=":material/resume:")
        if words.attempt(lambda: QUEUE.resume(run), "train.not_resumed", errors=(OSError, ValueError)):
            st.rerun()


def draw_use_best(run: Run) -> None:
    checkpoint = None if isinstance(run, CompositeRun) else best_checkpoint(run)
    if checkpoint is None:
        return
    job = BestModelJob.for_run(run)
    texts = label_and_help("train.use_best", step=f"{get_step(checkpoint):,}")
    kwargs: dict[str, Any] = {"icon": ":material/flag:", "disabled": job.done or job.running}
    pressed = st.button(**texts, key=f"use_best_{run.id}", **kwargs)
    if pressed and not job.running and words.attempt(job.start, "train.not_started"):
        st.rerun()


def draw_best_model_job(run: Run) -> None:
    job = BestModelJob.for_run(run)
    if job.running:
        follow(job, lambda _: word("train.making_best"))
    elif job.failed:
        status = job.status()
        words.draw_training_failure(status.code or "unexpected", status.message, run.plan().options.base)
    elif job.done and (model_run := job.finished_run):
        st.success(word("train.made_best", name=plain(model_run.plan().name)), icon=":material/check_circle:")


def draw_details(run: Run) -> None:
    plan = run.plan()
    tabs = ("curves", "settings", "provenance", "log")
    curves_tab, settings, provenance, log = st.tabs([word(f"train.tab_{name}") for name in tabs])
    with curves_tab:
        _draw_curves(run, plan)
    with settings:
        options = {name: value for name, value in asdict(plan.options).items() if name != "base"}
        options |= _rename_split_seed(asdict(plan.split))
        rows = {"base": base_name(plan.options.base, plan.kind), "row_data": set_name(plan.data_name)}
        rows |= options | {"row_folder": str(run.folder)}
        _table([(_option(name), value) for name, value in rows.items()], word("train.row_option"))
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
        rows = _rename_split_seed(facts) if name == "split" else facts
        label = _option if name in ("split", "options", "resolved_options") else _fact
        _table([(label(fact), value) for fact, value in rows.items()], word("train.row_fact"))
    content = json.dumps(provenance, ensure_ascii=False, indent=2)
    tables.draw_file("train.provenance_json", content, f"{run.id}-provenance.json", "application/json")


def _rename_split_seed(facts: dict[str, Any]) -> dict[str, Any]:
    """Rename the seed of the split, because the training has a seed too."""
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


def _draw_curves(run: Run, plan: TrainingPlan) -> None:
    plans = {candidate: own for candidate in all_runs() if (own := candidate.plan()).kind == plan.kind}
    labels = {candidate: run_name(own) for candidate, own in plans.items()}
    counts = Counter(labels.values())
    for candidate, name in labels.items():
        if counts[name] > 1:
            labels[candidate] = f"{name} · {words.moment(plans[candidate].created)} · {candidate.id[-4:]}"
    left, right = st.columns(2, vertical_alignment="bottom")
    with left:
        others = {candidate.id: candidate for candidate in labels if candidate != run and candidate.progress()}
        kwargs: dict[str, Any] = {"format_func": lambda run_id: labels[others[run_id]], "disabled": not others}
        kwargs |= {"placeholder": word("train.beside_placeholder") if others else word("train.beside_none")}
        kwargs |= {"options": list(others), "max_selections": 5, "key": f"beside_{run.id}"}
        compared_runs = [others[run_id] for run_id in st.multiselect(**label_and_help("train.beside"), **kwargs)]
    with right:
        measure = pick_measure(f"details_measure_{run.id}", plan.kind, checkpoint_metric(run, plan))
    compared = [plan, *(plans[candidate] for candidate in compared_runs)]
    evaluated = {(other.fingerprint, other.split, other.options.evaluation_limit) for other in compared}
    if len(evaluated) > 1:
        st.warning(word("train.other_questions"), icon=":material/warning:")
    displayed_runs = [run, *compared_runs]
    names = ("loss", measure, "learning_rate", "grad_norm")
    curves_by_label = {labels[candidate]: read_curves(candidate, names) for candidate in displayed_runs}
    bm25 = {candidate.bm25.get(measure) for candidate in curves_by_label.values()}  # drawn if it is the same for all
    columns = st.columns(2)
    last_step = max(candidate.status().total_steps for candidate in displayed_runs)
    for number, name in enumerate(names):
        with columns[number % 2]:
            if not compared_runs:
                best_step = run.scores().get("best_step", 0)
                colour = get_recipe(plan.kind).colour
                draw_run_chart(name, curves_by_label[labels[run]], colour, last_step=last_step, best_step=best_step)
                continue
            draw_step_chart(
                name,
                {label: candidate.points[name] for label, candidate in curves_by_label.items()},
                PALETTE[1 : len(displayed_runs) + 1],  # the first colour is that of BM25
                last_step=last_step,
                bm25=next(iter(bm25)) if name in MEASURES and len(bm25) == 1 else None,
            )
