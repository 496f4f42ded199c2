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
