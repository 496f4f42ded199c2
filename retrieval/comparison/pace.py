"""The progress and the remaining time of a comparison, and forecasts before it starts.

A retriever takes seconds to start (it loads a model) and seconds for each character that it analyzes, encodes or reads
in pairs. Each search measures both, and the workspace stores them by reader: an analyzer, or a model in a precision.
The first comparison reports the remaining time once every remaining retriever is measured or running.

`forecast_retrievers` uses these measurements, or cautious rates that a slow processor under load reaches:

- an analyzer or a starter model reads a character in 50 microseconds, and a starter reranker, which analyzes each text
  once, scores a character of a pair in 2 microseconds;
- a transformer reads a character in 1 millisecond for each 21 million weights of its layers (as in
  multilingual-e5-small), counted as 12 x layers x width squared, from its `config.json`;
- a model without a `config.json` on this machine has no forecast.
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

# seconds per character of readers without measurements, for the progress bar only
_DEFAULT_RATE = 5e-6
_DEFAULT_MODEL_RATE = 2e-4
_MIN_STORED_SECONDS = 0.3  # shorter searches do not predict longer ones
_MIN_FRACTION = 0.05  # of its work, after which a running retriever predicts its own time
_FINAL_SECONDS = 2.0  # to test, write and display results
_MAX_RISE = 1.1  # times the lowest reported value: users plan by it

_ANALYZER_RATE = 5e-5  # seconds per character
_STARTER_PAIR_RATE = 2e-6  # seconds per character of a pair of analyzed texts
_TRANSFORMER_RATE = 1e-3  # seconds per character, for `_REFERENCE_WEIGHTS`
_REFERENCE_WEIGHTS = 12 * 12 * 384**2
_START_SECONDS = 5.0  # to load a transformer


class _MeasuredSpeed(BaseModel):
    setup_seconds: FiniteFloat = 0.0
    seconds_per_character: FiniteFloat


@dataclass(frozen=True)
class _Task:
    reader: str
    characters: int
    is_stored: bool  # its rankings are on disk
    default_rate: float  # seconds per character
    reports_progress: bool  # unless its vectors and tokens are cached


@dataclass(frozen=True)
class _Observation:
    seconds: float  # since the retriever began
    fraction: float


class TimeEstimator:
    """Estimates the progress and remaining time of a comparison from `update`."""

    def __init__(self, lowest_reported: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`lowest_reported` is the lowest remaining time that another process of this comparison reported."""
        self._clock = clock
        self._lowest_reported = lowest_reported
        self._tasks: dict[str, _Task] = {}
        self._known_speeds: dict[str, _MeasuredSpeed] = {}
        self._name = ""
        self._started_at = clock()
        self._finished: set[str] = set()
        self._first_observation: _Observation | None = None
        self._last_observation = _Observation(0.0, 0.0)

    def start(self, specs: Mapping[str, Spec], evaluated: QuestionSet, cached_names: Collection[str]) -> None:
        """Start a comparison; retrievers with cached rankings take no time."""
        lengths = evaluated.passages.texts.lengths(), np.array([len(question.text) for question in evaluated.questions])
        characters = [round(text_lengths.sum()) for text_lengths in lengths]
        costs = [round(reading_costs(text_lengths).sum()) for text_lengths in lengths]
        self._tasks = {
            name: _Task(
                reader_key(spec),
                spec.characters_read(*map(len, lengths), *(costs if spec.needs_model else characters)),
                name in cached_names,
                _DEFAULT_MODEL_RATE if getattr(spec, "model", STARTER) != STARTER else _DEFAULT_RATE,
                not spec.components,
            )
            for name, spec in specs.items()
        }
        self._known_speeds = {}
        for reader, values in read_json(_rates_path()).items():
            with suppress(ValidationError):  # measured again
                self._known_speeds[reader] = _MeasuredSpeed.model_validate(values)

    def update(self, name: str, fraction: float) -> float:
        """Update the running retriever and its progress, 0 to 1; returns the progress of the comparison."""
        if name != self._name:
            self.finish()
            self._name = name
            self._started_at = self._clock()
            self._first_observation = None
            self._finished.discard(name)
        self._last_observation = _Observation(self._clock() - self._started_at, fraction)
        if fraction > 0 and self._first_observation is None:
            self._first_observation = self._last_observation
        weights = {}
        for other_name, task in self._tasks.items():
            seconds = self._measured_seconds(task)
            weights[other_name] = task.default_rate * task.characters if seconds is None else seconds
        finished_weight = sum(weight for other_name, weight in weights.items() if other_name in self._finished)
        return (finished_weight + weights[name] * fraction) / max(sum(weights.values()), 1e-9)

    def finish(self) -> None:
        if not self._name or self._name in self._finished:
            return
        self._finished.add(self._name)
        task = self._tasks[self._name]
        seconds = self._clock() - self._started_at
        first = self._first_observation
        last = self._last_observation
        is_measurable = task.characters and not task.is_stored and (first or not task.reports_progress)
        if not is_measurable or seconds < _MIN_STORED_SECONDS:
            return
        setup_seconds = 0.0
        seconds_per_character = seconds / task.characters
        if first and last.fraction - first.fraction > 0.2 and last.seconds - first.seconds > _MIN_STORED_SECONDS:
            seconds_per_character = (last.seconds - first.seconds) / (last.fraction - first.fraction) / task.characters
            setup_seconds = max(0.0, seconds - seconds_per_character * task.characters)
        measured = _MeasuredSpeed(setup_seconds=setup_seconds, seconds_per_character=seconds_per_character)
        with suppress(OSError):  # a full disk
            write_json(_rates_path(), {**read_json(_rates_path()), task.reader: measured.model_dump()})

    @property
    def seconds_left(self) -> float | None:
        """Remaining seconds, None if unknown; at most a tenth above the lowest reported value."""
        seconds_by_retriever = self.seconds_left_by_retriever
        known = [seconds for seconds in seconds_by_retriever.values() if seconds is not None]
        if self._lowest_reported is None or not seconds_by_retriever or len(known) < len(seconds_by_retriever):
            return None
        return min(sum(known), _MAX_RISE * self._lowest_reported)

    @property
    def seconds_left_by_retriever(self) -> dict[str, float | None]:
        """Remaining seconds by retriever, None if unknown; empty before the first one starts.

        Those of the last retriever include the final tests. All are scaled down if the total rises by over a tenth.
        """
        if not self._name:
            return {}
        seconds_by_retriever = {name: self._remaining_seconds(name) for name in self._tasks}
        pending = [name for name in seconds_by_retriever if name not in self._finished]
        last = (pending or [*seconds_by_retriever])[-1]
        if (seconds := seconds_by_retriever[last]) is not None:
            seconds_by_retriever[last] = seconds + _FINAL_SECONDS
        known = [seconds for seconds in seconds_by_retriever.values() if seconds is not None]
        if len(known) < len(seconds_by_retriever):
            return seconds_by_retriever
        total = sum(known)
        self._lowest_reported = total if self._lowest_reported is None else min(total, self._lowest_reported)
        scale = min(1.0, _MAX_RISE * self._lowest_reported / total)
        return {name: None if seconds is None else seconds * scale for name, seconds in seconds_by_retriever.items()}

    def expected_seconds(self, name: str) -> float | None:
        task = self._tasks[name]
        return 0.0 if task.is_stored or not task.characters else self._measured_seconds(task)

    def characters(self, name: str) -> int:
        """Return the characters that a retriever reads; long texts of a transformer count more."""
        return self._tasks[name].characters

    def _remaining_seconds(self, name: str) -> float | None:
        if name in self._finished:
            return 0.0
        expected = self.expected_seconds(name)
        if name != self._name:
            return expected
        task = self._tasks[name]
        now = self._clock() - self._started_at
        first = self._first_observation
        last = self._last_observation
        if first and last.fraction - first.fraction > _MIN_FRACTION and last.seconds > first.seconds:
            total = (last.seconds - first.seconds) / (last.fraction - first.fraction)
            return max(0.0, total * (1 - last.fraction) - (now - last.seconds))
        if first and task.reader in self._known_speeds and expected is not None:
            return self._known_speeds[task.reader].seconds_per_character * task.characters * (1 - last.fraction)
        return None if expected is None else max(0.0, expected - now)

    def _measured_seconds(self, task: _Task) -> float | None:
        known = self._known_speeds.get(task.reader)
        return known.setup_seconds + known.seconds_per_character * task.characters if known else None


