"""The process of a rehearsal: works out one answer and leaves it in its folder."""

import json
import logging
from dataclasses import asdict
from pathlib import Path

from data.workspace import replacing, write_text
from training.runs.rehearsal import Task
from training.runs.runs import Run
from training.train import load_material, problem_of

logger = logging.getLogger(__name__)


def rehearse(task: Task, folder: Path) -> int:
    """Answer for the plan in the folder's `run.json`; returns 0, or 1 where `problem.json` tells why not."""
    try:
        if task is Task.ESTIMATE:
            from training.estimate import estimate

            write_text(folder / "estimate.json", json.dumps(asdict(estimate(Run(folder).plan()))) + "\n")
        else:
            _write_negatives(folder)
    except Exception as error:
        logger.exception("the rehearsal failed")
        code, message = problem_of(error)
        write_text(folder / "problem.json", json.dumps({"code": code, "message": message}, ensure_ascii=False))
        return 1
    return 0


def _write_negatives(folder: Path) -> None:
    from training.rankers.negatives import as_table, mine

    plan = Run(folder).plan()
    material = load_material(plan)
    table = as_table(mine(plan.options, material), material)
    with replacing(folder / "negatives.parquet") as new:
        table.to_parquet(new, index=False)
