"""Compiled search: adds up the important posting lists, and looks up only promising passages in the others.

This is MaxScore (Turtle & Flood 1995) with sums in an array, segment by segment. Terms are in the order of their
largest possible contribution. Given a threshold, the worst of the best passages so far, lists are added up until the
remaining ones can add only a small fraction of it. Few passages can still exceed the threshold: they are looked up in
the remaining lists, list by list, and dropped as soon as they cannot. The result equals adding up all lists, to the
last bit. The most promising segment comes first.
"""

from typing import Any, NamedTuple

import numpy as np

from mrc_workbench.retrieval.lexical import WORD_BITS, Array, PostingLists, compiled

_UNSUMMED_FRACTION = 0.3  # of the threshold, left to lists that are looked up; measured in benchmarks
_PASSAGES = 1 << 14  # searched at a time without a threshold
_CHUNK = 64  # passages that are compared with the threshold at once
_MIN_SCORE = 1e-30  # below any score
_ZERO: Any = np.int64(0)  # with a literal 0, numba would compile the callees for another type
_LAST_ROW = np.uint32(2**32 - 1)
_FLOAT32_SLACK = 1 - 2.0**-23  # a sum within this factor may round to the threshold and win by its row
_ROUNDING = 1 + 1e-9  # exceeds the rounding error of sums of bounds


@compiled
def count_bits(word: Any) -> Any:
    """Count the bits that are set, side by side."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


class Queries(NamedTuple):
    """Questions, which have the terms `terms[offsets[i]:offsets[i + 1]]` with these `factors`."""

    terms: Array  # (n_terms,) uint64
    factors: Array  # (n_terms,) float32
    offsets: Array  # (n_questions + 1,) int64


class Buffers(NamedTuple):
    """Buffers for the passages of a segment."""

    sums: Array  # float64
    candidates: Array  # int32


class QueryTerms(NamedTuple):
    """Buffers for a question's terms in the order of summing, the same for all passages: by largest contribution."""

    positions: Array  # (max_terms,) int64, in the index, distinct
    counts: Array  # (max_terms,) float64, factors of terms
    bounds: Array  # (max_terms,) float64, the largest contribution
    lists: Array  # (n_segments, max_terms) int64, the list in a segment, -1 if missing
    remaining_bounds: Array  # (n_segments, max_terms + 1) float64, sum of bounds from a term on
    begins: Array  # (max_terms,) int64, the begin of a part of the list
    ends: Array  # (max_terms,) int64, the end of the part
    order: Array  # (n_segments,) int64, the most promising segment first


@compiled
def allocate(offsets: Array, n_segments: int) -> QueryTerms:
    """Allocate buffers for the longest question."""
    max_terms = np.diff(offsets).max() if len(offsets) > 1 else 0
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
def prepare_query(lists: PostingLists, queries: Queries, question: int, query: QueryTerms) -> int:
    """Fill `query` for a question; return the number of known terms."""
    start = queries.offsets[question]
    stop = queries.offsets[question + 1]
    n_terms = _collect_terms(lists, queries.terms[start:stop], queries.factors[start:stop], query)
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
    """Return a term's position in the index, -1 if missing: galloping search from the expected position of the hash."""
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
    while last - first > 1:  # terms[first] <= term < terms[last]
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
    query.remaining_bounds[:, n_terms] = 0
    for term in range(n_terms - 1, -1, -1):
        query.lists[:, term] = -1
        query.remaining_bounds[:, term] = query.remaining_bounds[:, term + 1]
        for index in range(lists.firsts[query.positions[term]], lists.firsts[query.positions[term] + 1]):
            number = lists.entries[index].segment
            query.lists[number, term] = index
            bound = abs(query.counts[term]) * np.float64(lists.entries[index].largest)
            query.remaining_bounds[number, term] += bound * _ROUNDING


