"""The sentences that lie nearest to one, found exactly."""

import numpy as np

from embeddings.geometry import unit


def neighbours(vectors: np.ndarray, of: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and rows, `(n, k)` each, of the `vectors` nearest to each of `of` `(n, dimensions)`, the nearest first.

    Every vector is compared, a block at a time; among those found with one cosine the first row stands first. Fewer
    than k where there are fewer vectors. A sentence that is among the vectors is its own nearest.
    """
    import faiss

    k = min(k, len(vectors))
    if not k or not len(of):
        return np.zeros((len(of), k), dtype=np.float32), np.zeros((len(of), k), dtype=np.int64)
    points, asked = (np.ascontiguousarray(unit(one), dtype=np.float32) for one in (vectors, of))
    cosines, rows = faiss.knn(asked, points, k, metric=faiss.METRIC_INNER_PRODUCT)
    order = np.lexsort((rows, -cosines), axis=1)
    return np.clip(np.take_along_axis(cosines, order, axis=1), -1, 1), np.take_along_axis(rows, order, axis=1)
