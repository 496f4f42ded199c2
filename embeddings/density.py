"""How cosines are spread among pairs that people found little, half or very much alike."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

BANDS = 5  # fifths of the scale: of 0 to 5 they are 0-1, 1-2, 2-3, 3-4 and 4-5
_POINTS = 201
_ROUNDING = 1e-6  # of gold scores in float32


@dataclass(frozen=True)
class Densities:
    """Of each model by name, the density of its cosines in each band `(BANDS, n_points)` over `grid` `(n_points,)`.

    Zero throughout where a band has fewer than two different cosines; `counts` `(BANDS,)` are its pairs.
    """

    grid: np.ndarray
    counts: np.ndarray
    values: dict[str, np.ndarray]


def bands(gold: np.ndarray) -> np.ndarray:
    """The band of gold scores from 0 to 1, `(n_pairs,)` int64 from 0; a score on a border belongs to the higher one."""
    return np.clip(np.floor(gold.astype(np.float64) * BANDS + _ROUNDING), 0, BANDS - 1).astype(np.int64)


def densities(cosines: Mapping[str, np.ndarray], gold: np.ndarray) -> Densities:
    """Estimate the density of each model's cosines `(n_pairs,)` by band, by normal kernels (width: Scott 1992).

    All models share a grid, from the smallest cosine of all to the largest.
    """
    band, every = bands(gold), [column for column in cosines.values() if len(column)]
    low = min((float(column.min()) for column in every), default=0.0)
    high = max((float(column.max()) for column in every), default=1.0)
    grid = np.linspace(low, high, _POINTS)
    values = {
        name: np.stack([_density(column[band == number], grid) for number in range(BANDS)])
        for name, column in cosines.items()
    }
    return Densities(grid, np.bincount(band, minlength=BANDS), values)


def _density(column: np.ndarray, grid: np.ndarray) -> np.ndarray:
    from scipy.stats import gaussian_kde

    if len(column) < 2 or np.ptp(column) == 0:
        return np.zeros(len(grid))
    density: np.ndarray = gaussian_kde(column.astype(np.float64))(grid)
    return density
