"""What follows the trainings of a sweep in their trainer."""

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import Any, cast

from transformers import TrainerCallback, TrainerControl, TrainerState

from training.engine.task import Task
from training.rankers.material import Reached
from training.runs.runs import Run
from training.sweeps.sweep import keep_scores


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
                keep_scores(self._run, self._share, self._due, reached.validation)
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
