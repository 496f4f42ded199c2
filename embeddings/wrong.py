"""The pairs that a model sees most otherwise than people do."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class WrongPairs:
    """Pairs, the worst first: `rows` `(n,)`, by how much of all pairs they are misplaced, `(n,)` -1 to 1, and cosines.

    Above 0 the model finds the two sentences more alike than people do. `cosines` are those of every model compared.
    """

    rows: np.ndarray
    misplaced: np.ndarray
    cosines: dict[str, np.ndarray]


def wrong_pairs(cosines: Mapping[str, np.ndarray], gold: np.ndarray, of: str, most: int = 50) -> WrongPairs:
    """Return the pairs whose ranks by the cosine of the model `of` and by gold differ most; ties in the set's order.

    Ranks are what Spearman's correlation compares: rank of the cosine less rank of gold, over the number of pairs.
    """
    misplaced = _ranks(cosines[of]) - _ranks(gold)
    rows = np.argsort(-np.abs(misplaced), kind="stable")[:most]
    return WrongPairs(rows, misplaced[rows], {name: column[rows] for name, column in cosines.items()})


def _ranks(column: np.ndarray) -> np.ndarray:
    """Middle ranks as shares, `(n_pairs,)`."""
    from scipy.stats import rankdata

    ranks: np.ndarray = rankdata(column) / max(1, len(column))
    return ranks
