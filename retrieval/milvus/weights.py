"""BM25 weights of passages as sparse vectors, so that an inner product with term counts is the score of `BM25`."""

import hashlib
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from data.cache import key_of
from retrieval.lexical.statistics import idf_of
from text.tokens import Tokens


class TermWeights:
    """What `retrieval.lexical.weights` lists by term, by passage. `key` tells the weights without computing them."""

    def __init__(self, tokens: Tokens, k1: float, b: float) -> None:
        self._tokens, self._k1, self._b = tokens, k1, b
        self.key = key_of("bm25", _fingerprint(tokens), k1, b)

    def of(self, start: int, stop: int) -> csr_array:
        """Return the weights of passages `start` to `stop`, `(stop - start, n_terms)` float32, none of them 0."""
        return self._by_passage[start:stop]

    @cached_property
    def _by_passage(self) -> csr_array:
        weights = counts(self._tokens.ids, self._tokens.offsets, len(self._tokens.vocabulary))
        holders = np.bincount(weights.indices, minlength=weights.shape[1])
        lengths = np.diff(self._tokens.offsets)
        mean_length = len(self._tokens.ids) / max(1, len(lengths))
        held_back = self._k1 * (1 - self._b + self._b * lengths / (mean_length or 1))
        idf = idf_of(holders, len(lengths))[weights.indices]
        weights.data = idf * weights.data / (weights.data + np.repeat(held_back, np.diff(weights.indptr)))
        return weights.astype(np.float32)


def counts(ids: np.ndarray, offsets: np.ndarray, n_terms: int) -> csr_array:
    """Return how often each text holds each term, `(n_texts, n_terms)` float64, terms in order."""
    given = np.ones(len(ids)), ids, offsets
    found = csr_array(given, shape=(len(offsets) - 1, n_terms), copy=True)  # to add up changes its arrays
    found.sum_duplicates()
    return found


def _fingerprint(tokens: Tokens) -> str:
    """Tell tokens by what they are, the numbers of the terms too: a vector's dimensions mean nothing without them."""
    digest = hashlib.sha256("\n".join(tokens.vocabulary).encode())
    for array in (tokens.ids, tokens.offsets):
        digest.update(array.astype(np.int64).tobytes())
    return digest.hexdigest()
