"""What a run's progress looks like: each logged figure against the step, thinned for a chart."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from training.recipe import RECIPES
from training.runs.runs import Run

MOST_POINTS = 500
MEASURES = tuple(dict.fromkeys(name for recipe in RECIPES.values() for name in recipe.family.curves))
Points = list[tuple[int, float]]  # step and value


@dataclass(frozen=True)
class Curves:
    """The points of each name that was asked for, and what BM25 reaches where the name is a measure and that is known.

    A name that was never logged has no points; a figure that is no finite number is nan. `beside` holds what was seen
    on the other questions: a measure of the training sample, and the loss of the validation questions.
    """

    points: dict[str, Points]
    bm25: dict[str, float]
    beside: dict[str, Points]


def curves(run: Run, names: Iterable[str]) -> Curves:
    """Read figures of the run's progress: `loss`, `learning_rate`, `grad_norm`, `examples_per_second`, or `MEASURES`.

    The first point of a measure, at step 0, is the base model.
    """
    entries = run.progress()
    points = {name: thinned(_points(entries, name)) for name in names}
    bm25 = {name: found[0][1] for name in points if (found := _logged(entries, f"bm25_{name}"))}
    beside = {name: thinned(_logged(entries, *_beside(name))) for name in points}
    return Curves(points, bm25, beside)


def thinned(points: Sequence[tuple[int, float]], most: int = MOST_POINTS) -> Points:
    """Return at most `most` of the points, evenly spaced, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    return [points[row] for row in np.linspace(0, len(points) - 1, most).round().astype(int)]


def _points(entries: list[dict[str, Any]], name: str) -> Points:
    if name not in MEASURES:
        return _logged(entries, name)
    # bi-encoders were once measured by a library's evaluator, which names what it compares by
    names = (f"before_{name}", f"eval_validation_{name}", f"eval_validation_cosine_{name}")
    return _logged(entries, *names)


def _beside(name: str) -> tuple[str, ...]:
    if name in MEASURES:
        return f"before_training_{name}", f"eval_training_{name}"
    return ("eval_loss",) if name == "loss" else ()


def _logged(entries: list[dict[str, Any]], *keys: str) -> Points:
    found = [(entry.get("step"), entry[key]) for entry in entries for key in keys if key in entry]
    return [
        (step, float(value) if math.isfinite(value) else math.nan)
        for step, value in found
        if type(step) is int and isinstance(value, int | float)  # a line may be damaged
    ]
