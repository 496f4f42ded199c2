"""`mrc train`: train, stand in line, stop, resume, and see what there is, without the page."""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Group, Parameter
from cyclopts.validators import mutually_exclusive

from mrc_workbench.data.commands import AsJson, commands_of, one_of, run
from mrc_workbench.data.formats.delimited import csv_bytes
from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.terminal import tell
from mrc_workbench.data.workspace import workspace
from mrc_workbench.training.commands import (
    PlanWords,
    ablate,
    find_settings_commands,
    followed,
    followed_rounds,
    known_job,
    options_of,
    planned,
    stopping_on_signals,
)
from mrc_workbench.training.recipe import RECIPES
from mrc_workbench.training.runs.jobs import (
    QUEUE,
    Ablation,
    Estimate,
    Rehearsal,
    RehearsalTask,
    Search,
    all_jobs,
    job_at,
)
from mrc_workbench.training.runs.runs import Plan, Run, create_rounds, damaged_runs, rounds_of

_A_MODEL = {
    "bi-encoder": "a bi-encoder for dense retrieval",
    "cross-encoder": "a cross-encoder for reranking",
    "late-interaction": "a late-interaction model (ColBERT)",
    "sparse-encoder": "a sparse encoder (SPLADE)",
    "sentences": "a sentence encoder on sentence pairs",
    "sentence-cross-encoder": "a cross-encoder on sentence pairs",
    "reader": "a reader that finds answers in passages",
    "language-model": "a language model on text",
}
Reference = Annotated[str, Parameter(help="id of the run, as `list` shows it, or its folder")]


def main(words: Sequence[str]) -> int:
    """Run the command; returns its exit status: 0 when done, 1 when failed, 2 when not started, 130 after Ctrl-C."""
    return run(_commands(), words)


def _commands() -> App:
    about = "Train models, find settings, and manage runs. Defaults are those of the starter; other bases have theirs."
    commands = commands_of("train", about)
    for kind in RECIPES:
        commands.command(_training_of(kind), name=kind, help=f"Train {_A_MODEL.get(kind, kind)}.")
    commands.command(find_settings_commands(), name="find-settings")
    for command in (ablate, list_runs, stop, resume, use_best, delete, push):
        commands.command(command, name="list" if command is list_runs else None)
    for internal in (run_folder, work, rehearse, conclude):  # what processes are started by
        commands.command(internal, name="run" if internal is run_folder else None, show=False)
    return commands


def _training_of(kind: str) -> Callable[..., int]:
    instead = Group("Instead", validator=mutually_exclusive)

    def only(text: str) -> Parameter:
        return Parameter(negative="", help=text, group=instead)

    @options_of(kind)
    def train(
        *,
        words: PlanWords,
        out: Annotated[Path | None, Parameter(help="run folder elsewhere; the model is in its folder model/")] = None,
        fit: Annotated[
            bool, Parameter(negative="", help="estimate first; change what does not fit into memory")
        ] = False,
        queue: Annotated[bool, only("only put it in line, and print its id")] = False,
        estimate: Annotated[bool, only("only take a few steps and say what it would take")] = False,
        negatives_file: Annotated[Path | None, only("only write the hard negatives there")] = None,
        **chosen: Any,
    ) -> int:
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        if int(os.environ.get("RANK", "0")) > 0 and out:
            return run_folder(out)
        if processes > 1 and not out:
            raise ValueError("several processes need --out: a new folder that all of them see")
        plan = planned(kind, words, chosen)
        if processes > 1 and rounds_of(plan.options) > 1:
            raise ValueError(
                "several processes take one round at a time: --base and --negatives-model name the one before"
            )
        if negatives_file:
            return _write_negatives(plan, negatives_file)
        if estimate:
            return _print_estimate(plan)
        runs = create_rounds(_fitted(plan) if fit else plan, out, attended=not queue)
        if queue:
            QUEUE.start_worker()
            tell("\n".join(run.id for run in runs))
            return 0
        return followed_rounds(runs)

    return train


def run_folder(folder: Path, /) -> int:
    """Carry out a run folder (a worker, or torchrun, uses this)."""
    from mrc_workbench.training.sweeps.ablation import ablate
    from mrc_workbench.training.sweeps.search import find_settings
    from mrc_workbench.training.train import train

    # of several processes the first one alone makes the folder
    found = Run(folder) if int(os.environ.get("RANK", "0")) > 0 else job_at(folder)
    with stopping_on_signals(found):
        if isinstance(found, Search):
            return int(find_settings(found, sent_by_worker=True).state is State.FAILED)
        if isinstance(found, Ablation):
            return int(ablate(found, sent_by_worker=True).state is State.FAILED)
        return int(train(found, sent_by_worker=True).state is State.FAILED)


def work() -> int:
    """Carry out the queued runs, then end (started by itself)."""
    QUEUE.work()
    return 0


def rehearse(task: Annotated[RehearsalTask, one_of(RehearsalTask)], folder: Path, /) -> int:
    """Work out what the page asks before a training."""
    from mrc_workbench.training.estimate import rehearse

    return rehearse(task, folder)


def list_runs(*, as_json: AsJson = False) -> int:
    """List runs, the newest first."""
    runs = [_told(one) for one in all_jobs()]
    for damaged in damaged_runs():
        tell(f"{damaged.id} cannot be read: its run.json is damaged", error=True)
    if as_json:
        tell(json.dumps(runs, ensure_ascii=False, indent=2))
        return 0
    if not runs:
        tell("No runs yet: `mrc train bi-encoder --data sample` trains a model.", error=True)
    for one in runs:
        steps = f"{one['step']}/{one['total_steps']}" if one["total_steps"] else "-"
        tell(f"{one['id']}  {one['state']:<11}  {one['kind']:<13}  {steps:>13}  {one['name']}")
    return 0


