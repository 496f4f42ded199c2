"""Dense retrieval: the passages whose vectors lie nearest to the question's."""

from collections.abc import Sequence

import numpy as np

from data.records import Passage
from retrieval.bm25 import indexed_texts
from retrieval.models import Encoder
from retrieval.rankings import NOT_FOUND, Rankings, ranked


class Dense:
    """Exact search (FAISS, inner product of vectors of length 1); scores are cosines, higher is better.

    A question of which the encoder knows nothing (a vector of zeros) finds nothing.
    """

    def __init__(self, name: str, passages: Sequence[Passage], encoder: Encoder, *, title: bool = True) -> None:
        import faiss

        self.name = name
        self._encoder = encoder
        vectors = encoder.encode_passages(indexed_texts(passages, title=title))
        self._index = faiss.IndexFlatIP(vectors.shape[1])
        self._index.add(vectors)

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question."""
        vectors = self._encoder.encode_questions(questions)
        if not len(vectors):
            return ranked(np.zeros((0, 0), dtype=np.int32), np.zeros((0, 0)), k)
        known = np.flatnonzero(np.any(vectors != 0, axis=1))
        rankings = Rankings(
            np.full((len(vectors), k), NOT_FOUND, dtype=np.int32),
            np.full((len(vectors), k), -np.inf, dtype=np.float32),
        )
        self._fill(rankings, known, vectors[known], min(k + 1, self._index.ntotal))
        return rankings

    def _fill(self, rankings: Rankings, rows: np.ndarray, vectors: np.ndarray, depth: int) -> None:
        k = rankings.indices.shape[1]
        scores, indices = self._index.search(vectors, depth)
        best = ranked(indices, scores, k)
        rankings.indices[rows], rankings.scores[rows] = best.indices, best.scores
        if depth < self._index.ntotal:
            # FAISS picks freely among passages that tie with the k-th: there all that tie are fetched
            tied = np.flatnonzero(scores[:, k - 1] == scores[:, -1])
            if len(tied):
                self._fill(rankings, rows[tied], vectors[tied], min(2 * depth, self._index.ntotal))
