"""Vectors on a plane: their two main directions at once, or a map that keeps neighbours together."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from embeddings.geometry import unit

_ROWS = 8192  # of a block
_NEIGHBOURS, _NEAREST = 15, 0.1  # of UMAP, as its paper has them


class Projection(StrEnum):
    """How vectors come onto the plane."""

    PCA = "pca"  # at once; distances are shadows of the real ones
    UMAP = "umap"  # takes its time; near ones stay near, what lies far apart says little


@dataclass(frozen=True)
class Map:
    """Points `(n, 2)` float32 of the rows; `explained` `(2,)` are the shares of the variance, of PCA alone."""

    points: np.ndarray
    explained: np.ndarray


def project(vectors: np.ndarray, projection: Projection = Projection.PCA) -> Map:
    """Bring vectors `(n, dimensions)`, made of length 1, onto a plane. The same vectors give the same map.

    UMAP of fewer than 4 rows is PCA: it needs neighbours.
    """
    if projection is Projection.UMAP and len(vectors) > 3:
        return Map(_umap(unit(vectors)), np.zeros(0))
    return _pca(unit(vectors))


def _pca(points: np.ndarray) -> Map:
    """Principal components by the covariance, a block of rows at a time; the largest loading of each is positive."""
    n, dimensions = points.shape
    mean = points.mean(axis=0, dtype=np.float64) if n else np.zeros(dimensions)
    gram = np.zeros((dimensions, dimensions))
    for start in range(0, n, _ROWS):
        block = (points[start : start + _ROWS] - mean).astype(np.float32)
        gram += block.T @ block
    variances, axes = np.linalg.eigh(gram)
    variances, axes = np.maximum(variances[::-1], 0), axes[:, ::-1][:, :2]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    found = np.zeros((n, 2), dtype=np.float32)
    for start in range(0, n, _ROWS):
        found[start : start + _ROWS, : axes.shape[1]] = (points[start : start + _ROWS] - mean) @ axes
    shares = np.zeros(2)
    shares[: len(variances[:2])] = variances[:2] / (variances.sum() or 1.0)
    return Map(found, shares)


def _umap(points: np.ndarray) -> np.ndarray:
    """Uniform manifold approximation (McInnes, Healy & Melville 2018) by cosine; seeded, so on one core."""
    import umap

    neighbours = min(_NEIGHBOURS, len(points) - 1)
    start = "spectral" if len(points) > _NEIGHBOURS else "random"  # eigenvectors need more rows than they are
    model = umap.UMAP(n_neighbors=neighbours, min_dist=_NEAREST, metric="cosine", init=start, random_state=0, n_jobs=1)
    return np.asarray(model.fit_transform(np.asarray(points)), dtype=np.float32)
