"""A few steps of a planned training, timed within a budget of seconds, and what they say about a step of any size.

A training step costs a fixed part, the optimizer's, and a part that grows with the characters it reads. Both are
measured: the first step warms the libraries up and is not timed, then come small parts of batches and, while the budget
lasts, whole ones.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil

from mrc_workbench.training.base import Task
from mrc_workbench.training.options import Report, TrainingOptions

Batch = list[int]  # rows of the examples
Clock = Callable[[], float]

BUDGET_SECONDS = 15.0  # for everything an estimate does
_PARTS = (8, 4)  # which fraction of a batch is tried before whole ones
_WHOLE_BATCHES = 3
_RESERVED = 0.2  # share of the budget left for the evaluation that is measured after the steps


class Budget:
    """Seconds that may be spent, counted by the clock from `started`, by default from now."""

    def __init__(
        self, seconds: float = BUDGET_SECONDS, clock: Clock = time.monotonic, started: float | None = None
    ) -> None:
        self._seconds, self._clock = seconds, clock
        self._started = clock() if started is None else started

    @property
    def left(self) -> float:
        return self._seconds - (self._clock() - self._started)

    def allows(self, seconds: float) -> bool:
        return seconds <= self.left - _RESERVED * self._seconds


class Deadline:
    """Calls `give_up` with the last outcome noted if the block takes longer than `seconds`.

    Without an outcome it waits for the first one, `patience` seconds in all.
    """

    def __init__(self, seconds: float, patience: float, give_up: Callable[[Any], None]) -> None:
        self._seconds, self._patience, self._give_up = seconds, patience, give_up
        self._outcome: Any = None
        self._noted, self._over = threading.Event(), threading.Event()
        self._lock = threading.Lock()

    def note(self, outcome: Any) -> None:
        self._outcome = outcome
        self._noted.set()

    def __enter__(self) -> "Deadline":
        threading.Thread(target=self._wait, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:  # it either gives up before this, or not at all
            self._over.set()

    def _wait(self) -> None:
        if self._over.wait(max(0.0, self._seconds)):
            return
        self._noted.wait(max(0.0, self._patience - self._seconds))
        with self._lock:
            if not self._over.is_set():
                self._give_up(self._outcome)


@dataclass(frozen=True)
class Step:
    """One step that was taken: characters read, seconds in total and in the optimizer, and the most bytes held."""

    characters: float
    seconds: float
    optimizer_seconds: float
    memory: int
    whole: bool  # a whole batch, not a part of one


@dataclass(frozen=True)
class LowerLayersCost:
    """What frozen layers cost once for each distinct text."""

    seconds_a_token: float
    bytes_a_token: float


@dataclass
class StepTimes:
    """Steps in the order in which they were taken; the first one is the warm-up."""

    steps: list[Step] = field(default_factory=list)
    memory_before: int = 0  # bytes held before the first step; 0 if unknown
    lower_layers: LowerLayersCost | None = None  # not part of the steps' seconds; None if no states are stored

    @property
    def timed(self) -> list[Step]:
        """The most representative steps: whole batches, else the largest parts, else the warm-up alone."""
        measured = self.steps[1:] or self.steps
        if whole := [step for step in measured if step.whole]:
            return whole
        largest = max(step.characters for step in measured)
        return [step for step in measured if step.characters >= 0.75 * largest]

    @property
    def is_rough(self) -> bool:
        """Whether no whole batch was timed."""
        return not self.timed[0].whole

    def seconds(self, characters: float) -> float:
        fixed = median(step.optimizer_seconds for step in self.timed)
        rate = median((step.seconds - step.optimizer_seconds) / step.characters for step in self.timed)
        return fixed + rate * characters

    def memory_line(self) -> tuple[float, float]:
        """Slope and constant of the bytes held over the characters of the largest batch so far."""
        growing: list[Step] = []
        for step in self.steps:
            if not growing or step.characters > growing[-1].characters:
                growing.append(step)
        last, slope = growing[-1], 0.0
        if len(growing) > 1:
            before = growing[-2]
            slope = max(0.0, (last.memory - before.memory) / (last.characters - before.characters))
        elif self.memory_before:  # all that one step added may grow with the text
            slope = max(0, last.memory - self.memory_before) / last.characters
        return slope, last.memory - slope * last.characters

    def memory(self, characters: float) -> float:
        slope, constant = self.memory_line()
        return constant + slope * characters


def evenly(ordered: np.ndarray, count: int) -> list[int]:
    """Return `count` of what is ordered, from the middles of as many equal parts of it: each kind has its share."""
    count = min(count, len(ordered))
    return [int(one) for one in ordered[((np.arange(count) + 0.5) * len(ordered) / count).astype(int)]]


def batches_to_try(batches: Sequence[Batch], characters: np.ndarray) -> list[tuple[Batch, bool]]:
    """Return batches by size and whether each is whole: first parts, then the largest, which decides the memory."""
    largest = batches[-1]
    typical = [batches[row] for row in evenly(np.arange(len(batches)), _WHOLE_BATCHES)]
    middle = typical[len(typical) // 2]
    warm_up = _part(largest, characters, _PARTS[0])
    parts = [_part(middle, characters, _PARTS[0])]
    parts += [_part(batch, characters, _PARTS[1]) for batch in (largest, middle)]
    whole = [largest, *reversed(typical)][:_WHOLE_BATCHES]
    return [(warm_up, False), *((part, False) for part in parts), *((batch, True) for batch in whole)]


def _part(batch: Batch, characters: np.ndarray, divisor: int) -> Batch:
    ordered = np.array(batch)[np.argsort(characters[batch], kind="stable")]
    return evenly(ordered, max(2, len(batch) // divisor))


@dataclass
class Pace:
    """Decides after each step whether the next one is taken: it has to fit into the budget and the memory."""

    sizes: Sequence[float]  # characters of the batches to try
    whole: Sequence[bool]
    budget: Budget
    memory_limit: float
    on_step: Callable[[StepTimes], None] = lambda _: None
    times: StepTimes = field(default_factory=StepTimes)

    def add(self, seconds: float, optimizer_seconds: float, memory: int) -> bool:
        """Note a step; returns whether to go on."""
        steps = self.times.steps
        steps.append(Step(self.sizes[len(steps)], seconds, optimizer_seconds, memory, self.whole[len(steps)]))
        self.on_step(self.times)
        if len(steps) == len(self.sizes):
            return False
        upcoming = self.sizes[len(steps)]
        if self.whole[len(steps)] and self.times.memory(upcoming) > self.memory_limit:
            return False
        return self.budget.allows(self.times.seconds(upcoming))


def take_steps(task: Task, options: TrainingOptions, batches: Sequence[Batch], pace: Pace) -> StepTimes:
    """Train on these batches for as long as the pace allows, at least one step."""
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from transformers import TrainerCallback

    from mrc_workbench.training.engine.speed import cached_lower_layers, short_passes, tokenized_once
    from mrc_workbench.training.trainers import make_trainer

    class Fixed(DefaultBatchSampler):
        def __iter__(self) -> Iterator[Batch]:
            return iter(batches)

        def __len__(self) -> int:
            return len(batches)

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
            if not pace.add(seconds, self.optimizer_seconds, memory.most()):
                control.should_training_stop = True

    short = replace(options, epochs=1.0, patience=0, report_to=Report.NONE)
    with tempfile.TemporaryDirectory() as folder, _MemoryMeter() as memory:
        trainer = make_trainer(task, short, Path(folder), [Stopwatch()])
        trainer.args.batch_sampler = Fixed
        trainer.args.set_evaluate(strategy="no")
        trainer.args.set_save(strategy="no")
        trainer.args.load_best_model_at_end = False
        pace.times.memory_before = memory.most()
        cached = cached_lower_layers(task.model, options.frozen_layers)
        with tokenized_once(task.model), cached as lower, short_passes(task.model, twice=options.recompute):
            trainer.train()
    return pace.times


def memory_available() -> int:
    """Bytes that a process in this one's place may hold."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    return int(psutil.virtual_memory().available + psutil.Process().memory_info().rss)


