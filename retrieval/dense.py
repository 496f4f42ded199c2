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
        scores, indices = self._index.search(vectors, min(k, self._index.ntotal))
        known = np.any(vectors != 0, axis=1, keepdims=True)
        return ranked(np.where(known, indices, NOT_FOUND), scores, k)
