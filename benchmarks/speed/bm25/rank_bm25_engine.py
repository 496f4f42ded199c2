"""The library rank-bm25, which scores every passage in Python's dictionaries: for small corpora."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.clones import Clones
from benchmarks.speed.bm25.engine import K1, B, Words


class RankBM25:
    """An index of rank-bm25. It cannot be saved: what is kept is the corpus, and opening it is building it."""

    name = f"rank-bm25 {version('rank-bm25')}"
    wanted: float | None = None

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def build(cls, clones: Clones, folder: Path) -> float:
        """See `Engine`."""
        from rank_bm25 import BM25Okapi

        clones.save(folder)
        texts = clones.tokens.texts()
        start = perf_counter()
        BM25Okapi(texts, k1=K1, b=B)
        return perf_counter() - start

    @classmethod
    def open(cls, folder: Path) -> "RankBM25":
        """See `Engine`."""
        from rank_bm25 import BM25Okapi

        return cls(BM25Okapi(Clones.load(folder).tokens.texts(), k1=K1, b=B))

    def asked(self, questions: Sequence[Words]) -> Sequence[Words]:
        """See `Engine`."""
        return questions

    def search(self, asked: Sequence[Words], k: int, threads: int) -> list[np.ndarray]:
        """See `Engine`. It knows one thread."""
        del threads
        return [np.argsort(-self._index.get_scores(words))[:k] for words in asked]

    def found(self, questions: Sequence[Words], k: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Engine`."""
        scores = np.stack([self._index.get_scores(words) for words in questions])
        rows = np.argsort(-scores, axis=1)[:, :k]
        return rows, np.take_along_axis(scores, rows, axis=1)
