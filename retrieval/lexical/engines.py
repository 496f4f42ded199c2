"""The engines of BM25: each makes an index of analyzed passages."""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import numpy as np

from retrieval.lexical.postings.segment import Segment
from retrieval.lexical.weights import hashes_of
from retrieval.rankings import Rankings, joined, top_k
from text.analysis import Tokens

if TYPE_CHECKING:
    from retrieval.lexical.postings.index import Postings  # imports a compiler

_BLOCK, _CELLS = 512, 50_000_000  # questions, and scores, at a time: 200 MB


class Engine(StrEnum):
    """`POSTINGS` is the engine; `RANK_BM25` is a slow reference in its own variant (Okapi with an idf floor): there a
    term of half of the passages weighs nothing, and a passage that scores 0 or less is not found.
    """

    POSTINGS = "postings"
    RANK_BM25 = "rank-bm25"


class Index(Protocol):
    """What an engine makes of analyzed passages; `memory_bytes` is the size of its arrays, 0 where not known."""

    memory_bytes: int

    def search(self, questions: Tokens, k: int, factors: np.ndarray | None = None) -> Rankings:
        """Return the best k passages of each analyzed question, whose tokens weigh `factors` where they are given.

        Only the engine `POSTINGS` takes factors.
        """
        ...

    def score_blocks(self, questions: Tokens, factors: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """Score every passage for some questions at a time: `(rows, n_passages)`, -inf where no term is shared."""
        ...


def best_of_blocks(blocks: Iterable[np.ndarray], shape: tuple[int, int], k: int) -> Rankings:
    """Return the best k columns of a score matrix of some shape that comes a few rows at a time.

    Rows that do not come, because there is no passage to score, hold nothing.
    """
    parts = [top_k(scores, k) for scores in blocks]
    return joined(parts or [top_k(np.full(shape, -np.inf, dtype=np.float32), k)])


def _block(n_passages: int) -> int:
    return max(1, min(_BLOCK, _CELLS // max(1, n_passages)))


class InPostings:
    """The engine: see `retrieval.lexical.postings`."""

    def __init__(self, postings: "Postings") -> None:
        self._postings = postings
        self.memory_bytes = postings.memory_bytes

    def search(self, questions: Tokens, k: int, factors: np.ndarray | None = None) -> Rankings:
        return self._postings.search(_terms(questions), questions.offsets, k, factors)

    def score_blocks(self, questions: Tokens, factors: np.ndarray | None = None) -> Iterator[np.ndarray]:
        block = _block(self._postings.n_passages)
        return self._postings.scores(_terms(questions), questions.offsets, block, factors)


def _terms(questions: Tokens) -> np.ndarray:
    return np.asarray(hashes_of(questions.vocabulary)[questions.ids])


class _Scored:
    """An index that can only score every passage."""

    memory_bytes = 0

    def __init__(self, n_passages: int) -> None:
        self._n_passages, self._block = n_passages, _block(n_passages)

    def search(self, questions: Tokens, k: int, factors: np.ndarray | None = None) -> Rankings:
        return best_of_blocks(self.score_blocks(questions, factors), (len(questions), self._n_passages), k)

    def score_blocks(self, questions: Tokens, factors: np.ndarray | None = None) -> Iterator[np.ndarray]:
        del factors
        for start in range(0, len(questions), self._block):
            yield np.full((min(self._block, len(questions) - start), self._n_passages), -np.inf, dtype=np.float32)


class InOneSegment(_Scored):
    """The engine's own scores of a few passages, to the last bit, with nothing to compile: see `postings.index`."""

    def __init__(self, segment: Segment, n_passages: int) -> None:
        super().__init__(n_passages)
        order = np.argsort(segment.terms, kind="stable")
        ends = np.cumsum(segment.lengths, dtype=np.int64)
        self._terms, self._lists = segment.terms[order], np.stack([ends - segment.lengths, ends], axis=1)[order]
        self._rows, self._weights = segment.rows, segment.weights
        largest = np.maximum.reduceat(np.abs(self._weights), ends - segment.lengths) if len(ends) else np.zeros(0)
        self._largest = largest[order].astype(np.float64)
        arrays = (self._terms, self._lists, self._largest, self._rows, self._weights)
        self.memory_bytes = sum(array.nbytes for array in arrays)

    def score_blocks(self, questions: Tokens, factors: np.ndarray | None = None) -> Iterator[np.ndarray]:
        terms, offsets = _terms(questions), questions.offsets
        weighed = np.ones(len(terms)) if factors is None else factors.astype(np.float64)
        for scores, start in zip(super().score_blocks(questions), range(0, len(questions), self._block), strict=True):
            for row in range(len(scores)):
                asked = slice(offsets[start + row], offsets[start + row + 1])
                sums = self._sums(terms[asked], weighed[asked])
                scores[row] = np.where(sums > 0, sums, -np.inf)
            yield scores

    def _sums(self, terms: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Add up what the terms weigh in each passage, those first that can add most, as the engine does."""
        places = np.searchsorted(self._terms, terms)
        known = places < len(self._terms)
        known[known] = self._terms[places[known]] == terms[known]
        distinct, which = np.unique(places[known], return_inverse=True)
        counts = np.bincount(which, factors[known], len(distinct))
        sums = np.zeros(self._n_passages)
        for one in np.lexsort((distinct, -self._largest[distinct] * np.abs(counts))):
            here = slice(*self._lists[distinct[one]])
            sums[self._rows[here]] += counts[one] * self._weights[here].astype(np.float64)
        return sums


class NothingFound(_Scored):
    """Of passages without a token."""


class RankBM25(_Scored):
    """A reference: nobody asks what its dictionaries weigh."""

    def __init__(self, tokens: Tokens, k1: float, b: float) -> None:
        super().__init__(len(tokens))
        from rank_bm25 import BM25Okapi

        self._index = BM25Okapi(tokens.texts(), k1=k1, b=b)

    def score_blocks(self, questions: Tokens, factors: np.ndarray | None = None) -> Iterator[np.ndarray]:
        del factors
        for words in questions.texts():
            scores = self._index.get_scores(words)[None, :]
            yield np.where(scores > 0, scores, -np.inf)
