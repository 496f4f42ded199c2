"""How far a comparison is and how long it still takes, weighted by what each retriever has to read.

A retriever takes some seconds to begin (a model is loaded) and some for each character that it analyzes, encodes or
reads in pairs. Both are measured whenever one is searched, and stored in the workspace by reader: an analyzer, or a
model in a precision. The first comparison reports the time left once everything still to come is known or has begun.

`forecasts` use what was measured, or the characters to read, at rates that a slow, busy processor reaches as well:

- an analyzer or a starter model reads a character in 50 microseconds, and a starter reranker, which analyzes each text
  once, scores a character of a pair in 2 microseconds;
- a transformer reads a character in 1 millisecond for each 21 million weights of its layers (multilingual-e5-small has
  so many), counted as 12 x layers x width squared, from its `config.json`;
- a model that is not on this machine, or has no such file, has no forecast.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import BaseModel, FiniteFloat, ValidationError

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.workspace import read_json, workspace, write_json
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import STARTER, ModelSource, find_model, is_starter
from mrc_workbench.models.vectors import reading_costs
from mrc_workbench.retrieval.comparison.first_stage import HttpSpec, PluginSpec
from mrc_workbench.retrieval.comparison.spec import Spec

# seconds a character of a reader that was never measured: how much of the progress bar it gets, and no more
_GUESS, _GUESS_OF_MODELS = 5e-6, 2e-4
_WORTH_STORING = 0.3  # seconds: what took less tells nothing about a longer one
_ENOUGH = 0.05  # fraction of its work after which a running retriever is judged by itself
_TO_END = 2.0  # seconds: results are tested, written and drawn
_RISE = 1.1  # times the least that was reported: users plan by it

_ANALYZER_RATE = 5e-5  # seconds a character
_STARTER_PAIR_RATE = 2e-6  # seconds a character of a pair whose texts are analyzed already
_TRANSFORMER_RATE = 1e-3  # seconds a character, for `_WEIGHTS`
_WEIGHTS = 12 * 12 * 384**2
_START_SECONDS = 5.0  # to load a transformer


class _Measured(BaseModel):
    setup: FiniteFloat = 0.0  # seconds
    each: FiniteFloat  # seconds a character


@dataclass(frozen=True)
class _Task:
    reader: str
    letters: int
    is_stored: bool  # its rankings are on disk
    guess: float  # seconds a character
    reports: bool  # how much it has read, if it reads at all: vectors and tokens may be cached


@dataclass(frozen=True)
class _Seen:
    seconds: float  # since the retriever began
    share: float


class Pace:
    """The pace of one comparison. `at` hears of each retriever in turn how much of its own work is done."""

    def __init__(self, least: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`least` is the time left that was reported last, if another process began this comparison."""
        self._clock, self._least = clock, least
        self._tasks: dict[str, _Task] = {}
        self._known: dict[str, _Measured] = {}
        self._name, self._began = "", clock()
        self._ended: set[str] = set()
        self._first: _Seen | None = None
        self._last = _Seen(0.0, 0.0)

    def begin(self, specs: Mapping[str, Spec], asked: QuestionSet, stored: Collection[str]) -> None:
        """Note what is to be done; retrievers whose rankings are `stored` take no time."""
        lengths = asked.passages.texts.lengths(), np.array([len(question.text) for question in asked.questions])
        letters = [round(side.sum()) for side in lengths]
        costs = [round(reading_costs(side).sum()) for side in lengths]
        self._tasks = {
            name: _Task(
                reader_of(spec),
                spec.letters_read(*map(len, lengths), *(costs if spec.needs_model else letters)),
                name in stored,
                # a starter reads words, and a transformer multiplies matrices
                _GUESS_OF_MODELS if getattr(spec, "model", STARTER) != STARTER else _GUESS,
                not spec.parts,
            )
            for name, spec in specs.items()
        }
        self._known = {}
        for reader, values in read_json(_path()).items():
            with suppress(ValidationError):  # what cannot be read is measured again
                self._known[reader] = _Measured.model_validate(values)

    def at(self, name: str, share: float) -> float:
        """Note which retriever is running and how much it has done, 0 to 1; returns the fraction of all work done."""
        if name != self._name:
            self.end()
            self._name, self._began, self._first = name, self._clock(), None
            self._ended.discard(name)
        self._last = _Seen(self._clock() - self._began, share)
        if share > 0 and self._first is None:
            self._first = self._last
        weights = {}
        for other, task in self._tasks.items():
            seconds = self._measured(task)
            weights[other] = task.guess * task.letters if seconds is None else seconds
        before = sum(weight for other, weight in weights.items() if other in self._ended)
        return (before + weights[name] * share) / max(sum(weights.values()), 1e-9)

    def end(self) -> None:
        if not self._name or self._name in self._ended:
            return
        self._ended.add(self._name)
        task = self._tasks[self._name]
        seconds, first, last = self._clock() - self._began, self._first, self._last
        is_read = task.letters and not task.is_stored and (first or not task.reports)
        if not is_read or seconds < _WORTH_STORING:
            return
        measured = _Measured(each=seconds / task.letters)
        if first and last.share - first.share > 0.2 and last.seconds - first.seconds > _WORTH_STORING:
            each = (last.seconds - first.seconds) / (last.share - first.share) / task.letters
            measured = _Measured(each=each, setup=max(0.0, seconds - each * task.letters))
        with suppress(OSError):  # a full disk costs an estimate
            write_json(_path(), {**read_json(_path()), task.reader: measured.model_dump()})

    @property
    def seconds_left(self) -> float | None:
        """Seconds left in total, None if unknown; never more than a tenth above the least reported before."""
        parts = self.parts_left
        known = [seconds for seconds in parts.values() if seconds is not None]
        if self._least is None or not parts or len(known) < len(parts):
            return None
        return min(sum(known), _RISE * self._least)

    @property
    def parts_left(self) -> dict[str, float | None]:
        """Seconds that each retriever still takes, None if unknown; empty before the first one begins.

        The last retriever's include the tests that follow. All are scaled down if the total would rise by over a tenth.
        """
        if not self._name:
            return {}
        parts = {name: self._left_of(name) for name in self._tasks}
        pending = [name for name in parts if name not in self._ended]
        last = (pending or [*parts])[-1]
        if (seconds := parts[last]) is not None:
            parts[last] = seconds + _TO_END
        known = [seconds for seconds in parts.values() if seconds is not None]
        if len(known) < len(parts):
            return parts
        total = sum(known)
        self._least = total if self._least is None else min(total, self._least)
        scale = min(1.0, _RISE * self._least / total)
        return {name: None if seconds is None else seconds * scale for name, seconds in parts.items()}

    def expected(self, name: str) -> float | None:
        task = self._tasks[name]
        return 0.0 if task.is_stored or not task.letters else self._measured(task)

    def characters(self, name: str) -> int:
        """Return how many characters a retriever reads; for a transformer, long texts count for more than they have."""
        return self._tasks[name].letters

    def _left_of(self, name: str) -> float | None:
        if name in self._ended:
            return 0.0
        expected = self.expected(name)
        if name != self._name:
            return expected
        task, now, first, last = self._tasks[name], self._clock() - self._began, self._first, self._last
        if first and last.share - first.share > _ENOUGH and last.seconds > first.seconds:
            whole = (last.seconds - first.seconds) / (last.share - first.share)
            return max(0.0, whole * (1 - last.share) - (now - last.seconds))
        if first and task.reader in self._known and expected is not None:
            return self._known[task.reader].each * task.letters * (1 - last.share)
        return None if expected is None else max(0.0, expected - now)

    def _measured(self, task: _Task) -> float | None:
        known = self._known.get(task.reader)
        return known.setup + known.each * task.letters if known else None


