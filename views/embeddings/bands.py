"""What the bands of people's scores are called."""

from itertools import pairwise

import numpy as np

from embeddings.judgement import BANDS


def band_labels(scale: tuple[float, float]) -> list[str]:
    """Return the ends of each fifth of a scale, the lowest first."""
    return [f"{low:g} – {high:g}" for low, high in pairwise(np.linspace(*scale, BANDS + 1))]
