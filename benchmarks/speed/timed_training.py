"""Time some steps of one training, by the library's trainer with its defaults or by ours.

`python -m benchmarks.speed.timed_training SETUP` gets the setup as JSON and prints the times as JSON in the last line.
"""

import json
import resource
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import psutil

from benchmarks.quality.article_split import SPLIT
from benchmarks.synthetic_data import korquad, peak_memory
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.base import Columns
from mrc_workbench.training.options import AttentionDropout, EmbeddingTable, QuestionOptions
from mrc_workbench.training.ranker_options import CROSS_ENCODER, BiEncoderOptions, CrossEncoderOptions
from mrc_workbench.training.recipes import get_recipe
from mrc_workbench.training.recipes.training_data import TrainingData
from mrc_workbench.training.train import describe_error

LIBRARY = "library"
OURS = "ours"
MEMORY_FRACTION = 0.95  # of the available memory
# the library's defaults
_LEARNING_RATE = 5e-5
_TEMPERATURE = 0.05


@dataclass(frozen=True)
class TrainingSetup:
    """A model, the trainer (`side`) and the number of steps; the first step is not timed.

    With `batches`, both sides use the same rows of the same examples, the library's hyperparameters, all weights and no
    dropout, so that their losses are comparable.
    """

    kind: str
    base: str
    side: str
    columns: str  # JSON file of the examples, for the library's trainer
    batch_size: int = 32
    steps: int = 4
    max_length: int = 0
    objective: str = ""  # of ours, if not the default
    precision: str = Precision.AUTO.value
    has_frozen_table: bool = False  # of embeddings, with `batches`
    batches: list[list[int]] | None = None


@dataclass(frozen=True)
class TrainingTimes:
    """Examples per second (`rate`) and per CPU second, peak memory in bytes, and the loss of each step."""

    seconds: list[float]  # of the steps after the first
    rate: float
    cpu_rate: float  # depends less on other load
    memory: int
    losses: list[float]


def options_of(setup: TrainingSetup) -> QuestionOptions:
    """Return our defaults for the packaged base, with the base of the setup; the library's if losses are compared.

    A bi-encoder trains all its layers on pairs, as the library's trainer does, so both do the same work.
    """
    if setup.kind == CROSS_ENCODER:
        options: QuestionOptions = CrossEncoderOptions.defaults_for(setup.base)
    else:
        options = replace(BiEncoderOptions.defaults_for(DEFAULT.reference), base=setup.base)
        options = replace(options, frozen_layers=0, shared_passages=False)
    precision = Precision(setup.precision)
    options = replace(options, batch_size=setup.batch_size, max_length=setup.max_length, precision=precision)
    options = replace(options, logging_steps=1, epochs=1.0)
    if setup.objective:
        options = replace(options, objective=type(options.objective)(setup.objective))
    if not setup.batches:
        return options
    table = EmbeddingTable.FROZEN if setup.has_frozen_table else EmbeddingTable.TRAINED
    options = replace(options, embedding_table=table, attention_dropout=AttentionDropout.NONE)
    options = replace(options, learning_rate=_LEARNING_RATE, warmup=0.0, weight_decay=0.0)
    return replace(options, temperature=_TEMPERATURE) if isinstance(options, BiEncoderOptions) else options


def time_training(setup: TrainingSetup) -> TrainingTimes:
    """Load and train. Raises `RuntimeError` or `MemoryError` if memory does not suffice."""
    from mrc_workbench.data.jobs.processes import hold_freed_memory
    from mrc_workbench.training.engine.speed import cached_tokenization, passes_by_length

    with tempfile.TemporaryDirectory() as folder:
        if setup.side == LIBRARY:
            return train_timed(library_trainer(setup, Path(folder)), setup)
        hold_freed_memory()
        options = options_of(setup)
        training_data = TrainingData.from_question_set(read_file(korquad()).question_set, SPLIT, options)
        trainer = project_trainer(setup, options, training_data, Path(folder))
        with (
            cached_tokenization(trainer.model),
            passes_by_length(trainer.model, recompute=options.gradient_checkpointing),
        ):
            return train_timed(trainer, setup)


