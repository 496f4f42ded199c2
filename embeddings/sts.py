"""Semantic textual similarity: does the cosine of two sentences rise and fall with the score people gave them?

A model's figure is Spearman's rank correlation of cosines and gold scores over all pairs at once ("all", as SimCSE
reports it: Gao et al. 2021, appendix B), with Pearson's beside it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from embeddings.bootstrap import Difference, Figure, differences, figure, resamples

_ENDS = (-1.0, 1.0)


@dataclass(frozen=True)
class Correlations:
    """Of each model by name: both correlations with their intervals, and every pair of models by either."""

    spearman: dict[str, Figure]
    pearson: dict[str, Figure]
    differences: dict[str, list[Difference]]


def cosines(first_vectors: np.ndarray, second_vectors: np.ndarray) -> np.ndarray:
    """Cosines of the rows of two `(n, dimensions)` arrays, `(n,)` float32 in -1 to 1; of a vector of zeros 0."""
    products = np.einsum("ij,ij->i", first_vectors, second_vectors)
    squares = [np.einsum("ij,ij->i", vectors, vectors) for vectors in (first_vectors, second_vectors)]
    lengths = np.sqrt(squares[0]) * np.sqrt(squares[1])
    found = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    within: np.ndarray = np.clip(found, -1, 1).astype(np.float32)
    return within


def spearman(cosines: np.ndarray, gold: np.ndarray) -> float:
    """Spearman's rank correlation of `(n,)` and `(n,)`, ties by their middle rank; NaN where either is constant."""
    from scipy.stats import spearmanr

    return float(spearmanr(cosines, gold).statistic) if _vary(cosines, gold) else math.nan


def pearson(cosines: np.ndarray, gold: np.ndarray) -> float:
    """Pearson's correlation of `(n,)` and `(n,)`; NaN where either is constant."""
    from scipy.stats import pearsonr

    if not _vary(cosines, gold):
        return math.nan
    return float(pearsonr(cosines.astype(np.float64), gold.astype(np.float64)).statistic)


def correlate(cosines: Mapping[str, np.ndarray], gold: np.ndarray, groups: np.ndarray, seed: int = 0) -> Correlations:
    """Correlate each model's cosines `(n_pairs,)` with the gold scores `(n_pairs,)`, and tell the models apart.

    All models are measured on the same resamples of `groups` (see `bootstrap.resamples`), so the intervals of
    differences are those of the paired bootstrap.
    """
    names = [*cosines]
    columns = [cosines[name].astype(np.float64) for name in names]
    by_rank, by_value = correlation_draws(columns, gold.astype(np.float64), groups, seed)
    ranks = [spearman(column, gold) for column in columns]
    values = [pearson(column, gold) for column in columns]
    return Correlations(
        {name: figure(ranks[place], by_rank[:, place], _ENDS) for place, name in enumerate(names)},
        {name: figure(values[place], by_value[:, place], _ENDS) for place, name in enumerate(names)},
        {"spearman": differences(ranks, by_rank, names), "pearson": differences(values, by_value, names)},
    )


def correlation_draws(
    columns: list[np.ndarray], gold: np.ndarray, groups: np.ndarray, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Spearman's and Pearson's correlation of each of m columns with gold in each resample, each `(resamples, m)`.

    NaN where a resample is constant.
    """
    ranked, ranked_gold = [_Ranks(column) for column in columns], _Ranks(gold)
    centred = np.stack([_centred(column) for column in (*columns, gold)], axis=1)
    by_rank, by_value = [], []
    for drawn in resamples(groups, seed=seed):
        of_gold = ranked_gold.of(drawn)
        weighed = drawn * of_gold
        spread = (weighed * of_gold).sum(axis=0)
        found = []
        for one in ranked:
            ranks = one.of(drawn)
            found.append(_ratio((weighed * ranks).sum(axis=0), spread * (drawn * ranks * ranks).sum(axis=0)))
        by_rank.append(np.stack(found, axis=1))
        by_value.append(_weighed_pearson(drawn, centred))
    return np.concatenate(by_rank), np.concatenate(by_value)


class _Ranks:
    """The ranks that the values of a column have in resamples of its rows, found with one sort for all of them."""

    def __init__(self, column: np.ndarray) -> None:
        self._order = np.argsort(column, kind="stable")
        ordered = column[self._order]
        new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        self._value = np.empty(len(column), dtype=np.int64)  # of each row, the place of its value among all values
        self._value[self._order] = np.cumsum(new) - 1
        self._last = np.concatenate([np.flatnonzero(new)[1:], [len(column)]]) - 1

    def of(self, drawn: np.ndarray) -> np.ndarray:
        """Middle ranks less their mean, of rows drawn so often, `(n_rows, resamples)`."""
        up_to = np.cumsum(drawn[self._order], axis=0)[self._last]
        before = np.concatenate([np.zeros((1, drawn.shape[1])), up_to[:-1]])
        ranks: np.ndarray = ((before + up_to - up_to[-1]) / 2)[self._value]
        return ranks


def _weighed_pearson(drawn: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Pearson's correlation of all columns but the last with the last, of rows drawn so often, `(resamples, m)`."""
    sizes = drawn.sum(axis=0)[:, None]
    means = drawn.T @ columns / sizes
    squares = drawn.T @ columns**2 / sizes - means**2
    products = drawn.T @ (columns[:, :-1] * columns[:, -1:]) / sizes - means[:, :-1] * means[:, -1:]
    return _ratio(products, squares[:, :-1] * squares[:, -1:])


def _ratio(covariance: np.ndarray, variances: np.ndarray) -> np.ndarray:
    varies = variances > 1e-20
    ratio: np.ndarray = np.where(varies, covariance / np.sqrt(np.where(varies, variances, 1.0)), np.nan)
    return ratio


def _centred(column: np.ndarray) -> np.ndarray:
    centred: np.ndarray = (column - column.mean()) / (column.std() or 1.0)
    return centred


def _vary(*columns: np.ndarray) -> bool:
    return all(len(column) > 1 and np.ptp(column) > 0 for column in columns)
