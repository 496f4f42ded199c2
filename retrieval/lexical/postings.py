"""An inverted index in arrays, and its search: exact, and on all cores.

Each term has a list of the passages that hold it, with what it adds to their scores. A search adds up the lists of the
question's terms, each times the question's own weight of the term, a stretch of passages at a time, so that the sums
stay in the processor's cache. Sums are made in float64: they do not depend on the order of the terms but for what
float32 does not show.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from retrieval.lexical.kernel import Array, all_scores, compiled, search
from retrieval.rankings import NOT_FOUND, Rankings
from text.tokens import Tokens

_AT_A_TIME = 16  # questions that a core takes: few enough that none waits long for the others


@dataclass(frozen=True)
class Postings:
    """Term t is held by passages `rows[starts[t]:starts[t + 1]]`, ascending, and adds `weights` of the same places.

    `starts` `(n_terms + 1,)` int64, `rows` int32 and `weights` float32 `(n_postings,)`. A passage whose sum is not
    above 0 is not found.
    """

    starts: np.ndarray
    rows: np.ndarray
    weights: np.ndarray
    n_passages: int

    @property
    def memory_bytes(self) -> int:
        """Size of all arrays."""
        return self.starts.nbytes + self.rows.nbytes + self.weights.nbytes

    def search(self, ids: np.ndarray, offsets: np.ndarray, k: int, factors: np.ndarray | None = None) -> Rankings:
        """Return the best k passages of questions whose terms are `ids[offsets[i]:offsets[i + 1]]`, on all cores.

        A term counts as often as it is asked, times its `factors` `(n_asked,)` float32 where they are given. Scores are
        sums of weights, higher is better, ties by row.
        """
        n_questions = len(offsets) - 1
        factors = np.ones(len(ids), dtype=np.float32) if factors is None else factors
        rows = np.full((n_questions, k), NOT_FOUND, dtype=np.int32)
        scores = np.full((n_questions, k), -np.inf, dtype=np.float32)

        def some(start: int) -> None:
            asked = offsets[start : start + _AT_A_TIME + 1]
            part, index = slice(start, start + _AT_A_TIME), (self.starts, self.rows, self.weights, self.n_passages)
            search(*index, ids, factors, asked, rows[part], scores[part])

        starts = range(0, n_questions if k else 0, _AT_A_TIME)
        if len(starts) > 1:
            with ThreadPoolExecutor(os.cpu_count()) as cores:
                list(cores.map(some, starts))
        else:
            list(map(some, starts))  # threads take longer to start than one question to answer
        return Rankings(rows, scores)

    def scores(self, ids: np.ndarray, offsets: np.ndarray, at_a_time: int) -> Iterator[np.ndarray]:
        """Score all passages for some questions at a time: `(at_a_time, n_passages)` float32, -inf where no term is."""
        factors = np.ones(len(ids), dtype=np.float32)
        for start in range(0, len(offsets) - 1, at_a_time):
            asked = offsets[start : start + at_a_time + 1]
            yield all_scores(self.starts, self.rows, self.weights, self.n_passages, ids, factors, asked)


def bm25_postings(tokens: Tokens, k1: float, b: float) -> Postings:
    """Index analyzed passages by the weights of `retrieval.lexical.bm25`; 8 bytes for each passage of each term."""
    n_terms, n_passages = len(tokens.vocabulary), len(tokens)
    held = holders(tokens.ids, tokens.offsets, n_terms)
    starts = np.concatenate([[0], np.cumsum(held)])
    idf = np.log1p((n_passages - held + 0.5) / (held + 0.5))
    lengths = np.diff(tokens.offsets)
    held_back = k1 * (1 - b + b * lengths / lengths.mean())
    rows, weights = _weigh(tokens.ids, tokens.offsets, starts, idf, held_back)
    return Postings(starts, rows, weights, n_passages)


@compiled
def holders(ids: Array, offsets: Array, n_terms: int) -> Array:
    """Return how many passages hold each term, `(n_terms,)` int64."""
    held = np.zeros(n_terms, dtype=np.int64)
    last = np.full(n_terms, -1, dtype=np.int32)
    for row in range(len(offsets) - 1):
        for place in range(offsets[row], offsets[row + 1]):
            term = ids[place]
            if last[term] != row:
                last[term] = row
                held[term] += 1
    return held


@compiled
def _weigh(ids: Array, offsets: Array, starts: Array, idf: Array, held_back: Array) -> tuple[Array, Array]:
    """Fill the lists of all terms: counts first, then `idf * count / (count + held_back[row])`."""
    rows = np.empty(starts[-1], dtype=np.int32)
    weights = np.empty(starts[-1], dtype=np.float32)
    ends = starts[:-1].copy()
    for row in range(len(offsets) - 1):
        for place in range(offsets[row], offsets[row + 1]):
            term = ids[place]
            end = ends[term]
            if end > starts[term] and rows[end - 1] == row:
                weights[end - 1] += 1
            else:
                rows[end], weights[end], ends[term] = row, 1, end + 1
    for term in range(len(starts) - 1):
        for place in range(starts[term], starts[term + 1]):
            count = weights[place]
            weights[place] = idf[term] * count / (count + held_back[rows[place]])
    return rows, weights
