"""Confidence intervals, and differences that are tested together: one engine for all rooms.

Related rows, as questions about one passage or pairs that share a sentence, are resampled as a group (the cluster
bootstrap: Davison & Hinkley 1997, 3.8). Differences that are tested together share one distribution, that of the
largest statistic of the family under chance (the single-step maxT procedure of Westfall & Young 1993): correlated ones
cost little, and a copy nothing. Everything is seeded.
"""

import math
from collections.abc import Iterator

import numpy as np

LEVEL = 0.95
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
RESAMPLES = 2000
_ROUNDING = 1e-12


def blocks(count: int, columns: int, cells: int) -> Iterator[int]:
    """Yield how many rows at a time of a matrix of `count` rows hold no more than so many `cells`, one at least."""
    step = max(1, cells // max(1, columns))
    return (min(step, count - start) for start in range(0, count, step))


def group_draws(n_groups: int, sizes: Iterator[int], seed: int = 0, *, by_group: bool = False) -> Iterator[np.ndarray]:
    """Yield how often each group is drawn in resamples of as many groups as there are, `(size, n_groups)` float64.

    Random numbers are drawn resample by resample, or `by_group` for all resamples of a block.
    """
    rng = np.random.default_rng(seed)
    for size in sizes:
        drawn = rng.integers(n_groups, size=(n_groups, size) if by_group else (size, n_groups))
        cells = (drawn.T if by_group else drawn) + np.arange(size)[:, None] * n_groups
        yield np.bincount(cells.ravel(), minlength=size * n_groups).reshape(size, n_groups).astype(np.float64)


def max_t(seen: np.ndarray, largest: np.ndarray, itself: int = 1) -> tuple[np.ndarray, float]:
    """Return the p-values `(m,)` of a family's statistics, and the critical value of its intervals.

    `largest` `(tries,)`, ascending, is the largest statistic of the family in each try under chance; `seen` counts as
    one more try if it is not among them (`itself` 1, else 0). A statistic above the critical value has p below 5 %;
    with few tries none has, and the value is infinite.
    """
    tries = len(largest) + itself
    p = (len(largest) - np.searchsorted(largest, seen) + itself) / tries
    allowed = math.ceil((1 - LEVEL) * tries - itself - _ROUNDING) - 1  # tries that may reach what is still told apart
    return p, float(largest[-1 - allowed]) if allowed >= 0 else math.inf
