"""What the training commands share: the plan of a training, and a job that is followed to its end."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

from cyclopts import Parameter

from mrc_workbench.data.commands import Command, ExitStatus, takes
from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.terminal import end_progress_line, report_progress, tell
from mrc_workbench.data.workspace import workspace
from mrc_workbench.training.jobs import QUEUE, CompositeRun, find_job, job_at
from mrc_workbench.training.recipes import recipe_of
from mrc_workbench.training.runs import Plan, Run, plan_training, run_in


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
    """Say how a run ended that was stopped or failed; returns the exit status."""
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
    """Asked to end, a training ends after its step, with a checkpoint; asked again, at once.

    Yields the signals that were heard.
    """
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
