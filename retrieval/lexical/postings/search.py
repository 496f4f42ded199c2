"""Search, compiled: the lists that matter are added up, and the others are asked only about who can still be found.

This is MaxScore (Turtle & Flood 1995) over sums in an array, a segment at a time. The terms stand in the order of what
each can add at most. Once the best so far are known, the lists are added up until what the rest can add is a small part
of the worst of these. Few passages have a sum then that the rest could lift above it; they are looked up in the
remaining lists, one list at a time, and dropped as soon as what is left cannot lift them. Nothing is left out that
could be found: the result is that of adding up all lists, to the last bit. The segment that promises most comes first.
"""

from typing import Any

import numpy as np

from retrieval.lexical.postings.asked import asked_terms, lists_of
from retrieval.lexical.postings.heap import key_of, offer, row_of, score_of
from retrieval.lexical.postings.lists import WORD, Array, Lists, compiled

_SHARE = 0.4  # of the score to reach, which the lists that are not added up may make up: measured, see benchmarks
_PARTS = 8  # of a segment, of which the first are searched while there is no score to reach
_CHUNK = 64  # passages of which it is asked first whether any is good enough
_NOTHING = 1e-30  # less than any score
_ALIKE = 1 - 2.0**-23  # a sum so much less than a float32 may be rounded to it, and stand before it by its row


@compiled
def search(
    lists: Lists,
    n_passages: int,
    segment: int,
    ids: Array,
    factors: Array,
    offsets: Array,
    sums: Array,
    candidates: Array,
    found: Array,
    scores: Array,
) -> None:
    """Write the best passages of each question, as many as there are places, into `found` and `scores`, best first.

    `sums` (float64) and `candidates` (int32) are room for the passages of a segment.
    """
    best = np.empty(found.shape[1], dtype=np.uint64)
    for question in range(len(offsets) - 1):
        here = slice(offsets[question], offsets[question + 1])
        size = _search_one(lists, n_passages, segment, ids[here], factors[here], sums, candidates, best)
        for place, key in enumerate(np.sort(best[:size])[::-1]):
            found[question, place], scores[question, place] = row_of(key), score_of(key)


@compiled
def all_scores(
    lists: Lists, n_passages: int, segment: int, ids: Array, factors: Array, offsets: Array, sums: Array
) -> Array:
    """Score all passages for each question, `(n_questions, n_passages)` float32, -inf where no term is held."""
    scores = np.empty((len(offsets) - 1, n_passages), dtype=np.float32)
    n_segments = (n_passages + segment - 1) // segment
    for question in range(len(offsets) - 1):
        here = slice(offsets[question], offsets[question + 1])
        places, counts = asked_terms(lists, ids[here], factors[here])
        own, _ = lists_of(lists, places, counts, n_segments)
        for number in range(n_segments):
            first = number * segment
            n_here = min(segment, n_passages - first)
            sums[:n_here] = 0
            for term in range(len(places)):
                one = own[number, term]
                if one >= 0:
                    _add(lists, counts[term], lists.begins[one], lists.begins[one] + lists.lengths[one], sums)
            for row in range(n_here):
                scores[question, first + row] = sums[row] if sums[row] > 0 else -np.inf
    return scores


