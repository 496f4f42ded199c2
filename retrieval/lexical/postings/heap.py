"""The best passages so far, compiled: a heap of keys, its worst on top. A key is a score and a row as one number."""

import numpy as np

from retrieval.lexical.postings.lists import Array, compiled

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
