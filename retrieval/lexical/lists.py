"""An index as arrays, which compiled functions take as one argument and a file can hold; what a question asks of it.

A question is its distinct terms, and their lists in every segment.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np

from mrc_workbench.retrieval.lexical import Array

Function = TypeVar("Function", bound=Callable[..., Any])

WORD = 64  # passages a word of a map
_ROUNDING = 1 + 1e-9  # more than sums of bounds can lose

# where a term's list in a segment is; as one record, so that a term costs one wait for memory
LIST = np.dtype(
    [("segment", "<i4"), ("length", "<i4"), ("begin", "<i8"), ("map", "<i8"), ("largest", "<f4"), ("unused", "<f4")]
)


class Lists(NamedTuple):
    """Passages are cut into segments of the same size; a term has a list in every segment that holds it.

    Term t, `terms[t]`, has the lists `found[firsts[t]]` to `found[firsts[t + 1]]`, by ascending segment. The passages
    of a list, counted from the first of its `segment`, are the `length` of `rows` from `begin` on, ascending, and it
    adds the `weights` of the same places, the largest of which (without its sign) is `largest`.

    A list of many passages has a map beside it, the words from `map` on (-1 where it has none): bit `row % 64` of
    `bits[map + row // 64]` says whether it holds a passage, and `ranks` of that word how many come before it.
    """

    terms: Array  # (n_terms,) uint64, ascending
    firsts: Array  # (n_terms + 1,) int64
    found: Array  # (n_lists,) of `LIST`
    rows: Array  # (n_postings,) uint16
    weights: Array  # (n_postings,) float32
    bits: Array  # (n_words,) uint64
    ranks: Array  # (n_words,) uint16


DTYPES = {
    "terms": np.dtype("<u8"),
    "firsts": np.dtype("<i8"),
    "found": LIST,
    "rows": np.dtype("<u2"),
    "weights": np.dtype("<f4"),
    "bits": np.dtype("<u8"),
    "ranks": np.dtype("<u2"),
}


def compiled(function: Function) -> Function:
    """Compile, once on a machine, into what runs without holding the interpreter's lock."""
    made: Function = numba.njit(nogil=True, cache=True)(function)
    return made


@compiled
def ones(word: Any) -> Any:
    """Count the bits that are set, by adding up ever more of them side by side."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


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
