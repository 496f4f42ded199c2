"""Trainers of sentence-transformers and of feature tasks with custom batches and evaluation, and callbacks of runs."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.evaluation import BaseEvaluator
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.multi_vector_encoder import (
    MultiVectorEncoder,
    MultiVectorEncoderTrainer,
    MultiVectorEncoderTrainingArguments,
)
from sentence_transformers.sparse_encoder import SparseEncoder, SparseEncoderTrainer, SparseEncoderTrainingArguments
from torch.utils.data import DataLoader
from transformers import (
    EarlyStoppingCallback,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from mrc_workbench.data.jobs.folder import Status
from mrc_workbench.data.terminal import is_verbose
from mrc_workbench.training.base import VALIDATION, Examples, Measurement, Task, processes, trainer_arguments
from mrc_workbench.training.engine.batches import make_sampler
from mrc_workbench.training.engine.checkpoints import SafeCheckpoints, discard_old, save_snapshot, seal
from mrc_workbench.training.jobs import ROUNDS
from mrc_workbench.training.options import TrainingOptions
from mrc_workbench.training.runs import Phase, Run


class _SetEpochCallback(TrainerCallback):
    """Sets the epoch of the sampler; with several processes, the library does not set it after resuming."""

    def __init__(self, batches: DefaultBatchSampler) -> None:
        self._batches = batches

    def on_epoch_begin(self, _args: Any, state: TrainerState, _control: Any, **_: Any) -> None:
        self._batches.set_epoch(int(state.epoch or 0))


class _SkipOnlyEvaluation(TrainerCallback):
    """Skips the evaluation at the last step if it is the only one: the finished model is evaluated anyway."""

    def on_step_end(self, _args: Any, state: TrainerState, control: Any, **_: Any) -> None:
        if state.global_step >= state.max_steps and not state.best_global_step:
            control.should_evaluate = False


class _BatchingMixin:
    """Mixin: custom batches; of equal evaluations, the one with the smaller validation loss is better."""

    args: Any
    state: TrainerState
    accelerator: Any
    gather_function: Any
    held_out: Examples | None = None
    _batches: DefaultBatchSampler

    def get_batch_sampler(self, *args: Any, **kwargs: Any) -> DefaultBatchSampler:
        self._batches = super().get_batch_sampler(*args, **kwargs)  # type: ignore[misc]
        return self._batches

    def get_train_dataloader(self) -> Any:
        loader = super().get_train_dataloader()  # type: ignore[misc]
        self.add_callback(_SetEpochCallback(self._batches))  # type: ignore[attr-defined]
        return loader

    def get_eval_dataloader(self, *args: Any, **kwargs: Any) -> Any:
        if self.held_out is None:
            return super().get_eval_dataloader(*args, **kwargs)  # type: ignore[misc]
        self.gather_function = self.accelerator.gather  # gather_for_metrics cuts the last batch
        training_sampler = self.args.batch_sampler
        size = self.args.per_device_train_batch_size
        self.args.batch_sampler = make_sampler(self.held_out, batch_size=size, seed=self.args.seed)
        try:
            return super().get_eval_dataloader(*args, **kwargs)  # type: ignore[misc]
        finally:
            self.args.batch_sampler = training_sampler

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        if super()._determine_best_metric(metrics, trial):  # type: ignore[misc]
            return True
        if metrics[self.args.metric_for_best_model] != self.state.best_metric or "eval_loss" not in metrics:
            return False
        best = [entry for entry in self.state.log_history if entry["step"] == self.state.best_global_step]
        losses = [entry["eval_loss"] for entry in best if "eval_loss" in entry]  # earlier versions logged none
        if not losses or not metrics["eval_loss"] < losses[0]:
            return False
        self.state.best_global_step = self.state.global_step
        return True


class _RowTrainer(Trainer):
    """The trainer of a task that makes features of rows of the examples."""

    control: Any
    task: Task
    evaluator: Callable[[Any], dict[str, float]]

    def get_batch_sampler(self, dataset: Dataset) -> Any:
        size = self.args.per_device_train_batch_size
        seed = self.args.seed
        return self.args.batch_sampler(dataset, batch_size=size, drop_last=False, seed=seed)

    def get_train_dataloader(self) -> Any:
        self.accelerator.even_batches = False
        return self._make_loader(self.train_dataset, self.task)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        return self._make_loader(self.eval_dataset, self.task.held_out)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        loss = model(inputs)["losses"].mean()
        return (loss, {}) if return_outputs else loss

    def prediction_step(self, model: Any, inputs: Any, *_: Any, **__: Any) -> Any:
        with torch.no_grad():
            return self.compute_loss(model, self._prepare_inputs(inputs)).detach(), None, None

    def evaluate(self, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any) -> dict[str, float]:
        if self.task.held_out is None:
            self.eval_dataset = None
            metrics = self._evaluate_metrics(metric_key_prefix)
            self.log(metrics)
            self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
            return metrics
        return dict(super().evaluate(*args, metric_key_prefix=metric_key_prefix, **kwargs))

    def evaluation_loop(self, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any) -> Any:
        output = super().evaluation_loop(*args, metric_key_prefix=metric_key_prefix, **kwargs)
        output.metrics.update(self._evaluate_metrics(metric_key_prefix))
        return output

    def _evaluate_metrics(self, prefix: str) -> dict[str, float]:
        return {f"{prefix}_{name}": value for name, value in self.evaluator(self.model).items()}

    def _make_loader(self, dataset: Any, examples: Any) -> Any:
        loader = DataLoader(
            dataset,
            batch_sampler=self.get_batch_sampler(dataset),
            collate_fn=lambda rows: examples.features([row["row"] for row in rows]),
            pin_memory=self.args.dataloader_pin_memory,
        )
        return self.accelerator.prepare(loader)


def _with_mixins(trainer: type) -> Any:
    return type(f"_{trainer.__name__}", (SafeCheckpoints, _BatchingMixin, trainer), {})


_TRAINERS: dict[type, tuple[Any, Any]] = {
    SentenceTransformer: (_with_mixins(SentenceTransformerTrainer), SentenceTransformerTrainingArguments),
    CrossEncoder: (_with_mixins(CrossEncoderTrainer), CrossEncoderTrainingArguments),
    SparseEncoder: (_with_mixins(SparseEncoderTrainer), SparseEncoderTrainingArguments),
    MultiVectorEncoder: (_with_mixins(MultiVectorEncoderTrainer), MultiVectorEncoderTrainingArguments),
}
_FeatureTrainer = _with_mixins(_RowTrainer)


class _ValidationEvaluator(BaseEvaluator):
    """Measures the model with the code that measures it before and after."""

    def __init__(self, measure: Callable[[Any], Measurement[Any]], best_by: str) -> None:
        super().__init__()
        self._evaluate = measure
        self.name = VALIDATION
        self.primary_metric = best_by

    def __call__(self, model: Any, *args: Any, **kwargs: Any) -> dict[str, float]:
        was_training = model.training
        model.eval()
        measurement = self._evaluate(model)
        model.train(was_training)
        return measurement.metrics()


def make_trainer(task: Task, options: TrainingOptions, checkpoints: Path, callbacks: Sequence[TrainerCallback]) -> Any:
    """Return the trainer of a task, ready to `train()`: the library's for the model's class."""
    sampler = make_sampler(task.examples, batch_size=options.batch_size, processes=processes(), seed=options.seed)
    best_by = task.best_by or options.best_by.value
    arguments = trainer_arguments(checkpoints, options, sampler, best_by)
    evaluator = _ValidationEvaluator(task.evaluate, best_by)
    stopping = [EarlyStoppingCallback(options.patience)] if options.patience else []
    all_callbacks = [_SkipOnlyEvaluation(), *callbacks, *stopping]
    make_for_task = _make_feature_trainer if task.features else _make_text_trainer
    trainer = make_for_task(task, arguments, evaluator, all_callbacks)
    trainer.held_out = task.held_out and task.held_out.examples
    if not is_verbose():
        trainer.remove_callback(PrinterCallback)
    return trainer


def _make_text_trainer(task: Task, arguments: dict[str, Any], evaluator: Any, callbacks: list[Any]) -> Any:
    trainer, arguments_class = _TRAINERS.get(type(task.model), _TRAINERS[SentenceTransformer])
    task.model.model_card_data.generate_widget_examples = False  # minutes of work for a card's example
    column_settings = {"prompts": task.prompts or None, "router_mapping": task.routes}
    training_arguments = arguments_class(**arguments, **column_settings)
    training_arguments._n_gpu = min(training_arguments.n_gpu, 1)  # threads would split the batch
    return trainer(
        model=task.model,
        args=training_arguments,
        train_dataset=Dataset.from_dict(task.columns),
        eval_dataset=Dataset.from_dict(task.held_out.columns) if task.held_out else None,
        loss=task.loss,
        evaluator=evaluator,
        callbacks=callbacks,
    )


def _make_feature_trainer(task: Task, arguments: dict[str, Any], evaluator: Any, callbacks: list[Any]) -> Any:
    sampler = arguments.pop("batch_sampler")
    training_arguments = TrainingArguments(**arguments, remove_unused_columns=False)
    training_arguments.batch_sampler = sampler
    training_arguments._n_gpu = min(training_arguments.n_gpu, 1)
    held_out = task.held_out
    trainer = _FeatureTrainer(
        model=task.model,
        args=training_arguments,
        train_dataset=_row_dataset(len(task.examples.question)),
        eval_dataset=_row_dataset(len(held_out.examples.question)) if held_out else _row_dataset(1),
        callbacks=callbacks,
    )
    trainer.task = task
    trainer.evaluator = evaluator
    return trainer


def _row_dataset(count: int) -> Dataset:
    return Dataset.from_dict({"row": list(range(count))})


_SECONDS_BETWEEN_WRITES = 0.5


class RunFolderCallback(TrainerCallback):
    """Logs metrics, seals checkpoints, saves at time intervals, and stops the training on request."""

    def __init__(self, run: Run, status: Status, options: TrainingOptions, max_snapshots: int = 0) -> None:
        self._run = run
        self._status = status
        self._first_step = 0
        self._save_limit = options.save_limit
        self._save_seconds = options.save_minutes * 60
        self._max_snapshots = max_snapshots
        self._began = self._written = self._saved = self._step_began = time.monotonic()
        self._step_seconds = 0.0  # since the last entry
        self._steps = 0

    def on_train_begin(self, _args: Any, state: TrainerState, _control: Any, model: Any, **_: Any) -> None:
        self._began = self._saved = time.monotonic()
        self._first_step = state.global_step
        self._write(state, phase=Phase.TRAINING)
        if not state.global_step:
            self._save_snapshot(state, model)

    def on_step_begin(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        self._step_began = time.monotonic()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        now = time.monotonic()
        self._step_seconds += now - self._step_began
        self._steps += 1
        if _agree_across_processes(self._run.stop_requested, args):
            control.should_training_stop = control.should_save = True
        if self._save_seconds and _agree_across_processes(now - self._saved > self._save_seconds, args):
            control.should_save = True
        if now - self._written < _SECONDS_BETWEEN_WRITES:
            return
        self._written = now
        done = state.global_step - self._first_step
        left = (now - self._began) / done * (state.max_steps - state.global_step)
        self._write(state, seconds_left=left)

    def on_epoch_end(self, _args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Do not evaluate a stopped step in the middle of an epoch: an uninterrupted training does not."""
        if control.should_training_stop and (state.epoch or 0) % 1:
            control.should_evaluate = False

    def on_train_end(self, _args: Any, state: TrainerState, _control: Any, **_: Any) -> None:
        self._write(state)  # the last step may be unwritten

    def on_evaluate(self, _args: Any, state: TrainerState, _control: Any, model: Any, **_: Any) -> None:
        self._save_snapshot(state, model)

    def on_save(self, args: TrainingArguments, state: TrainerState, _control: Any, **_: Any) -> None:
        self._saved = time.monotonic()
        if args.world_size > 1:
            torch.distributed.barrier()  # wait until all processes have written their generators
        if state.is_world_process_zero:
            checkpoints = Path(args.output_dir)
            seal(checkpoints / f"checkpoint-{state.global_step}")
            best = Path(state.best_model_checkpoint) if state.best_model_checkpoint else None
            discard_old(checkpoints, self._save_limit, best)

    def on_log(self, args: Any, state: TrainerState, _control: Any, logs: dict[str, Any], **_: Any) -> None:
        metrics = {name: float(value) for name, value in logs.items() if _is_number(value)}
        if "loss" in metrics and self._step_seconds:
            examples = self._steps * args.per_device_train_batch_size * args.world_size
            metrics["examples_per_second"] = examples / self._step_seconds
            self._step_seconds = 0.0
            self._steps = 0
        self._run.add_progress({"step": state.global_step, **metrics})

    def _save_snapshot(self, state: TrainerState, model: Any) -> None:
        if self._max_snapshots and state.is_world_process_zero:
            save_snapshot(self._run.folder, model, state.global_step, state.max_steps, self._max_snapshots)

    def _write(self, state: TrainerState, **changes: Any) -> None:
        step = state.global_step
        total = state.max_steps
        self._status = replace(self._status, step=step, total_steps=total, progress=min(1.0, step / total), **changes)
        self._run.write_status(self._status)