def _rates_path() -> Path:
    return workspace() / "cache" / "pace.json"


def reader_key(spec: Spec) -> str:
    """Return the key of a retriever's reader: its kind, analyzer, model and precision."""
    values = dict(spec.local_spec)
    return " ".join([spec.kind, *(str(values[name]) for name in ("analyzer", "model", "precision") if name in values)])


@dataclass(frozen=True)
class Forecast:
    """Seconds of a retriever, None if unknown; a cautious upper bound unless `is_measured`."""

    seconds: float | None
    is_measured: bool = False


def forecast_retrievers(specs: Mapping[str, Spec], evaluated: QuestionSet) -> dict[str, Forecast]:
    """Return the forecast of each retriever by name, without its components and caches."""
    estimator = TimeEstimator()
    estimator.start(specs, evaluated, ())
    lengths = evaluated.passages.texts.lengths(), np.array([len(question.text) for question in evaluated.questions])
    characters = sum(round(reading_costs(text_lengths).sum()) for text_lengths in lengths)
    external_specs = HttpSpec | PluginSpec  # engines and code of users
    return {
        name: Forecast(None) if isinstance(spec, external_specs) else _forecast(spec, estimator, characters)
        for name, spec in specs.items()
    }


def total_forecast(forecasts: Sequence[Forecast]) -> Forecast:
    """Return the forecast of several retrievers in sequence."""
    seconds = [forecast.seconds for forecast in forecasts if forecast.seconds is not None]
    if len(seconds) < len(forecasts):
        return Forecast(None)
    return Forecast(sum(seconds), all(forecast.is_measured for forecast in forecasts))


