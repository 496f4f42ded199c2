"""How vectors lie in their space: do alike sentences lie together, do all use the sphere, what is near; and a map.

Conventions, those of Wang & Isola 2020 and of SimCSE (Gao et al. 2021, section 5):
- All vectors are brought to length 1. A vector of zeros, of a text nothing is known of, is no point of the sphere and
  is left out.
- Alignment is over pairs that mean the same: of scored pairs those of gold 4 and above of 5, 0.8 of any scale; of
  labelled ones entailments; a triplet's first two sentences; translations.
- Uniformity is over all pairs of two different sentences, each sentence once, with t = 2.
Lower is better for both: alignment 0 is a pair in one point, uniformity has no end below, 0 is all in one point."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from mrc_workbench.data.pairs import Label, PairKind, PairSet

POSITIVE = 0.8  # of the scale: gold 4 of 5
_GOLD_TOLERANCE = 1e-6  # of gold scores in float32
_ROWS = 2048  # of a block: 2048 x 2048 cosines are 16 MB


def positive_rows(pairs: PairSet) -> np.ndarray:
    """Rows whose first two sentences mean the same, ascending."""
    if pairs.kind is PairKind.SENTENCES:
        return np.zeros(0, dtype=np.int64)
    if pairs.kind is PairKind.SCORED:
        return np.flatnonzero(pairs.gold >= POSITIVE - _GOLD_TOLERANCE)
    if pairs.kind is PairKind.LABELLED:
        return np.flatnonzero(pairs.values == Label.ENTAILMENT)
    return np.arange(len(pairs))


def normalize_rows(vectors: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1, those of zeros unchanged; not copied if they have that length."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    if np.allclose(lengths, 1, rtol=0, atol=1e-6):
        return vectors
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1)[:, None])


def alignment(first: np.ndarray, second: np.ndarray) -> float:
    """Mean squared distance of the pairs of rows of two `(n, dimensions)` arrays, 0 to 4; NaN if there is none."""
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

    The time grows with the square of n, the memory does not.
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

    The faster they fall, the fewer directions the space uses (Gao et al. 2021, section 5). Zeros if there is no vector.
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


# as a training's progress writes both: as measured before its first step, and as its trainer logs them
_LOG_PREFIXES = ("before_", "eval_validation_")


@dataclass(frozen=True)
class Trajectory:
    """Both figures of the validation part, `(n,)` float64, after `steps` `(n,)` int64, in the order of the steps."""

    steps: np.ndarray
    alignment: np.ndarray
    uniformity: np.ndarray


def trajectory(progress: Iterable[Mapping[str, Any]]) -> Trajectory:
    """Read the path from a training's `Job.progress()`; of a step that was logged twice, the last line counts."""
    by_step: dict[int, list[float]] = {}
    for entry in progress:
        step = entry.get("step")
        for prefix in _LOG_PREFIXES:
            values = [entry.get(prefix + name) for name in ("alignment", "uniformity")]
            numbers = [
                float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)
            ]
            if isinstance(step, int) and len(numbers) == 2 and all(map(math.isfinite, numbers)):
                by_step[step] = numbers
    steps = sorted(by_step)
    alignment, uniformity = np.array([by_step[step] for step in steps], dtype=np.float64).reshape(-1, 2).T
    return Trajectory(np.array(steps, dtype=np.int64), alignment, uniformity)


# of UMAP, as its paper has them
_NEIGHBOURS = 15
_NEAREST = 0.1


class Projection(StrEnum):
    """How vectors come onto the plane."""

    PCA = "pca"  # at once; distances are shadows of the real ones
    UMAP = "umap"  # takes its time; near ones stay near, what lies far apart says little


@dataclass(frozen=True)
class ProjectedPoints:
    """Points `(n, 2)` float32 of the rows; `explained` `(2,)` are the shares of the variance, of PCA alone."""

    points: np.ndarray
    explained: np.ndarray


def project(vectors: np.ndarray, projection: Projection = Projection.PCA) -> ProjectedPoints:
    """Project vectors `(n, dimensions)`, scaled to length 1, onto a plane; UMAP of fewer than 4 rows is PCA."""
    points = normalize_rows(vectors)
    if projection is Projection.PCA or len(vectors) <= 3:
        return _pca(points)
    import umap

    # uniform manifold approximation (McInnes, Healy & Melville 2018) by cosine; seeded, so on one core
    near = min(_NEIGHBOURS, len(points) - 1)
    start = "spectral" if len(points) > _NEIGHBOURS else "random"  # eigenvectors need more rows than they are
    model = umap.UMAP(n_neighbors=near, min_dist=_NEAREST, metric="cosine", init=start, random_state=0, n_jobs=1)
    return ProjectedPoints(np.asarray(model.fit_transform(np.asarray(points)), dtype=np.float32), np.zeros(0))


def _pca(points: np.ndarray) -> ProjectedPoints:
    """Principal components by the covariance, block by block; the largest loading of each is positive."""
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


MAX_MATRIX_ROWS = 200  # sentences that a matrix is made of: 40,000 cells are more than anybody looks at


def similarity_matrix(vectors: np.ndarray) -> np.ndarray:
    """Cosines of all rows with all rows, `(n, n)` float32. Raises `ValueError` for more than `MOST` rows."""
    if len(vectors) > MAX_MATRIX_ROWS:
        raise ValueError(f"a matrix shows {MAX_MATRIX_ROWS} sentences at most, these are {len(vectors):,}")
    points = normalize_rows(vectors)
    return np.asarray(np.clip(points @ points.T, -1, 1).astype(np.float32, copy=False))


def find_neighbours(vectors: np.ndarray, query_vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and rows, `(n, k)` each, of the `vectors` nearest to each of `of` `(n, dimensions)`, nearest first.

    The search is exact; of equal cosines the first row stands first. Returns fewer than k if there are fewer vectors.
    """
    import faiss

    k = min(k, len(vectors))
    if not k or not len(query_vectors):
        return np.zeros((len(query_vectors), k), dtype=np.float32), np.zeros((len(query_vectors), k), dtype=np.int64)
    points, queries = (
        np.ascontiguousarray(normalize_rows(matrix), dtype=np.float32) for matrix in (vectors, query_vectors)
    )
    cosines, rows = faiss.knn(queries, points, k, metric=faiss.METRIC_INNER_PRODUCT)
    order = np.lexsort((rows, -cosines), axis=1)
    return np.clip(np.take_along_axis(cosines, order, axis=1), -1, 1), np.take_along_axis(rows, order, axis=1)
