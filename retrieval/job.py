"""What the process of a comparison's job runs, and what comes with the sample."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mrc_workbench.data.jobs.detached import PROGRAM, handed_over
from mrc_workbench.data.jobs.folder import AskedToStop, GoesOn, Status
from mrc_workbench.data.jobs.work import carried_out_alone, progress_writer
from mrc_workbench.data.store import CATALOG, find, read_entry
from mrc_workbench.data.terminal import tell
from mrc_workbench.retrieval.cli import report_failures, table
from mrc_workbench.retrieval.comparison.compare import compare, search_light, ship, write_bases
from mrc_workbench.retrieval.comparison.experiment import read_experiment
from mrc_workbench.retrieval.comparison.pace import Pace
from mrc_workbench.retrieval.comparison.store import ComparisonJob, keep, provenance


def run_comparison(folder: Path, /, *, rest: Annotated[bool, Parameter(negative="")] = False) -> int:
    """Compare as the job in this folder: what needs no model at once, the rest in a process that has the libraries.

    `rest` says that another process has searched what needs no model.
    """
    job, reported, is_left = ComparisonJob(folder), 0, False
    experiment = folder / job.file
    least = job.status().seconds_left  # as told by the process that began

    def work(began: Status) -> None:
        nonlocal reported, is_left
        if job.asked_to_stop:  # while this process was being started
            raise AskedToStop
        pace = Pace(least)
        report = progress_writer(job, began, lambda: pace.seconds_left, lambda: pace.parts_left)
        report("", 0.0)
        asked, base = read_experiment(experiment), folder
        found = find(asked.data, base)
        if not rest:
            is_left = search_light(asked, found, base=base, on_progress=report, on_result=job.note, pace=pace)
            if is_left:
                raise GoesOn
        comparison = compare(asked, found, base=base, on_progress=report, on_result=job.note, pace=pace)
        tell(table(comparison))
        reported = report_failures(comparison)
        keep(comparison, folder, provenance(comparison, found, base))

    status = carried_out_alone(job, work)
    if is_left and not job.asked_to_stop:
        words = ("internal", job.place, folder, "--rest")
        if process := handed_over(PROGRAM, *words, log=folder / "log.txt"):
            write_bases(read_experiment(experiment))  # while that one reads its libraries
            process.wait()
            return 0 if job.done else 2
        return run_comparison(folder, rest=True)  # nobody has read the libraries: they are read here
    return status or reported


def ship_sample() -> int:
    """Write the tokens and vectors that come with the sample, after it, the analyzer or the base has changed."""
    ship(read_entry(CATALOG["sample"]).question_set)
    return 0
