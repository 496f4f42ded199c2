"""The compiled part of BM25's search: sums of lists, a stretch of passages at a time, and a heap of the best."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

Array = np.ndarray[Any, Any]
Function = TypeVar("Function", bound=Callable[..., Any])

_STRETCH = 1 << 17  # passages; their sums take 1 MB
_CHUNK = 64  # passages of which it is asked first whether any is good enough
_NOTHING = 1e-30  # less than any weight


def compiled(function: Function) -> Function:
    """Compile, once on a machine, into what runs without holding the interpreter's lock."""
    made: Function = numba.njit(nogil=True, cache=True)(function)
    return made


@compiled
def all_scores(starts: Array, rows: Array, weights: Array, n_passages: int, ids: Array, offsets: Array) -> Array:
    """Score all passages for each question, `(n_questions, n_passages)` float32, -inf where no term is held."""
    scores = np.empty((len(offsets) - 1, n_passages), dtype=np.float32)
    for question in range(len(offsets) - 1):
        sums = np.zeros(n_passages, dtype=np.float64)
        for place in range(offsets[question], offsets[question + 1]):
            _add(rows, weights, starts[ids[place]], starts[ids[place] + 1], 0, sums)
        for row in range(n_passages):
            scores[question, row] = sums[row] if sums[row] > 0 else -np.inf
    return scores


@compiled
def search(
    starts: Array, rows: Array, weights: Array, n_passages: int, ids: Array, offsets: Array, found: Array, scores: Array
) -> None:
    """Write the best passages of each question, as many as there are places, into `found` and `scores`, in no order."""
    sums = np.zeros(min(_STRETCH, n_passages), dtype=np.float64)
    for question in range(len(offsets) - 1):
        terms = ids[offsets[question] : offsets[question + 1]]
        places, ends = starts[terms], starts[terms + 1]
        size = 0
        for first in range(0, n_passages, _STRETCH):
            n_here = min(_STRETCH, n_passages - first)
            for term in range(len(terms)):
                end = _first_from(rows, places[term], ends[term], first + n_here)
                _add(rows, weights, places[term], end, first, sums)
                places[term] = end
            size = _offer_all(scores[question], found[question], size, sums[:n_here], first)
            sums[:n_here] = 0


@compiled
def _add(rows: Array, weights: Array, place: int, end: int, first: int, sums: Array) -> None:
    """Add a part of a term's list to the sums of the passages from `first` on."""
    for posting in range(place, end):
        sums[np.uint32(rows[posting] - first)] += weights[posting]  # unsigned: none is checked for being below 0


@compiled
def _first_from(rows: Array, place: int, last: int, row: int) -> int:
    """The first place from `place` on, `last` where there is none, whose passage is `row` or a later one."""
    step = 1
    while place + step < last and rows[place + step] < row:
        place += step
        step *= 2
    last = min(place + step, last)
    while place < last:
        middle = (place + last) // 2
        if rows[middle] < row:
            place = middle + 1
        else:
            last = middle
    return place


@compiled
def _offer_all(best: Array, best_rows: Array, size: int, sums: Array, first: int) -> int:
    """Put the best of a stretch among the best so far; returns how many these are."""
    for chunk in range(0, len(sums), _CHUNK):
        least = max(_NOTHING, best[0]) if size == len(best) else _NOTHING
        if _any(sums[chunk : chunk + _CHUNK], least):
            for here in range(chunk, min(chunk + _CHUNK, len(sums))):
                if sums[here] >= least:
                    size = _offer(best, best_rows, size, sums[here], first + here)
    return size


@compiled
def _any(sums: Array, least: float) -> bool:
    """Whether a sum is `least` or more: all are counted, which a processor does many at a time."""
    many = 0
    for here in range(len(sums)):
        many += sums[here] >= least
    return many > 0


@compiled
def _offer(best: Array, best_rows: Array, size: int, total: float, row: int) -> int:
    """Put a passage, later than all before, into the heap of the best, its worst on top; returns the heap's size."""
    score = np.float32(total)
    if size < len(best):
        place = size
        while place > 0 and score <= best[(place - 1) // 2]:  # of equals the latest is the worst
            best[place], best_rows[place] = best[(place - 1) // 2], best_rows[(place - 1) // 2]
            place = (place - 1) // 2
        best[place], best_rows[place] = score, row
        return size + 1
    if score <= best[0]:  # an equal one that came first stays
        return size
    place, child = 0, 1
    while child < size:
        other = child + 1
        if other < size and (
            best[other] < best[child] or (best[other] == best[child] and best_rows[other] > best_rows[child])
        ):
            child = other
        if best[child] >= score:  # one that is equal came first, so it is better
            break
        best[place], best_rows[place] = best[child], best_rows[child]
        place, child = child, 2 * child + 1
    best[place], best_rows[place] = score, row
    return size
