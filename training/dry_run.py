"""A few steps of a planned training, timed within a budget of seconds, and the time of a step of any size.

A training step has a fixed cost, the optimizer's, and a cost that grows with the characters it reads. Both are
measured: the first step is a warm-up, then follow small parts of batches and, while the budget lasts, whole batches.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil

from mrc_workbench.training.base import Task
from mrc_workbench.training.options import Report, TrainingOptions

Batch = list[int]  # rows of the examples
Clock = Callable[[], float]

BUDGET_SECONDS = 15.0  # of a whole estimate
_PARTIAL_DIVISORS = (8, 4)  # parts of a batch that are timed before whole ones
_WHOLE_BATCH_COUNT = 3
_RESERVED_FRACTION = 0.2  # fraction of the budget for the evaluation after the steps


class TimeBudget:
    """A limit in seconds, counted from `started`, by default from now."""

    def __init__(
        self, seconds: float = BUDGET_SECONDS, clock: Clock = time.monotonic, started: float | None = None
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._started = clock() if started is None else started

    @property
    def seconds_left(self) -> float:
        return self._seconds - (self._clock() - self._started)

    def allows(self, seconds: float) -> bool:
        return seconds <= self.seconds_left - _RESERVED_FRACTION * self._seconds


class Deadline:
    """Calls `give_up` with the last outcome after `seconds`; without one, after `patience` seconds at most."""

    def __init__(self, seconds: float, patience: float, give_up: Callable[[Any], None]) -> None:
        self._seconds = seconds
        self._patience = patience
        self._give_up = give_up
        self._outcome: Any = None
        self._has_outcome = threading.Event()
        self._is_closed = threading.Event()
        self._lock = threading.Lock()

    def record(self, outcome: Any) -> None:
        self._outcome = outcome
        self._has_outcome.set()

    def __enter__(self) -> "Deadline":
        threading.Thread(target=self._wait, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:  # after this, `give_up` is not called
            self._is_closed.set()

    def _wait(self) -> None:
        if self._is_closed.wait(max(0.0, self._seconds)):
            return
        self._has_outcome.wait(max(0.0, self._patience - self._seconds))
        with self._lock:
            if not self._is_closed.is_set():
                self._give_up(self._outcome)


@dataclass(frozen=True)
class StepTiming:
    """One timed step: characters read, seconds in total and in the optimizer, and peak memory in bytes."""

    characters: float
    seconds: float
    optimizer_seconds: float
    memory: int
    is_whole: bool  # whether the batch was whole


@dataclass(frozen=True)
class LowerLayersCost:
    """The cost of frozen layers, once for each distinct text."""

    seconds_per_token: float
    bytes_per_token: float


@dataclass
class StepTimes:
    """Steps in order; the first one is the warm-up."""

    steps: list[StepTiming] = field(default_factory=list)
    memory_before: int = 0  # bytes before the first step; 0 if unknown
    lower_layers: LowerLayersCost | None = None  # excluded from the steps' seconds; None if no states are stored

    @property
    def timed(self) -> list[StepTiming]:
        """The most representative steps: whole batches, else the largest parts, else only the warm-up."""
        measured = self.steps[1:] or self.steps
        if whole := [step for step in measured if step.is_whole]:
            return whole
        largest = max(step.characters for step in measured)
        return [step for step in measured if step.characters >= 0.75 * largest]

    @property
    def is_rough(self) -> bool:
        """Whether no whole batch was timed."""
        return not self.timed[0].is_whole

    def seconds(self, characters: float) -> float:
        fixed = median(step.optimizer_seconds for step in self.timed)
        rate = median((step.seconds - step.optimizer_seconds) / step.characters for step in self.timed)
        return fixed + rate * characters

    def memory_line(self) -> tuple[float, float]:
        """Return slope and constant of memory in bytes as a function of the characters of the largest batch."""
        larger_steps: list[StepTiming] = []
        for step in self.steps:
            if not larger_steps or step.characters > larger_steps[-1].characters:
                larger_steps.append(step)
        last = larger_steps[-1]
        slope = 0.0
        if len(larger_steps) > 1:
            before = larger_steps[-2]
            slope = max(0.0, (last.memory - before.memory) / (last.characters - before.characters))
        elif self.memory_before:  # assume that everything that the step added grows with the text
            slope = max(0, last.memory - self.memory_before) / last.characters
        return slope, last.memory - slope * last.characters

    def memory(self, characters: float) -> float:
        slope, constant = self.memory_line()
        return constant + slope * characters


def sample_evenly(sorted_items: np.ndarray, count: int) -> list[int]:
    """Return the middle items of `count` equal parts of sorted items."""
    count = min(count, len(sorted_items))
    return [int(item) for item in sorted_items[((np.arange(count) + 0.5) * len(sorted_items) / count).astype(int)]]


def select_trial_batches(batches: Sequence[Batch], characters: np.ndarray) -> list[tuple[Batch, bool]]:
    """Return batches and whether each is whole: first parts, then the largest, which determines the memory."""
    largest = batches[-1]
    typical = [batches[position] for position in sample_evenly(np.arange(len(batches)), _WHOLE_BATCH_COUNT)]
    middle = typical[len(typical) // 2]
    warm_up = _partial_batch(largest, characters, _PARTIAL_DIVISORS[0])
    parts = [_partial_batch(middle, characters, _PARTIAL_DIVISORS[0])]
    parts += [_partial_batch(batch, characters, _PARTIAL_DIVISORS[1]) for batch in (largest, middle)]
    whole = [largest, *reversed(typical)][:_WHOLE_BATCH_COUNT]
    return [(warm_up, False), *((part, False) for part in parts), *((batch, True) for batch in whole)]


def _partial_batch(batch: Batch, characters: np.ndarray, divisor: int) -> Batch:
    sorted_batch = np.array(batch)[np.argsort(characters[batch], kind="stable")]
    return sample_evenly(sorted_batch, max(2, len(batch) // divisor))


@dataclass
class StepScheduler:
    """Decides after each step whether the next one fits into the budget and the memory."""

    sizes: Sequence[float]  # characters of the batches
    are_whole: Sequence[bool]
    budget: TimeBudget
    memory_limit: float
    on_step: Callable[[StepTimes], None] = lambda _: None
    times: StepTimes = field(default_factory=StepTimes)

    def add(self, seconds: float, optimizer_seconds: float, memory: int) -> bool:
        """Record a step; returns whether to take another one."""
        steps = self.times.steps
        steps.append(StepTiming(self.sizes[len(steps)], seconds, optimizer_seconds, memory, self.are_whole[len(steps)]))
        self.on_step(self.times)
        if len(steps) == len(self.sizes):
            return False
        next_size = self.sizes[len(steps)]
        if self.are_whole[len(steps)] and self.times.memory(next_size) > self.memory_limit:
            return False
        return self.budget.allows(self.times.seconds(next_size))


def time_steps(task: Task, options: TrainingOptions, batches: Sequence[Batch], pace: StepScheduler) -> StepTimes:
    """Train on these batches, at least one step, until the scheduler stops."""
    from transformers import TrainerCallback

    from mrc_workbench.training.engine.batches import FixedBatches
    from mrc_workbench.training.engine.speed import fast_steps
    from mrc_workbench.training.trainers import make_trainer

    class Stopwatch(TrainerCallback):
        began = optimizer_began = optimizer_seconds = lower_seconds = 0.0

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            memory.reset()
            self.optimizer_seconds = 0.0
            self.lower_seconds = lower.seconds if lower else 0.0
            self.began = time.perf_counter()

        def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
            self.optimizer_began = time.perf_counter()

        def on_optimizer_step(self, *_: Any, **__: Any) -> None:
            self.optimizer_seconds = time.perf_counter() - self.optimizer_began

        def on_step_end(self, _args: Any, _state: Any, control: Any, **_: Any) -> None:
            seconds = time.perf_counter() - self.began
            if lower and lower.tokens:
                seconds -= lower.seconds - self.lower_seconds
                if lower.bytes:
                    cost = LowerLayersCost(lower.seconds / lower.tokens, lower.bytes / lower.tokens)
                    pace.times.lower_layers = cost
            if not pace.add(seconds, self.optimizer_seconds, memory.peak()):
                control.should_training_stop = True

    short = replace(options, epochs=1.0, patience=0, report_to=Report.NONE)
    with tempfile.TemporaryDirectory() as folder, _MemoryMeter() as memory:
        trainer = make_trainer(task, short, Path(folder), [Stopwatch()])
        trainer.args.batch_sampler = partial(FixedBatches, batches)
        trainer.args.set_evaluate(strategy="no")
        trainer.args.set_save(strategy="no")
        trainer.args.load_best_model_at_end = False
        pace.times.memory_before = memory.peak()
        with fast_steps(task.model, options) as lower:
            trainer.train()
    return pace.times


def memory_available() -> int:
    """Return the bytes that a process which replaces this one can use."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    return int(psutil.virtual_memory().available + psutil.Process().memory_info().rss)


