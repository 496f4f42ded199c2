"""What the commands share: a plan from the words of a command, and a job followed to its end."""

import argparse
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import Field, fields, replace
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Any

from data.split import SplitOptions
from data.terminal import tell
from jobs.status import State, Status
from training.options.common import TrainingOptions
from training.recipe import recipe_of, usual_base
from training.runs.jobs import find_job, job_at
from training.runs.line import LINE
from training.runs.parts import Whole
from training.runs.runs import Plan, Run, new_plan, run_in


def add_plan(command: argparse.ArgumentParser, options: type[TrainingOptions]) -> None:
    """Let a command be told data, split and every option of a kind of training."""
    command.add_argument("--data", required=True, help="a file, or a name of the catalog or the workspace")
    command.add_argument("--name", default="", help="name of the run")
    command.add_argument(
        "--test-share", type=float, default=0.2, help="share of the articles, or pairs, kept for the test"
    )
    command.add_argument("--validation-share", type=float, default=0.1, help="share to measure on")
    command.add_argument("--split-seed", type=int, default=0, help="seed of the split")
    for known in fields(options):
        _add_option(command, known, options.suited_to())


def planned(given: argparse.Namespace) -> Plan:
    """Return the plan of what was given; options that were not suit the base."""
    recipe = recipe_of(given.kind)
    found, made = recipe.family.find(given.data), recipe.options
    chosen = {field.name: getattr(given, field.name) for field in fields(made) if hasattr(given, field.name)}
    if judges := chosen.get("judged_on"):
        chosen["judged_on"] = placed(judges)
    suited = made.suited_to(chosen.get("base", usual_base(given.kind)))
    objective = chosen.get("objective", suited.objective)
    options = replace(suited, **(made.settings_for(objective) | chosen))
    recipe.family.check(found, options)
    data = (placed(given.data), found.name, found.fingerprint)
    shares = SplitOptions(given.validation_share, given.test_share, given.split_seed)
    return new_plan(given.kind, given.name or given.kind, data, shares, options)


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


def carried_out_whole(whole: Whole, name: str, work: Callable[[], Status], *, queue: bool) -> int | None:
    """Put what is made of trainings in line, or do its work here; returns the exit status, None where it is done."""
    if queue:
        LINE.start_worker()
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


def _add_option(command: argparse.ArgumentParser, known: "Field[Any]", suited: TrainingOptions) -> None:
    # without a value the default suits the base, which is not known yet
    default = getattr(suited, known.name)
    help_text = f"{known.metadata['help']} ({suited.base}: {default}; other bases may differ)".replace("%", "%%")
    flag = f"--{known.name.replace('_', '-')}"
    if isinstance(default, bool):
        command.add_argument(flag, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=help_text)
        return
    kind = type(known.default)
    choices = [choice.value for choice in kind] if issubclass(kind, StrEnum) else None
    wanted = str if choices else kind
    command.add_argument(flag, type=wanted, choices=choices, default=argparse.SUPPRESS, help=help_text)
