"""What a run's progress looks like: loss and validation measure against the step, thinned for a chart."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from training.options import Kind
from training.runs import Run

MOST_POINTS = 500
_MEASURED = {
    Kind.BI_ENCODER: ("recall@10", "eval_validation_cosine_recall@10"),
    Kind.CROSS_ENCODER: ("ndcg@10", "eval_validation_ndcg@10"),
}
Points = list[tuple[int, float]]  # step and value


@dataclass(frozen=True)
class Curves:
    """Loss and the kind's main measure on the validation questions, with what BM25 reaches there where known."""

    loss: Points
    measure: str  # as in scores.json
    measured: Points
    bm25: float | None


def curves(run: Run, kind: Kind) -> Curves:
    """Read the run's progress as curves; the first measured point, at step 0, is the base model."""
    entries = run.progress()
    measure, logged = _MEASURED[kind]
    bm25 = _points(entries, f"bm25_{measure}")
    return Curves(
        loss=thinned(_points(entries, "loss")),
        measure=measure,
        measured=thinned(_points(entries, f"before_{measure}") + _points(entries, logged)),
        bm25=bm25[0][1] if bm25 else None,
    )


def thinned(points: Sequence[tuple[int, float]], most: int = MOST_POINTS) -> Points:
    """Return at most `most` of the points, evenly spaced, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    return [points[row] for row in np.linspace(0, len(points) - 1, most).round().astype(int)]


def _points(entries: list[dict[str, Any]], key: str) -> Points:
    return [(int(entry["step"]), float(entry[key])) for entry in entries if key in entry and "step" in entry]
