"""A training's path in the plane of alignment and uniformity, from the figures that it logged as it went."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_ALIGNMENT, _UNIFORMITY = "alignment", "uniformity"
# as a training's progress writes both: by `entry_of`, as measured before its first step, and as its trainer logs them
_WRITTEN = ("validation_", "before_", "eval_validation_")


@dataclass(frozen=True)
class Trajectory:
    """Both figures of the validation part, `(n,)` float64, after `steps` `(n,)` int64, in the order of the steps."""

    steps: np.ndarray
    alignment: np.ndarray
    uniformity: np.ndarray


def trajectory(progress: Iterable[Mapping[str, Any]]) -> Trajectory:
    """Read the path from a training's `Job.progress()`; lines without both figures are passed over.

    Of a step that was logged twice, as by a training that was resumed, the last line counts.
    """
    found: dict[int, tuple[float, float]] = {}
    for entry in progress:
        step = entry.get("step")
        for written in _WRITTEN:
            figures = [entry.get(written + name) for name in (_ALIGNMENT, _UNIFORMITY)]
            if isinstance(step, int) and all(_is_number(one) for one in figures):
                found[step] = (float(figures[0] or 0), float(figures[1] or 0))
    steps = sorted(found)
    alignment, uniformity = np.array([found[step] for step in steps], dtype=np.float64).reshape(-1, 2).T
    return Trajectory(np.array(steps, dtype=np.int64), alignment, uniformity)


def entry_of(alignment: float, uniformity: float) -> dict[str, float]:
    """What a training adds to its progress after a validation, for `trajectory` to read."""
    return {_WRITTEN[0] + _ALIGNMENT: alignment, _WRITTEN[0] + _UNIFORMITY: uniformity}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
