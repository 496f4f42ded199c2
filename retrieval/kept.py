"""Retrievers that are built only when asked something new, and whose findings are kept on disk."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from retrieval.cache import are_kept, cached_arrays, key_of
from retrieval.rankings import Rankings, Retriever


class Kept:
    """Wraps a retriever: the same questions at the same depth are searched once, on this machine, ever.

    `key` names everything the rankings depend on. `parts` are the kept retrievers this one searches itself: their time
    is counted in full even where their rankings came from disk, so that the seconds of a hybrid are what it would cost.
    """

    def __init__(self, name: str, key: str, build: Callable[[], Retriever], parts: Sequence["Kept"] = ()) -> None:
        self.name, self.key = name, key
        self._build, self._parts = build, parts
        self._retriever: Retriever | None = None
        self._own_build_seconds = 0.0
        self._elapsed = 0.0  # of the last search, whatever came from disk
        self.build_seconds = 0.0  # as measured when the rankings were made
        self.query_seconds = 0.0

    @property
    def ready(self) -> bool:
        """Whether it is built, so that a new question is answered at once."""
        return self._retriever is not None

    def remembers(self, questions: Sequence[str], k: int) -> bool:
        """Whether this search was done before and is on disk."""
        return are_kept("rankings", key_of(self.key, list(questions), k))

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question."""
        start = time.perf_counter()
        key = key_of(self.key, list(questions), k)
        kept = cached_arrays("rankings", key, lambda: self._search(questions, k), keep=len(questions) > 1)
        self.build_seconds, self.query_seconds = (float(seconds) for seconds in kept["seconds"])
        self._elapsed = time.perf_counter() - start
        return Rankings(kept["indices"], kept["scores"])

    def _search(self, questions: Sequence[str], k: int) -> dict[str, np.ndarray]:
        start = time.perf_counter()
        if self._retriever is None:
            self._retriever = self._build()
            self._own_build_seconds = time.perf_counter() - start
        built = time.perf_counter()
        for part in self._parts:
            part._elapsed = 0.0
        rankings = self._retriever.search(questions, k)
        own_query = time.perf_counter() - built - sum(part._elapsed for part in self._parts)
        seconds = (
            self._own_build_seconds + sum(part.build_seconds for part in self._parts),
            own_query + sum(part.query_seconds for part in self._parts),
        )
        return {"indices": rankings.indices, "scores": rankings.scores, "seconds": np.array(seconds)}
