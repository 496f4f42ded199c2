"""Training a BERT-base sized bi-encoder: our recipe against the plain one, in turns, in one process.

Plain is what the library's documentation starts with: float32, the default batch sampler and the mini-batched
MegaBatchMarginLoss. Ours has the same model, pairs, batch size and learning rate. The model is random: what it costs to
train does not depend on what it knows.
"""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.korquad import korquad
from benchmarks.random_models import bi_encoder
from data.read import read_file
from data.split import SplitOptions
from models.sources import find_model
from training.options.bi_encoder import BiEncoderOptions
from training.rankers.bi_encoder import BiEncoderRecipe
from training.rankers.material import Material

_BATCH = 16
_STEPS = 5  # the first of each is not counted
_ROUNDS = 2
_MAX_LENGTH = 128  # as KR-SBERT reads
Batches = list[list[int]] | None  # rows of the pairs; None: as the recipe makes them


def measure() -> list[str]:
    """Return pairs a second of both, their ratio of every round, and both losses over the same pairs."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        question_set = read_file(korquad()).question_set
        base = bi_encoder(Path(folder, "base"), [passage.text for passage in question_set.passages], _MAX_LENGTH)
        # what the library does where nothing is said: no warmup, no weight decay
        plain = {"warmup": 0.0, "weight_decay": 0.0, "batch_size": _BATCH, "logging_steps": 1}
        options = BiEncoderOptions(base=str(base), max_length=_MAX_LENGTH, **plain)  # type: ignore[arg-type]
        material = Material.of(question_set, SplitOptions(), options)
        recipes = {"plain": _plain, "ours": _ours}
        rounds = [
            {name: make(options, material, Path(folder, f"{name}-{number}"), None) for name, make in recipes.items()}
            for number in range(_ROUNDS)
        ]
        same = np.random.default_rng(0).permutation(len(material.train.questions))[: _BATCH * _STEPS]
        batches = same.reshape(_STEPS, _BATCH).tolist()
        losses = {
            name: make(options, material, Path(folder, f"{name}-same"), batches)[1] for name, make in recipes.items()
        }
    lines = ["| | pairs a second | loss over the same batches |", "|---|---:|---:|"]
    for name in recipes:
        lines.append(f"| {name} | {np.mean([one[name][0] for one in rounds]):.2f} | {losses[name]:.4f} |")
    ratios = ", ".join(f"{one['ours'][0] / one['plain'][0]:.2f}" for one in rounds)
    difference = abs(losses["ours"] / losses["plain"] - 1)
    return [*lines, "", f"Ours / plain, in each of {_ROUNDS} rounds: {ratios}. The losses differ by {difference:.2%}."]


def _plain(options: BiEncoderOptions, material: Material, out: Path, batches: Batches) -> tuple[float, float]:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from sentence_transformers import SentenceTransformerTrainingArguments as Arguments
    from sentence_transformers.sentence_transformer.losses import MegaBatchMarginLoss

    model = SentenceTransformer(options.base, device="cpu")
    questions, passages = material.positive_pairs()
    pairs = {
        "anchor": [material.train.questions[row].text for row in questions],
        "positive": [material.texts[row] for row in passages],
    }
    arguments = Arguments(
        output_dir=str(out),
        per_device_train_batch_size=_BATCH,
        learning_rate=options.learning_rate,
        max_steps=_STEPS,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=Dataset.from_dict(pairs), loss=MegaBatchMarginLoss(model)
    )
    return _timed(trainer, batches)


def _ours(options: BiEncoderOptions, material: Material, out: Path, batches: Batches) -> tuple[float, float]:
    from training.engine.tokens import tokenized_once
    from training.engine.trainers import make_trainer

    task = BiEncoderRecipe(options, material).task(find_model(options.base))
    trainer = make_trainer(task, replace(options, epochs=1.0), out, [])
    trainer.args.max_steps = _STEPS
    trainer.args.load_best_model_at_end = False
    trainer.args.set_save(strategy="no")
    trainer.args.set_evaluate(strategy="no")
    with tokenized_once(task.model):
        return _timed(trainer, batches)


def _timed(trainer: Any, batches: Batches) -> tuple[float, float]:
    """Pairs a second over the steps after the first, and the mean loss of all steps; over `batches` where given."""
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from transformers import TrainerCallback

    class Given(DefaultBatchSampler):
        def __iter__(self) -> Iterator[list[int]]:
            return iter(batches or [])

        def __len__(self) -> int:
            return len(batches or [])

    if batches:
        trainer.args.batch_sampler = Given

    ends: list[float] = []

    class Clock(TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            del args, kwargs
            ends.append(perf_counter())

    trainer.add_callback(Clock())
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return _BATCH * (len(ends) - 1) / (ends[-1] - ends[0]), float(np.mean(losses))