def library_trainer(setup: TrainingSetup, out: Path) -> Any:
    """Return the library's trainer with its defaults."""
    from datasets import Dataset
    from sentence_transformers import (
        CrossEncoder,
        CrossEncoderTrainer,
        CrossEncoderTrainingArguments,
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from transformers import set_seed

    columns: Columns = json.loads(Path(setup.columns).read_text(encoding="utf-8"))
    set_seed(0)
    exact = {"dtype": "float32"}  # the packaged base is stored in half precision, and would be trained in it
    if setup.kind == CROSS_ENCODER:
        model: Any = CrossEncoder(setup.base, num_labels=1, device="cpu", model_kwargs=exact)
        trainer = CrossEncoderTrainer
        arguments = CrossEncoderTrainingArguments
        loss = BinaryCrossEntropyLoss(model)
    else:
        model = SentenceTransformer(setup.base, device="cpu", model_kwargs=exact)
        trainer = SentenceTransformerTrainer
        arguments = SentenceTransformerTrainingArguments
        loss = MultipleNegativesRankingLoss(model)
    if setup.max_length:
        model.max_seq_length = setup.max_length
    model[0].auto_model.get_input_embeddings().requires_grad_(not (setup.batches and setup.has_frozen_table))
    training_arguments = arguments(
        output_dir=str(out),
        per_device_train_batch_size=setup.batch_size,
        max_steps=setup.steps,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    return trainer(model=model, args=training_arguments, train_dataset=Dataset.from_dict(columns), loss=loss)


def project_trainer(setup: TrainingSetup, options: QuestionOptions, training_data: TrainingData, out: Path) -> Any:
    """Return our trainer, without evaluation and saving; without prompts if losses are compared."""
    from transformers import set_seed

    from mrc_workbench.training.trainers import make_trainer

    set_seed(0)
    task = get_recipe(setup.kind)(options, training_data).build_task(find_model(setup.base))
    trainer = make_trainer(replace(task, prompts={}) if setup.batches else task, options, out, [])
    trainer.args.max_steps = setup.steps
    trainer.args.load_best_model_at_end = False
    trainer.args.set_save(strategy="no")
    trainer.args.set_evaluate(strategy="no")
    return trainer


def train_timed(trainer: Any, setup: TrainingSetup) -> TrainingTimes:
    """Train, and time all steps after the first."""
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from torch.nn import Dropout
    from transformers import TrainerCallback

    class FixedBatchSampler(DefaultBatchSampler):
        def __iter__(self) -> Iterator[list[int]]:
            return iter(setup.batches or [])

        def __len__(self) -> int:
            return len(setup.batches or [])

    if setup.batches:
        trainer.args.batch_sampler = FixedBatchSampler
        for module in trainer.model.modules():
            if isinstance(module, Dropout):
                module.p = 0.0
    ends: list[tuple[float, float]] = []

    class Clock(TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            del args, kwargs
            ends.append((perf_counter(), process_time()))

    trainer.add_callback(Clock())
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    n_timed_examples = setup.batch_size * (len(ends) - 1)
    rate, cpu_rate = (n_timed_examples / (last - first) for first, last in zip(ends[0], ends[-1], strict=True))
    seconds = [last[0] - first[0] for first, last in pairwise(ends)]
    return TrainingTimes(seconds, rate, cpu_rate, peak_memory(), losses)


def main(words: str) -> str:
    """Time the training; `null` if memory does not suffice. The limit protects other processes of the machine."""
    limits = [int(psutil.virtual_memory().available * MEMORY_FRACTION), *resource.getrlimit(resource.RLIMIT_DATA)]
    least = min(limit for limit in limits if limit != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (least, least))
    try:
        return json.dumps(asdict(time_training(TrainingSetup(**json.loads(words)))))
    except (RuntimeError, MemoryError) as error:
        if describe_error(error)[0] != "memory":
            raise
        return "null"


if __name__ == "__main__":
    print(main(sys.argv[1]))