@compiled
def search(
    lists: PostingLists, n_passages: int, segment: int, queries: Queries, buffers: Buffers, rows: Array, scores: Array
) -> None:
    """Write the best passages of each question into `rows` and `scores` `(n_questions, k)`, best first."""
    query = allocate(queries.offsets, (n_passages + segment - 1) // segment)
    best = np.empty(rows.shape[1], dtype=np.uint64)
    for question in range(len(queries.offsets) - 1):
        n_terms = prepare_query(lists, queries, question, query)
        size = _ZERO
        for number in query.order:
            first = number * segment
            n_here = min(segment, n_passages - first)
            size = _search_segment(lists, query, n_terms, number, first, n_here, buffers, best, size)
        for last in range(size - 1, 0, -1):  # sort the heap, the highest key first
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
    buffers: Buffers,
    best: Array,
    size: int,
) -> int:
    sums = buffers.sums
    candidates = buffers.candidates
    for term in range(n_terms):
        index = query.lists[number, term]
        query.begins[term] = lists.entries[index].begin if index >= 0 else 0
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
                rest = range(term, n_terms)
                count = _look_up_all(lists, query, rest, number, threshold, sums, candidates[:count])
                for row in candidates[:count]:
                    size = _offer(best, size, _key_of(sums[row], first + row))
        for term in range(n_terms):
            query.begins[term] = query.ends[term]
        start = stop
    return size


@compiled
def _end(lists: PostingLists, query: QueryTerms, n_terms: int, number: int, stop: int, n_here: int) -> None:
    for term in range(n_terms):
        index = query.lists[number, term]
        query.ends[term] = query.begins[term]
        if index >= 0:
            last = lists.entries[index].begin + lists.entries[index].length
            query.ends[term] = last if stop == n_here else _first_from(lists.rows, query.begins[term], last, stop)


@compiled
def _score_threshold(best: Array, size: int) -> float:
    return max(_MIN_SCORE, np.float64(_score_of(best[0])) * _FLOAT32_SLACK) if size == len(best) else _MIN_SCORE


@compiled
def _offer_all(sums: Array, start: int, stop: int, first: int, best: Array, size: int) -> int:
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
    """Add a part of a term's list, times the term's count in the question, to the sums of its passages."""
    for posting in range(begin, end):
        sums[lists.rows[posting]] += count * np.float64(lists.weights[posting])


@compiled
def _collect(sums: Array, start: int, stop: int, threshold: float, candidates: Array) -> int:
    """Write the passages with sums of at least the threshold, ascending; return their number."""
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
    """Whether a sum reaches the threshold; counting compiles to vector instructions."""
    count = 0
    for index in range(len(sums)):
        count += sums[index] >= threshold
    return count > 0


@compiled
def _look_up_all(
    lists: PostingLists, query: QueryTerms, terms: range, number: int, threshold: float, sums: Array, candidates: Array
) -> int:
    """Add the lists of the last `terms` to candidates that can reach the threshold; return the number of these."""
    n_candidates = len(candidates)
    for term in terms:
        begin = query.begins[term]
        end = query.ends[term]
        if begin < end and n_candidates:
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
    return n_candidates


@compiled
def _in_map(lists: PostingLists, index: int, row: int) -> int:
    """Return the position of a passage in a list with a bitmap, -1 if missing."""
    word = lists.entries[index].map + row // WORD_BITS
    bit = np.uint64(1) << np.uint64(row % WORD_BITS)
    if not lists.bits[word] & bit:
        return -1
    n_before = np.int64(lists.ranks[word]) + count_bits(lists.bits[word] & (bit - np.uint64(1)))
    return int(lists.entries[index].begin + n_before)


@compiled
def _first_from(rows: Array, begin: int, last: int, row: int) -> int:
    """Return the first position from `begin` on with a passage of at least `row`, else `last`."""
    while begin < last:
        middle = (begin + last) // 2
        if rows[middle] < row:
            begin = middle + 1
        else:
            last = middle
    return begin


@compiled
def _key_of(total: float, row: int) -> np.uint64:
    """Return a key of a score above 0 and a row, higher is better: the bits of positive floats sort like the floats."""
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