def _forecast(spec: Spec, estimator: TimeEstimator, dataset_characters: int) -> Forecast:
    """Return the forecast of one retriever; `dataset_characters` are those of all passages and questions."""
    measured = estimator.expected_seconds(spec.name)
    if measured is not None:
        return Forecast(measured, is_measured=True)
    characters = estimator.characters(spec.name)
    model = dict(spec.local_spec).get("model")
    if model is None:
        return Forecast(characters * _ANALYZER_RATE)
    try:
        source = find_model(str(model))
    except (ModelError, OSError):
        return Forecast(None)
    if not source.packaged and is_starter(source):
        analyzed = min(characters, dataset_characters)
        return Forecast(analyzed * _ANALYZER_RATE + (characters - analyzed) * _STARTER_PAIR_RATE)
    weights = _layer_weights(source)
    if weights is None:
        return Forecast(None)
    return Forecast(_START_SECONDS + characters * _TRANSFORMER_RATE * weights / _REFERENCE_WEIGHTS)


def _layer_weights(source: ModelSource) -> float | None:
    """Return the number of weights in a transformer's layers, None without its configuration."""
    if source.packaged:
        return _REFERENCE_WEIGHTS
    folder = source.folder
    for path in (folder / "config.json", *sorted(folder.glob("*/config.json"))) if folder else ():
        config = read_json(path)
        layers = config.get("num_hidden_layers")
        width = config.get("hidden_size")
        if isinstance(layers, int) and isinstance(width, int):
            return 12.0 * layers * width**2
    return None
