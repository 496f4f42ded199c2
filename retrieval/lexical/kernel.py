"""The compiled part of a search by terms: sums of lists, a stretch of passages at a time, and a heap of the best."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

Array = np.ndarray[Any, Any]
Function = TypeVar("Function", bound=Callable[..., Any])

_STRETCH = 1 << 17  # passages; their sums take 1 MB
_CHUNK = 64  # passages of which it is asked first whether any is good enough
_NOTHING = 1e-30  # less than any weight
_LAST_ROW = np.uint32(2**32 - 1)


def compiled(function: Function) -> Function:
    """Compile, once on a machine, into what runs without holding the interpreter's lock."""
    made: Function = numba.njit(nogil=True, cache=True)(function)
    return made


@compiled
def all_scores(
    starts: Array, rows: Array, weights: Array, n_passages: int, ids: Array, factors: Array, offsets: Array
) -> Array:
    """Score all passages for each question, `(n_questions, n_passages)` float32, -inf where no term is held."""
    scores = np.empty((len(offsets) - 1, n_passages), dtype=np.float32)
    for question in range(len(offsets) - 1):
        sums = np.zeros(n_passages, dtype=np.float64)
        for place in range(offsets[question], offsets[question + 1]):
            _add(rows, weights, factors[place], starts[ids[place]], starts[ids[place] + 1], 0, sums)
        for row in range(n_passages):
            scores[question, row] = sums[row] if sums[row] > 0 else -np.inf
    return scores


@compiled
def search(
    starts: Array,
    rows: Array,
    weights: Array,
    n_passages: int,
    ids: Array,
    factors: Array,
    offsets: Array,
    found: Array,
    scores: Array,
) -> None:
    """Write the best passages of each question, as many as there are places, into `found` and `scores`, best first."""
    sums = np.zeros(min(_STRETCH, n_passages), dtype=np.float64)
    best = np.empty(found.shape[1], dtype=np.uint64)
    for question in range(len(offsets) - 1):
        terms = ids[offsets[question] : offsets[question + 1]]
        own = factors[offsets[question] : offsets[question + 1]]
        places, ends = starts[terms], starts[terms + 1]
        size = 0
        for first in range(0, n_passages, _STRETCH):
            n_here = min(_STRETCH, n_passages - first)
            for term in range(len(terms)):
                end = _first_from(rows, places[term], ends[term], first + n_here)
                _add(rows, weights, own[term], places[term], end, first, sums)
                places[term] = end
            size = _offer_all(best, size, sums[:n_here], first)
            sums[:n_here] = 0
        for place, key in enumerate(np.sort(best[:size])[::-1]):
            found[question, place], scores[question, place] = _row(key), _score(key)


@compiled
def _add(rows: Array, weights: Array, factor: float, place: int, end: int, first: int, sums: Array) -> None:
    """Add a part of a term's list, times what the question gives the term, to the sums of the passages from `first`."""
    for posting in range(place, end):
        # unsigned: none is checked for being below 0
        sums[np.uint32(rows[posting] - first)] += np.float64(factor) * np.float64(weights[posting])


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
def _offer_all(best: Array, size: int, sums: Array, first: int) -> int:
    """Put the best of a stretch among the best so far; returns how many these are."""
    for chunk in range(0, len(sums), _CHUNK):
        least = max(_NOTHING, float(_score(best[0]))) if size == len(best) else _NOTHING
        if _any(sums[chunk : chunk + _CHUNK], least):
            for here in range(chunk, min(chunk + _CHUNK, len(sums))):
                if sums[here] >= least:
                    size = _offer(best, size, _key(sums[here], first + here))
    return size


@compiled
def _any(sums: Array, least: float) -> bool:
    """Whether a sum is `least` or more: all are counted, which a processor does many at a time."""
    many = 0
    for here in range(len(sums)):
        many += sums[here] >= least
    return many > 0


@compiled
def _offer(best: Array, size: int, key: np.uint64) -> int:
    """Put a passage into the heap of the best, its worst on top; returns the heap's size."""
    if size < len(best):
        place = size
        while place > 0 and key < best[(place - 1) // 2]:
            best[place] = best[(place - 1) // 2]
            place = (place - 1) // 2
        best[place] = key
        return size + 1
    if key <= best[0]:
        return size
    place, child = 0, 1
    while child < size:
        child += child + 1 < size and best[child + 1] < best[child]
        if best[child] >= key:
            break
        best[place] = best[child]
        place, child = child, 2 * child + 1
    best[place] = key
    return size


@compiled
def _key(total: float, row: int) -> np.uint64:
    """Return a score and a row as one number: higher is better, of equal scores the first row is.

    The bits of a float above 0 are in the order of its values.
    """
    return (np.uint64(np.float32(total).view(np.uint32)) << np.uint64(32)) | np.uint64(_LAST_ROW - np.uint32(row))


@compiled
def _score(key: np.uint64) -> np.float32:
    return np.uint32(key >> np.uint64(32)).view(np.float32)


@compiled
def _row(key: np.uint64) -> np.uint32:
    return _LAST_ROW - np.uint32(key & np.uint64(_LAST_ROW))
