"""Search, compiled: the lists that matter are added up, and the others are asked only about who can still be found.

This is MaxScore (Turtle & Flood 1995) over sums in an array, a segment at a time. The terms stand in the order of what
each can add at most. Once the best so far are known, the lists are added up until what the rest can add is a small part
of the worst of these. Few passages have a sum then that the rest could lift above it; they are looked up in the
remaining lists, one list at a time, and dropped as soon as what is left cannot lift them. Nothing is left out that
could be found: the result is that of adding up all lists, to the last bit. The segment that promises most comes first.
"""

from typing import Any, NamedTuple

import numpy as np

from mrc_workbench.retrieval.lexical import WORD, Array, Lists, compiled

_SHARE = 0.3  # of the score to reach, which the lists that are not added up may make up: measured, see benchmarks
_PASSAGES = 1 << 14  # searched at a time while there is no score to reach
_CHUNK = 64  # passages of which it is asked first whether any is good enough
_NOTHING = 1e-30  # less than any score
_ZERO: Any = np.int64(0)  # and not 0, for whose type all that is called with it would be compiled once more
_LAST_ROW = np.uint32(2**32 - 1)
_ALIKE = 1 - 2.0**-23  # a sum so much less than a float32 may be rounded to it, and stand before it by its row
_ROUNDING = 1 + 1e-9  # more than sums of bounds can lose


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
    """Return a term's place in the index, -1 if missing; searched in doubling steps from where a hash should stand."""
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
    asked = room_for(offsets, (n_passages + segment - 1) // segment)
    best = np.empty(found.shape[1], dtype=np.uint64)
    for question in range(len(offsets) - 1):
        here = slice(offsets[question], offsets[question + 1])
        n_terms = ask(lists, ids[here], factors[here], asked)
        size = _ZERO
        for number in asked.order:
            n_here = min(segment, n_passages - number * segment)
            size = _search_segment(
                lists, asked, n_terms, number, number * segment, n_here, sums, candidates, best, size
            )
        for last in range(size - 1, 0, -1):  # the heap's keys into order, the highest first
            worst, key = best[0], best[last]
            _replace_worst(best, last, key)
            best[last] = worst
        for place in range(size):
            found[question, place] = _LAST_ROW - np.uint32(best[place] & np.uint64(_LAST_ROW))
            scores[question, place] = _score_of(best[place])


@compiled
def _search_segment(
    lists: Lists,
    asked: Asked,
    n_terms: int,
    number: int,
    first: int,
    n_here: int,
    sums: Array,
    candidates: Array,
    best: Array,
    size: int,
) -> int:
    """Put those of a segment's passages into the heap of the best that belong there; returns its size."""
    _begin(lists, asked, n_terms, number)
    start = _ZERO
    while start < n_here:
        stop = min(n_here, start + _PASSAGES) if size < len(best) and n_here > 2 * _PASSAGES else n_here
        _end(lists, asked, n_terms, number, stop, n_here)
        enough = _enough(best, size)
        if asked.rest[number, 0] >= enough:
            sums[start:stop] = 0
            term = 0
            while term < n_terms and (size < len(best) or asked.rest[number, term] >= _SHARE * enough):
                add_list(lists, asked.counts[term], asked.begins[term], asked.ends[term], sums)
                term += 1
            if term == n_terms:
                size = _offer_all(sums, start, stop, first, best, size)
            else:
                many = _collect(sums, start, stop, enough - asked.rest[number, term], candidates)
                many = _look_up_all(lists, asked, term, n_terms, number, enough, sums, candidates[:many])
                for row in candidates[:many]:
                    size = _offer(best, size, _key_of(sums[row], first + row))
        for term in range(n_terms):
            asked.begins[term] = asked.ends[term]
        start = stop
    return size


@compiled
def _begin(lists: Lists, asked: Asked, n_terms: int, number: int) -> None:
    for term in range(n_terms):
        one = asked.own[number, term]
        asked.begins[term] = lists.found[one].begin if one >= 0 else 0


@compiled
def _end(lists: Lists, asked: Asked, n_terms: int, number: int, stop: int, n_here: int) -> None:
    """Write where the passages of each list end that stand before `stop`."""
    for term in range(n_terms):
        one = asked.own[number, term]
        asked.ends[term] = asked.begins[term]
        if one >= 0:
            last = lists.found[one].begin + lists.found[one].length
            asked.ends[term] = last if stop == n_here else _first_from(lists.rows, asked.begins[term], last, stop)


@compiled
def _enough(best: Array, size: int) -> float:
    """The sum that a passage must have to be among the best."""
    return max(_NOTHING, np.float64(_score_of(best[0])) * _ALIKE) if size == len(best) else _NOTHING


@compiled
def _offer_all(sums: Array, start: int, stop: int, first: int, best: Array, size: int) -> int:
    """Put those of the passages into the heap whose sums, which are whole, belong there; returns its size."""
    for chunk in range(start, stop, _CHUNK):
        end = min(chunk + _CHUNK, stop)
        enough = _enough(best, size)
        if _any(sums[chunk:end], enough):
            for row in range(chunk, end):
                if sums[row] >= enough:
                    size = _offer(best, size, _key_of(sums[row], first + row))
    return size


@compiled
def add_list(lists: Lists, count: float, begin: int, end: int, sums: Array) -> None:
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
def _look_up_all(
    lists: Lists, asked: Asked, term: int, n_terms: int, number: int, enough: float, sums: Array, candidates: Array
) -> int:
    """Add what the lists from `term` on give the candidates, and keep those of `enough`; returns how many these are."""
    many = len(candidates)
    while term < n_terms and many:
        begin, end = asked.begins[term], asked.ends[term]
        if begin < end:
            one, count = asked.own[number, term], asked.counts[term]
            needed = enough - asked.rest[number, term + 1]
            kept = 0
            for row in candidates[:many]:
                if lists.found[one].map >= 0:
                    posting = _in_map(lists, one, row)
                else:
                    place = _first_from(lists.rows, begin, end, row)
                    posting = place if place < end and lists.rows[place] == row else -1
                if posting >= 0:
                    sums[row] += count * np.float64(lists.weights[posting])
                candidates[kept] = row
                kept += sums[row] >= needed
            many = kept
        term += 1
    return many


@compiled
def _in_map(lists: Lists, one: int, row: int) -> int:
    """The place of a passage in a list that has a map, -1 where it is not held."""
    word = lists.found[one].map + row // WORD
    bit = np.uint64(1) << np.uint64(row % WORD)
    if not lists.bits[word] & bit:
        return -1
    before = np.int64(lists.ranks[word]) + ones(lists.bits[word] & (bit - np.uint64(1)))
    place: int = lists.found[one].begin + before
    return place


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


@compiled
def _key_of(total: float, row: int) -> np.uint64:
    """Return a score above 0 and a row as one number, higher is better: the bits of such floats are in their order."""
    return (np.uint64(np.float32(total).view(np.uint32)) << np.uint64(32)) | np.uint64(_LAST_ROW - np.uint32(row))


@compiled
def _score_of(key: np.uint64) -> np.float32:
    return np.uint32(key >> np.uint64(32)).view(np.float32)


@compiled
def _offer(best: Array, size: int, key: np.uint64) -> int:
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
def _replace_worst(best: Array, size: int, key: np.uint64) -> None:
    place, child = 0, 1
    while child < size:
        child += child + 1 < size and best[child + 1] < best[child]
        if best[child] >= key:
            break
        best[place] = best[child]
        place, child = child, 2 * child + 1
    best[place] = key
