"""What a training would take on this machine, found out by a few of its own steps."""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from models.sources import find_model, is_starter
from training.engine.task import Task
from training.options.common import Report, TrainingOptions
from training.recipe import recipe_of
from training.runs.rehearsal import Estimate
from training.runs.runs import Plan
from training.train import load_material

_SHARE_TO_USE = 0.9  # of the memory that is free: the rest is for what nobody foresees
_QUICK_SECONDS = 2.0


@dataclass(frozen=True)
class _Tried:
    """Steps of one batch size: examples, seconds a step, and the most bytes held at a time."""

    size: int
    seconds: float
    memory: int


def estimate(plan: Plan) -> Estimate:
    """Take a few steps and measure a few texts as the plan would. Raises what the training would raise.

    Small batches come first, with the longest texts; time and memory of the whole batch follow from them as straight
    lines, unless it is quick and fits, in which case it is tried itself.
    """
    from transformers import set_seed

    from training.engine.batches import batch_sampler

    options = plan.options
    available, base = _memory_available(), _memory_held()
    material = load_material(plan)
    recipe, source = recipe_of(plan.kind)(plan.options, material), find_model(options.base)
    set_seed(options.seed)
    task = recipe.task(source)
    lesson = task.lesson
    if lesson:
        task = task.labelled(lesson.stand_ins())
    examples = len(task.examples.question)
    whole = min(options.batch_size, examples)
    tried = [_steps(task, options, max(2, whole // 8), base)]
    step = tried[0].seconds * whole / tried[0].size
    easy = step < _QUICK_SECONDS and tried[0].memory * whole / tried[0].size < _SHARE_TO_USE * available
    tried.append(_steps(task, options, whole if easy else max(3, whole // 4), base))
    batches = batch_sampler(task.examples, batch_size=options.batch_size, seed=options.seed)(range(examples))
    steps = int(np.ceil(len(batches) * options.epochs))
    seconds_a_step = max(tried[-1].seconds, _line(tried, whole, lambda one: one.seconds))
    memory = int(max(tried[-1].memory, _line(tried, whole, lambda one: one.memory)))
    fits = memory <= _SHARE_TO_USE * available
    measured = options.epochs if not options.evaluation_steps else steps / options.evaluation_steps
    seconds_measuring = (measured + 2) * recipe.seconds_to_measure(task.model)
    seconds_teaching = lesson.seconds() if lesson else 0.0
    return Estimate(
        steps=steps,
        seconds_a_step=seconds_a_step,
        seconds_measuring=seconds_measuring,
        seconds=steps * seconds_a_step + seconds_measuring + seconds_teaching,
        memory=memory,
        memory_available=available,
        device=str(task.model.device),
        fits=fits,
        instead={} if fits else _instead(options, tried, available, starter=is_starter(source)),
        seconds_teaching=seconds_teaching,
    )


def _steps(task: Task, options: TrainingOptions, size: int, base: int) -> _Tried:
    """Take one step with the longest examples, for the memory, and two with any, for the time."""
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from transformers import TrainerCallback

    from training.engine.passes import short_passes
    from training.engine.trainers import make_trainer

    order = np.argsort(-task.examples.lengths, kind="stable")
    any_examples = np.random.default_rng(0).permutation(len(order))
    batches = [order[:size].tolist(), *(np.resize(np.roll(any_examples, -size * n), size).tolist() for n in range(2))]
    seconds: list[float] = []

    class Fixed(DefaultBatchSampler):
        def __iter__(self) -> Iterator[list[int]]:
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

    short = replace(options, epochs=1.0, batch_size=size, patience=0, report_to=Report.NONE)
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(task, short, Path(folder), [Clock()])
        trainer.args.batch_sampler = Fixed
        trainer.args.set_evaluate(strategy="no")
        trainer.args.set_save(strategy="no")
        trainer.args.load_best_model_at_end = False
        with short_passes(task.model), _MostMemory() as most:
            trainer.train()
    return _Tried(size, float(np.mean(seconds[1:])), most.held - base)


def _line(tried: list[_Tried], size: int, value: Callable[[_Tried], float]) -> float:
    """The value at `size` on the straight line through what was tried."""
    first, second = tried
    if first.size == second.size:
        return value(second)
    return value(first) + (value(second) - value(first)) / (second.size - first.size) * (size - first.size)


def _instead(options: TrainingOptions, tried: list[_Tried], available: int, *, starter: bool) -> dict[str, int]:
    """The change that makes it fit: the batch in parts where the objective allows, else a smaller batch."""
    fitting = 2
    while _line(tried, 2 * fitting, lambda one: one.memory) <= _SHARE_TO_USE * available:
        fitting *= 2
    if _line(tried, fitting, lambda one: one.memory) > _SHARE_TO_USE * available:
        return {}
    return {"mini_batch_size": fitting} if options.in_parts and not starter else {"batch_size": fitting}


def _memory_available() -> int:
    import torch

    return int(torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else psutil.virtual_memory().available)


def _memory_held() -> int:
    import torch

    return int(torch.cuda.memory_allocated() if torch.cuda.is_available() else psutil.Process().memory_info().rss)


class _MostMemory:
    """Watches how much memory this process holds; on a GPU torch itself keeps count."""

    def __init__(self) -> None:
        self.held = 0
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_MostMemory":
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
        while not self._over.wait(0.005):
            self.held = max(self.held, process.memory_info().rss)
