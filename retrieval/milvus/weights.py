"""BM25 weights of passages as sparse vectors, so that an inner product with term counts is the score of `BM25`."""

import hashlib

import numpy as np
from scipy.sparse import csr_array

from retrieval.cache import key_of
from retrieval.tokens import Tokens

_ROWS = 4096  # passages whose terms are counted at a time


class TermWeights:
    """Lucene's BM25 weights of analyzed passages; see `retrieval.bm25` for the formula."""

    def __init__(self, tokens: Tokens, k1: float, b: float) -> None:
        self._tokens = tokens
        lengths = np.diff(tokens.offsets)
        self._held_back = k1 * (1 - b + b * lengths / max(lengths.mean(), 1e-9)) if len(lengths) else lengths
        holding = np.zeros(len(tokens.vocabulary), dtype=np.int64)
        for start in range(0, len(tokens), _ROWS):
            holding += np.bincount(self._counts(start, start + _ROWS).indices, minlength=len(holding))
        self._idf = np.log1p((len(tokens) - holding + 0.5) / (holding + 0.5))
        self.key = key_of("bm25", _fingerprint(tokens), k1, b)

    def of(self, start: int, stop: int) -> csr_array:
        """Return the weights of passages `start` to `stop`, `(stop - start, n_terms)` float32, none of them 0."""
        weights = self._counts(start, stop)
        held_back = np.repeat(self._held_back[start:stop], np.diff(weights.indptr))
        values = self._idf[weights.indices] * weights.data / (weights.data + held_back)
        return csr_array((values.astype(np.float32), weights.indices, weights.indptr), shape=weights.shape)

    def _counts(self, start: int, stop: int) -> csr_array:
        offsets = self._tokens.offsets[start : stop + 1]
        return counts(self._tokens.ids[offsets[0] : offsets[-1]], offsets - offsets[0], len(self._tokens.vocabulary))


def counts(ids: np.ndarray, offsets: np.ndarray, n_terms: int) -> csr_array:
    """Return how often each text holds each term, `(n_texts, n_terms)` float64, terms in order."""
    found = csr_array((np.ones(len(ids)), ids, offsets), shape=(len(offsets) - 1, n_terms))
    found.sum_duplicates()
    return found


def _fingerprint(tokens: Tokens) -> str:
    """Tell tokens by what they are, the numbers of the terms too: a vector's dimensions mean nothing without them."""
    digest = hashlib.sha256("\n".join(tokens.vocabulary).encode())
    for array in (tokens.ids, tokens.offsets):
        digest.update(array.astype(np.int64).tobytes())
    return digest.hexdigest()
