"""Vectors of the questions asked last, in memory: a server is asked the same question over and over."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np


class RecentVectors:
    """The vectors of the last `most` texts, for one model and one prompt, and for one thread at a time."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._vectors: OrderedDict[str, np.ndarray] = OrderedDict()

    def __len__(self) -> int:
        return len(self._vectors)

    def of(self, texts: Sequence[str], encode: Callable[[list[str]], np.ndarray]) -> np.ndarray:
        """Return the vectors of texts, `(n_texts, dimensions)`; only texts without a stored vector are encoded."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        encoded = dict(zip(new, encode(new), strict=True)) if new else {}
        vectors = [encoded[text] if text in encoded else self._vectors[text] for text in texts]
        for text, vector in zip(texts, vectors, strict=True):
            self._vectors[text] = vector
            self._vectors.move_to_end(text)
        while len(self._vectors) > self._most:
            self._vectors.popitem(last=False)
        return np.stack(vectors)
