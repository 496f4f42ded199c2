"""An index as arrays, which compiled functions take as one argument and a file can hold as they are."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np

Array = np.ndarray[Any, Any]
Function = TypeVar("Function", bound=Callable[..., Any])

SEGMENT = 1 << 16  # passages: their rows take 2 bytes, and their sums stay in the processor's cache
WORD = 64  # passages a word of a map


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
