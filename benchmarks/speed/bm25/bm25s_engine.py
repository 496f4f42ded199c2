"""The library bm25s with its numba backend."""

from collections.abc import Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.clones import Clones
from benchmarks.speed.bm25.engine import K1, B, Words

_MOST_IN_LISTS = 100_000  # passages whose tokens fit into memory as Python's numbers, which it is quickest with


class BM25S:
    """An index of bm25s, mapped from the disk."""

    name = f"bm25s {version('bm25s')} (numba)"
    wanted: float | None = 2.0

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def build(cls, clones: Clones, folder: Path) -> float:
        """See `Engine`."""
        import bm25s

        tokens = clones.tokens
        documents: list[Any] = [tokens.ids[begin:end] for begin, end in pairwise(tokens.offsets.tolist())]
        if len(documents) <= _MOST_IN_LISTS:
            documents = [part.tolist() for part in documents]
        vocabulary = {token: number for number, token in enumerate(tokens.vocabulary)}
        start = perf_counter()
        index = bm25s.BM25(method="lucene", k1=K1, b=B, backend="numba")
        index.index((documents, vocabulary), show_progress=False)
        index.save(folder, show_progress=False)
        return perf_counter() - start

    @classmethod
    def open(cls, folder: Path) -> "BM25S":
        """See `Engine`."""
        import bm25s

        return cls(bm25s.BM25.load(folder, mmap=True, show_progress=False))

    def asked(self, questions: Sequence[Words]) -> list[list[str]]:
        """See `Engine`."""
        return [list(words) for words in questions]

    def search(self, asked: list[list[str]], k: int, threads: int) -> Any:
        """See `Engine`."""
        return self._index.retrieve(asked, k=k, n_threads=threads, show_progress=False, sorted=True)

    def found(self, questions: Sequence[Words], k: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Engine`."""
        result = self.search(self.asked(questions), k, 1)
        return np.where(result.scores > 0, result.documents, -1), result.scores