@compiled
def _search_one(
    lists: Lists,
    n_passages: int,
    segment: int,
    ids: Array,
    factors: Array,
    sums: Array,
    candidates: Array,
    best: Array,
) -> int:
    """Put the best passages of a question into a heap; returns how many there are."""
    places, counts = asked_terms(lists, ids, factors)
    own, rest = lists_of(lists, places, counts, (n_passages + segment - 1) // segment)
    begins, ends = np.zeros(len(places), dtype=np.int64), np.zeros(len(places), dtype=np.int64)
    size = 0
    for number in np.argsort(-rest[:, 0], kind="mergesort"):
        first = number * segment
        n_here = min(segment, n_passages - first)
        _begin(lists, own[number], begins)
        start = 0
        while start < n_here:
            stop = n_here if size == len(best) else min(n_here, start + max(1, segment // _PARTS))
            _end(lists, own[number], begins, stop, n_here, ends)
            some = (first, start, stop)
            size = _search_some(
                lists, own[number], counts, rest[number], begins, ends, some, sums, candidates, best, size
            )
            begins[:] = ends
            start = stop
    return size


@compiled
def _begin(lists: Lists, own: Array, begins: Array) -> None:
    """Write where the lists of a segment begin; a term without one has an empty one."""
    for term in range(len(own)):
        begins[term] = lists.begins[own[term]] if own[term] >= 0 else 0


@compiled
def _end(lists: Lists, own: Array, begins: Array, stop: int, n_here: int, ends: Array) -> None:
    """Write where the passages of each list end that stand before `stop`."""
    for term in range(len(own)):
        ends[term] = begins[term]
        if own[term] >= 0:
            last = lists.begins[own[term]] + lists.lengths[own[term]]
            ends[term] = last if stop == n_here else _first_from(lists.rows, begins[term], last, stop)


@compiled
def _search_some(
    lists: Lists,
    own: Array,
    counts: Array,
    rest: Array,
    begins: Array,
    ends: Array,
    some: tuple[int, int, int],
    sums: Array,
    candidates: Array,
    best: Array,
    size: int,
) -> int:
    """Put those of a segment's passages from `start` to `stop` into the heap that belong there; returns its size."""
    first, start, stop = some
    full = size == len(best)
    enough = max(_NOTHING, np.float64(score_of(best[0])) * _ALIKE) if full else _NOTHING
    if rest[0] < enough:
        return size
    sums[start:stop] = 0
    term = 0
    while term < len(own) and (not full or rest[term] >= _SHARE * enough):
        _add(lists, counts[term], begins[term], ends[term], sums)
        term += 1
    many = _collect(sums, start, stop, enough - rest[term] if full else _NOTHING, candidates)
    while term < len(own) and many:
        if begins[term] < ends[term]:
            many = _look_up(
                lists,
                own[term],
                counts[term],
                begins[term],
                ends[term],
                enough - rest[term + 1],
                sums,
                candidates[:many],
            )
        term += 1
    for row in candidates[:many]:
        if sums[row] >= _NOTHING:
            size = offer(best, size, key_of(sums[row], first + row))
    return size


@compiled
def _add(lists: Lists, count: float, begin: int, end: int, sums: Array) -> None:
    """Add a part of a term's list, times what the question gives the term, to the sums of its passages."""
    rows, weights = lists.rows, lists.weights
    for posting in range(begin, end):
        sums[rows[posting]] += count * np.float64(weights[posting])


@compiled
def _collect(sums: Array, start: int, stop: int, enough: float, candidates: Array) -> int:
    """Write the passages whose sum is `enough` or more, ascending; returns how many these are."""
    many = 0
    for chunk in range(start, stop, _CHUNK):
        end = min(chunk + _CHUNK, stop)
        if _any(sums[chunk:end], enough):
            for row in range(chunk, end):
                if sums[row] >= enough:
                    candidates[many] = row
                    many += 1
    return many


@compiled
def _any(sums: Array, enough: float) -> bool:
    """Whether a sum is `enough` or more: all are counted, which a processor does many at a time."""
    many = 0
    for here in range(len(sums)):
        many += sums[here] >= enough
    return many > 0


@compiled
def _look_up(
    lists: Lists, one: int, count: float, begin: int, end: int, enough: float, sums: Array, candidates: Array
) -> int:
    """Add what a list gives the candidates, and keep those of `enough`, in their order; returns how many these are."""
    kept = 0
    for row in candidates:
        if lists.maps[one] >= 0:
            posting = _in_map(lists, one, row)
        else:
            place = _first_from(lists.rows, begin, end, row)
            posting = place if place < end and lists.rows[place] == row else -1
        if posting >= 0:
            sums[row] += count * np.float64(lists.weights[posting])
        candidates[kept] = row
        kept += sums[row] >= enough
    return kept


@compiled
def _in_map(lists: Lists, one: int, row: int) -> int:
    """The place of a passage in a list that has a map, -1 where it is not held."""
    word = lists.maps[one] + row // WORD
    bit = np.uint64(1) << np.uint64(row % WORD)
    if not lists.bits[word] & bit:
        return -1
    before = np.int64(lists.ranks[word]) + ones(lists.bits[word] & (bit - np.uint64(1)))
    place: int = lists.begins[one] + before
    return place


@compiled
def ones(word: Any) -> Any:
    """Count the bits that are set, by adding up ever more of them side by side."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled
def _first_from(rows: Array, place: int, last: int, row: int) -> int:
    """The first place from `place` on, `last` where there is none, whose passage is `row` or a later one."""
    while place < last:
        middle = (place + last) // 2
        if rows[middle] < row:
            place = middle + 1
        else:
            last = middle
    return place
