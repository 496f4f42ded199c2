"""What follows a training of an ablation in its trainer."""

from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from training.engine.task import Task


class Watch(TrainerCallback):
    """Hears after every step how far a training is, as a share of its steps."""

    def __init__(self, tell: Callable[[float], None]) -> None:
        self._tell = tell

    def __call__(self, task: Task) -> tuple[Task, list[Any]]:
        """Change nothing of the task."""
        return task, [self]

    def on_step_end(self, _args: Any, state: TrainerState, _control: TrainerControl, **_: Any) -> None:
        """Say it."""
        self._tell(state.global_step / state.max_steps)
