"""The trainer of transformers for a model that itself says how wrong it is, of features that a task makes of rows."""

from collections.abc import Callable
from typing import Any

import torch
from datasets import Dataset
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments

from training.engine.checkpoints import SafeCheckpoints
from training.engine.mixins import FinerBest, OwnBatches
from training.engine.task import FeaturesOf, Task


class _OfRows(Trainer):
    """Batches are rows of the examples; `features_of` the task makes what the model reads of them."""

    control: Any
    task: Task
    evaluator: Callable[[Any], dict[str, float]]

    def get_batch_sampler(self, dataset: Dataset) -> Any:
        """Return the batches of an epoch."""
        size, seed = self.args.per_device_train_batch_size, self.args.seed
        return self.args.batch_sampler(dataset, batch_size=size, drop_last=False, seed=seed)

    def get_train_dataloader(self) -> Any:
        """Return the batches to learn from."""
        assert self.task.features  # noqa: S101 - the trainer is chosen by it
        self.accelerator.even_batches = False
        return self._loader(self.train_dataset, self.task.features)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """Return the batches held out."""
        del eval_dataset
        held_out = self.task.held_out
        assert held_out  # noqa: S101 - else nothing is evaluated
        assert held_out.features  # noqa: S101 - as of the task
        return self._loader(self.eval_dataset, held_out.features)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The mean of the batch's losses."""
        del num_items_in_batch
        loss = model(inputs)["losses"].mean()
        return (loss, {}) if return_outputs else loss

    def prediction_step(self, model: Any, inputs: Any, *_: Any, **__: Any) -> Any:
        """The loss alone."""
        with torch.no_grad():
            return self.compute_loss(model, self._prepare_inputs(inputs)).detach(), None, None

    def evaluate(self, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any) -> dict[str, float]:
        """The loss of what is held out, where there is anything, and what the evaluator finds."""
        if self.task.held_out is None:
            self.eval_dataset = None
            return self._told({}, metric_key_prefix)
        told: dict[str, float] = super().evaluate(*args, metric_key_prefix=metric_key_prefix, **kwargs)
        return told

    def evaluation_loop(self, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any) -> Any:
        """Add what the evaluator finds to the figures."""
        output = super().evaluation_loop(*args, metric_key_prefix=metric_key_prefix, **kwargs)
        output.metrics.update(self._found(metric_key_prefix))
        return output

    def _told(self, metrics: dict[str, float], prefix: str) -> dict[str, float]:
        metrics |= self._found(prefix)
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _found(self, prefix: str) -> dict[str, float]:
        return {f"{prefix}_{name}": value for name, value in self.evaluator(self.model).items()}

    def _loader(self, dataset: Any, features: FeaturesOf) -> Any:
        made = DataLoader(
            dataset,
            batch_sampler=self.get_batch_sampler(dataset),
            collate_fn=lambda rows: features([row["row"] for row in rows]),
            pin_memory=self.args.dataloader_pin_memory,
        )
        return self.accelerator.prepare(made)


class FeatureTrainer(SafeCheckpoints, OwnBatches, FinerBest, _OfRows):
    """Trains a model of features."""


def feature_trainer(task: Task, arguments: dict[str, Any], evaluator: Any, callbacks: list[Any]) -> FeatureTrainer:
    """Return the trainer of a task that makes features; `arguments` are those of all trainers."""
    sampler = arguments.pop("batch_sampler")
    told = TrainingArguments(**arguments, remove_unused_columns=False)
    told.batch_sampler, told._n_gpu = sampler, min(told.n_gpu, 1)
    held_out = task.held_out
    trainer = FeatureTrainer(
        model=task.model,
        args=told,
        train_dataset=_rows(len(task.examples.question)),
        eval_dataset=_rows(len(held_out.examples.question)) if held_out else _rows(1),
        callbacks=callbacks,
    )
    trainer.task, trainer.evaluator = task, evaluator
    return trainer


def _rows(count: int) -> Dataset:
    return Dataset.from_dict({"row": list(range(count))})