def _agree_across_processes(own_decision: bool, args: TrainingArguments) -> bool:
    """Return the decision of the first process: all processes must stop, or save, at the same step."""
    if args.world_size == 1:
        return own_decision
    decision = torch.tensor(int(own_decision), device=args.device)
    torch.distributed.broadcast(decision, src=0)
    return bool(decision.item())


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]  # the trainer logs some metrics as text
    except (TypeError, ValueError):
        return False
    return True


class TrainingProgressCallback(TrainerCallback):
    """Reports the fraction of finished steps after each step."""

    def __init__(self, report_progress: Callable[[float], None]) -> None:
        self._report_progress = report_progress

    def __call__(self, task: Task) -> tuple[Task, list[Any]]:
        return task, [self]

    def on_step_end(self, _args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._report_progress(state.global_step / state.max_steps)


class TrialCallback(TrainingProgressCallback):
    """Trains a trial up to `fraction` of its steps; pauses earlier if `is_over` returns true."""

    def __init__(self, run: Run, fraction: float, is_over: Callable[[], bool], report: Callable[[float], None]) -> None:
        super().__init__(report)
        self._run = run
        self._fraction = fraction
        self._is_over = is_over
        self._due_step = 0  # the step of the next evaluation

    def __call__(self, task: Task) -> tuple[Task, list[Any]]:
        def evaluate(model: Any) -> Measurement[Any]:
            measurement = task.evaluate(model)
            if self._due_step:
                scores = measurement.validation.per_question
                values = {name: question_scores.tolist() for name, question_scores in scores.items()}
                round_scores = {str(self._fraction): {"step": self._due_step, "scores": values}}
                self._run.write(ROUNDS, self._run.read(ROUNDS) | round_scores)
            return measurement

        return replace(task, evaluate=evaluate), [self]

    def on_step_end(self, _args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Evaluate and save at the end of the round, and pause."""
        self._report_progress(state.global_step / state.max_steps)
        is_round_end = state.global_step == max(1, ceil(self._fraction * state.max_steps))
        self._due_step = state.global_step if is_round_end else 0
        if is_round_end:
            control.should_evaluate = control.should_save = True
        if (is_round_end and self._fraction < 1) or (not is_round_end and self._is_over()):
            self._run.request_stop()

    def on_epoch_end(self, _args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if self._due_step == state.global_step:
            control.should_evaluate = control.should_save = False
