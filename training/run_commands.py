"""`mrc runs`, what jobs run, and what the training commands share: plans, and jobs followed to their end."""

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

from mrc_workbench.data.commands import AsJson, Command, ExitStatus, commands_of, one_of, takes
from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.terminal import end_progress_line, report_progress, tell
from mrc_workbench.data.workspace import workspace
from mrc_workbench.training.jobs import QUEUE, Ablation, CompositeRun, RehearsalTask, Search, all_jobs, find_job, job_at
from mrc_workbench.training.recipes import recipe_of
from mrc_workbench.training.runs import Plan, Run, damaged_runs, plan_training, run_in


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PlanWords:
    """Options of every training, besides those of its kind."""

    data: Annotated[str, Parameter(help="a path, or a name or key of the catalog or the workspace")]
    name: Annotated[str, Parameter(help="name of the run")] = ""
    test_share: Annotated[float, Parameter(help="fraction of the articles, or pairs, for the test part")] = 0.2
    validation_share: Annotated[float, Parameter(help="fraction for the validation part")] = 0.1
    split_seed: Annotated[int, Parameter(help="seed of the split")] = 0


def options_of(kind: str) -> Callable[[Command], Command]:
    """Let a command's `**chosen` be every option of a kind of training, with the defaults that suit the starter."""
    suited = recipe_of(kind).options.suited_to()
    return takes(type(suited), suited=suited)


def planned(kind: str, words: PlanWords, chosen: dict[str, Any]) -> Plan:
    """Return the plan of what was given; options that were not suit the base."""
    shares = SplitOptions(words.validation_share, words.test_share, words.split_seed)
    return plan_training(kind, words.data, words.name, shares, chosen)


def known_job(reference: str) -> Run:
    """Return the training or search with this id in the workspace, or in this folder. Raises `ValueError`: none."""
    run = find_job(reference)
    if run is None and (elsewhere := run_in(Path(reference))):
        run = job_at(elsewhere.folder)
    if run is None:
        raise ValueError(f"there is no run {reference!r}; `mrc runs list` lists the runs")
    return run


def followed_rounds(runs: Sequence[Run]) -> int:
    """Train one after the other in this process; returns the exit status. Where one does not end well, so do all."""
    for number, run in enumerate(runs, start=1):
        tell(f"run folder: {run.folder}")
        status = followed(run)
        if run.status().state is not State.DONE:
            for later in runs[number:]:
                later.stop()  # out of the line; `resume` puts it back
            return status
    return 0


def followed(run: Run) -> int:
    """Train in this process and print what came out; returns the exit status."""
    from mrc_workbench.training.train import train

    with stopping_on_signals(run) as heard, reporting_progress_of(run):
        ended = train(run)
    if ended.state is not State.DONE:
        return _not_done(run, ended, heard)
    for name, figures in run.scores().items():
        if name in ("before", "after", "interpolated", "bm25", "unigram"):
            tell(f"{name:>12}  " + "  ".join(f"{measure} {value:.4f}" for measure, value in figures.items()))
    tell(f"model: {run.model_folder}")
    return 0


def run_or_queue(whole: CompositeRun, name: str, work: Callable[[], Status], *, queue: bool) -> int | None:
    """Put what is made of trainings in line, or do its work here; returns the exit status, None where it is done."""
    if queue:
        QUEUE.start_worker()
        tell(whole.id)
        return 0
    tell(f"{name}: {whole.id}", error=True)
    # what trainers print is no part of the answer
    with stopping_on_signals(whole) as heard, reporting_progress_of(whole), redirect_stdout(sys.stderr):
        ended = work()
    return None if ended.state is State.DONE else _not_done(whole, ended, heard)


