"""A question in the making, and which passages are asked about."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Progress = Callable[[int, int], None]  # passages done, passages in all


class Draft(NamedTuple):
    """What asks, the row of the passage it was made of, and whether training is to take it out there."""

    text: str
    row: int
    hidden: bool = False


def drawn(count: int, most: int, seed: int) -> list[int]:
    """Return `most` of the numbers below `count` in ascending order, all where `most` is 0.

    Those drawn for a smaller `most` are among those drawn for a larger one: a preview shows what will be made.
    """
    numbers = np.random.default_rng(seed).permutation(count)
    return sorted(numbers[: most or count].tolist())
