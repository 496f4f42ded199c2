"""Geometry of sentence vectors: alignment, uniformity, anisotropy, nearest neighbours, and projections to a plane.

Conventions of Wang & Isola 2020 and SimCSE (Gao et al. 2021, section 5), lower is better for both measures:
- Vectors are scaled to length 1. Vectors of zeros (unknown texts) are left out.
- Alignment uses pairs that mean the same: scored pairs of gold 4 of 5 or more (0.8 of any scale), entailments, the
  first two sentences of a triplet, and translations. It is 0 if both vectors of each pair are equal.
- Uniformity uses all pairs of distinct sentences, with t = 2. It is 0 if all vectors are equal, and has no lower bound.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from mrc_workbench.data.pairs import Label, PairKind, PairSet

POSITIVE = 0.8  # of the scale: gold 4 of 5
_GOLD_TOLERANCE = 1e-6  # of gold scores in float32
_ROWS = 2048  # rows of a block: 2048 x 2048 cosines are 16 MB
# prefixes of both metrics in a training's progress: before the first step, and as the trainer logs them
_LOG_PREFIXES = ("before_", "eval_validation_")
# defaults of UMAP's paper
_NEIGHBOURS = 15
_NEAREST = 0.1
MAX_MATRIX_ROWS = 200  # 40,000 cells


def positive_rows(pairs: PairSet) -> np.ndarray:
    """Return the rows whose first two sentences mean the same, ascending."""
    if pairs.kind is PairKind.SENTENCES:
        return np.zeros(0, dtype=np.int64)
    if pairs.kind is PairKind.SCORED:
        return np.flatnonzero(pairs.gold >= POSITIVE - _GOLD_TOLERANCE)
    if pairs.kind is PairKind.LABELLED:
        return np.flatnonzero(pairs.values == Label.ENTAILMENT)
    return np.arange(len(pairs))


def normalize_rows(vectors: np.ndarray) -> np.ndarray:
    """Scale rows to length 1; rows of zeros stay, and unit rows are not copied."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    if np.allclose(lengths, 1, rtol=0, atol=1e-6):
        return vectors
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1)[:, None])


def alignment(first: np.ndarray, second: np.ndarray) -> float:
    """Mean squared distance of the pairs of rows of two `(n, dimensions)` arrays, 0 to 4; NaN without pairs."""
    distances = squared_distances(first, second)
    known = distances[np.isfinite(distances)]
    return float(known.mean()) if len(known) else math.nan


def squared_distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """||f(x) - f(y)||^2 of the pairs of rows on the sphere, `(n,)` float64; NaN if one is a vector of zeros."""
    between = normalize_rows(first) - normalize_rows(second)
    distances = np.einsum("ij,ij->i", between, between, dtype=np.float64)
    known = np.any(first, axis=1) & np.any(second, axis=1)
    return np.where(known, distances, np.nan)


def uniformity(vectors: np.ndarray, t: float = 2.0) -> float:
    """log E exp(-t ||f(x) - f(y)||^2) over all pairs of rows, 0 or less; NaN of fewer than two rows.

    Time grows with the square of n, memory does not.
    """
    return _log_mean(_nearness(vectors, t))


def uniformity_parts(vectors: np.ndarray, t: float = 2.0) -> np.ndarray:
    """The contribution of each sentence to `uniformity`, their mean, `(n,)` float64; NaN of a vector of zeros.

    Uniformity is the logarithm of a U-statistic. To first order (Hoeffding 1948) it varies under resampling as the mean
    of part(x) = uniformity + 2 (near(x) / E near - 1), with near(x) = E_y exp(-t ||f(x) - f(y)||^2).
    """
    near = _nearness(vectors, t)
    value = _log_mean(near)
    if not math.isfinite(value):
        return np.full(len(vectors), np.nan)
    return np.asarray(value + 2 * (near / np.nanmean(near) - 1))


def singular_values(vectors: np.ndarray) -> np.ndarray:
    """Singular values of the matrix of vectors, not centred, `(dimensions,)` float64, falling, the first 1.

    The faster they fall, the fewer directions the space uses (Gao et al. 2021, section 5). Zeros without vectors.
    """
    points = normalize_rows(vectors)
    gram = np.zeros((vectors.shape[1], vectors.shape[1]))
    for start in range(0, len(points), _ROWS):
        block = points[start : start + _ROWS].astype(np.float64)
        gram += block.T @ block
    values: np.ndarray = np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0))
    return values / (values.max(initial=0.0) or 1.0)


def anisotropy_parts(vectors: np.ndarray) -> np.ndarray:
    """The contribution of each row to the anisotropy, their mean, `(n,)` float64; NaN of a vector of zeros.

    Anisotropy is the mean cosine of two different rows: 0 in all directions, nearly 1 in a narrow cone (Ethayarajh
    2019). With unit rows u, S their sum and near(x) = (u_x S - 1) / (n - 1), it is the mean of near, and the parts of
    this U-statistic are anisotropy + 2 (near(x) - anisotropy).
    """
    points = normalize_rows(vectors)
    known = np.any(vectors, axis=1)
    n = int(known.sum())
    if n < 2:
        return np.full(len(vectors), np.nan)
    near = (points @ points.sum(axis=0, dtype=np.float64) - 1) / (n - 1)
    return np.asarray(np.where(known, 2 * near - near[known].mean(), np.nan))


