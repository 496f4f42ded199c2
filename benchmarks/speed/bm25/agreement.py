"""Whether the engines find the same, for some of the questions."""

from collections.abc import Sequence

import numpy as np

from benchmarks.speed.bm25.asked import Asked
from benchmarks.speed.bm25.engine import Engine, Words

_K, _MOST = 10, 1e-4  # of a score


def difference(one: Engine, other: Engine, questions: Sequence[Words]) -> float:
    """Return by how much of itself any score of the best ten differs; raises `ValueError` where that is too much."""
    (_, scores), (_, others) = (engine.found(questions, _K) for engine in (one, other))
    worst = float(np.max(np.abs(scores - others) / np.maximum(others, _MOST)))
    if not worst <= _MOST:
        raise ValueError(f"{one.name} and {other.name} should score alike, and differ by {worst:.2g} of a score")
    return worst


def overlap(one: Engine, other: Engine, questions: Sequence[Words]) -> float:
    """Return the share of the best ten of one engine that are among those of the other."""
    (rows, _), (others, _) = (engine.found(questions, _K) for engine in (one, other))
    both = (rows[:, :, None] == others[:, None, :]) & (rows >= 0)[:, :, None]
    return float(both.any(axis=2).sum() / (rows >= 0).sum())


def own_passage_found(engine: Engine, asked: Asked) -> float:
    """Return the share of questions whose own passage is among the best ten."""
    return float((engine.found(asked.questions, _K)[0] == asked.relevant[:, None]).any(axis=1).mean())
