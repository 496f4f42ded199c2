"""The trainers of sentence-transformers, with safe checkpoints and our own batches and measure."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.evaluation import BaseEvaluator
from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.sparse_encoder import SparseEncoder, SparseEncoderTrainer, SparseEncoderTrainingArguments
from transformers import EarlyStoppingCallback, PrinterCallback, TrainerCallback

from data.terminal import is_verbose
from training.engine.arguments import VALIDATION, processes, trainer_arguments
from training.engine.batches import batch_sampler
from training.engine.checkpoints import SafeCheckpoints
from training.engine.feature_trainer import feature_trainer
from training.engine.mixins import FinerBest, OwnBatches
from training.engine.task import Measurement, Task, figures
from training.options.common import TrainingOptions


class _BiEncoderTrainer(SafeCheckpoints, OwnBatches, FinerBest, SentenceTransformerTrainer):
    """Trains a bi-encoder."""


class _CrossEncoderTrainer(SafeCheckpoints, OwnBatches, FinerBest, CrossEncoderTrainer):
    """Trains a cross-encoder."""


class _SparseEncoderTrainer(SafeCheckpoints, OwnBatches, FinerBest, SparseEncoderTrainer):
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
    best_by = task.best_by or options.best_by.value
    told = trainer_arguments(checkpoints, options, sampler, best_by)
    evaluator = ValidationEvaluator(task.measure, best_by)
    every = [*callbacks, *([EarlyStoppingCallback(options.patience)] if options.patience else [])]
    made = feature_trainer(task, told, evaluator, every) if task.features else _of_texts(task, told, evaluator, every)
    made.held_out = task.held_out and task.held_out.examples
    if not is_verbose():
        made.remove_callback(PrinterCallback)
    return made


def _of_texts(task: Task, told: dict[str, Any], evaluator: Any, callbacks: list[Any]) -> Any:
    """The trainer of sentence-transformers for the model's class."""
    bi_encoder = (_BiEncoderTrainer, SentenceTransformerTrainingArguments)
    trainer, arguments = _TRAINERS.get(type(task.model), bi_encoder)
    task.model.model_card_data.generate_widget_examples = False  # minutes of work for a card's example
    about = {"prompts": task.prompts or None, "router_mapping": task.routes}
    made_of = arguments(**told, **about)
    made_of._n_gpu = min(made_of.n_gpu, 1)  # several GPUs are for several processes: threads would tear the batch apart
    return trainer(
        model=task.model,
        args=made_of,
        train_dataset=Dataset.from_dict(task.columns),
        eval_dataset=Dataset.from_dict(task.held_out.columns) if task.held_out else None,
        loss=task.loss,
        evaluator=evaluator,
        callbacks=callbacks,
    )
