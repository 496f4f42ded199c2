"""Search, compiled: the lists that matter are added up, and the others are asked only about who can still be found.

This is MaxScore (Turtle & Flood 1995) over sums in an array, a segment at a time. The terms stand in the order of what
each can add at most. Once the best so far are known, the lists are added up until what the rest can add is a small part
of the worst of these. Few passages have a sum then that the rest could lift above it; they are looked up in the
remaining lists, one list at a time, and dropped as soon as what is left cannot lift them. Nothing is left out that
could be found: the result is that of adding up all lists, to the last bit. The segment that promises most comes first.
"""

from typing import Any, NamedTuple

import numpy as np

from mrc_workbench.retrieval.lexical import WORD_BITS, Array, PostingLists, compiled

_UNSUMMED_FRACTION = (
    0.3  # of the score to reach, which the lists that are not added up may make up: measured, see benchmarks
)
_PASSAGES = 1 << 14  # searched at a time while there is no score to reach
_CHUNK = 64  # passages of which it is asked first whether any is good enough
_MIN_SCORE = 1e-30  # less than any score
_ZERO: Any = np.int64(0)  # and not 0, for whose type all that is called with it would be compiled once more
_LAST_ROW = np.uint32(2**32 - 1)
_FLOAT32_SLACK = 1 - 2.0**-23  # a sum so much less than a float32 may be rounded to it, and stand before it by its row
_ROUNDING = 1 + 1e-9  # more than sums of bounds can lose


@compiled
def count_bits(word: Any) -> Any:
    """Count the bits that are set, by adding up ever more of them side by side."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


class QueryTerms(NamedTuple):
    """A question's terms in the order of summing, in room for those of the longest question.

    Those that can add most come first, of equal ones the first in the index. A passage's terms are added up in this
    order wherever it stands, so that passages of the same terms have the same score to the last bit.
    """

    positions: Array  # (most terms,) int64, in the index, none twice
    counts: Array  # (most terms,) float64, what a term is multiplied by
    bounds: Array  # (most terms,) float64, what it can add
    lists: Array  # (n_segments, most terms) int64, its list in a segment, -1 where it has none
    remaining_bounds: Array  # (n_segments, most terms + 1) float64, what it and those after it can add there
    begins: Array  # (most terms,) int64, where a part of its list begins
    ends: Array  # (most terms,) int64, where the part ends
    order: Array  # (n_segments,) int64, segments by what their passages can reach


@compiled
def allocate_query(offsets: Array, n_segments: int) -> QueryTerms:
    """Return room for any of these questions."""
    max_terms: Any = 0
    for question in range(len(offsets) - 1):
        max_terms = max(max_terms, offsets[question + 1] - offsets[question])
    return QueryTerms(
        np.empty(max_terms, np.int64),
        np.empty(max_terms, np.float64),
        np.empty(max_terms, np.float64),
        np.empty((n_segments, max_terms), np.int64),
        np.empty((n_segments, max_terms + 1), np.float64),
        np.empty(max_terms, np.int64),
        np.empty(max_terms, np.int64),
        np.empty(n_segments, np.int64),
    )


@compiled
def prepare_query(lists: PostingLists, ids: Array, factors: Array, query: QueryTerms) -> int:
    """Write a question's terms, the order of segments and all else; returns how many terms are known."""
    n_terms = _collect_terms(lists, ids, factors, query)
    _sort_terms(query, n_terms)
    _lists_and_bounds(lists, query, n_terms)
    for number in range(len(query.order)):
        slot = number
        while slot > 0 and query.remaining_bounds[query.order[slot - 1], 0] < query.remaining_bounds[number, 0]:
            query.order[slot] = query.order[slot - 1]
            slot -= 1
        query.order[slot] = number
    return n_terms


@compiled
def _collect_terms(lists: PostingLists, ids: Array, factors: Array, query: QueryTerms) -> int:
    """Write the known terms, what each counts, and what it can add; returns how many they are."""
    size = 0
    for index in range(len(ids)):
        position = _find_term(lists.terms, ids[index])
        if position < 0:
            continue
        known = 0
        while known < size and query.positions[known] != position:
            known += 1
        if known == size:
            query.positions[size] = position
            query.counts[size] = 0.0
            size += 1
        query.counts[known] += np.float64(factors[index])
    for term in range(size):
        largest = 0.0
        for index in range(lists.firsts[query.positions[term]], lists.firsts[query.positions[term] + 1]):
            largest = max(largest, np.float64(lists.entries[index].largest))
        query.bounds[term] = largest * abs(query.counts[term])
    return size


