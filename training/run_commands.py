"""`mrc runs`: list, stop, resume, delete and publish training runs; and what their jobs run."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mrc_workbench.data.commands import AsJson, commands_of, one_of
from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.terminal import tell
from mrc_workbench.data.workspace import workspace
from mrc_workbench.training.commands import followed, known_job, stopping_on_signals
from mrc_workbench.training.jobs import QUEUE, Ablation, RehearsalTask, Search, all_jobs, job_at
from mrc_workbench.training.runs import Run, damaged_runs

commands = commands_of("runs", "List, stop, resume and publish training runs.")
Reference = Annotated[str, Parameter(help="id of the run, as list shows it, or its folder")]


def run_folder(folder: Path, /) -> int:
    """Run the training, search or ablation in a folder, for the worker."""
    from mrc_workbench.training.ablation import ablate
    from mrc_workbench.training.search import find_settings
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
    """Run the queued runs, then end."""
    QUEUE.work()
    return 0


def dry_run(task: Annotated[RehearsalTask, one_of(RehearsalTask)], folder: Path, /) -> int:
    """Work out the estimate or the hard negatives of a plan in a folder."""
    from mrc_workbench.training.estimate import rehearse

    return rehearse(task, folder)


@commands.command(name="list")
def list_runs(*, as_json: AsJson = False) -> int:
    """List the runs, the newest first."""
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


@commands.command
def stop(run: Reference, /) -> int:
    """Stop a run, or remove a queued one.

    A running training ends after its step, with a checkpoint.
    """
    found = known_job(run)
    if not (found.status().at_work or found.status().state is State.QUEUED):
        raise ValueError(f"{found.id} is {found.status().state.value}: there is nothing to stop")
    found.stop()
    tell(found.status().state.value)
    return 0


@commands.command
def resume(run: Reference, /) -> int:
    """Resume a run from its last checkpoint."""
    found = known_job(run)
    QUEUE.resume(found)
    if found.folder.resolve().parent != workspace() / "runs":  # the workspace's worker knows nothing of it
        return followed(found)
    tell(State.QUEUED.value)
    return 0


@commands.command
def use_best(run: Reference, /) -> int:
    """Make a finished run of the best checkpoint of a stopped one."""
    from mrc_workbench.training.train import conclude

    found = known_job(run)
    if found.status().at_work:
        raise ValueError(f"{found.id} is {found.status().state.value}: stop it first")
    tell(conclude(found).id)
    return 0


def best_checkpoint(folder: Path, /) -> int:
    """Make a finished training of the best checkpoint in a run folder."""
    from mrc_workbench.training.train import conclude_as_job

    return int(conclude_as_job(Run(folder)).state is State.FAILED)


@commands.command
def delete(run: Reference, /) -> int:
    """Delete a run and its model."""
    found = next((one for one in damaged_runs() if one.id == run), None) or known_job(run)
    found.delete()
    tell(f"deleted {found.id}")
    return 0


@commands.command
def push(
    run: Reference,
    repository: Annotated[str, Parameter(help="repository on the hub, OWNER/NAME")],
    /,
    *,
    public: Annotated[bool, Parameter(negative="", help="create a public repository, not a private one")] = False,
) -> int:
    """Push a finished model to the Hugging Face hub.

    Needs a token: HF_TOKEN, or typed in.
    """
    from mrc_workbench.training.results import push, require_finished

    found = known_job(run)
    require_finished(found)
    tell(push(found, repository, _hub_token(), private=not public))
    return 0


def _hub_token() -> str:
    """Return the token of the environment, or ask for one in a terminal. Raises `ValueError`."""
    from getpass import getpass

    if token := os.environ.get("HF_TOKEN"):
        return token
    if not sys.stdin.isatty():
        raise ValueError("no token for the hub: set HF_TOKEN")
    return getpass("hub token (not shown, not kept): ")
