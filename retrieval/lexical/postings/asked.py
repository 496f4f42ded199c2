"""What a question asks of an index, compiled: its distinct terms, and their lists in every segment."""

import numpy as np

from retrieval.lexical.postings.lists import Array, Lists, compiled

_ROUNDING = 1 + 1e-9  # more than sums of bounds can lose


@compiled
def asked_terms(lists: Lists, ids: Array, factors: Array) -> tuple[Array, Array]:
    """Return the places of the known terms, none twice, and what each counts (float64), in the order of summing.

    Those that can add most come first, of equal ones the first in the index. A passage's terms are added up in this
    order wherever it stands, so that passages of the same terms have the same score to the last bit.
    """
    places, counts = np.empty(len(ids), dtype=np.int64), np.zeros(len(ids), dtype=np.float64)
    size = 0
    for asked in np.argsort(ids, kind="mergesort"):
        place = np.searchsorted(lists.terms, ids[asked])
        if place == len(lists.terms) or lists.terms[place] != ids[asked]:
            continue
        if size == 0 or places[size - 1] != place:
            places[size] = place
            size += 1
        counts[size - 1] += np.float64(factors[asked])
    most = np.zeros(size, dtype=np.float64)
    for term in range(size):
        for one in range(lists.firsts[places[term]], lists.firsts[places[term] + 1]):
            most[term] = max(most[term], abs(counts[term]) * np.float64(lists.largest[one]))
    order = np.argsort(-most, kind="mergesort")
    return places[:size][order], counts[:size][order]


@compiled
def lists_of(lists: Lists, places: Array, counts: Array, n_segments: int) -> tuple[Array, Array]:
    """Return each term's list in each segment, -1 where it has none, and what the terms from it on can add at most.

    `(n_segments, n_terms)` int64, and `(n_segments, n_terms + 1)` float64.
    """
    own = np.full((n_segments, len(places)), -1, dtype=np.int64)
    rest = np.zeros((n_segments, len(places) + 1), dtype=np.float64)
    for term in range(len(places) - 1, -1, -1):
        rest[:, term] = rest[:, term + 1]
        for one in range(lists.firsts[places[term]], lists.firsts[places[term] + 1]):
            own[lists.segments[one], term] = one
            rest[lists.segments[one], term] += abs(counts[term]) * np.float64(lists.largest[one]) * _ROUNDING
    return own, rest
