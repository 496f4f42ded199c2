"""How long each retriever is expected to take on a question set, before anything is started.

A reader (an analyzer, or a model in a precision) that this machine has measured, see `pace`, is forecast by that. Any
other is forecast by the characters to read, at rates that a slow, busy processor reaches as well:

- an analyzer or a starter model reads a character in 50 microseconds, and a starter reranker, which analyzes each text
  once, scores a character of a pair in 2 microseconds;
- a transformer reads a character in 1 millisecond for each 21 million weights of its layers (multilingual-e5-small has
  so many), counted as 12 x layers x width squared, from its `config.json`;
- a model that is not on this machine, or has no such file, has no forecast.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.workspace import read_json
from mrc_workbench.models.encoders.vector_blocks import reading_costs
from mrc_workbench.models.hub import ModelError
from mrc_workbench.models.sources import ModelSource, find_model, is_starter
from mrc_workbench.retrieval.comparison.outside_specs import HttpSpec, PluginSpec
from mrc_workbench.retrieval.comparison.pace import Pace
from mrc_workbench.retrieval.comparison.spec import Spec

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
