"""The lists of some passages, counted from analyzed texts: what an index is put together from.

Of few tokens by numpy, of many by compiled loops, to the same last bit: reading and compiling the loops takes longer
than a small corpus, and it is the first thing that a new user waits for.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Segment(NamedTuple):
    """The lists of some passages: those of `terms`, one after another, each of so many `lengths`."""

    terms: Array  # (n_lists,) uint64, no term twice
    lengths: Array  # (n_lists,) int32, 1 or more
    rows: Array  # (n_postings,) uint16
    weights: Array  # (n_postings,) float32


@dataclass(frozen=True)
class WeighedTokens:
    """Passages as terms, and all that a BM25 weight is made of.

    Passage i holds `ids[offsets[i]:offsets[i + 1]]`, places in `terms` and `idf`. A token counts 1; in BM25F one of the
    first `heads[i]` counts `gains[0, i]`, and another `gains[1, i]`. A term of count c weighs
    `idf * c / (c + held_back[i])`.
    """

    terms: Array  # (n_terms,) uint64
    ids: Array  # (n_tokens,) int32
    offsets: Array  # (n_passages + 1,) int64
    idf: Array  # (n_terms,) float64
    held_back: Array  # (n_passages,) float64
    heads: Array  # (n_passages,) int64
    gains: Array  # (2, n_passages) float64


def in_one(parts: list[Array]) -> Array:
    """Return the parts, at least one, as one array, and leave none of them: both would take their memory twice."""
    whole = np.empty(sum(map(len, parts)), parts[0].dtype)
    end = len(whole)
    while parts:
        part = parts.pop()
        whole[end - len(part) : end] = part
        end -= len(part)
    return whole


def first_places(ordered: Array) -> Array:
    """Return where each value of an ordered array stands first."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])


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
