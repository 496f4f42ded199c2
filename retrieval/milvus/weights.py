"""BM25 weights of passages as sparse vectors, so that an inner product with term counts is the score of `BM25`."""

import hashlib
from functools import cached_property

import numpy as np
from scipy.sparse import csc_array, csr_array

from data.cache import key_of
from text.tokens import Tokens


class TermWeights:
    """What `retrieval.lexical.postings` lists by term, by passage. `key` tells the weights without computing them."""

    def __init__(self, tokens: Tokens, k1: float, b: float) -> None:
        self._tokens, self._k1, self._b = tokens, k1, b
        self.key = key_of("bm25", _fingerprint(tokens), k1, b)

    def of(self, start: int, stop: int) -> csr_array:
        """Return the weights of passages `start` to `stop`, `(stop - start, n_terms)` float32, none of them 0."""
        return self._by_passage[start:stop]

    @cached_property
    def _by_passage(self) -> csr_array:
        """Lists by term are the columns of a matrix of passages by terms; it takes their memory once more."""
        shape = len(self._tokens), len(self._tokens.vocabulary)
        if not len(self._tokens.ids):
            return csr_array(shape, dtype=np.float32)
        from retrieval.lexical.postings import bm25_postings  # imports a compiler

        postings = bm25_postings(self._tokens, self._k1, self._b)
        return csc_array((postings.weights, postings.rows, postings.starts), shape=shape).tocsr()


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
