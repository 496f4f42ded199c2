"""From analyzed passages to lists of weights, a part of the passages at a time: BM25 and BM25F."""

from collections.abc import Iterable, Iterator

import numpy as np

from retrieval.lexical.fields import FieldStatistics, one_after_the_other
from retrieval.lexical.postings.segment import Segment, WeighedTokens, segment_of
from retrieval.lexical.statistics import TermStatistics, hashes_of, idf_of
from text.tokens import Tokens


def bm25_segments(parts: Iterable[Tokens], statistics: TermStatistics, k1: float, b: float) -> Iterator[Segment]:
    """Yield the lists of passages, weighed as `retrieval.lexical.bm25` says."""
    for tokens in parts:
        lengths = np.diff(tokens.offsets)
        held_back = k1 * (1 - b + b * lengths / statistics.mean_length)
        yield _weighed(tokens, statistics, held_back, np.zeros(len(tokens), np.int64), np.ones((2, len(tokens))))


def bm25f_segments(
    parts: Iterable[tuple[Tokens, Tokens]], statistics: FieldStatistics, k1: float, b: float, title_weight: float
) -> Iterator[Segment]:
    """Yield the lists of passages, given as titles and texts, weighed as `retrieval.lexical.fields` says."""
    for titles, texts in parts:
        heads, lengths = np.diff(titles.offsets), np.diff(texts.offsets)
        gains = np.stack(
            [
                _gains(heads, statistics.mean_title, b) * title_weight,
                _gains(lengths, statistics.mean_text, b),
            ]
        )
        both = one_after_the_other(titles, texts)
        yield _weighed(both, statistics.terms, np.full(len(texts), k1), heads, gains)


def _gains(lengths: np.ndarray, mean: float, b: float) -> np.ndarray:
    """Return what a token counts in fields of these lengths; in an empty one there is none."""
    return 1 / np.where(lengths > 0, 1 - b + b * lengths / (mean or 1), 1)


def _weighed(
    tokens: Tokens, statistics: TermStatistics, held_back: np.ndarray, heads: np.ndarray, gains: np.ndarray
) -> Segment:
    idf = idf_of(statistics.holders[statistics.places_of(tokens.vocabulary)], statistics.n_passages)
    terms = hashes_of(tokens.vocabulary)
    return segment_of(WeighedTokens(terms, tokens.ids, tokens.offsets, idf, held_back, heads, gains))
