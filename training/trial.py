"""A few steps of a training, taken to see what they cost: how long they take, and the most memory held meanwhile."""

import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from training.engine.task import Task
from training.options.common import Report, TrainingOptions

Batch = list[int]  # rows of the examples
_PROBED = 64  # texts


@dataclass(frozen=True)
class Tried:
    """Steps that were taken: characters read in the largest and in those that were timed, their seconds, bytes held."""

    largest: float
    read: float  # a step, those after the first
    seconds: float
    memory: int


def characters_read(task: Task) -> tuple[np.ndarray, float]:
    """Characters that a training reads of each example, `(n_examples,)`, and of a place; the latter 1 for a starter.

    A text, or a pair of a cross-encoder, counts up to as many as the model reads, by the characters that a token has.
    """
    from sentence_transformers import CrossEncoder

    columns = [values for values in task.columns.values() if isinstance(values[0], str | list)]
    columns = [values for values in columns if not isinstance(values[0], list) or isinstance(values[0][0], str)]
    a_token, most = _characters_a_token(task.model, columns[-1])
    if isinstance(task.model, CrossEncoder):
        asked, *shown = columns
        read = [[_sum(len(one), more, most) for one, more in zip(asked, values, strict=True)] for values in shown]
    else:
        read = [[_sum(0, more, most) for more in values] for values in columns]
    return np.sum(read, axis=0, dtype=float), a_token


def _sum(before: int, texts: str | list[str], most: float) -> float:
    return sum(min(before + len(text), most) for text in ([texts] if isinstance(texts, str) else texts))


def _characters_a_token(model: Any, texts: Sequence[Any]) -> tuple[float, float]:
    from models.inference import takes_rows

    if not takes_rows(model):
        return 1.0, float("inf")
    some = [texts[row] for row in evenly(np.arange(len(texts)), _PROBED)]
    flat = [text for one in some for text in ([one] if isinstance(one, str) else one)]
    tokens = sum(map(len, model.tokenizer(flat, add_special_tokens=False, verbose=False)["input_ids"]))
    a_token = sum(map(len, flat)) / max(1, tokens)
    return a_token, a_token * float(model.max_seq_length or "inf")


def evenly(ordered: np.ndarray, count: int) -> list[int]:
    """Return `count` of what is ordered, from the middles of as many equal parts of it: each kind has its share."""
    count = min(count, len(ordered))
    return [int(one) for one in ordered[((np.arange(count) + 0.5) * len(ordered) / count).astype(int)]]


def take(task: Task, options: TrainingOptions, batches: list[Batch], read: np.ndarray) -> Tried:
    """Train on these batches, the largest first: it makes what is made once, and is not timed where there are more."""
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from transformers import TrainerCallback

    from training.engine.passes import short_passes
    from training.engine.trainers import make_trainer

    seconds: list[float] = []

    class Fixed(DefaultBatchSampler):
        def __iter__(self) -> Iterator[Batch]:
            return iter(batches)

        def __len__(self) -> int:
            return len(batches)

    class Clock(TrainerCallback):
        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            del args, kwargs
            seconds.append(-time.perf_counter())

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            del args, kwargs
            seconds[-1] += time.perf_counter()

    short = replace(options, epochs=1.0, patience=0, report_to=Report.NONE)
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(task, short, Path(folder), [Clock()])
        trainer.args.batch_sampler = Fixed
        trainer.args.set_evaluate(strategy="no")
        trainer.args.set_save(strategy="no")
        trainer.args.load_best_model_at_end = False
        with short_passes(task.model, twice=options.recompute), MostMemory() as most:
            trainer.train()
    sums = [float(read[batch].sum()) for batch in batches]
    timed = slice(1, None) if len(batches) > 1 else slice(None)
    return Tried(max(sums), float(np.mean(sums[timed])), float(np.mean(seconds[timed])), most.held)


def memory_available() -> int:
    """Bytes that a process in this one's place may hold."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    return int(psutil.virtual_memory().available + psutil.Process().memory_info().rss)


class MostMemory:
    """Watches how much memory this process holds; on a GPU torch itself keeps count."""

    def __init__(self) -> None:
        self.held = 0
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "MostMemory":
        import torch

        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        self._watcher.start()
        return self

    def __exit__(self, *error: object) -> None:
        import torch

        self._over.set()
        self._watcher.join()
        if torch.cuda.is_available():
            self.held = int(torch.cuda.max_memory_allocated())

    def _watch(self) -> None:
        process = psutil.Process()
        while True:
            self.held = max(self.held, process.memory_info().rss)
            if self._over.wait(0.005):
                return
