"""What a question asks of an index, compiled: its distinct terms, their lists in every segment, the best passages."""

from typing import Any, NamedTuple

import numpy as np

from retrieval.lexical.postings.build import Array, Lists, compiled

_ROUNDING = 1 + 1e-9  # more than sums of bounds can lose


class Asked(NamedTuple):
    """A question's terms in the order of summing, in room for those of the longest question.

    Those that can add most come first, of equal ones the first in the index. A passage's terms are added up in this
    order wherever it stands, so that passages of the same terms have the same score to the last bit.
    """

    places: Array  # (most terms,) int64, in the index, none twice
    counts: Array  # (most terms,) float64, what a term is multiplied by
    bounds: Array  # (most terms,) float64, what it can add
    own: Array  # (n_segments, most terms) int64, its list in a segment, -1 where it has none
    rest: Array  # (n_segments, most terms + 1) float64, what it and those after it can add there
    begins: Array  # (most terms,) int64, where a part of its list begins
    ends: Array  # (most terms,) int64, where the part ends
    order: Array  # (n_segments,) int64, segments by what their passages can reach


@compiled
def room_for(offsets: Array, n_segments: int) -> Asked:
    """Return room for any of these questions."""
    most: Any = 0
    for question in range(len(offsets) - 1):
        most = max(most, offsets[question + 1] - offsets[question])
    return Asked(
        np.empty(most, np.int64),
        np.empty(most, np.float64),
        np.empty(most, np.float64),
        np.empty((n_segments, most), np.int64),
        np.empty((n_segments, most + 1), np.float64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(n_segments, np.int64),
    )


@compiled
def ask(lists: Lists, ids: Array, factors: Array, asked: Asked) -> int:
    """Write a question's terms, the order of segments and all else; returns how many terms are known."""
    n_terms = _distinct(lists, ids, factors, asked)
    _sort_terms(asked, n_terms)
    _lists_and_bounds(lists, asked, n_terms)
    for number in range(len(asked.order)):
        place = number
        while place > 0 and asked.rest[asked.order[place - 1], 0] < asked.rest[number, 0]:
            asked.order[place] = asked.order[place - 1]
            place -= 1
        asked.order[place] = number
    return n_terms


@compiled
def _distinct(lists: Lists, ids: Array, factors: Array, asked: Asked) -> int:
    """Write the known terms, what each counts, and what it can add; returns how many they are."""
    size = 0
    for one in range(len(ids)):
        place = _place(lists.terms, ids[one])
        if place < 0:
            continue
        known = 0
        while known < size and asked.places[known] != place:
            known += 1
        if known == size:
            asked.places[size], asked.counts[size] = place, 0.0
            size += 1
        asked.counts[known] += np.float64(factors[one])
    for term in range(size):
        most = 0.0
        for one in range(lists.firsts[asked.places[term]], lists.firsts[asked.places[term] + 1]):
            most = max(most, np.float64(lists.found[one].largest))
        asked.bounds[term] = most * abs(asked.counts[term])
    return size


@compiled
def _place(terms: Array, term: np.uint64) -> int:
    """The place of a term in the index, -1 where it is not there.

    It is looked for from where it stands if the terms are spread evenly, as hashes are, in steps that double.
    """
    if not len(terms):
        return -1
    guess: Any = np.int64(((term >> np.uint64(32)) * np.uint64(len(terms))) >> np.uint64(32))
    step = 1
    if terms[guess] <= term:
        first, last = guess, guess + 1
        while last < len(terms) and terms[last] <= term:
            first, step = last, step * 2
            last += step
        last = min(last, len(terms))
    else:
        first, last = guess - 1, guess
        while first > 0 and terms[first] > term:
            last, step = first, step * 2
            first -= step
        first = max(first, 0)
    while last - first > 1:  # what is at `first` is the term or stands before it, if any does
        middle = (first + last) // 2
        if terms[middle] <= term:
            first = middle
        else:
            last = middle
    return first if terms[first] == term else -1


@compiled
def _sort_terms(asked: Asked, n_terms: int) -> None:
    """Bring the terms into the order of summing; they are few."""
    for term in range(1, n_terms):
        place, count, bound = asked.places[term], asked.counts[term], asked.bounds[term]
        to = term
        while to > 0 and (
            asked.bounds[to - 1] < bound or (asked.bounds[to - 1] == bound and asked.places[to - 1] > place)
        ):
            asked.places[to], asked.counts[to] = asked.places[to - 1], asked.counts[to - 1]
            asked.bounds[to] = asked.bounds[to - 1]
            to -= 1
        asked.places[to], asked.counts[to], asked.bounds[to] = place, count, bound


@compiled
def _lists_and_bounds(lists: Lists, asked: Asked, n_terms: int) -> None:
    """Write the list of each term in each segment, and what the terms from it on can add at most."""
    for number in range(len(asked.order)):
        asked.rest[number, n_terms] = 0
    for term in range(n_terms - 1, -1, -1):
        for number in range(len(asked.order)):
            asked.own[number, term] = -1
            asked.rest[number, term] = asked.rest[number, term + 1]
        for one in range(lists.firsts[asked.places[term]], lists.firsts[asked.places[term] + 1]):
            number = lists.found[one].segment
            asked.own[number, term] = one
            asked.rest[number, term] += abs(asked.counts[term]) * np.float64(lists.found[one].largest) * _ROUNDING


_LAST_ROW = np.uint32(2**32 - 1)


@compiled
def key_of(total: float, row: int) -> np.uint64:
    """Return a score above 0 and a row as one number: higher is better, of equal scores (float32) the first row is.

    The bits of a float above 0 are in the order of its values.
    """
    return (np.uint64(np.float32(total).view(np.uint32)) << np.uint64(32)) | np.uint64(_LAST_ROW - np.uint32(row))


@compiled
def score_of(key: np.uint64) -> np.float32:
    """Return the score that a key holds."""
    return np.uint32(key >> np.uint64(32)).view(np.float32)


@compiled
def row_of(key: np.uint64) -> np.uint32:
    """Return the row that a key holds."""
    return _LAST_ROW - np.uint32(key & np.uint64(_LAST_ROW))


@compiled
def offer(best: Array, size: int, key: np.uint64) -> int:
    """Put a passage among the `size` best so far where it belongs there; returns how many these are then."""
    if size < len(best):
        place = size
        while place > 0 and key < best[(place - 1) // 2]:
            best[place] = best[(place - 1) // 2]
            place = (place - 1) // 2
        best[place] = key
        return size + 1
    if key > best[0]:
        _replace_worst(best, size, key)
    return size


@compiled
def sort(best: Array, size: int) -> None:
    """Bring the heap's keys into order, the highest first."""
    for last in range(size - 1, 0, -1):
        worst, key = best[0], best[last]
        _replace_worst(best, last, key)
        best[last] = worst


@compiled
def _replace_worst(best: Array, size: int, key: np.uint64) -> None:
    """Put a key in the place of the worst, and move it down to where it belongs."""
    place, child = 0, 1
    while child < size:
        child += child + 1 < size and best[child + 1] < best[child]
        if best[child] >= key:
            break
        best[place] = best[child]
        place, child = child, 2 * child + 1
    best[place] = key
