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

from retrieval.evaluation.measures import Scores
from training.engine.arguments import VALIDATION, processes, trainer_arguments
from training.engine.batches import batch_sampler
from training.engine.checkpoints import SafeCheckpoints
from training.engine.task import Task
from training.options.common import TrainingOptions


class _RightEpoch(TrainerCallback):
    """Tells the batches their epoch: resuming within one, several processes wrap them so that they do not hear it."""

    def __init__(self, batches: DefaultBatchSampler) -> None:
        self._batches = batches

    def on_epoch_begin(self, _args: Any, state: TrainerState, _control: Any, **_: Any) -> None:
        self._batches.set_epoch(int(state.epoch or 0))


class _OwnBatches:
    """Mixin that keeps hold of the batches."""

    def get_batch_sampler(self, *args: Any, **kwargs: Any) -> DefaultBatchSampler:
        batches: DefaultBatchSampler = super().get_batch_sampler(*args, **kwargs)  # type: ignore[misc]
        self.add_callback(_RightEpoch(batches))  # type: ignore[attr-defined]
        return batches


class _BiEncoderTrainer(SafeCheckpoints, _OwnBatches, SentenceTransformerTrainer):
    """Trains a bi-encoder."""


class _CrossEncoderTrainer(SafeCheckpoints, _OwnBatches, CrossEncoderTrainer):
    """Trains a cross-encoder."""


class _SparseEncoderTrainer(SafeCheckpoints, _OwnBatches, SparseEncoderTrainer):
    """Trains a sparse encoder; the weights of its regularizers rise over the first third of the steps."""


_TRAINERS: dict[type, tuple[Any, Any]] = {
    CrossEncoder: (_CrossEncoderTrainer, CrossEncoderTrainingArguments),
    SparseEncoder: (_SparseEncoderTrainer, SparseEncoderTrainingArguments),
}


class ValidationEvaluator(BaseEvaluator):
    """Measures the model as it is on validation questions, with the very code that measures it before and after."""

    def __init__(self, measure: Callable[[Any], Scores], best_by: str) -> None:
        super().__init__()
        self._measure = measure
        self.name, self.primary_metric = VALIDATION, best_by

    def __call__(self, model: Any, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Return the means, named `validation_<measure>`."""
        del args, kwargs
        was_training = model.training
        model.eval()
        means = self._measure(model).means()
        model.train(was_training)
        return {f"{VALIDATION}_{name}": value for name, value in means.items()}


def make_trainer(task: Task, options: TrainingOptions, checkpoints: Path, callbacks: Sequence[TrainerCallback]) -> Any:
    """Return the trainer of a task, ready to `train()`: the library's for the model's class."""
    sampler = batch_sampler(task.examples, batch_size=options.batch_size, processes=processes(), seed=options.seed)
    bi_encoder = (_BiEncoderTrainer, SentenceTransformerTrainingArguments)
    trainer, arguments = _TRAINERS.get(type(task.model), bi_encoder)
    task.model.model_card_data.generate_widget_examples = False  # minutes of work for a card's example
    about = {"prompts": task.prompts or None, "router_mapping": task.routes}
    told = arguments(**trainer_arguments(checkpoints, options, sampler), **about)
    told._n_gpu = min(told.n_gpu, 1)  # several GPUs are for several processes: threads would tear the batch apart
    return trainer(
        model=task.model,
        args=told,
        train_dataset=Dataset.from_dict(task.columns),
        loss=task.loss,
        evaluator=ValidationEvaluator(task.measure, options.best_by),
        callbacks=[*callbacks, *([EarlyStoppingCallback(options.patience)] if options.patience else [])],
    )
