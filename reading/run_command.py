"""`python -m reading run FOLDER`: carries out what a page asked for."""

import argparse
from pathlib import Path

from filelock import FileLock, Timeout

from data.failure import Failure
from data.store import find
from data.terminal import tell
from jobs.folder import carry_out
from jobs.status import State, Status
from reading import store
from reading.evaluate import evaluate
from reading.job import ReadingJob
from retrieval.comparison.job import teller

HELP = "carry out what a page asked for"
_SECONDS_TO_END = 5.0  # for one that was just killed


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Let a command be told the job's folder, and carry it out."""
    command.set_defaults(run=_run)
    command.add_argument("folder", type=Path)


def _run(options: argparse.Namespace) -> int:
    job = ReadingJob(options.folder)

    def work(began: Status) -> None:
        say = teller(job, began)
        say("", 0.0)
        experiment = job.experiment()
        store.keep(evaluate(experiment, find(experiment.data), on_progress=say), job.folder)

    try:
        with FileLock(job.folder / ".at_work.lock", timeout=_SECONDS_TO_END):
            ended = carry_out(job, work, _problem)
    except Timeout:
        tell("error: another process is at work on this", error=True)
        return 2
    return 0 if ended.state is State.DONE else 2


def _problem(error: BaseException) -> tuple[str, str]:
    return error.code if isinstance(error, Failure) else "unexpected", str(error)
