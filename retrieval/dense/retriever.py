"""Dense retrieval: the passages whose vectors lie nearest to the question's."""

import math
from collections.abc import Sequence

import numpy as np

from data.passages import Passages
from data.records import Passage
from models.protocols import Encoder, WindowEncoder
from models.windows import WindowOptions
from retrieval.dense.index import IndexKind, VectorIndex
from retrieval.rankings import NOT_FOUND, Rankings, ranked


class Dense:
    """Search of passage vectors in an index of some kind; scores are cosines, higher is better.

    With `windows` a passage that the encoder does not read whole has the cosine of its best window; without, that of
    its beginning. An index that is exact among vectors is exact among passages, too; the others find windows near
    the question, so that of `hnsw`'s few several may be of one passage.
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
        windows: WindowOptions | None = None,
    ) -> None:
        self.name = name
        self._encoder = encoder
        self._n_passages = len(passages)
        of, self._passages = Passages.of(passages), np.arange(len(passages))  # row of the passage of each vector
        texts = of.indexed_texts(title=title)
        if windows and isinstance(encoder, WindowEncoder):
            found = encoder.windows_of(texts, of.heads(title=title), windows)
            vectors, self._passages = encoder.encode_windows(texts, found)
        else:
            vectors = encoder.encode_passages(texts)
        self._index = VectorIndex(vectors, index)
        self._windowed, self._share = len(vectors) > len(passages), len(vectors) / max(1, len(passages))

    @property
    def memory_bytes(self) -> int:
        """Size of the index."""
        return self._index.memory_bytes

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question."""
        vectors, k = self._encoder.encode_questions(questions), min(k, self._n_passages)
        if not len(vectors):
            return ranked(np.zeros((0, 0), dtype=np.int32), np.zeros((0, 0)), k)
        known = np.flatnonzero(np.any(vectors != 0, axis=1))
        rankings = Rankings(
            np.full((len(vectors), k), NOT_FOUND, dtype=np.int32),
            np.full((len(vectors), k), -np.inf, dtype=np.float32),
        )
        self._fill(rankings, known, vectors[known], math.ceil((k + 1) * self._share))
        return rankings

    def _fill(self, rankings: Rankings, rows: np.ndarray, vectors: np.ndarray, depth: int) -> None:
        k, deepest = rankings.indices.shape[1], min(self._index.size, self._index.most)
        scores, indices = self._index.search(vectors, min(depth, deepest))
        best = ranked(self._of_passages(indices), scores, k)
        rankings.indices[rows], rankings.scores[rows] = best.indices, best.scores
        if depth < deepest:
            # FAISS picks freely among vectors that tie with the k-th passage, and all may be windows of few passages:
            # more are fetched until the last is below the k-th passage
            open_ = np.flatnonzero((best.scores[:, k - 1] <= scores[:, -1]) & (indices[:, -1] != NOT_FOUND))
            if len(open_):
                self._fill(rankings, rows[open_], vectors[open_], 2 * depth)

    def _of_passages(self, found: np.ndarray) -> np.ndarray:
        """Rows of the passages of vectors found, `(n_questions, depth)`, -1 for all but the best of a passage."""
        passages = np.where(found != NOT_FOUND, self._passages[found], NOT_FOUND)
        if not self._windowed:
            return passages
        order = np.argsort(passages, axis=1, kind="stable")  # vectors come best first
        ordered = np.take_along_axis(passages, order, axis=1)
        worse = np.zeros_like(passages, dtype=bool)
        np.put_along_axis(worse, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
        return np.where(worse, NOT_FOUND, passages)
