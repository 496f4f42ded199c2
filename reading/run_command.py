"""`python -m reading run FOLDER`: carries out what a page asked for."""

import argparse
from pathlib import Path

from data.store import find
from jobs.folder import carried_out_alone, progress_writer
from jobs.status import Status
from reading import store
from reading.evaluate import evaluate
from reading.job import ReadingJob

HELP = "carry out what a page asked for"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Let a command be told the job's folder, and carry it out."""
    command.set_defaults(run=_run)
    command.add_argument("folder", type=Path)


def _run(options: argparse.Namespace) -> int:
    job = ReadingJob(options.folder)

    def work(began: Status) -> None:
        say = progress_writer(job, began)
        say("", 0.0)
        experiment = job.experiment()
        store.keep(evaluate(experiment, find(experiment.data), on_progress=say), job.folder)

    return carried_out_alone(job, work)