def _path() -> Path:
    return workspace() / "cache" / "pace.json"


def reader_of(spec: Spec) -> str:
    """Return what reads texts for a retriever, which decides how long that takes."""
    values = dict(spec.local)
    return " ".join([spec.kind, *(str(values[name]) for name in ("analyzer", "model", "precision") if name in values)])


@dataclass(frozen=True)
class Forecast:
    """Seconds that a retriever takes, None if unknown; a cautious upper bound unless `is_measured`."""

    seconds: float | None
    is_measured: bool = False


def forecasts(specs: Mapping[str, Spec], asked: QuestionSet) -> dict[str, Forecast]:
    """Return the forecast of each retriever by name, without what it wraps, as if nothing of it were cached."""
    pace = Pace()
    pace.begin(specs, asked, ())
    lengths = asked.passages.texts.lengths(), np.array([len(question.text) for question in asked.questions])
    characters = sum(round(reading_costs(side).sum()) for side in lengths)
    outside = HttpSpec | PluginSpec  # these search elsewhere, or run code of others: nothing is known
    return {
        name: Forecast(None) if isinstance(spec, outside) else _forecast(spec, pace, characters)
        for name, spec in specs.items()
    }


def in_total(parts: Sequence[Forecast]) -> Forecast:
    """Return the forecast of several retrievers, one after the other."""
    known = [part.seconds for part in parts if part.seconds is not None]
    if len(known) < len(parts):
        return Forecast(None)
    return Forecast(sum(known), all(part.is_measured for part in parts))


def _forecast(spec: Spec, pace: Pace, in_dataset: int) -> Forecast:
    """Return the forecast of one retriever; `in_dataset` is what reading each passage and question once costs."""
    measured = pace.expected(spec.name)
    if measured is not None:
        return Forecast(measured, is_measured=True)
    characters = pace.characters(spec.name)
    model = dict(spec.local).get("model")
    if model is None:
        return Forecast(characters * _ANALYZER_RATE)
    try:
        source = find_model(str(model))
    except (ModelError, OSError):
        return Forecast(None)
    if not source.packaged and is_starter(source):
        analyzed = min(characters, in_dataset)
        return Forecast(analyzed * _ANALYZER_RATE + (characters - analyzed) * _STARTER_PAIR_RATE)
    weights = _layer_weights(source)
    if weights is None:
        return Forecast(None)
    return Forecast(_START_SECONDS + characters * _TRANSFORMER_RATE * weights / _WEIGHTS)


def _layer_weights(source: ModelSource) -> float | None:
    """Return how many weights the layers of a transformer have, None if its configuration is not on this machine."""
    if source.packaged:
        return _WEIGHTS
    folder = source.folder
    for path in (folder / "config.json", *sorted(folder.glob("*/config.json"))) if folder else ():
        config = read_json(path)
        layers, width = config.get("num_hidden_layers"), config.get("hidden_size")
        if isinstance(layers, int) and isinstance(width, int):
            return 12.0 * layers * width**2
    return None
