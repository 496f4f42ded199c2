"""The process of a rehearsal: works out one answer and leaves it in its folder."""

from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd

from data.workspace import replacing
from jobs.folder import carry_out
from jobs.status import State, Status
from training.options.questions import RankerOptions
from training.runs.rehearsal import Rehearsal, Task
from training.runs.runs import Plan, Run
from training.train import load_material, problem_of

_READING = 0.9  # share of an estimate that reading takes, where it takes long


def rehearse(task: Task, folder: Path) -> int:
    """Answer for the plan in the folder's `run.json`; returns 0, or 1 where its status tells why not."""
    job = Rehearsal(folder, task)

    def work(began: Status) -> None:
        def tell(share: float) -> None:
            job.write_status(replace(began, share=_READING * share))

        if task is Task.ESTIMATE:
            from training.estimate import estimate

            job.write("estimate.json", asdict(estimate(Run(folder).plan(), tell)))
        else:
            table = mined(Run(folder).plan())[0]
            with replacing(folder / "negatives.parquet") as new:
                table.to_parquet(new, index=False)

    return int(carry_out(job, work, problem_of).state is not State.DONE)


def mined(plan: Plan) -> tuple[pd.DataFrame, int]:
    """Return the hard negatives a training would use, a row each, and the number of its training questions.

    Raises `ValueError` where such a training takes none.
    """
    from training.rankers.examples import as_table, mine

    if not isinstance(plan.options, RankerOptions):
        raise ValueError(f"the training of a {plan.kind} takes no hard negatives")
    material = load_material(plan)
    return as_table(mine(plan.options, material), material), len(material.train.questions)
