"""Every sentence against every other."""

import numpy as np

from embeddings.geometry import unit

MOST = 200  # sentences that a matrix is made of: 40,000 cells are more than anybody looks at


def similarity(vectors: np.ndarray) -> np.ndarray:
    """Cosines of all rows with all rows, `(n, n)` float32 in -1 to 1; a vector of zeros has 0 with all.

    Raises `ValueError` for more than `MOST` rows.
    """
    if len(vectors) > MOST:
        raise ValueError(f"a matrix shows {MOST} sentences at most, these are {len(vectors):,}")
    points = unit(vectors)
    cosines: np.ndarray = np.clip(points @ points.T, -1, 1).astype(np.float32, copy=False)
    return cosines