class _MemoryMeter:
    """Within its block, the most bytes held since the last reset: of the GPU by torch, else of this process."""

    def __init__(self) -> None:
        import torch

        self._gpu = torch.cuda if torch.cuda.is_available() else None
        self._process, self._most, self._over = psutil.Process(), 0, threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_MemoryMeter":
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            self._look()

    def _look(self) -> None:
        self._most = max(self._most, self._process.memory_info().rss)

    def reset(self) -> None:
        self._most = 0
        if self._gpu:
            self._gpu.reset_peak_memory_stats()

    def most(self) -> int:
        if self._gpu:
            return int(self._gpu.max_memory_allocated())
        self._look()
        return self._most


@dataclass(frozen=True)
class Load:
    """How much of the processors others used during a measurement, and how much this process got."""

    others: float  # share of all processors, 0 to 1
    own: float

    @property
    def is_busy(self) -> bool:
        return self.others > 0.25


class LoadMeter:
    """Measures the load of the machine since it was created."""

    def __init__(self) -> None:
        self._began = _processor_seconds()

    def load(self) -> Load:
        total, idle, own = (now - before for now, before in zip(_processor_seconds(), self._began, strict=True))
        if total <= 0:
            return Load(0.0, 0.0)
        share = min(1.0, own / total)
        return Load(others=max(0.0, 1.0 - idle / total - share), own=share)


def _processor_seconds() -> tuple[float, float, float]:
    """Return the seconds of all processors, of these idle, and of this process."""
    times, own = psutil.cpu_times(), psutil.Process().cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    counted = sum(times[:8])  # what guests use is counted as user time, too
    return counted, idle, own.user + own.system
