"""The trainers of sentence-transformers, with safe checkpoints and our own batches and measure."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.evaluation import BaseEvaluator
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.sparse_encoder import SparseEncoder, SparseEncoderTrainer, SparseEncoderTrainingArguments
from transformers import EarlyStoppingCallback, TrainerCallback, TrainerState

from training.engine.arguments import VALIDATION, processes, trainer_arguments
from training.engine.batches import batch_sampler
from training.engine.checkpoints import SafeCheckpoints
from training.engine.task import Examples, Measurement, Task, figures
from training.options.common import TrainingOptions


class _RightEpoch(TrainerCallback):
    """Tells the batches their epoch: resuming within one, several processes wrap them so that they do not hear it."""

    def __init__(self, batches: DefaultBatchSampler) -> None:
        self._batches = batches

    def on_epoch_begin(self, _args: Any, state: TrainerState, _control: Any, **_: Any) -> None:
        self._batches.set_epoch(int(state.epoch or 0))


class _OwnBatches:
    """Mixin that keeps hold of the batches, of what is learned and of what is held out."""

    args: Any
    accelerator: Any
    gather_function: Any
    held_out: Examples | None = None
    _batches: DefaultBatchSampler

    def get_batch_sampler(self, *args: Any, **kwargs: Any) -> DefaultBatchSampler:
        self._batches = super().get_batch_sampler(*args, **kwargs)  # type: ignore[misc]
        return self._batches

    def get_train_dataloader(self) -> Any:
        loader = super().get_train_dataloader()  # type: ignore[misc]
        self.add_callback(_RightEpoch(self._batches))  # type: ignore[attr-defined]
        return loader

    def get_eval_dataloader(self, *args: Any, **kwargs: Any) -> Any:
        if self.held_out is None:
            return super().get_eval_dataloader(*args, **kwargs)  # type: ignore[misc]
        self.gather_function = self.accelerator.gather  # that for metrics would cut the last batch
        of_training, size = self.args.batch_sampler, self.args.per_device_train_batch_size
        self.args.batch_sampler = batch_sampler(self.held_out, batch_size=size, seed=self.args.seed)
        try:
            return super().get_eval_dataloader(*args, **kwargs)  # type: ignore[misc]
        finally:
            self.args.batch_sampler = of_training


class _FinerBest:
    """Mixin: of two measurements that are equal, the one of the smaller validation loss is the better."""

    args: Any
    state: TrainerState

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        if super()._determine_best_metric(metrics, trial):  # type: ignore[misc]
            return True
        if metrics[self.args.metric_for_best_model] != self.state.best_metric or "eval_loss" not in metrics:
            return False
        best = [entry for entry in self.state.log_history if entry["step"] == self.state.best_global_step]
        losses = [entry["eval_loss"] for entry in best if "eval_loss" in entry]  # none where an earlier version began
        if not losses or not metrics["eval_loss"] < losses[0]:
            return False
        self.state.best_global_step = self.state.global_step
        return True


class _BiEncoderTrainer(SafeCheckpoints, _OwnBatches, _FinerBest, SentenceTransformerTrainer):
    """Trains a bi-encoder."""


class _CrossEncoderTrainer(SafeCheckpoints, _OwnBatches, _FinerBest, CrossEncoderTrainer):
    """Trains a cross-encoder."""


class _SparseEncoderTrainer(SafeCheckpoints, _OwnBatches, _FinerBest, SparseEncoderTrainer):
    """Trains a sparse encoder; the weights of its regularizers rise over the first third of the steps."""


_TRAINERS: dict[type, tuple[Any, Any]] = {
    CrossEncoder: (_CrossEncoderTrainer, CrossEncoderTrainingArguments),
    SparseEncoder: (_SparseEncoderTrainer, SparseEncoderTrainingArguments),
}


class ValidationEvaluator(BaseEvaluator):
    """Measures the model as it is, with the very code that measures it before and after."""

    def __init__(self, measure: Callable[[Any], Measurement], best_by: str) -> None:
        super().__init__()
        self._measure = measure
        self.name, self.primary_metric = VALIDATION, best_by

    def __call__(self, model: Any, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Return the means, named `validation_<measure>` and `training_<measure>`."""
        del args, kwargs
        was_training = model.training
        model.eval()
        reached = self._measure(model)
        model.train(was_training)
        return figures(reached)


def make_trainer(task: Task, options: TrainingOptions, checkpoints: Path, callbacks: Sequence[TrainerCallback]) -> Any:
    """Return the trainer of a task, ready to `train()`: the library's for the model's class."""
    sampler = batch_sampler(task.examples, batch_size=options.batch_size, processes=processes(), seed=options.seed)
    bi_encoder = (_BiEncoderTrainer, SentenceTransformerTrainingArguments)
    trainer, arguments = _TRAINERS.get(type(task.model), bi_encoder)
    task.model.model_card_data.generate_widget_examples = False  # minutes of work for a card's example
    about = {"prompts": task.prompts or None, "router_mapping": task.routes}
    best_by = task.best_by or options.best_by.value
    told = arguments(**trainer_arguments(checkpoints, options, sampler, best_by), **about)
    told._n_gpu = min(told.n_gpu, 1)  # several GPUs are for several processes: threads would tear the batch apart
    made = trainer(
        model=task.model,
        args=told,
        train_dataset=Dataset.from_dict(task.columns),
        eval_dataset=Dataset.from_dict(task.held_out.columns) if task.held_out else None,
        loss=task.loss,
        evaluator=ValidationEvaluator(task.measure, best_by),
        callbacks=[*callbacks, *([EarlyStoppingCallback(options.patience)] if options.patience else [])],
    )
    made.held_out = task.held_out and task.held_out.examples
    return made
