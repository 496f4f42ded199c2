"""The cards of ended trainings: their head, dialog and parts, the findings of a search; and a training that stopped
before its end: shown at the top of the page, resumed, or used with its best checkpoint."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import pandas as pd
import streamlit as st

from mrc_workbench.data.jobs.folder import DAMAGED, RESUMABLE, State, Status
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.training.engine.checkpoints import newest_checkpoint, step_of
from mrc_workbench.training.jobs import (
    DEFAULTS,
    QUEUE,
    Ablation,
    BestModelJob,
    CompositeRun,
    Findings,
    Search,
    best_checkpoint,
    find_job,
)
from mrc_workbench.training.runs import Plan, Run
from mrc_workbench.workbench.views.names import base_name, kind_name, run_name, set_name
from mrc_workbench.workbench.views.train.fields import fill_in_settings
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.job import draw_log, follow
from mrc_workbench.workbench.views.ui.words import (
    attempt,
    duration,
    label_and_help,
    moment,
    plain,
    signed,
    tell_training_failure,
    word,
    word_or,
)

_OPEN = "run_dialog"  # in the session: the dialog's name and the run's id
_BADGES = {
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
    """Draw a button of a run; returns whether it was clicked."""
    return st.button(word(f"train.{name}"), key=f"{name}_{run.id}", icon=icon, help=help_text, **look)


def draw_dialog_button(name: Literal["details", "delete"], run: Run) -> None:
    if draw_button(name, run, ":material/info:" if name == "details" else ":material/delete:"):
        open_dialog(name, run)


def has_ended(status: Status) -> bool:
    return status.state in _BADGES


def draw_head(plan: Plan, status: Status) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{plain(run_name(plan))}**", width="content")
        colour, icon = _BADGES[status.state]
        st.badge(word(f"state.{status.state.value}"), icon=icon, color=colour)  # type: ignore[arg-type]
    details = [*made_of(plan), plain(moment(plan.created))]
    if status.spent:
        details.append(word("train.about_seconds", duration=duration(status.spent)))
    if plan.is_training and status.state in RESUMABLE:
        details.append(word("train.came_to" if status.total_steps else "train.came_nowhere", **_steps(status)))
    st.caption(" · ".join(details))


def _steps(status: Status) -> dict[str, str]:
    return {"step": f"{status.step:,}", "total": f"{status.total_steps:,}"}


def made_of(plan: Plan) -> list[str]:
    """Return, as Markdown, its kind, its base and its data."""
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


def draw_search(search: Search, *, is_running: bool = False) -> None:
    """Draw what a search has found so far, and its trials; the findings of an ended one can be used in the form."""
    findings, plan = search.found, search.plan()
    if is_running:
        st.caption(word("settings.minutes_at_most", minutes=f"{plan.minutes:g}"))
    is_complete = search.done and not is_running
    if findings and is_complete:
        st.markdown(_sentence(findings))
    if findings:
        _draw_findings(plan, findings)
    if findings and is_complete:
        look: dict[str, Any] = {"icon": ":material/check:", "key": f"use_settings_{search.id}"}
        st.button(**label_and_help("settings.use"), on_click=fill_in_settings, args=(plan, findings), **look)
    trials = search.parts()
    draw_parts(search, trials, word("settings.trials", count=len(trials)), lambda run: run_name(run.plan()))


def setting_words(changes: Mapping[str, Any]) -> str:
    settings = []
    for name, value in changes.items():
        label = "" if name == "objective" else f"{word_or(f'option.{name}', name)}: "  # an objective needs no label
        settings.append(label + value_words(name, value))
    return ", ".join(settings) or word("settings.defaults")


def value_words(name: str, value: Any) -> str:
    if name == "objective":
        return word_or(f"objective.{value}", str(value))
    number = f"{value:.10f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return word_or(f"choice.{name}_{value}", number)


def _sentence(found: Findings) -> str:
    measure = Measure.parse(found.measure).long
    if found.best == DEFAULTS:
        return word("settings.defaults_best", measure=measure)
    best = next(trial for trial in found.tried if trial.number == found.best)
    return word(
        "settings.better" if found.chosen != DEFAULTS else "settings.alike",
        setting=plain(setting_words(best.changed)),
        measure=measure,
        points=signed(best.difference),
        low=signed(best.difference_low),
        high=signed(best.difference_high),
    )


def _draw_findings(plan: Plan, found: Findings) -> None:
    """One row a trial, those that came furthest first; underneath, figures stay numbers, so columns sort by them."""
    measure = Measure.parse(found.measure).long
    tried = sorted(found.tried, key=lambda one: (-one.share, one.number != DEFAULTS, -one.value))
    rows = [
        {
            "chosen": "✓" if one.number == found.chosen else "",
            "setting": setting_words(one.changed),
            "value": one.value,
            "difference": one.difference,
            "p": one.p_family,
            "epochs": one.epochs,
            "steps": one.steps,
            "loss": one.loss,
        }
        for one in tried
    ]
    style = pd.DataFrame(rows).style.format({"epochs": "{:.2f}", "p": "{:.4f}", "loss": "{:.4f}"}, na_rep="")
    for place, one in enumerate(tried):
        texts = {
            "value": f"{100 * one.value:.2f} [{100 * one.low:.1f}–{100 * one.high:.1f}]",
            "difference": f"{signed(one.difference)} [{signed(one.difference_low)}, {signed(one.difference_high)}]",
        }
        if one.number == DEFAULTS:  # they differ from themselves in nothing
            texts |= {"difference": "", "p": ""}
        for column, text in texts.items():
            style = tables.write(style, place, column, text)
        if one.number == found.chosen:
            style = style.map(lambda _: tables.BOLD, subset=pd.IndexSlice[[place], :])
    tables.draw(
        style,
        {
            "chosen": tables.text("settings.chosen", width=45),
            "setting": tables.text("settings.setting", width=250),
            "value": tables.measure(found.measure, measure, width=130),
            "difference": tables.number("settings.difference", width=130),
            "p": tables.number("settings.p", "%.4f"),
            "epochs": tables.number("settings.epochs", width=55),
            "steps": tables.number("settings.steps", width=50),
            "loss": tables.number("settings.loss", width=65),
        },
    )
    values = {"questions": f"{found.questions:,}", "measure": measure}
    notes = [word("settings.measured_on", **values, untrained=f"{100 * found.untrained:.2f}")]
    for key, numbers in (("settings.failed", found.failed), ("settings.untried", found.untried)):
        if numbers:
            notes.append(word(key, numbers=", ".join(map(str, numbers))))
    if plan.options.reranked:
        notes.append(word("train.measured_reranked", depth=plan.options.reranked))
    st.caption(" ".join(notes))


def latest_stopped(jobs: Sequence[Run]) -> Run | None:
    """Return the training that was last at work if it stopped before its end, None if that ended well."""
    ended = [(status.heartbeat, run) for run in jobs if (status := run.status()).heartbeat and not status.at_work]
    # a training made of a checkpoint did not run itself
    latest = next((run for _, run in sorted(ended, reverse=True) if not run.provenance().get("checkpoint")), None)
    if latest is None or isinstance(latest, CompositeRun) or latest.plan().trial is not None:
        return None
    return latest if latest.status().state in RESUMABLE else None


def draw_stopped(run: Run) -> None:
    """Draw the card of a training that just stopped, with the ways on."""
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
    if isinstance(run, Search):
        words = label_and_help("settings.resume")
    elif isinstance(run, Ablation):
        words = label_and_help("ablation.resume")
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
    """Draw how far the model of the best checkpoint is."""
    job = BestModelJob.of(run)
    if job.running:
        follow(job, lambda _: word("train.making_best"))
    elif job.failed:
        status = job.status()
        tell_training_failure(status.code or "unexpected", status.message, run.plan().options.base)
    elif job.done and (made := job.made):
        st.success(word("train.made_best", name=plain(made.plan().name)), icon=":material/check_circle:")