@compiled
def _find_term(terms: Array, term: np.uint64) -> int:
    """Return a term's place in the index, -1 if missing; searched in doubling steps from where a hash should stand."""
    if not len(terms):
        return -1
    guess: Any = np.int64(((term >> np.uint64(32)) * np.uint64(len(terms))) >> np.uint64(32))
    step = 1
    if terms[guess] <= term:
        first = guess
        last = guess + 1
        while last < len(terms) and terms[last] <= term:
            first = last
            step = step * 2
            last += step
        last = min(last, len(terms))
    else:
        first = guess - 1
        last = guess
        while first > 0 and terms[first] > term:
            last = first
            step = step * 2
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
def _sort_terms(query: QueryTerms, n_terms: int) -> None:
    for term in range(1, n_terms):
        position = query.positions[term]
        count = query.counts[term]
        bound = query.bounds[term]
        slot = term
        while slot > 0 and (
            query.bounds[slot - 1] < bound or (query.bounds[slot - 1] == bound and query.positions[slot - 1] > position)
        ):
            query.positions[slot], query.counts[slot] = query.positions[slot - 1], query.counts[slot - 1]
            query.bounds[slot] = query.bounds[slot - 1]
            slot -= 1
        query.positions[slot] = position
        query.counts[slot] = count
        query.bounds[slot] = bound


@compiled
def _lists_and_bounds(lists: PostingLists, query: QueryTerms, n_terms: int) -> None:
    """Write the list of each term in each segment, and what the terms from it on can add at most."""
    for number in range(len(query.order)):
        query.remaining_bounds[number, n_terms] = 0
    for term in range(n_terms - 1, -1, -1):
        for number in range(len(query.order)):
            query.lists[number, term] = -1
            query.remaining_bounds[number, term] = query.remaining_bounds[number, term + 1]
        for index in range(lists.firsts[query.positions[term]], lists.firsts[query.positions[term] + 1]):
            number = lists.entries[index].segment
            query.lists[number, term] = index
            query.remaining_bounds[number, term] += (
                abs(query.counts[term]) * np.float64(lists.entries[index].largest) * _ROUNDING
            )


