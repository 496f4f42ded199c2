"""What one process does of a job made of trainings: runs that are taken up where they were left, stages and progress.

Everything is read from the folders of its runs, so a sweep that was stopped or killed goes on where it was. Callbacks
follow its trainings in their trainer.
"""

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import Any, Generic, TypeVar, cast

from transformers import TrainerCallback, TrainerControl, TrainerState

from mrc_workbench.data.jobs.folder import Status
from mrc_workbench.data.jobs.work import carry_out
from mrc_workbench.training.base import Task
from mrc_workbench.training.jobs import CompositeRun
from mrc_workbench.training.rankers.material import Reached
from mrc_workbench.training.runs import Run, find_run
from mrc_workbench.training.train import in_turn, problem_of

ROUNDS = "rounds.json"  # of a trial, by share of the steps: the measures of each validation question
_SECONDS_BETWEEN_WRITES = 0.5
J = TypeVar("J", bound=CompositeRun)


class Sweep(ABC, Generic[J]):
    """One process at work on a search for settings or an ablation."""

    def __init__(self, job: J, status: Status) -> None:
        self._job, self._status, self._plan = job, status, job.plan()
        self._began, self._written = time.monotonic(), 0.0

    @abstractmethod
    def work(self) -> None:
        """Go on until the end. Raises `AskedToStop`, and `Failure` where nothing can be said."""

    @classmethod
    def execute(cls, job: J, *, sent_by_worker: bool = False) -> Status:
        """Wait for the machine, do the job in this process and return how it ended; see `training.train.train`."""

        def work(job: J) -> Status:
            return carry_out(job, lambda status: cls(job, status).work(), problem_of)

        return in_turn(job, work, sent_by_worker=sent_by_worker)

    def _taken_up(self, run: Run, create: Callable[[], Run]) -> Run:
        """Return a run as it was left, or made now."""
        if find_run(run.id):
            (run.folder / "stop").unlink(missing_ok=True)
            return run
        shutil.rmtree(run.folder, ignore_errors=True)  # half made, by a process that was killed
        return create()

    def _enter(self, stage: str, number: int | None = None, *, step: int = 0, total_steps: int = 0) -> None:
        """Say what is done now; `number` is of the round or of the run."""
        phase = str(stage) if number is None else f"{stage}_{number}"
        self._status = replace(self._status, phase=phase, step=step, total_steps=total_steps)
        self._job.write_status(self._status)

    def _is_due(self) -> bool:
        return time.monotonic() - self._written >= _SECONDS_BETWEEN_WRITES

    def _report(self, share: float, seconds_left: float | None) -> None:
        self._written = time.monotonic()
        self._status = replace(self._status, share=min(1.0, max(0.0, share)), seconds_left=seconds_left)
        self._job.write_status(self._status)


class Watch(TrainerCallback):
    """Hears after every step how far a training is, as a share of its steps."""

    def __init__(self, tell: Callable[[float], None]) -> None:
        self._tell = tell

    def __call__(self, task: Task) -> tuple[Task, list[Any]]:
        return task, [self]

    def on_step_end(self, _args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        del control
        self._tell(state.global_step / state.max_steps)


class TrialWatch(Watch):
    """Takes a trial as far as `share` of its steps; `is_over` says that it must pause before."""

    def __init__(self, run: Run, share: float, is_over: Callable[[], bool], tell: Callable[[float], None]) -> None:
        super().__init__(tell)
        self._run, self._share, self._is_over = run, share, is_over
        self._due = 0  # the step at which it is to be measured

    def __call__(self, task: Task) -> tuple[Task, list[Any]]:
        def measure(model: Any) -> Reached:
            reached = cast(Reached, task.measure(model))
            if self._due:
                values = {name: of.tolist() for name, of in reached.validation.per_question.items()}
                kept = {str(self._share): {"step": self._due, "scores": values}}
                self._run.write(ROUNDS, self._run.read(ROUNDS) | kept)
            return reached

        return replace(task, measure=measure), [self]

    def on_step_end(self, _args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Measure at the end of the round, with a checkpoint, and pause; before that only where it must."""
        self._tell(state.global_step / state.max_steps)
        is_there = state.global_step == max(1, ceil(self._share * state.max_steps))
        self._due = state.global_step if is_there else 0
        if is_there:
            control.should_evaluate = control.should_save = True
        if (is_there and self._share < 1) or (not is_there and self._is_over()):
            self._run.ask_to_stop()

    def on_epoch_end(self, _args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Do nothing twice where the round ends with an epoch."""
        if self._due == state.global_step:
            control.should_evaluate = control.should_save = False
