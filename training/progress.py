"""Callbacks of a trainer: what it writes into the run folder, how it learns to stop, and the rounds of a trial."""

import time
from collections.abc import Callable
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any, cast

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from mrc_workbench.data.jobs.folder import Status
from mrc_workbench.training.base import Task
from mrc_workbench.training.engine.checkpoints import discard_old, keep_model, seal
from mrc_workbench.training.jobs import ROUNDS
from mrc_workbench.training.options import TrainingOptions
from mrc_workbench.training.recipes.material import QuestionMeasurement
from mrc_workbench.training.runs import Phase, Run

_SECONDS_BETWEEN_WRITES = 0.5


class RunFolderCallback(TrainerCallback):
    """Writes figures as they come, seals checkpoints, saves in time, and ends the training when asked to."""

    def __init__(self, run: Run, status: Status, options: TrainingOptions, kept_models: int = 0) -> None:
        self._run, self._status, self._first_step = run, status, 0
        self._save_limit, self._save_seconds = options.save_limit, options.save_minutes * 60
        self._kept_models = kept_models
        self._began = self._written = self._saved = self._step_began = time.monotonic()
        self._step_seconds = 0.0  # since the last entry
        self._steps = 0

    def on_train_begin(self, _args: Any, state: TrainerState, _control: Any, model: Any, **_: Any) -> None:
        self._began = self._saved = time.monotonic()
        self._first_step = state.global_step
        self._write(state, phase=Phase.TRAINING)
        if not state.global_step:
            self._keep(state, model)

    def on_step_begin(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        self._step_began = time.monotonic()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        now = time.monotonic()
        self._step_seconds += now - self._step_began
        self._steps += 1
        if _agreed(self._run.asked_to_stop, args):
            control.should_training_stop = control.should_save = True
        if self._save_seconds and _agreed(now - self._saved > self._save_seconds, args):
            control.should_save = True
        if now - self._written < _SECONDS_BETWEEN_WRITES:
            return
        self._written = now
        done = state.global_step - self._first_step
        left = (now - self._began) / done * (state.max_steps - state.global_step)
        self._write(state, seconds_left=left)

    def on_epoch_end(self, _args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Do not measure a step at which the training is stopped: one that was not stopped does not measure it."""
        if control.should_training_stop and (state.epoch or 0) % 1:
            control.should_evaluate = False

    def on_train_end(self, _args: Any, state: TrainerState, _control: Any, **_: Any) -> None:
        self._write(state)  # it may have stopped early, after a step that was not written

    def on_evaluate(self, _args: Any, state: TrainerState, _control: Any, model: Any, **_: Any) -> None:
        self._keep(state, model)

    def on_save(self, args: TrainingArguments, state: TrainerState, _control: Any, **_: Any) -> None:
        self._saved = time.monotonic()
        if args.world_size > 1:
            import torch

            torch.distributed.barrier()  # every process has written its generators
        if state.is_world_process_zero:
            checkpoints = Path(args.output_dir)
            seal(checkpoints / f"checkpoint-{state.global_step}")
            best = Path(state.best_model_checkpoint) if state.best_model_checkpoint else None
            discard_old(checkpoints, self._save_limit, best)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, _control: Any, logs: dict[str, Any], **_: Any
    ) -> None:
        figures = {name: float(value) for name, value in logs.items() if _is_number(value)}
        if "loss" in figures and self._step_seconds:
            examples = self._steps * args.per_device_train_batch_size * args.world_size
            figures["examples_per_second"] = examples / self._step_seconds
            self._step_seconds, self._steps = 0.0, 0
        self._run.add_progress({"step": state.global_step, **figures})

    def _keep(self, state: TrainerState, model: Any) -> None:
        if self._kept_models and state.is_world_process_zero:
            keep_model(self._run.folder, model, state.global_step, state.max_steps, self._kept_models)

    def _write(self, state: TrainerState, **changes: Any) -> None:
        step, total = state.global_step, state.max_steps
        self._status = replace(self._status, step=step, total_steps=total, share=min(1.0, step / total), **changes)
        self._run.write_status(self._status)


def _agreed(wish: bool, args: TrainingArguments) -> bool:
    """The wish of the first process: all must stop, or save, at the same step."""
    if args.world_size == 1:
        return wish
    import torch

    told = torch.tensor(int(wish), device=args.device)
    torch.distributed.broadcast(told, src=0)
    return bool(told.item())


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]  # the trainer logs some figures as text
    except (TypeError, ValueError):
        return False
    return True


class Watch(TrainerCallback):
    """Hears after every step how far a training is, as a share of its steps."""

    def __init__(self, tell: Callable[[float], None]) -> None:
        self._tell = tell

    def __call__(self, task: Task) -> tuple[Task, list[Any]]:
        return task, [self]

    def on_step_end(self, _args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._tell(state.global_step / state.max_steps)


class TrialWatch(Watch):
    """Takes a trial as far as `share` of its steps; `is_over` says that it must pause before."""

    def __init__(self, run: Run, share: float, is_over: Callable[[], bool], tell: Callable[[float], None]) -> None:
        super().__init__(tell)
        self._run, self._share, self._is_over = run, share, is_over
        self._due = 0  # the step at which it is to be measured

    def __call__(self, task: Task) -> tuple[Task, list[Any]]:
        def measure(model: Any) -> QuestionMeasurement:
            reached = cast(QuestionMeasurement, task.measure(model))
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
        if self._due == state.global_step:
            control.should_evaluate = control.should_save = False
