"""How few tokens become the lists of a segment, by numpy; many are counted by what is compiled, in `build`."""

import numpy as np

from retrieval.lexical.postings.segment import Array, Segment, WeighedTokens

FEW = 1_000_000  # tokens that numpy counts in a tenth of a second


def segment_of(weighed: WeighedTokens) -> Segment:
    """Return the lists of these passages."""
    lengths = holders(weighed.ids, weighed.offsets, len(weighed.terms))
    rows, counts = counted(weighed.ids, weighed.offsets, lengths, weighed.heads, weighed.gains)
    weights = np.repeat(weighed.idf, lengths) * counts / (counts + weighed.held_back[rows])
    held = lengths > 0
    return Segment(weighed.terms[held], lengths[held].astype(np.int32), rows, weights.astype(np.float32))


def holders(ids: Array, offsets: Array, n_terms: int) -> Array:
    """Return how many passages hold each term, `(n_terms,)` int64."""
    if len(ids) > FEW:
        from retrieval.lexical.postings import build

        return build.holders(ids, offsets, n_terms)
    pairs = np.unique(_pairs(ids, offsets))
    return np.bincount(pairs // max(1, len(offsets) - 1), minlength=n_terms).astype(np.int64)


def counted(ids: Array, offsets: Array, lengths: Array, heads: Array, gains: Array) -> tuple[Array, Array]:
    """Return the passages of all terms' lists, uint16, and what the term counts in each, float64.

    The list of a term is of so many `lengths`. Counts are added up in the order of the tokens.
    """
    if len(ids) > FEW:
        from retrieval.lexical.postings import build

        return build.counted(ids, offsets, np.concatenate([[0], np.cumsum(lengths)]), heads, gains)
    passages = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    is_head = np.arange(len(ids)) - offsets[passages] < heads[passages]
    pairs, place = np.unique(_pairs(ids, offsets), return_inverse=True)
    gained = gains[np.where(is_head, 0, 1), passages]
    return (pairs % max(1, len(heads))).astype(np.uint16), np.bincount(place, gained, len(pairs))


def _pairs(ids: Array, offsets: Array) -> Array:
    """Return a number for each token's term and passage, by term and then by passage."""
    n_passages = len(offsets) - 1
    return ids.astype(np.int64) * n_passages + np.repeat(np.arange(n_passages), np.diff(offsets))
