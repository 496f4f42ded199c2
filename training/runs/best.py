"""The best checkpoint of a training that has not ended, and the job that makes a finished training of it.

The new training stands beside the stopped one, which can still be resumed: it has the model of that step, measured
before and after like any other.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mrc_workbench.data.jobs.folder import Job, State
from mrc_workbench.data.workspace import number_in, read_json
from mrc_workbench.training.engine.checkpoints import is_complete, newest_checkpoint, step_of
from mrc_workbench.training.runs.runs import Run, find_run

_FOLDER = "best_checkpoint"


def best_checkpoint(run: Run) -> Path | None:
    """Return the complete checkpoint with the best evaluation, the newest if none was evaluated, None if there is none.

    What the trainer says of its best checkpoint stands in the newest one.
    """
    newest = newest_checkpoint(run.folder)
    if newest is None:
        return None
    step = int(number_in(read_json(newest / "trainer_state.json"), "best_global_step"))
    best = newest.with_name(f"checkpoint-{step}")
    return best if step and is_complete(best) else newest


@dataclass(frozen=True, order=True)
class BestModelJob(Job):
    """The job that makes a finished training of a run's best checkpoint so far; its folder lies in the run's."""

    @classmethod
    def of(cls, run: Run) -> "BestModelJob":
        return cls(run.folder / _FOLDER)

    @property
    def run(self) -> Run:
        return Run(self.folder.parent)

    @property
    def made(self) -> Run | None:
        """The finished training that was made of the best checkpoint as it is now, None if there is none yet."""
        checkpoint = best_checkpoint(self.run)
        return find_run(made_id(self.run, checkpoint)) if checkpoint else None

    @property
    def result(self) -> Path:
        checkpoint = best_checkpoint(self.run)
        run_id = made_id(self.run, checkpoint) if checkpoint else ""
        return self.run.folder.with_name(run_id or "none") / "run.json"

    def start(self) -> None:
        """Start the process. Raises `OSError` if the disk is full, and `LimitError` as `admit` does."""
        self.admit()
        self.launch("internal", "best-checkpoint", self.run.folder)


def made_id(run: Run, checkpoint: Path) -> str:
    """Return the id of the finished training made of a checkpoint."""
    return f"{run.id}-step-{step_of(checkpoint)}"


def made_status(run: Run, checkpoint: Path) -> dict[str, object]:
    """Return the status of the finished training made of a checkpoint, as its file holds it."""
    status = replace(run.status(), state=State.DONE, step=step_of(checkpoint), seconds_left=None, phase="")
    return asdict(replace(status, seconds=status.spent, started=0.0, pid=0, pid_started=0.0, code="", message=""))
