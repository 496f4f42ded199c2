"""Indexes of documents whose terms are the numbers 0 to 6, and what their scores are by the written formula."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np

from mrc_workbench.data.text.analysis import Tokens
from mrc_workbench.retrieval.lexical import Segment, TermStatistics, bm25_segments, counts_of, hash_terms
from mrc_workbench.retrieval.lexical.index import Postings

Documents = Sequence[Sequence[int]]
WORDS = [str(term) for term in range(7)]
HASHES = hash_terms(WORDS)


def tokens_with(documents: Documents) -> Tokens:
    known = sorted({term for document in documents for term in document})
    ids = np.array([known.index(term) for document in documents for term in document], dtype=np.int32)
    return Tokens([WORDS[term] for term in known], ids, offsets_of(documents))


def offsets_of(texts: Documents) -> np.ndarray:
    return np.array([0, *accumulate(map(len, texts))], dtype=np.int64)


def query_arrays(questions: Documents) -> tuple[np.ndarray, np.ndarray]:
    return HASHES[[term for question in questions for term in question]], offsets_of(questions)


def segments_with(documents: Documents, k1: float, b: float, size: int) -> Iterator[Segment]:
    parts = [tokens_with(documents[first : first + size]) for first in range(0, len(documents), size)]
    counted = counts_of(parts)
    mean_length = float(counted["n_tokens"]) / len(documents)
    statistics = TermStatistics(counted["hashes"], counted["document_frequencies"], len(documents), mean_length)
    return bm25_segments(parts, statistics, k1, b)


def postings_with(documents: Documents, k1: float = 0.9, b: float = 0.4, size: int = 8) -> Postings:
    return Postings.from_segments(segments_with(documents, k1, b, size), len(documents), size)


def weights_by_formula(documents: Documents, k1: float, b: float) -> np.ndarray:
    """`(n_documents, 7)`: Lucene's BM25 as it is written, a term and a document at a time."""
    mean = sum(map(len, documents)) / len(documents)
    weights = np.zeros((len(documents), len(WORDS)))
    for term in range(len(WORDS)):
        n = sum(term in document for document in documents)
        idf = np.log(1 + (len(documents) - n + 0.5) / (n + 0.5))
        for row, document in enumerate(documents):
            f = document.count(term)
            weights[row, term] = idf * f / (f + k1 * (1 - b + b * len(document) / mean)) if f else 0
    return weights