@compiled
def search(
    lists: PostingLists,
    n_passages: int,
    segment: int,
    ids: Array,
    factors: Array,
    offsets: Array,
    sums: Array,
    candidates: Array,
    rows: Array,
    scores: Array,
) -> None:
    """Write the best passages of each question, as many as there are places, into `found` and `scores`, best first.

    `sums` (float64) and `candidates` (int32) are room for the passages of a segment.
    """
    query = allocate_query(offsets, (n_passages + segment - 1) // segment)
    best = np.empty(rows.shape[1], dtype=np.uint64)
    for question in range(len(offsets) - 1):
        query_slice = slice(offsets[question], offsets[question + 1])
        n_terms = prepare_query(lists, ids[query_slice], factors[query_slice], query)
        size = _ZERO
        for number in query.order:
            n_here = min(segment, n_passages - number * segment)
            size = _search_segment(
                lists, query, n_terms, number, number * segment, n_here, sums, candidates, best, size
            )
        for last in range(size - 1, 0, -1):  # the heap's keys into order, the highest first
            worst = best[0]
            key = best[last]
            _replace_worst(best, last, key)
            best[last] = worst
        for rank in range(size):
            rows[question, rank] = _LAST_ROW - np.uint32(best[rank] & np.uint64(_LAST_ROW))
            scores[question, rank] = _score_of(best[rank])


@compiled
def _search_segment(
    lists: PostingLists,
    query: QueryTerms,
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
    _begin(lists, query, n_terms, number)
    start = _ZERO
    while start < n_here:
        stop = min(n_here, start + _PASSAGES) if size < len(best) and n_here > 2 * _PASSAGES else n_here
        _end(lists, query, n_terms, number, stop, n_here)
        threshold = _score_threshold(best, size)
        if query.remaining_bounds[number, 0] >= threshold:
            sums[start:stop] = 0
            term = 0
            while term < n_terms and (
                size < len(best) or query.remaining_bounds[number, term] >= _UNSUMMED_FRACTION * threshold
            ):
                add_list(lists, query.counts[term], query.begins[term], query.ends[term], sums)
                term += 1
            if term == n_terms:
                size = _offer_all(sums, start, stop, first, best, size)
            else:
                count = _collect(sums, start, stop, threshold - query.remaining_bounds[number, term], candidates)
                count = _look_up_all(lists, query, term, n_terms, number, threshold, sums, candidates[:count])
                for row in candidates[:count]:
                    size = _offer(best, size, _key_of(sums[row], first + row))
        for term in range(n_terms):
            query.begins[term] = query.ends[term]
        start = stop
    return size


@compiled
def _begin(lists: PostingLists, query: QueryTerms, n_terms: int, number: int) -> None:
    for term in range(n_terms):
        index = query.lists[number, term]
        query.begins[term] = lists.entries[index].begin if index >= 0 else 0


@compiled
def _end(lists: PostingLists, query: QueryTerms, n_terms: int, number: int, stop: int, n_here: int) -> None:
    """Write where the passages of each list end that stand before `stop`."""
    for term in range(n_terms):
        index = query.lists[number, term]
        query.ends[term] = query.begins[term]
        if index >= 0:
            last = lists.entries[index].begin + lists.entries[index].length
            query.ends[term] = last if stop == n_here else _first_from(lists.rows, query.begins[term], last, stop)


@compiled
def _score_threshold(best: Array, size: int) -> float:
    """The sum that a passage must have to be among the best."""
    return max(_MIN_SCORE, np.float64(_score_of(best[0])) * _FLOAT32_SLACK) if size == len(best) else _MIN_SCORE


@compiled
def _offer_all(sums: Array, start: int, stop: int, first: int, best: Array, size: int) -> int:
    """Put those of the passages into the heap whose sums, which are whole, belong there; returns its size."""
    for chunk in range(start, stop, _CHUNK):
        end = min(chunk + _CHUNK, stop)
        threshold = _score_threshold(best, size)
        if _any(sums[chunk:end], threshold):
            for row in range(chunk, end):
                if sums[row] >= threshold:
                    size = _offer(best, size, _key_of(sums[row], first + row))
    return size


@compiled
def add_list(lists: PostingLists, count: float, begin: int, end: int, sums: Array) -> None:
    """Add a part of a term's list, times what the question gives the term, to the sums of its passages."""
    rows = lists.rows
    weights = lists.weights
    for posting in range(begin, end):
        sums[rows[posting]] += count * np.float64(weights[posting])


@compiled
def _collect(sums: Array, start: int, stop: int, threshold: float, candidates: Array) -> int:
    """Write the passages whose sum is `enough` or more, ascending; returns how many these are."""
    count = 0
    for chunk in range(start, stop, _CHUNK):
        end = min(chunk + _CHUNK, stop)
        if _any(sums[chunk:end], threshold):
            for row in range(chunk, end):
                if sums[row] >= threshold:
                    candidates[count] = row
                    count += 1
    return count


@compiled
def _any(sums: Array, threshold: float) -> bool:
    """Whether a sum is `enough` or more: all are counted, which a processor does many at a time."""
    count = 0
    for index in range(len(sums)):
        count += sums[index] >= threshold
    return count > 0


@compiled
def _look_up_all(
    lists: PostingLists,
    query: QueryTerms,
    term: int,
    n_terms: int,
    number: int,
    threshold: float,
    sums: Array,
    candidates: Array,
) -> int:
    """Add what the lists from `term` on give the candidates, and keep those of `enough`; returns how many these are."""
    n_candidates = len(candidates)
    while term < n_terms and n_candidates:
        begin = query.begins[term]
        end = query.ends[term]
        if begin < end:
            index = query.lists[number, term]
            count = query.counts[term]
            needed = threshold - query.remaining_bounds[number, term + 1]
            n_selected = 0
            for row in candidates[:n_candidates]:
                if lists.entries[index].map >= 0:
                    posting = _in_map(lists, index, row)
                else:
                    position = _first_from(lists.rows, begin, end, row)
                    posting = position if position < end and lists.rows[position] == row else -1
                if posting >= 0:
                    sums[row] += count * np.float64(lists.weights[posting])
                candidates[n_selected] = row
                n_selected += sums[row] >= needed
            n_candidates = n_selected
        term += 1
    return n_candidates


@compiled
def _in_map(lists: PostingLists, index: int, row: int) -> int:
    """The place of a passage in a list that has a map, -1 where it is not held."""
    word = lists.entries[index].map + row // WORD_BITS
    bit = np.uint64(1) << np.uint64(row % WORD_BITS)
    if not lists.bits[word] & bit:
        return -1
    n_before = np.int64(lists.ranks[word]) + count_bits(lists.bits[word] & (bit - np.uint64(1)))
    posting: int = lists.entries[index].begin + n_before
    return posting


@compiled
def _first_from(rows: Array, begin: int, last: int, row: int) -> int:
    """The first place from `place` on, `last` where there is none, whose passage is `row` or a later one."""
    while begin < last:
        middle = (begin + last) // 2
        if rows[middle] < row:
            begin = middle + 1
        else:
            last = middle
    return begin


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
        node = size
        while node > 0 and key < best[(node - 1) // 2]:
            best[node] = best[(node - 1) // 2]
            node = (node - 1) // 2
        best[node] = key
        return size + 1
    if key > best[0]:
        _replace_worst(best, size, key)
    return size


@compiled
def _replace_worst(best: Array, size: int, key: np.uint64) -> None:
    node = 0
    child = 1
    while child < size:
        child += child + 1 < size and best[child + 1] < best[child]
        if best[child] >= key:
            break
        best[node] = best[child]
        node = child
        child = 2 * child + 1
    best[node] = key