def _not_done(run: Run, ended: Status, heard: Sequence[int]) -> int:
    resumed = f"`mrc runs resume {run.id if run.folder.parent == workspace() / 'runs' else run.folder}` continues"
    if ended.state is State.STOPPED:
        tell(f"Stopped. The last checkpoint is kept: {resumed} from it.", error=True)
        return ExitStatus.STOPPED if signal.SIGINT in heard else 0
    if ended.code == "interrupted":
        tell(f"Stopped at once. Checkpoints written before are kept: {resumed}.", error=True)
        return ExitStatus.STOPPED
    tell(f"error: {ended.message}", error=True)
    return ExitStatus.FAILED


@contextmanager
def reporting_progress_of(run: Run) -> Iterator[None]:
    """Report the progress that a run writes into its folder, while this process carries it out."""
    is_over = threading.Event()

    def report() -> None:
        while not is_over.wait(1.0):
            status = run.status()
            step = f", step {status.step:,} of {status.total_steps:,}" if status.total_steps else ""
            report_progress(
                f"{status.phase or status.state.value}{step}".replace("_", " "), status.share, is_total=False
            )

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        end_progress_line()


@contextmanager
def stopping_on_signals(run: Run) -> Iterator[list[int]]:
    """A first signal ends the training after its step, with a checkpoint, a second one at once. Yields the signals."""
    heard: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        heard.append(number)
        run.ask_to_stop()
        end_progress_line()
        tell("Stopping after this step, with a checkpoint. Press Ctrl-C again to stop at once.", error=True)
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


commands = commands_of("runs", "List, stop, resume and publish training runs.")
Reference = Annotated[str, Parameter(help="id of the run, as list shows it, or its folder")]


def run_folder(folder: Path, /) -> int:
    """Run the training, search or ablation in a folder, for the worker."""
    from mrc_workbench.training.ablation import ablate
    from mrc_workbench.training.search import find_settings
    from mrc_workbench.training.train import train

    # of several processes the first one alone makes the folder
    job = Run(folder) if int(os.environ.get("RANK", "0")) > 0 else job_at(folder)
    with stopping_on_signals(job):
        if isinstance(job, Search):
            return int(find_settings(job, sent_by_worker=True).state is State.FAILED)
        if isinstance(job, Ablation):
            return int(ablate(job, sent_by_worker=True).state is State.FAILED)
        return int(train(job, sent_by_worker=True).state is State.FAILED)


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
    job = known_job(run)
    if not (job.status().at_work or job.status().state is State.QUEUED):
        raise ValueError(f"{job.id} is {job.status().state.value}: there is nothing to stop")
    job.stop()
    tell(job.status().state.value)
    return 0


@commands.command
def resume(run: Reference, /) -> int:
    """Resume a run from its last checkpoint."""
    job = known_job(run)
    QUEUE.resume(job)
    if job.folder.resolve().parent != workspace() / "runs":  # the workspace's worker knows nothing of it
        return followed(job)
    tell(State.QUEUED.value)
    return 0


@commands.command
def use_best(run: Reference, /) -> int:
    """Make a finished run of the best checkpoint of a stopped one."""
    from mrc_workbench.training.train import conclude

    job = known_job(run)
    if job.status().at_work:
        raise ValueError(f"{job.id} is {job.status().state.value}: stop it first")
    tell(conclude(job).id)
    return 0


def best_checkpoint(folder: Path, /) -> int:
    """Make a finished training of the best checkpoint in a run folder."""
    from mrc_workbench.training.train import conclude_as_job

    return int(conclude_as_job(Run(folder)).state is State.FAILED)


@commands.command
def delete(run: Reference, /) -> int:
    """Delete a run and its model."""
    job = next((one for one in damaged_runs() if one.id == run), None) or known_job(run)
    job.delete()
    tell(f"deleted {job.id}")
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

    job = known_job(run)
    require_finished(job)
    tell(push(job, repository, _hub_token(), private=not public))
    return 0


def _hub_token() -> str:
    from getpass import getpass

    if token := os.environ.get("HF_TOKEN"):
        return token
    if not sys.stdin.isatty():
        raise ValueError("no token for the hub: set HF_TOKEN")
    return getpass("hub token (not shown, not kept): ")
