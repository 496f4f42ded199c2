"""The process of a rehearsal: works out one answer and leaves it in its folder."""

from dataclasses import asdict
from pathlib import Path

from data.workspace import replacing
from jobs.folder import carry_out
from jobs.status import State, Status
from training.runs.rehearsal import Rehearsal, Task
from training.runs.runs import Run
from training.train import load_material, problem_of


def rehearse(task: Task, folder: Path) -> int:
    """Answer for the plan in the folder's `run.json`; returns 0, or 1 where its status tells why not."""
    job = Rehearsal(folder, task)

    def work(_: Status) -> None:
        if task is Task.ESTIMATE:
            from training.estimate import estimate

            job.write("estimate.json", asdict(estimate(Run(folder).plan())))
        else:
            _write_negatives(folder)

    return int(carry_out(job, work, problem_of).state is not State.DONE)


def _write_negatives(folder: Path) -> None:
    from training.rankers.negatives import as_table, mine

    plan = Run(folder).plan()
    material = load_material(plan)
    table = as_table(mine(plan.options, material), material)
    with replacing(folder / "negatives.parquet") as new:
        table.to_parquet(new, index=False)
