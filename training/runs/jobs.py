"""Everything that stands in the line of trainings: trainings, searches for settings, and ablations."""

from pathlib import Path

from training.runs.ablations import Ablation
from training.runs.runs import Plan, Run, find_run, planned_runs
from training.runs.searches import Search


def all_jobs() -> list[Run]:
    """What is made of trainings, then these, newest first: while a part is at work, the whole is asked about."""
    planned = planned_runs()
    wholes = [_job(run, plan) for run, plan in planned if not plan.is_training]
    return [*wholes, *(run for run, plan in planned if plan.is_training)]


def job_at(folder: Path) -> Run:
    """Return the job whose folder this is. Raises `OSError` or `ValueError` where it is none."""
    return _job(Run(folder), Run(folder).plan())


def find_job(job_id: str) -> Run | None:
    """Return the workspace's job with this id, None where there is none."""
    run = find_run(job_id)
    return job_at(run.folder) if run else None


def _job(run: Run, plan: Plan) -> Run:
    if plan.is_training:
        return run
    return Ablation(run.folder) if plan.ablation else Search(run.folder)
