"""`python -m training`: train, stand in line, stop, resume, and see what there is, without the page."""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from data.csv_export import csv_bytes
from data.failure import Failure
from data.terminal import Parser, tell
from data.workspace import workspace
from jobs.status import State
from training.ablate import add_ablate
from training.command_line import add_plan, followed, followed_rounds, known_job, planned, stopping_on_signals
from training.find_settings import add_find_settings
from training.options.common import TrainingOptions
from training.recipe import RECIPES
from training.runs.ablations import Ablation
from training.runs.jobs import all_jobs, job_at
from training.runs.line import LINE
from training.runs.rehearsal import Estimate, Rehearsal, Task
from training.runs.rounds import create_rounds, rounds_of
from training.runs.runs import Plan, Run, damaged_runs
from training.runs.searches import Search


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status: 0 when done or stopped, 1 when failed, 2 when it could not start."""
    given = _parser().parse_args(arguments)
    try:
        status: int = given.do(given)
    except (Failure, OSError, ValueError) as error:
        tell(f"error: {error}", error=True)
        return 2
    return status


def _train(given: argparse.Namespace) -> int:
    if int(os.environ.get("RANK", "0")) > 0:
        return _run(argparse.Namespace(folder=given.out))
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not given.out:
        raise ValueError("several processes need --out: a new folder that all of them see")
    plan = planned(given)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and rounds_of(plan.options) > 1:
        raise ValueError("several processes take one round at a time: --base and --negatives-model name the one before")
    if given.negatives_file:
        return _write_negatives(plan, given.negatives_file)
    if given.estimate:
        return _print_estimate(plan)
    if given.fit:
        plan = _fitted(plan)
    runs = create_rounds(plan, given.out, attended=not given.queue)
    if given.queue:
        LINE.start_worker()
        tell("\n".join(run.id for run in runs))
        return 0
    return followed_rounds(runs)


def _run(given: argparse.Namespace) -> int:
    from training.ablations.carry import ablate
    from training.settings.find import find_settings
    from training.train import train

    # of several processes the first one alone makes the folder
    run = Run(given.folder) if int(os.environ.get("RANK", "0")) > 0 else job_at(given.folder)
    with stopping_on_signals(run):
        if isinstance(run, Search):
            return int(find_settings(run, sent_by_worker=True).state is State.FAILED)
        if isinstance(run, Ablation):
            return int(ablate(run, sent_by_worker=True).state is State.FAILED)
        return int(train(run, sent_by_worker=True).state is State.FAILED)


def _work(given: argparse.Namespace) -> int:
    del given
    LINE.work()
    return 0


def _rehearse(given: argparse.Namespace) -> int:
    from training.rehearse import rehearse

    return rehearse(given.task, given.folder)


def _list(given: argparse.Namespace) -> int:
    runs = [_told(run) for run in all_jobs()]
    for damaged in damaged_runs():
        tell(f"{damaged.id} cannot be read: its run.json is damaged", error=True)
    if given.json:
        tell(json.dumps(runs, ensure_ascii=False, indent=2))
        return 0
    for run in runs:
        steps = f"{run['step']}/{run['total_steps']}" if run["total_steps"] else "-"
        tell(f"{run['id']}  {run['state']:<11}  {run['kind']:<13}  {steps:>13}  {run['name']}")
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


def _stop(given: argparse.Namespace) -> int:
    run = known_job(given.run)
    if not (run.status().at_work or run.status().state is State.QUEUED):
        raise ValueError(f"{run.id} is {run.status().state.value}: there is nothing to stop")
    run.stop()
    tell(run.status().state.value)
    return 0


def _resume(given: argparse.Namespace) -> int:
    run = known_job(given.run)
    LINE.resume(run)
    if run.folder.resolve().parent != workspace() / "runs":  # the workspace's worker knows nothing of it
        return followed(run)
    tell(State.QUEUED.value)
    return 0


def _delete(given: argparse.Namespace) -> int:
    run = next((run for run in damaged_runs() if run.id == given.run), None) or known_job(given.run)
    run.delete()
    tell(f"deleted {run.id}")
    return 0


def _push(given: argparse.Namespace) -> int:
    from getpass import getpass

    from training.runs.push import PushError, push

    token = os.environ.get("HF_TOKEN") or getpass("hub token (not shown, not kept): ")
    try:
        tell(push(known_job(given.run), given.repository, token, private=not given.public))
    except PushError as error:
        tell(f"error: {error}", error=True)
        return 1
    return 0


def _write_negatives(plan: Plan, path: Path) -> int:
    from training.rehearse import mined

    table, questions = mined(plan)
    if path.suffix == ".csv":
        path.write_bytes(csv_bytes(table))
    else:
        table.to_json(path, orient="records", lines=True, force_ascii=False)
    tell(f"{len(table)} negatives of {table['question_id'].nunique()} of {questions} questions: {path}")
    return 0


def _fitted(plan: Plan) -> Plan:
    """Change the plan until its memory suffices, each change tried before the next. Raises `ValueError`: none does."""
    from training.fitting import REASONS

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
    rehearsal = Rehearsal.of(plan, Task.ESTIMATE)
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
    from jobs.allocator import hold_freed_memory
    from training.estimate import estimate

    hold_freed_memory()  # as a training does
    tell(json.dumps(asdict(estimate(plan)), indent=2))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m training", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for kind, recipe in RECIPES.items():
        _add_kind(commands, kind, recipe.options)
    add_find_settings(commands)
    add_ablate(commands)
    listed = commands.add_parser("list", help="runs of the workspace, newest first")
    listed.add_argument("--json", action="store_true", help="as JSON")
    listed.set_defaults(do=_list)
    for name, do, text in (
        ("stop", _stop, "end a running training after its step, with a checkpoint; take a queued one out of the line"),
        ("resume", _resume, "put a stopped, failed or interrupted run in line; it goes on from its last checkpoint"),
        ("delete", _delete, "remove a run and its model"),
        ("push", _push, "send a finished model to the hub; the token comes from HF_TOKEN or is asked for"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("run", help="id of the run, as `list` shows it, or its folder")
        command.set_defaults(do=do)
    command.add_argument("repository", help="name/of-the-model on the hub")
    command.add_argument("--public", action="store_true", help="for everybody to see; else private")
    _add_internal(commands)
    return parser


def _add_kind(commands: Any, kind: str, options: type[TrainingOptions]) -> None:
    formatter = argparse.ArgumentDefaultsHelpFormatter
    command = commands.add_parser(kind, help=f"train a {kind}", formatter_class=formatter)
    command.add_argument("--out", type=Path, help="run folder elsewhere; the model is in its folder model/")
    command.add_argument("--fit", action="store_true", help="estimate first; change what does not fit into memory")
    instead = command.add_mutually_exclusive_group()
    instead.add_argument("--queue", action="store_true", help="only put it in line, and print its id")
    instead.add_argument("--estimate", action="store_true", help="only take a few steps and say what it would take")
    instead.add_argument("--negatives-file", type=Path, help="only write the hard negatives there")
    add_plan(command, options)
    command.set_defaults(do=_train, kind=kind)


def _add_internal(commands: Any) -> None:
    run = commands.add_parser("run", help="carry out a run folder (a worker, or torchrun, uses this)")
    run.add_argument("folder", type=Path)
    run.set_defaults(do=_run)
    commands.add_parser("work", help="carry out the queued runs, then end (started by itself)").set_defaults(do=_work)
    rehearse = commands.add_parser("rehearse", help="work out what the page asks before a training")
    rehearse.add_argument("task", type=Task)
    rehearse.add_argument("folder", type=Path)
    rehearse.set_defaults(do=_rehearse)


if __name__ == "__main__":
    sys.exit(main())
