"""Hybrid retrieval: rankings of several retrievers made into one."""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from retrieval.rankings import NOT_FOUND, Rankings, Retriever, top_k_sparse

RRF_CONSTANT = 60  # Cormack, Clarke & Buettcher 2009


class Hybrid:
    """Reciprocal rank fusion: `sum over retrievers of 1 / (60 + rank)`, higher is better.

    Each retriever contributes its first `depth` passages (or k, where more are asked for).
    """

    def __init__(self, name: str, parts: Sequence[Retriever], *, n_passages: int, depth: int = 100) -> None:
        if len(parts) < 2:
            raise ValueError("a hybrid needs at least two retrievers")
        self.name = name
        self._parts, self._n_passages, self._depth = parts, n_passages, depth

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question."""
        depth = max(k, self._depth)
        rankings = [part.search(questions, depth) for part in self._parts]
        return top_k_sparse(
            sum((self._reciprocal_ranks(r) for r in rankings[1:]), self._reciprocal_ranks(rankings[0])), k
        )

    def _reciprocal_ranks(self, rankings: Rankings) -> csr_array:
        rows, places = np.nonzero(rankings.indices != NOT_FOUND)
        values = 1.0 / (RRF_CONSTANT + places + 1)
        shape = (len(rankings.indices), self._n_passages)
        return csr_array((values, (rows, rankings.indices[rows, places])), shape=shape)
