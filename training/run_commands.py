"""`mrc runs`, the internal commands of jobs, and helpers of the training commands."""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

from cyclopts import Parameter

from mrc_workbench.data.commands import AsJson, Command, ExitStatus, add_options, choice_option, command_group
from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.terminal import end_progress_line, print_line, report_progress
from mrc_workbench.data.workspace import workspace
from mrc_workbench.training import jobs
from mrc_workbench.training.options import EARLIER_NAMES
from mrc_workbench.training.recipes import get_recipe
from mrc_workbench.training.runs import Run, TrainingPlan, damaged_runs, find_run_in_folder, plan_training


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Options of all trainings, besides those of the kind."""

    data: Annotated[str, Parameter(help="a path, or a name or key of the catalog or the workspace")]
    name: Annotated[str, Parameter(help="name of the run")] = ""
    test_fraction: Annotated[
        float, Parameter(alias="--test-share", help="fraction of the articles, or pairs, for the test part")
    ] = 0.2
    validation_fraction: Annotated[
        float, Parameter(alias="--validation-share", help="fraction for the validation part")
    ] = 0.1
    split_seed: Annotated[int, Parameter(help="seed of the split")] = 0


def takes_options(kind: str) -> Callable[[Command], Command]:
    """Add every option of a kind of training to a command, with the defaults of the starter."""
    defaults = get_recipe(kind).options.defaults_for()
    return add_options(type(defaults), default_instance=defaults, earlier_names=EARLIER_NAMES)


def make_plan(kind: str, plan_options: PlanOptions, selected_options: dict[str, Any]) -> TrainingPlan:
    """Return a plan; missing options get the defaults of the base."""
    split_options = SplitOptions(plan_options.validation_fraction, plan_options.test_fraction, plan_options.split_seed)
    return plan_training(kind, plan_options.data, plan_options.name, split_options, selected_options)


def require_job(reference: str) -> Run:
    """Return the training or search with this id in the workspace, or in this folder. Raises `ValueError`."""
    run = jobs.find_job(reference)
    if run is None and (elsewhere := find_run_in_folder(Path(reference))):
        run = jobs.load_job(elsewhere.folder)
    if run is None:
        raise ValueError(f"there is no run {reference!r}; `mrc runs list` lists the runs")
    return run


def train_rounds(runs: Sequence[Run]) -> int:
    """Train the runs one after the other in this process; returns the exit status. A failed run stops the rest."""
    for number, run in enumerate(runs, start=1):
        print_line(f"run folder: {run.folder}")
        status = train_and_report(run)
        if run.status().state is not State.DONE:
            for remaining_run in runs[number:]:
                remaining_run.stop()  # removes it from the queue; `resume` adds it again
            return status
    return 0


def train_and_report(run: Run) -> int:
    """Train in this process and print the results; returns the exit status."""
    from mrc_workbench.training.train import train

    with stop_on_signals(run) as received_signals, report_run_progress(run):
        status = train(run)
    if status.state is not State.DONE:
        return _report_unfinished(run, status, received_signals)
    for name, metrics in run.scores().items():
        if name in ("before", "after", "interpolated", "bm25", "unigram"):
            print_line(f"{name:>12}  " + "  ".join(f"{measure} {value:.4f}" for measure, value in metrics.items()))
    print_line(f"model: {run.model_folder}")
    return 0


def run_or_queue(job: jobs.CompositeRun, name: str, work: Callable[[], Status], *, queue: bool) -> int | None:
    """Queue a job, or run it in this process; returns the exit status, or None if the job is done."""
    if queue:
        jobs.QUEUE.start_worker()
        print_line(job.id)
        return 0
    print_line(f"{name}: {job.id}", error=True)
    # output of trainers goes to stderr
    with stop_on_signals(job) as received_signals, report_run_progress(job), redirect_stdout(sys.stderr):
        status = work()
    return None if status.state is State.DONE else _report_unfinished(job, status, received_signals)


def _report_unfinished(run: Run, status: Status, received_signals: Sequence[int]) -> int:
    resume_hint = f"`mrc runs resume {run.id if run.folder.parent == workspace() / 'runs' else run.folder}` continues"
    if status.state is State.STOPPED:
        print_line(f"Stopped. The last checkpoint is stored: {resume_hint} from it.", error=True)
        return ExitStatus.STOPPED if signal.SIGINT in received_signals else 0
    if status.code == "interrupted":
        print_line(f"Stopped at once. Earlier checkpoints are stored: {resume_hint}.", error=True)
        return ExitStatus.STOPPED
    print_line(f"error: {status.message}", error=True)
    return ExitStatus.FAILED


@contextmanager
def report_run_progress(run: Run) -> Iterator[None]:
    """Report the progress that a run writes into its folder while this process executes it."""
    is_over = threading.Event()

    def report() -> None:
        while not is_over.wait(1.0):
            status = run.status()
            step = f", step {status.step:,} of {status.total_steps:,}" if status.total_steps else ""
            phase = (status.phase or status.state.value).replace("_", " ")
            report_progress(f"{phase}{step}", status.progress, is_total=False)

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        end_progress_line()


@contextmanager
def stop_on_signals(run: Run) -> Iterator[list[int]]:
    """The first signal stops the training after its step, with a checkpoint, the second at once. Yields the signals."""
    received_signals: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        received_signals.append(number)
        run.request_stop()
        end_progress_line()
        print_line("Stopping after this step, with a checkpoint. Press Ctrl-C again to stop at once.", error=True)
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    previous_handlers = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received_signals
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


commands = command_group("runs", "List, stop, resume and publish training runs.")
Reference = Annotated[str, Parameter(help="id of the run, as list shows it, or its folder")]


def run_folder(folder: Path, /) -> int:
    """Run the training, search or ablation in a folder, for the worker."""
    from mrc_workbench.training.ablation import run_ablation
    from mrc_workbench.training.search import search_settings
    from mrc_workbench.training.train import train

    # of several processes, only the first one creates the folder
    job = Run(folder) if int(os.environ.get("RANK", "0")) > 0 else jobs.load_job(folder)
    with stop_on_signals(job):
        if isinstance(job, jobs.SettingsSearch):
            return int(search_settings(job, sent_by_worker=True).state is State.FAILED)
        if isinstance(job, jobs.Ablation):
            return int(run_ablation(job, sent_by_worker=True).state is State.FAILED)
        return int(train(job, sent_by_worker=True).state is State.FAILED)


def work() -> int:
    """Run the queued runs, then end."""
    jobs.QUEUE.work()
    return 0


def dry_run(task: Annotated[jobs.DryRunTask, choice_option(jobs.DryRunTask)], folder: Path, /) -> int:
    """Compute the estimate or the hard negatives of a plan in a folder."""
    from mrc_workbench.training.estimate import execute_dry_run

    return execute_dry_run(task, folder)


@commands.command(name="list")
def list_runs(*, as_json: AsJson = False) -> int:
    """List the runs, the newest first."""
    runs = [_run_details(row) for row in jobs.all_jobs()]
    for damaged in damaged_runs():
        print_line(f"{damaged.id} cannot be read: its run.json is damaged", error=True)
    if as_json:
        print_line(json.dumps(runs, ensure_ascii=False, indent=2))
        return 0
    if not runs:
        print_line("No runs yet: `mrc train bi-encoder --data sample` trains a model.", error=True)
    for row in runs:
        steps = f"{row['step']}/{row['total_steps']}" if row["total_steps"] else "-"
        print_line(f"{row['id']}  {row['state']:<11}  {row['kind']:<13}  {steps:>13}  {row['name']}")
    return 0


def _run_details(run: Run) -> dict[str, Any]:
    plan = run.plan()
    status = run.status()
    status_fields = {name: value for name, value in asdict(status).items() if name not in ("pid_started", "seconds")}
    job_fields: dict[str, Any] = {"trial": asdict(plan.trial)} if plan.trial else {}
    if plan.minutes:
        job_fields = {"minutes": plan.minutes}
    job_fields |= {"ablation": plan.ablation} if plan.ablation else {}
    plan_fields = {"name": plan.name, "kind": plan.kind, "base": plan.options.base, "data": plan.data_name}
    time_fields = {"created": plan.created, "seconds": status.total_seconds}
    return {"id": run.id, **job_fields, **plan_fields, **status_fields, **time_fields, "folder": str(run.folder)}


@commands.command
def stop(run: Reference, /) -> int:
    """Stop a run, or remove a queued one.

    A running training ends after its step, with a checkpoint.
    """
    job = require_job(run)
    if not (job.status().is_running or job.status().state is State.QUEUED):
        raise ValueError(f"{job.id} is {job.status().state.value}: it is not running")
    job.stop()
    print_line(job.status().state.value)
    return 0


@commands.command
def resume(run: Reference, /) -> int:
    """Resume a run from its last checkpoint."""
    job = require_job(run)
    jobs.QUEUE.resume(job)
    if job.folder.resolve().parent != workspace() / "runs":  # outside the workspace: the worker does not run it
        return train_and_report(job)
    print_line(State.QUEUED.value)
    return 0


@commands.command
def use_best(run: Reference, /) -> int:
    """Make a finished run of the best checkpoint of a stopped one."""
    from mrc_workbench.training.train import finish_from_best_checkpoint

    job = require_job(run)
    if job.status().is_running:
        raise ValueError(f"{job.id} is {job.status().state.value}: stop it first")
    print_line(finish_from_best_checkpoint(job).id)
    return 0


def best_checkpoint(folder: Path, /) -> int:
    """Turn the best checkpoint in a run folder into a finished training."""
    from mrc_workbench.training.train import finish_as_job

    return int(finish_as_job(Run(folder)).state is State.FAILED)


@commands.command
def delete(run: Reference, /) -> int:
    """Delete a run and its model."""
    job = next((damaged_run for damaged_run in damaged_runs() if damaged_run.id == run), None) or require_job(run)
    job.delete()
    print_line(f"deleted {job.id}")
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

    job = require_job(run)
    require_finished(job)
    print_line(push(job, repository, _hub_token(), private=not public))
    return 0


def _hub_token() -> str:
    from getpass import getpass

    if token := os.environ.get("HF_TOKEN"):
        return token
    if not sys.stdin.isatty():
        raise ValueError("no token for the hub: set HF_TOKEN")
    return getpass("hub token (not displayed, not stored): ")
