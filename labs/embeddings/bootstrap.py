"""How sure a figure of pairs is, and which models can be told apart: the bootstrap over groups of pairs.

A resample is a weight for each pair, how often it was drawn, so a figure of 2,000 resamples is a product of matrices.
See `data.statistics` for what is drawn, and what being tested together means.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from mrc_workbench.data.statistics import RESAMPLES, TAILS, blocks, group_draws, max_t
from mrc_workbench.retrieval.significance import Interval, PairedTest

_ROUNDING = 1e-12  # figures that differ by less are the same
_CELLS = 300_000  # of the matrix of weights at a time: what a processor has at hand
UNDEFINED = Interval(math.nan, math.nan, math.nan)


def resamples(groups: np.ndarray, count: int = RESAMPLES, seed: int = 0) -> Iterator[np.ndarray]:
    """Yield how often each row is drawn in each resample, `(n_rows, some)` float64, `count` resamples in all.

    `groups` `(n_rows,)` numbers the group of a row from 0 without gaps. As many groups are drawn as there are, with
    replacement, each with all its rows.
    """
    n_groups = int(groups.max(initial=-1)) + 1
    for times in group_draws(n_groups, blocks(count, len(groups), _CELLS), seed, by_group=True):
        yield np.ascontiguousarray(times.T)[groups]


def mean_draws(values: np.ndarray, groups: np.ndarray, count: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """Means of the columns of `values` `(n_rows, m)` in each resample, `(count, m)`; cells that are NaN are left out.

    NaN where a resample holds no other.
    """
    known = np.isfinite(values)
    filled, present = np.where(known, values, 0.0), known.astype(np.float64)
    found = []
    for drawn in resamples(groups, count, seed):
        sums, sizes = drawn.T @ filled, drawn.T @ present
        found.append(np.divide(sums, sizes, out=np.full_like(sums, np.nan), where=sizes > 0))
    return np.concatenate(found)


def figure(value: float, draws: np.ndarray, ends: tuple[float, float]) -> Interval:
    """A figure with the 95% percentile interval of its resamples `(count,)`; those that are NaN are left out.

    Where no resample differs, as of a single group, nothing is known of its spread: the interval is open to the `ends`
    that the figure cannot pass.
    """
    if not math.isfinite(value):
        return UNDEFINED
    known = draws[np.isfinite(draws)]
    if not len(known) or np.ptp(known) < _ROUNDING:
        return Interval(value, *ends)
    low, high = np.quantile(known, TAILS)
    return Interval(value, float(low), float(high))


def mean_figures(
    values: Mapping[str, np.ndarray], groups: np.ndarray, ends: tuple[float, float], seed: int = 0
) -> tuple[dict[str, Interval], list[PairedTest]]:
    """Means of each model's values `(n_rows,)` with their intervals, and the models told apart, all on one resampling.

    `groups` `(n_rows,)` are the rows', `ends` what a mean cannot pass. Values that are NaN are left out of the mean.
    """
    names, columns = [*values], np.stack([*values.values()], axis=1)
    draws, known = mean_draws(columns, groups, seed=seed), np.isfinite(columns)
    sizes, sums = known.sum(axis=0), np.where(known, columns, 0.0).sum(axis=0)
    means = [float(total / size) if size else math.nan for total, size in zip(sums, sizes, strict=True)]
    figures = {name: figure(means[place], draws[:, place], ends) for place, name in enumerate(names)}
    return figures, differences(means, draws, names)


def differences(values: Sequence[float], draws: np.ndarray, names: Sequence[str]) -> list[PairedTest]:
    """Test every pair of models by the figures `(m,)` of all and those of the same resamples, `draws` `(count, m)`.

    With D a difference, s the standard deviation of it in the resamples D*, and t = |D| / s, what chance does is told
    by t* = |D* - D| / s: `p` is the share of t* that reach t, `p_family` that of the largest t* of all pairs in each
    resample, and an interval is D -+ c s with c the largest t* that 95 of 100 resamples stay below (the bootstrap form
    of the single-step maxT procedure, Westfall & Young 1993; Romano & Wolf 2005). Pairs that go together cost little,
    a copy of a model nothing. The figures themselves count as one resample (Davison & Hinkley 1997, 4.2).

    A model with a figure that is NaN is in no test. Where no resample differs, as of a single group, nothing is known.
    """
    known = [place for place, value in enumerate(values) if math.isfinite(value)]
    pairs = [*combinations(known, 2)]
    if not pairs:
        return []
    first, second = np.array(pairs).T
    seen = np.array(values, dtype=np.float64)[first] - np.array(values, dtype=np.float64)[second]
    drawn = draws[:, first] - draws[:, second]
    drawn = drawn[np.isfinite(drawn).all(axis=1)]
    alike = (np.abs(drawn) < _ROUNDING).all(axis=0) & (np.abs(seen) < _ROUNDING)  # the same figures, a copy's
    scale = drawn.std(axis=0) if len(drawn) else np.zeros(len(pairs))
    varies = scale > _ROUNDING
    t = np.divide(np.abs(seen), scale, out=np.zeros_like(seen), where=varies)
    chance = np.divide(np.abs(drawn - seen), scale, out=np.zeros_like(drawn), where=varies)
    p = (1 + (chance >= t).sum(axis=0)) / (1 + len(drawn))
    p_family, critical = max_t(t, np.sort(chance.max(axis=1)))
    half = np.where(varies, critical * np.where(varies, scale, 1.0), np.where(alike, 0.0, math.inf))
    p, p_family = np.where(varies, p, 1.0), np.where(varies, p_family, 1.0)
    return [
        PairedTest(names[a], names[b], *map(float, told))
        for (a, b), *told in zip(pairs, seen, seen - half, seen + half, p, p_family, strict=True)
    ]
