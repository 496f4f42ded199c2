"""What a trainer tells the run folder while it works, and how it hears that it should stop."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from training.runs import Phase, Run, State, Status

_SECONDS_BETWEEN_WRITES = 0.5


class RunFolderCallback(TrainerCallback):
    """Writes loss, learning rate and measurements as they come, and ends the training when asked to."""

    def __init__(self, run: Run, status: Status) -> None:
        self._run, self._status = run, status
        self._began = self._written = 0.0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Note the number of steps."""
        del args, control, kwargs
        self._began = time.monotonic()
        self._status = replace(self._status, phase=Phase.TRAINING, total_steps=state.max_steps)
        self._run.write_status(self._status)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Say how far it is; stop, with a checkpoint, where somebody asked."""
        del args, kwargs
        if self._run.asked_to_stop:
            control.should_training_stop = control.should_save = True
        now = time.monotonic()
        if now - self._written < _SECONDS_BETWEEN_WRITES and state.global_step < state.max_steps:
            return
        self._written = now
        left = (now - self._began) / state.global_step * (state.max_steps - state.global_step)
        self._status = replace(self._status, step=state.global_step, seconds_left=left)
        self._run.write_status(self._status)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Remove the arguments that the trainer pickles beside every checkpoint: nothing here reads a pickle."""
        del control, kwargs
        Path(args.output_dir, f"checkpoint-{state.global_step}", "training_args.bin").unlink(missing_ok=True)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Keep one line of figures."""
        del args, control, kwargs
        figures = {name: float(value) for name, value in (logs or {}).items() if _is_number(value)}
        self._run.add_progress({"step": state.global_step, **figures})


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]  # the trainer logs some figures as text
    except (TypeError, ValueError):
        return False
    return True


def running(status: Status, phase: Phase) -> Status:
    """Return the status of a run at work in `phase`."""
    return replace(status, state=State.RUNNING, phase=phase, seconds_left=None)
