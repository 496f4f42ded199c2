"""Dense retrieval: the passages whose vectors lie nearest to the question's."""

from collections.abc import Sequence

import numpy as np

from data.passages import Passages
from data.records import Passage
from models.protocols import Encoder
from retrieval.dense.index import IndexKind, VectorIndex
from retrieval.rankings import NOT_FOUND, Rankings, ranked


class Dense:
    """Search of passage vectors in an index of some kind; scores are cosines, higher is better.

    A question of which the encoder knows nothing (a vector of zeros) finds nothing.
    """

    def __init__(
        self,
        name: str,
        passages: Sequence[Passage],
        encoder: Encoder,
        *,
        title: bool = True,
        index: IndexKind = IndexKind.EXACT,
    ) -> None:
        self.name = name
        self._encoder = encoder
        self._index = VectorIndex(encoder.encode_passages(Passages.of(passages).indexed_texts(title=title)), index)

    @property
    def memory_bytes(self) -> int:
        """Size of the index."""
        return self._index.memory_bytes

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
        self._fill(rankings, known, vectors[known], k + 1)
        return rankings

    def _fill(self, rankings: Rankings, rows: np.ndarray, vectors: np.ndarray, depth: int) -> None:
        k, deepest = rankings.indices.shape[1], min(self._index.size, self._index.most)
        scores, indices = self._index.search(vectors, min(depth, deepest))
        best = ranked(indices, scores, k)
        rankings.indices[rows], rankings.scores[rows] = best.indices, best.scores
        if depth < deepest:
            # FAISS picks freely among passages that tie with the k-th: there all that tie are fetched
            tied = np.flatnonzero((scores[:, k - 1] == scores[:, -1]) & (indices[:, -1] != NOT_FOUND))
            if len(tied):
                self._fill(rankings, rows[tied], vectors[tied], 2 * depth)
