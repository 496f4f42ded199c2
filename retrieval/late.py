"""Late interaction: a question's tokens are each compared with every token of a passage (ColBERT: Khattab & Zaharia
2020).

A passage's score is the mean over the question's tokens of the best cosine among its own tokens, higher is better:
their MaxSim divided by the number of question tokens, which orders a question's passages the same and can be read as a
cosine.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import Passage
from mrc_workbench.models.encoders.protocols import LimitedEncoder, TokenVectorEncoder, TokenVectors
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, Retriever, joined, ranked, top_k

if TYPE_CHECKING:
    from mrc_workbench.retrieval.centroids import TokenIndex

ENCODING = 0.7  # of the progress: encoding passages and questions, before they are compared
_QUESTIONS = 32  # compared at a time with all passages
_PLACES = 8192  # tokens of passages compared at a time: what comes of them stays in the processor's cache
_MANY = 10_000  # passages with all of which a question is compared, which takes some tenths of a second


class LateIndex(StrEnum):
    """Which passages a question is compared with: all of them, or candidates that an index finds by centroids."""

    AUTO = "auto"  # all of some, candidates of many
    EXACT = "exact"
    CENTROIDS = "centroids"


def max_sim(questions: TokenVectors, passages: TokenVectors) -> np.ndarray:
    """Score every question with every passage, `(n_questions, n_passages)` float32; nothing of a text without tokens.

    Passages of like length are compared together; one that is shorter repeats its last token, which changes no best.
    """
    scores = np.full((len(questions), len(passages)), -np.inf, dtype=np.float32)
    lengths, asked = np.diff(passages.starts), np.diff(questions.starts)
    of_questions = questions.vectors.astype(np.float32)
    if not (known := np.flatnonzero(asked)).size:
        return scores
    for rows, vectors in _alike(passages, lengths):
        similar = (vectors @ of_questions.T).reshape(len(rows), -1, len(of_questions))
        sums = np.add.reduceat(similar.max(axis=1), questions.starts[:-1][known], axis=1)
        scores[np.ix_(known, rows)] = (sums / asked[known]).T
    return scores


def _alike(passages: TokenVectors, lengths: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows of passages of like length, and their vectors `(n * longest, dimensions)` float32, padded."""
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    first = 0
    while first < len(order):
        last = first + 1
        while last < len(order) and (last + 1 - first) * lengths[order[last]] <= _PLACES:
            last += 1
        rows = order[first:last]
        places = np.minimum(np.arange(lengths[rows[-1]]), lengths[rows][:, None] - 1) + passages.starts[rows][:, None]
        yield rows, passages.vectors[places.ravel()].astype(np.float32)
        first = last


class Late:
    """Search by late interaction, every question compared with every passage; scores lie between -1 and 1.

    With `first`, only the first `depth` passages of that retriever are compared and ordered anew; those below stay
    below, in their order. The heads of passages, their titles, stand before each window of a long one.

    With an `index` of centroids, tokens are mapped from a file, in half precision or in so many `bits` a dimension, and
    without `first` the candidates are those that it finds. See `retrieval.centroids`.
    """

    def __init__(
        self,
        name: str,
        passages: Sequence[Passage],
        encoder: TokenVectorEncoder,
        *,
        title: bool = True,
        first: Retriever | None = None,
        depth: int = 100,
        index: LateIndex = LateIndex.AUTO,
        bits: int = 0,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        self.name = name
        self._encoder, self._first, self._depth, self._on_progress = encoder, first, depth, on_progress
        self._tokens: TokenVectors | TokenIndex
        of, self._n_passages = Passages.of(passages), len(passages)
        self._texts, heads = of.indexed_texts(title=title), of.heads(title=title)
        if index is LateIndex.EXACT or not (bits or len(passages) > _MANY or index is LateIndex.CENTROIDS):
            self._tokens = encoder.encode_passages(self._texts, heads)
            return
        from mrc_workbench.retrieval.centroids import mapped_index  # imports a compiler

        key = encoder.key_of_passages(self._texts, heads)
        self._tokens = mapped_index(key, lambda: encoder.passage_blocks(self._texts, heads), len(passages), bits)

    @property
    def memory_bytes(self) -> int:
        return self._tokens.vectors.nbytes if isinstance(self._tokens, TokenVectors) else self._tokens.memory_bytes

    def cut_off(self) -> int:
        return self._encoder.cut_off(self._texts) if isinstance(self._encoder, LimitedEncoder) else 0

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        vectors, k = self._encoder.encode_questions(questions), min(k, self._n_passages)
        if self._first:
            return self._reordered(vectors, self._first.search(questions, max(k, self._depth)), k)
        found = [Rankings.of_nothing(0, k)]
        for start in range(0, len(vectors), _QUESTIONS):
            found.append(self._found(vectors.between(start, start + _QUESTIONS), k))
            if self._on_progress:
                share = min(1.0, (start + _QUESTIONS) / len(vectors))
                self._on_progress(ENCODING + (1 - ENCODING) * share)
        return joined(found[1:] or found)

    def _found(self, questions: TokenVectors, k: int) -> Rankings:
        if isinstance(self._tokens, TokenVectors):
            return top_k(max_sim(questions, self._tokens), k)
        one_by_one = (questions.between(row, row + 1).vectors for row in range(len(questions)))
        return joined([self._tokens.search(vectors, k) for vectors in one_by_one])

    def _scores(self, question: TokenVectors, rows: np.ndarray) -> np.ndarray:
        if isinstance(self._tokens, TokenVectors):
            return np.asarray(max_sim(question, self._tokens.at(rows))[0])
        return self._tokens.scores(question.vectors, rows)

    def _reordered(self, questions: TokenVectors, found: Rankings, k: int) -> Rankings:
        scores = np.full(found.indices.shape, -np.inf)
        for row, indices in enumerate(found.indices):
            rows = indices[: self._depth][indices[: self._depth] != NOT_FOUND]
            scores[row, : len(rows)] = self._scores(questions.between(row, row + 1), rows)
            below = np.arange(len(rows), np.count_nonzero(indices != NOT_FOUND))
            scores[row, below] = -2.0 - below  # under every cosine
        return ranked(found.indices, scores, k)
