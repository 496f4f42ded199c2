"""Differences that are tested together: p-values and intervals that hold for all of them, and agree with each other.

The statistic of a difference is t = |sum over groups| / root of the sum of squares over groups. Were there no
difference, the two retrievers could be swapped within any group, which turns the sign of the group's sum and leaves the
denominator as it is. One distribution serves the whole family: of the largest t after each swap (the single-step maxT
procedure of Westfall & Young 1993). So differences that go together cost little, and a copy of a retriever nothing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

LEVEL = 0.95
PERMUTATIONS = 10_000
_CELLS = 4_000_000  # of the random matrix that is in memory at a time
_ROUNDING = 1 - 1e-9  # what is equal but for rounding counts as equal


@dataclass(frozen=True)
class FamilyTests:
    """All `(m,)`: `p` of each difference alone, `p_family` for whoever looks at all, and the intervals' ends.

    An interval is that of the mean difference, for all means of the family at once at 95%. It holds 0 exactly where
    `p_family` is .05 or more.
    """

    p: np.ndarray
    p_family: np.ndarray
    low: np.ndarray
    high: np.ndarray


def family_tests(sums: np.ndarray, sizes: np.ndarray, families: np.ndarray) -> FamilyTests:
    """Test columns of differences, summed by group `(n_groups, m)`; groups have `sizes`, `(n_groups,)`.

    `families`, `(m,)` int, says which columns are tested together. Every swap is tried where there are few groups, else
    random ones, the same for all columns: the same differences give the same figures.
    """
    scale = np.sqrt((sums**2).sum(axis=0))
    scaled = np.divide(sums, scale, out=np.zeros_like(sums), where=scale > 0)
    seen = np.abs(scaled.sum(axis=0))
    members = [np.flatnonzero(families == family) for family in np.unique(families)]
    extreme, largest = np.zeros(len(seen)), []
    for signs in _swaps(len(sums)):
        tried = np.abs(signs @ scaled)
        extreme += (tried >= seen * _ROUNDING - 1e-12).sum(axis=0)
        largest.append(np.stack([tried[:, columns].max(axis=1) for columns in members], axis=1))
    # random swaps do not hold what was seen, which is one of them; all of them do
    itself = 0 if _countable(len(sums)) else 1
    highest = np.sort(np.concatenate(largest), axis=0)
    tries = len(highest) + itself
    p_family, low, high = (np.empty(len(seen)) for _ in range(3))
    for place, columns in enumerate(members):
        reached = len(highest) - np.searchsorted(highest[:, place], seen[columns] * _ROUNDING - 1e-12)
        p_family[columns] = (reached + itself) / tries
        # how many swaps may reach a difference that is still told apart
        allowed = int(np.ceil((1 - LEVEL) * tries - itself)) - 1
        critical = highest[-1 - allowed, place] / _ROUNDING if allowed >= 0 else np.inf
        low[columns], high[columns] = _intervals(sums[:, columns], sizes, max(critical, 1.0))
    return FamilyTests((extreme + itself) / tries, p_family, low, high)


def _intervals(sums: np.ndarray, sizes: np.ndarray, critical: float) -> tuple[np.ndarray, np.ndarray]:
    """Every mean difference d that would not be told apart from what was seen: t of `sums` - d * `sizes` <= critical.

    Squared, that is a quadratic in d. Differences of shares lie between -1 and 1, so what is open ends there.
    """
    n, total, square = sizes.sum(), sums.sum(axis=0), critical**2
    leading = n**2 - square * (sizes**2).sum()
    if not leading > 0:  # so few groups that nothing can be told
        return np.full(sums.shape[1], -1.0), np.full(sums.shape[1], 1.0)
    middle = total * n - square * (sizes @ sums)
    last = total**2 - square * (sums**2).sum(axis=0)
    root = np.sqrt(np.maximum(middle**2 - leading * last, 0.0))
    return np.maximum((middle - root) / leading, -1.0), np.minimum((middle + root) / leading, 1.0)


def _countable(n_groups: int) -> bool:
    return n_groups < 64 and 1 << n_groups <= PERMUTATIONS


def _swaps(n_groups: int) -> Iterator[np.ndarray]:
    """Signs by which groups are swapped, `(rows, n_groups)` of 1 and -1: all there are, else random ones."""
    if _countable(n_groups):
        yield 1.0 - 2.0 * ((np.arange(2**n_groups)[:, None] >> np.arange(n_groups)) & 1)
        return
    rng = np.random.default_rng(0)
    yield from blocks(
        PERMUTATIONS, n_groups, lambda rows: rng.integers(0, 2, size=(rows, n_groups), dtype=np.int8) * 2.0 - 1.0
    )


def blocks(rows: int, columns: int, make: Callable[[int], np.ndarray]) -> Iterator[np.ndarray]:
    """Make a matrix of so many rows and columns in parts that fit into memory."""
    step = max(1, _CELLS // max(1, columns))
    return (make(min(step, rows - start)) for start in range(0, rows, step))
