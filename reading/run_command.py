"""`python -m reading run FOLDER`: carries out what a page asked for."""

from pathlib import Path

from data.store import find
from jobs.folder import carried_out_alone, progress_writer
from jobs.status import Status
from reading import results
from reading.evaluate import evaluate
from reading.experiment import ReadingJob


def run_folder(folder: Path, /) -> int:
    """Carry out what a page asked for."""
    job = ReadingJob(folder)

    def work(began: Status) -> None:
        say = progress_writer(job, began)
        say("", 0.0)
        experiment = job.experiment()
        results.keep(evaluate(experiment, find(experiment.data), on_progress=say), job.folder)

    return carried_out_alone(job, work)
