"""A training that stopped before its end: shown at the top of the page, resumed, or used as it was at its best."""

from collections.abc import Sequence

import streamlit as st

from mrc_workbench.data.jobs.folder import RESUMABLE, State
from mrc_workbench.training.engine.checkpoints import newest_checkpoint, step_of
from mrc_workbench.training.jobs import QUEUE, Ablation, BestModelJob, CompositeRun, Search, best_checkpoint
from mrc_workbench.training.runs import Run
from mrc_workbench.workbench.views.runs.head import draw_head, open_dialog, tell_failure
from mrc_workbench.workbench.views.ui.job import follow
from mrc_workbench.workbench.views.ui.words import attempt, plain, tell_training_failure, word


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
            steps = {"step": f"{status.step:,}", "total": f"{status.total_steps:,}"}
            st.warning(
                word("train.stopped_at" if status.total_steps else "train.stopped", **steps),
                icon=":material/stop_circle:",
            )
        draw_head(plan, status)
        tell_failure(plan, status)
        with st.container(horizontal=True):
            draw_resume(run, primary=True)
            draw_use_best(run)
            if st.button(word("train.details"), key=f"details_{run.id}", icon=":material/info:"):
                open_dialog("details", run)
            if st.button(word("train.delete"), key=f"delete_{run.id}", icon=":material/delete:"):
                open_dialog("delete", run)
        draw_making(run)


def draw_resume(run: Run, *, primary: bool = False) -> None:
    if isinstance(run, Search):
        label, help_text = word("settings.resume"), word("settings.resume_help")
    elif isinstance(run, Ablation):
        label, help_text = word("ablation.resume"), word("ablation.resume_help")
    else:
        kept = newest_checkpoint(run.folder)
        help_text = word("train.resume_from", step=f"{step_of(kept):,}") if kept else word("train.resume_anew")
        label = word("train.resume")
    pressed = st.button(
        label,
        key=f"resume_{run.id}",
        icon=":material/resume:",
        help=help_text,
        type="primary" if primary else "secondary",
    )
    if pressed:
        st.toast(word("train.resumed"), icon=":material/resume:")
        if attempt(lambda: QUEUE.resume(run), "train.not_resumed", errors=(OSError, ValueError)):
            st.rerun()


def draw_use_best(run: Run) -> None:
    """Draw the button that makes a finished training of the best checkpoint so far; nothing where none was saved."""
    checkpoint = None if isinstance(run, CompositeRun) else best_checkpoint(run)
    if checkpoint is None:
        return
    job = BestModelJob.of(run)
    pressed = st.button(
        word("train.use_best", step=f"{step_of(checkpoint):,}"),
        key=f"use_best_{run.id}",
        icon=":material/flag:",
        help=word("train.use_best_help"),
        disabled=job.done or job.running,
    )
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