def _nearness(vectors: np.ndarray, t: float) -> np.ndarray:
    """Sum over all other rows of exp(-t ||f(x) - f(y)||^2), `(n,)` float64; NaN of a vector of zeros."""
    known = np.flatnonzero(np.any(vectors, axis=1))
    points = normalize_rows(vectors if len(known) == len(vectors) else vectors[known])
    sums = np.zeros(len(points))
    for start in range(0, len(points), _ROWS):
        rows = points[start : start + _ROWS]
        for other in range(start, len(points), _ROWS):
            near = np.exp(2 * t * (rows @ points[other : other + _ROWS].T - 1))
            if other == start:
                np.fill_diagonal(near, 0)
            else:
                sums[other : other + _ROWS] += near.sum(axis=0, dtype=np.float64)
            sums[start : start + _ROWS] += near.sum(axis=1, dtype=np.float64)
    nearness = np.full(len(vectors), np.nan)
    nearness[known] = sums
    return nearness


def _log_mean(near: np.ndarray) -> float:
    n = int(np.isfinite(near).sum())
    total = float(np.nansum(near))
    return math.log(total / (n * (n - 1))) if n > 1 and total > 0 else math.nan


@dataclass(frozen=True)
class Trajectory:
    """Alignment and uniformity of the validation part, `(n,)` float64, after each of `steps` `(n,)` int64."""

    steps: np.ndarray
    alignment: np.ndarray
    uniformity: np.ndarray


def trajectory(progress: Iterable[Mapping[str, Any]]) -> Trajectory:
    """Read both metrics from a training's `Job.progress()`; the last line of a step counts."""
    by_step: dict[int, list[float]] = {}
    for entry in progress:
        step = entry.get("step")
        for prefix in _LOG_PREFIXES:
            values = [entry.get(prefix + name) for name in ("alignment", "uniformity")]
            numbers = [float(item) for item in values if isinstance(item, int | float) and not isinstance(item, bool)]
            if isinstance(step, int) and len(numbers) == 2 and all(map(math.isfinite, numbers)):
                by_step[step] = numbers
    steps = sorted(by_step)
    alignment, uniformity = np.array([by_step[step] for step in steps], dtype=np.float64).reshape(-1, 2).T
    return Trajectory(np.array(steps, dtype=np.int64), alignment, uniformity)


class Projection(StrEnum):
    """How vectors are projected to a plane."""

    PCA = "pca"  # fast and linear
    UMAP = "umap"  # slow; keeps neighbourhoods, while large distances mean little


@dataclass(frozen=True)
class ProjectedPoints:
    """Points `(n, 2)` float32; `explained` `(2,)` are the fractions of variance, empty unless PCA."""

    points: np.ndarray
    explained: np.ndarray


def project(vectors: np.ndarray, projection: Projection = Projection.PCA) -> ProjectedPoints:
    """Project vectors `(n, dimensions)`, scaled to length 1, onto a plane; UMAP of fewer than 4 rows is PCA."""
    points = normalize_rows(vectors)
    if projection is Projection.PCA or len(vectors) <= 3:
        return _pca(points)
    import umap

    # uniform manifold approximation (McInnes, Healy & Melville 2018) by cosine; a seed needs a single core
    near = min(_NEIGHBOURS, len(points) - 1)
    start = "spectral" if len(points) > _NEIGHBOURS else "random"  # spectral: needs more rows than eigenvectors
    model = umap.UMAP(n_neighbors=near, min_dist=_NEAREST, metric="cosine", init=start, random_state=0, n_jobs=1)
    return ProjectedPoints(np.asarray(model.fit_transform(np.asarray(points)), dtype=np.float32), np.zeros(0))


def _pca(points: np.ndarray) -> ProjectedPoints:
    """Project to the principal components of the covariance; the largest loading of each is positive."""
    n, dimensions = points.shape
    mean = points.mean(axis=0, dtype=np.float64) if n else np.zeros(dimensions)
    gram = np.zeros((dimensions, dimensions))
    blocks = [slice(start, start + 8192) for start in range(0, n, 8192)]
    for rows in blocks:
        block = (points[rows] - mean).astype(np.float32)
        gram += block.T @ block
    variances, axes = np.linalg.eigh(gram)
    variances = np.maximum(variances[::-1], 0)
    axes = axes[:, ::-1][:, :2]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    coordinates = np.zeros((n, 2), dtype=np.float32)
    for rows in blocks:
        coordinates[rows, : axes.shape[1]] = (points[rows] - mean) @ axes
    fractions = np.zeros(2)
    fractions[: len(variances[:2])] = variances[:2] / (variances.sum() or 1.0)
    return ProjectedPoints(coordinates, fractions)


def similarity_matrix(vectors: np.ndarray) -> np.ndarray:
    """Cosines of all rows with all rows, `(n, n)` float32. Raises `ValueError` above `MAX_MATRIX_ROWS` rows."""
    if len(vectors) > MAX_MATRIX_ROWS:
        raise ValueError(f"a matrix shows {MAX_MATRIX_ROWS} sentences at most, these are {len(vectors):,}")
    points = normalize_rows(vectors)
    return np.asarray(np.clip(points @ points.T, -1, 1).astype(np.float32, copy=False))


def find_neighbours(vectors: np.ndarray, query_vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return cosines and rows, `(n, k)` each, of the vectors nearest to each query vector, nearest first.

    The search is exact, and ties are in row order. k is at most the number of vectors.
    """
    import faiss

    k = min(k, len(vectors))
    if not k or not len(query_vectors):
        return np.zeros((len(query_vectors), k), dtype=np.float32), np.zeros((len(query_vectors), k), dtype=np.int64)
    points = np.ascontiguousarray(normalize_rows(vectors), dtype=np.float32)
    queries = np.ascontiguousarray(normalize_rows(query_vectors), dtype=np.float32)
    cosines, rows = faiss.knn(queries, points, k, metric=faiss.METRIC_INNER_PRODUCT)
    order = np.lexsort((rows, -cosines), axis=1)
    return np.clip(np.take_along_axis(cosines, order, axis=1), -1, 1), np.take_along_axis(rows, order, axis=1)
