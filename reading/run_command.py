"""`python -m reading run FOLDER`: carries out what a page asked for."""

from pathlib import Path

from data.store import find
from jobs.folder import Progress, request_carried_out
from reading import results
from reading.evaluate import evaluate
from reading.experiment import ReadingExperiment, ReadingJob


def run_folder(folder: Path, /) -> int:
    """Carry out what a page asked for."""

    def work(experiment: ReadingExperiment, say: Progress) -> None:
        results.keep(evaluate(experiment, find(experiment.data), on_progress=say), folder)

    return request_carried_out(ReadingJob(folder), work)
