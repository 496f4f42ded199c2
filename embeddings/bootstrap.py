"""How sure a figure is: the bootstrap over groups of pairs, seeded, many resamples at a time.

Pairs that share a sentence stand or fall together, so what is drawn is never a pair alone but the group of all pairs
that hang together by their sentences (the cluster bootstrap: Davison & Hinkley 1997, 3.8). A resample is a weight for
each pair, how often it was drawn, so a figure of 2,000 resamples is a product of matrices.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

RESAMPLES = 2000
LEVEL = 0.95
_TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
_ROUNDING = 1e-12  # figures that differ by less are the same
_CELLS = 300_000  # of the matrix of weights at a time: what a processor has at hand


class Figure(NamedTuple):
    """A figure and the ends of its 95% interval; all NaN where it is not defined."""

    value: float
    low: float
    high: float


UNDEFINED = Figure(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Difference:
    """A figure of a less that of b. `p` is that of this pair alone, `p_holm` allows for all pairs tested together."""

    a: str
    b: str
    difference: float
    low: float
    high: float
    p: float
    p_holm: float

    @property
    def sure(self) -> bool:
        """Whether the two can be told apart, all pairs considered."""
        return self.p_holm < 1 - LEVEL


def resamples(groups: np.ndarray, count: int = RESAMPLES, seed: int = 0) -> Iterator[np.ndarray]:
    """Yield how often each row is drawn in each resample, `(n_rows, some)` float64, `count` resamples in all.

    `groups` `(n_rows,)` numbers the group of a row from 0 without gaps. As many groups are drawn as there are, with
    replacement, each with all its rows.
    """
    rng, n_groups = np.random.default_rng(seed), int(groups.max(initial=-1)) + 1
    step = max(1, _CELLS // max(1, len(groups)))
    for start in range(0, count, step):
        width = min(step, count - start)
        drawn = rng.integers(n_groups, size=(n_groups, width)) * width + np.arange(width)
        times = np.bincount(drawn.ravel(), minlength=n_groups * width).reshape(n_groups, width)
        yield times.astype(np.float64)[groups]


def mean_draws(values: np.ndarray, groups: np.ndarray, count: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """Means of the columns of `values` `(n_rows, m)` in each resample, `(count, m)`."""
    return np.concatenate([drawn.T @ values / drawn.sum(axis=0)[:, None] for drawn in resamples(groups, count, seed)])


def figure(value: float, draws: np.ndarray, ends: tuple[float, float]) -> Figure:
    """A figure with the 95% percentile interval of its resamples `(count,)`; those that are NaN are left out.

    Where no resample differs, as of a single group, nothing is known of its spread: the interval is open to the `ends`
    that the figure cannot pass.
    """
    if not math.isfinite(value):
        return UNDEFINED
    known = draws[np.isfinite(draws)]
    if not len(known) or np.ptp(known) < _ROUNDING:
        return Figure(value, *ends)
    low, high = np.quantile(known, _TAILS)
    return Figure(value, float(low), float(high))


def differences(values: Sequence[float], draws: np.ndarray, names: Sequence[str]) -> list[Difference]:
    """Test every pair of models by the figures `(m,)` of all and those of the same resamples, `draws` `(count, m)`.

    With D* the difference in a resample, the interval is that of the percentiles of D*, and

        p = min(1, 2 (1 + min(#{D* <= 0}, #{D* >= 0})) / (count + 1))

    (Efron & Tibshirani 1993, 15.4, of both sides; the figures themselves count as one resample, Davison & Hinkley 1997,
    4.2). All pairs are a family: `p_holm`. A model with a figure that is NaN is in no test.
    """
    known = [place for place, value in enumerate(values) if math.isfinite(value)]
    pairs = [*combinations(known, 2)]
    if not pairs:
        return []
    drawn = np.stack([draws[:, a] - draws[:, b] for a, b in pairs], axis=1)
    drawn = drawn[np.isfinite(drawn).all(axis=1)]
    fewer = np.minimum((drawn <= 0).sum(axis=0), (drawn >= 0).sum(axis=0))
    p = np.minimum(1.0, 2 * (1 + fewer) / (len(drawn) + 1))
    low, high = np.quantile(drawn, _TAILS, axis=0)
    return [
        Difference(names[a], names[b], values[a] - values[b], *map(float, told))
        for (a, b), *told in zip(pairs, low, high, p, holm(p), strict=True)
    ]


def holm(p: np.ndarray) -> np.ndarray:
    """Correct p-values `(n,)` of tests made together: 95 of 100 such families then hold no false alarm (Holm 1979)."""
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(raised, 1.0)
    return corrected
