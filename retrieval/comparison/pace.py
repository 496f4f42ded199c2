"""How far a comparison is, and how long it takes yet, weighed by what each retriever has to read.

What takes time is text: analyzed, encoded, or read in pairs. A retriever takes some seconds to begin (a model is
loaded) and some for each character, or what `reading_costs` makes of it. Both are measured whenever one is searched,
and kept in the workspace by what reads: an analyzer, or a model in a precision. So the next comparison knows before it
begins; the first one tells the time left once all that is yet to come is known or has begun.

Before anything is started, `forecasts` are by what was measured, or by the characters to read, at rates that a slow,
busy processor reaches as well:

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
from mrc_workbench.models.encoders.vector_blocks import reading_costs
from mrc_workbench.models.hub import ModelError
from mrc_workbench.models.sources import STARTER, ModelSource, find_model, is_starter
from mrc_workbench.retrieval.comparison.first_stage import HttpSpec, PluginSpec
from mrc_workbench.retrieval.comparison.spec import Spec

# seconds a character, of whoever was never measured: how much of the bar it gets, and no more
_GUESS, _GUESS_OF_MODELS = 5e-6, 2e-4
_WORTH_KEEPING = 0.3  # seconds: what took less tells nothing of a longer one
_ENOUGH = 0.05  # share of its work after which a retriever at work is judged by itself
_TO_END = 2.0  # seconds: what was found is tested, written and drawn
_RISE = 1.1  # times the least that was told: people plan by it


class _Measured(BaseModel):
    setup: FiniteFloat = 0.0  # seconds
    each: FiniteFloat  # seconds a character


@dataclass(frozen=True)
class _Task:
    reader: str  # whose pace it is
    letters: int
    kept: bool  # it is found on disk
    guess: float  # seconds a character
    tells: bool  # how much it has read, where it reads at all: vectors and tokens may be kept


@dataclass(frozen=True)
class _Seen:
    seconds: float  # since the retriever was begun
    share: float


class Pace:
    """One comparison's. `at` is told of each retriever in turn how much of its own work is done."""

    def __init__(self, least: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`least` is the time left that was told last, where another process began this comparison."""
        self._clock, self._least = clock, least
        self._tasks: dict[str, _Task] = {}
        self._known: dict[str, _Measured] = {}
        self._name, self._began = "", clock()
        self._ended: set[str] = set()
        self._first: _Seen | None = None
        self._last = _Seen(0.0, 0.0)

    def begin(self, specs: Mapping[str, Spec], asked: QuestionSet, kept: Collection[str]) -> None:
        """Note what is to be done; what is `kept` on disk takes no time."""
        lengths = asked.passages.texts.lengths(), np.array([len(question.text) for question in asked.questions])
        letters = [round(of.sum()) for of in lengths]
        costs = [round(reading_costs(of).sum()) for of in lengths]
        self._tasks = {
            name: _Task(
                spec.reader,
                spec.letters_read(*map(len, lengths), *(costs if spec.needs_model else letters)),
                name in kept,
                # a starter reads words, and a transformer multiplies matrices
                _GUESS_OF_MODELS if getattr(spec, "model", STARTER) != STARTER else _GUESS,
                not spec.parts,
            )
            for name, spec in specs.items()
        }
        self._known = {}
        for reader, values in read_json(_place()).items():
            with suppress(ValidationError):  # what cannot be read is measured again
                self._known[reader] = _Measured.model_validate(values)

    def at(self, name: str, share: float) -> float:
        """Hear that a retriever is at work and how much it has done, 0 to 1; returns the share of all that is done."""
        if name != self._name:
            self.end()
            self._name, self._began, self._first = name, self._clock(), None
            self._ended.discard(name)
        self._last = _Seen(self._clock() - self._began, share)
        if share > 0 and self._first is None:
            self._first = self._last
        weights = {
            one: task.guess * task.letters if (seconds := self._measured(task)) is None else seconds
            for one, task in self._tasks.items()
        }
        before = sum(weight for one, weight in weights.items() if one in self._ended)
        return (before + weights[name] * share) / max(sum(weights.values()), 1e-9)

    def end(self) -> None:
        """Hear that the retriever at work has ended, and keep what it took."""
        if not self._name or self._name in self._ended:
            return
        self._ended.add(self._name)
        if (task := self._tasks[self._name]).kept or not task.letters:
            return
        seconds, first, last = self._clock() - self._began, self._first, self._last
        if seconds < _WORTH_KEEPING or (task.tells and not first):
            return
        measured = _Measured(each=seconds / task.letters)
        if first and last.share - first.share > 0.2 and last.seconds - first.seconds > _WORTH_KEEPING:
            each = (last.seconds - first.seconds) / (last.share - first.share) / task.letters
            measured = _Measured(each=each, setup=max(0.0, seconds - each * task.letters))
        with suppress(OSError):  # a full disk costs an estimate
            write_json(_place(), {**read_json(_place()), task.reader: measured.model_dump()})

    @property
    def seconds_left(self) -> float | None:
        """Seconds that all takes yet, None where nobody knows; never a tenth more than it said before."""
        total = self._total(self._uncapped())
        return None if total is None else min(total, _RISE * self._least_of(total))

    @property
    def parts_left(self) -> dict[str, float | None]:
        """Seconds that each retriever still takes, None where unknown; empty before the first one begins.

        They add up to `seconds_left`: the last retriever's include the tests that follow it. Where the total would
        rise by more than a tenth, all of them are scaled down.
        """
        parts = self._uncapped()
        total = self._total(parts)
        if total is None:
            return parts
        scale = min(1.0, _RISE * self._least_of(total) / total)
        return {name: None if seconds is None else seconds * scale for name, seconds in parts.items()}

    def _uncapped(self) -> dict[str, float | None]:
        if not self._name:
            return {}
        parts = {name: self._left_of(name) for name in self._tasks}
        pending = [name for name in parts if name not in self._ended]
        last = (pending or [*parts])[-1]
        if (seconds := parts[last]) is not None:
            parts[last] = seconds + _TO_END
        return parts

    def _total(self, parts: Mapping[str, float | None]) -> float | None:
        known = [seconds for seconds in parts.values() if seconds is not None]
        return sum(known) if len(known) == len(parts) > 0 else None

    def _least_of(self, total: float) -> float:
        """Return the least time left that was told so far, this one included."""
        self._least = total if self._least is None else min(total, self._least)
        return self._least

    def _left_of(self, name: str) -> float | None:
        if name in self._ended:
            return 0.0
        return self._left_here() if name == self._name else self.expected(name)

    def expected(self, name: str) -> float | None:
        """Seconds that a retriever takes as a whole, None where nobody knows."""
        task = self._tasks[name]
        return 0.0 if task.kept or not task.letters else self._measured(task)

    def characters(self, name: str) -> int:
        """Return how many characters a retriever reads; with a transformer a long text counts as more than it has."""
        return self._tasks[name].letters

    def _left_here(self) -> float | None:
        task, now, seen = self._tasks[self._name], self._clock() - self._began, self._last
        if self._first and seen.share - self._first.share > _ENOUGH and seen.seconds > self._first.seconds:
            a_share = (seen.seconds - self._first.seconds) / (seen.share - self._first.share)
            return max(0.0, a_share * (1 - seen.share) - (now - seen.seconds))
        expected, known = self.expected(self._name), self._known.get(task.reader)
        if expected is None:
            return None
        if known and self._first:
            return known.each * task.letters * (1 - seen.share)
        return max(0.0, expected - now)

    def _measured(self, task: _Task) -> float | None:
        known = self._known.get(task.reader)
        return known.setup + known.each * task.letters if known else None


def expected_seconds(spec: Spec, asked: QuestionSet) -> float | None:
    """Seconds that a retriever takes of which nothing is kept; None where nobody has measured what it reads with."""
    pace = Pace()
    pace.begin({spec.name: spec}, asked, ())
    return pace.expected(spec.name)


def _place() -> Path:
    return workspace() / "cache" / "pace.json"


_ANALYZER_RATE = 5e-5  # seconds a character
_STARTER_PAIR_RATE = 2e-6  # seconds a character of a pair whose texts are analyzed already
_TRANSFORMER_RATE = 1e-3  # seconds a character, for `_WEIGHTS`
_WEIGHTS = 12 * 12 * 384**2
_START_SECONDS = 5.0  # to load a transformer


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
    return _weights_of(source.folder) if source.folder else None


def _weights_of(folder: Path) -> float | None:
    for path in (folder / "config.json", *sorted(folder.glob("*/config.json"))):
        config = read_json(path)
        layers, width = config.get("num_hidden_layers"), config.get("hidden_size")
        if isinstance(layers, int) and isinstance(width, int):
            return 12.0 * layers * width**2
    return None