def _told(run: Run) -> dict[str, Any]:
    plan, status = run.plan(), run.status()
    kept = {name: value for name, value in asdict(status).items() if name not in ("pid_started", "seconds")}
    part: dict[str, Any] = (
        {"minutes": plan.minutes} if plan.minutes else {"trial": asdict(plan.trial)} if plan.trial else {}
    )
    part |= {"ablation": plan.ablation} if plan.ablation else {}
    about = {"name": plan.name, "kind": plan.kind, "base": plan.options.base, "data": plan.data_name}
    times = {"created": plan.created, "seconds": status.spent}
    return {"id": run.id, **part, **about, **kept, **times, "folder": str(run.folder)}


def stop(run: Reference, /) -> int:
    """Stop a run after its step, with a checkpoint; remove a queued one from the queue."""
    found = known_job(run)
    if not (found.status().at_work or found.status().state is State.QUEUED):
        raise ValueError(f"{found.id} is {found.status().state.value}: there is nothing to stop")
    found.stop()
    tell(found.status().state.value)
    return 0


def resume(run: Reference, /) -> int:
    """Resume a stopped, failed or interrupted run from its last checkpoint."""
    found = known_job(run)
    QUEUE.resume(found)
    if found.folder.resolve().parent != workspace() / "runs":  # the workspace's worker knows nothing of it
        return followed(found)
    tell(State.QUEUED.value)
    return 0


def use_best(run: Reference, /) -> int:
    """Make a finished training of a stopped one's best checkpoint, and print its id."""
    from mrc_workbench.training.conclude import conclude

    found = known_job(run)
    if found.status().at_work:
        raise ValueError(f"{found.id} is {found.status().state.value}: stop it first")
    tell(conclude(found).id)
    return 0


def conclude(folder: Path, /) -> int:
    """Make a finished training of the best checkpoint in a run folder (the page uses this)."""
    from mrc_workbench.training.conclude import conclude_as_job

    return int(conclude_as_job(Run(folder)).state is State.FAILED)


def delete(run: Reference, /) -> int:
    """Delete a run and its model."""
    found = next((one for one in damaged_runs() if one.id == run), None) or known_job(run)
    found.delete()
    tell(f"deleted {found.id}")
    return 0


def push(
    run: Reference,
    repository: Annotated[str, Parameter(help="name/of-the-model on the hub")],
    /,
    *,
    public: Annotated[bool, Parameter(negative="", help="for everybody to see; else private")] = False,
) -> int:
    """Send a finished model to the hub, with the token of HF_TOKEN or one typed in."""
    from mrc_workbench.training.runs.model import PushError, push, require_finished

    found = known_job(run)
    try:
        require_finished(found)
        tell(push(found, repository, _hub_token(), private=not public))
    except PushError as error:
        tell(f"error: {error}", error=True)
        return 1
    return 0


def _hub_token() -> str:
    """Return the token of the environment, or ask for one in a terminal. Raises `ValueError`."""
    from getpass import getpass

    if token := os.environ.get("HF_TOKEN"):
        return token
    if not sys.stdin.isatty():
        raise ValueError("no token for the hub: set HF_TOKEN")
    return getpass("hub token (not shown, not kept): ")


def _write_negatives(plan: Plan, path: Path) -> int:
    from mrc_workbench.training.train import mined

    table, questions = mined(plan)
    if path.suffix == ".csv":
        path.write_bytes(csv_bytes(table))
    else:
        table.to_json(path, orient="records", lines=True, force_ascii=False)
    tell(f"{len(table)} negatives of {table['question_id'].nunique()} of {questions} questions: {path}")
    return 0


def _fitted(plan: Plan) -> Plan:
    """Change the plan until its memory suffices, each change tried before the next. Raises `ValueError`: none does."""
    from mrc_workbench.training.estimate import REASONS

    for _ in REASONS:
        found = _estimated(plan)
        gigabytes = f"{found.memory / 1e9:.1f} of {found.memory_available / 1e9:.1f} GB"
        if found.fits:
            tell(f"about {found.seconds / 60:.0f} minutes, {gigabytes} of memory")
            return plan
        if not found.instead:
            break
        tell(f"does not fit: {gigabytes} of memory")
        for name, value in found.instead.items():
            tell(f"  {name}: {getattr(plan.options, name)} -> {value}: {REASONS[name]}")
        plan = replace(plan, options=replace(plan.options, **found.instead))
    raise ValueError(f"{gigabytes} of memory, and no change was found that makes it fit: take a smaller base")


def _estimated(plan: Plan) -> Estimate:
    """Ask a process of its own: what it held while it tried is given back."""
    rehearsal = Rehearsal.of(plan, RehearsalTask.ESTIMATE)
    rehearsal.start(plan)
    try:
        while rehearsal.running:
            time.sleep(0.2)
    except KeyboardInterrupt:
        rehearsal.end()
        raise
    if not rehearsal.done:
        raise ValueError(rehearsal.problem()[1])
    return rehearsal.estimate()


def _print_estimate(plan: Plan) -> int:
    from mrc_workbench.data.jobs.machine import hold_freed_memory
    from mrc_workbench.training.estimate import estimate

    hold_freed_memory()  # as a training does
    tell(json.dumps(asdict(estimate(plan)), indent=2))
    return 0


def __getattr__(name: str) -> App:
    """Make `commands` when they are asked for: other users of this module do without the options of every kind."""
    if name == "commands":
        return _commands()
    raise AttributeError(name)