class _MemoryMeter:
    """Measures the peak memory since the last reset: torch's on a GPU, else that of this process."""

    def __init__(self) -> None:
        import torch

        self._gpu = torch.cuda if torch.cuda.is_available() else None
        self._process = psutil.Process()
        self._peak = 0
        self._is_closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_MemoryMeter":
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._is_closed.wait(0.005):
            self._sample()

    def _sample(self) -> None:
        self._peak = max(self._peak, self._process.memory_info().rss)

    def reset(self) -> None:
        self._peak = 0
        if self._gpu:
            self._gpu.reset_peak_memory_stats()

    def peak(self) -> int:
        if self._gpu:
            return int(self._gpu.max_memory_allocated())
        self._sample()
        return self._peak


@dataclass(frozen=True)
class ProcessorLoad:
    """The load of the processors by other programs and by this process during a measurement."""

    others_fraction: float  # fraction of all processors, 0 to 1
    own_fraction: float

    @property
    def is_contended(self) -> bool:
        return self.others_fraction > 0.25


class ProcessorLoadMeter:
    """Measures the load of the machine since it was created."""

    def __init__(self) -> None:
        self._began = _processor_seconds()

    def load(self) -> ProcessorLoad:
        total, idle, own = (now - before for now, before in zip(_processor_seconds(), self._began, strict=True))
        if total <= 0:
            return ProcessorLoad(0.0, 0.0)
        own_fraction = min(1.0, own / total)
        return ProcessorLoad(others_fraction=max(0.0, 1.0 - idle / total - own_fraction), own_fraction=own_fraction)


def _processor_seconds() -> tuple[float, float, float]:
    """Return total seconds, idle seconds, and seconds of this process."""
    times = psutil.cpu_times()
    own = psutil.Process().cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    total = sum(times[:8])  # user time includes that of guests
    return total, idle, own.user + own.system
