"""What the commands share: a plan from the words of a command, and a job followed to its end."""

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

from cyclopts import Parameter

from data.commands import Command, takes
from data.split import SplitOptions
from data.terminal import tell
from jobs.status import State, Status
from training.recipe import recipe_of, usual_base
from training.runs.runs import Plan, Run, new_plan, run_in
from training.runs.sweeps import QUEUE, CompositeRun, find_job, job_at


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PlanWords:
    """What every training is told besides the options of its kind."""

    data: Annotated[str, Parameter(help="a file, or a name of the catalog or the workspace")]
    name: Annotated[str, Parameter(help="name of the run")] = ""
    test_share: Annotated[float, Parameter(help="share of the articles, or pairs, kept for the test")] = 0.2
    validation_share: Annotated[float, Parameter(help="share to measure on")] = 0.1
    split_seed: Annotated[int, Parameter(help="seed of the split")] = 0


def options_of(kind: str) -> Callable[[Command], Command]:
    """Let a command's `**chosen` be every option of a kind of training, with the defaults that suit the starter."""
    suited = recipe_of(kind).options.suited_to()
    return takes(type(suited), suited=suited)


def planned(kind: str, words: PlanWords, chosen: dict[str, Any]) -> Plan:
    """Return the plan of what was given; options that were not suit the base."""
    recipe = recipe_of(kind)
    found, made = recipe.family.find(words.data), recipe.options
    if judges := chosen.get("judged_on"):
        chosen = chosen | {"judged_on": placed(judges)}
    suited = made.suited_to(chosen.get("base", usual_base(kind)))
    objective = chosen.get("objective", suited.objective)
    options = replace(suited, **(made.settings_for(objective) | chosen))
    recipe.family.check(found, options)
    data = (placed(words.data), found.name, found.fingerprint)
    shares = SplitOptions(words.validation_share, words.test_share, words.split_seed)
    return new_plan(kind, words.name or kind, data, shares, options)


def placed(reference: str) -> str:
    """A file by its path from the root: who carries the plan out may stand elsewhere."""
    return str(Path(reference).resolve()) if Path(reference).is_file() else reference


def known_job(reference: str) -> Run:
    """Return the training or search with this id in the workspace, or in this folder. Raises `ValueError`: none."""
    run = find_job(reference)
    if run is None and (elsewhere := run_in(Path(reference))):
        run = job_at(elsewhere.folder)
    if run is None:
        raise ValueError(f"there is no run {reference!r}; `python -m training list` shows them")
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
    from training.train import train

    with stopping_on_signals(run):
        ended = train(run)
    if ended.state is State.FAILED:
        tell(f"error: {ended.message}", error=True)
        return 1
    if ended.state is State.STOPPED:
        tell("stopped; no model was saved, and `resume` goes on from the last checkpoint")
        return 0
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
    with stopping_on_signals(whole), redirect_stdout(sys.stderr):
        ended = work()
    if ended.state is State.STOPPED:
        tell(f"stopped; `resume {whole.id}` goes on", error=True)
        return 0
    if ended.state is not State.DONE:
        tell(f"error: {ended.message}", error=True)
        return 1
    return None


@contextmanager
def stopping_on_signals(run: Run) -> Iterator[None]:
    """Asked to end, a training ends after its step, with a checkpoint; asked again, at once."""

    def heard(number: int, frame: FrameType | None) -> None:
        del frame
        run.ask_to_stop()
        tell("stopping after this step, with a checkpoint; once more: at once", error=True)
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    before = {number: signal.signal(number, heard) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
