"""An index as arrays, which compiled functions take as one argument and a file can hold as they are."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np

Array = np.ndarray[Any, Any]
Function = TypeVar("Function", bound=Callable[..., Any])

SEGMENT = 1 << 16  # passages: their rows take 2 bytes, and their sums stay in the processor's cache
WORD = 64  # passages a word of a map


class Lists(NamedTuple):
    """Passages are cut into segments of the same size; a term has a list in every segment that holds it.

    Term t, `terms[t]`, has the lists `firsts[t]` to `firsts[t + 1]`, by ascending segment. List l is of segment
    `segments[l]`: its passages, counted from the first of the segment, are the `lengths[l]` of `rows` from `begins[l]`
    on, ascending, and it adds the `weights` of the same places, the largest of which (without its sign) is
    `largest[l]`.

    A list of many passages has a map beside it, the words from `maps[l]` on (-1 where it has none): bit `row % 64` of
    `bits[maps[l] + row // 64]` says whether it holds a passage, and `ranks` of that word how many come before it.
    """

    terms: Array  # (n_terms,) uint64, ascending
    firsts: Array  # (n_terms + 1,) int64
    segments: Array  # (n_lists,) int32
    begins: Array  # (n_lists,) int64
    lengths: Array  # (n_lists,) int32
    largest: Array  # (n_lists,) float32
    maps: Array  # (n_lists,) int64
    rows: Array  # (n_postings,) uint16
    weights: Array  # (n_postings,) float32
    bits: Array  # (n_words,) uint64
    ranks: Array  # (n_words,) uint16


_TYPES = ("u8", "i8", "i4", "i8", "i4", "f4", "i8", "u2", "f4", "u8", "u2")
DTYPES = {name: np.dtype(code).newbyteorder("<") for name, code in zip(Lists._fields, _TYPES, strict=True)}


def compiled(function: Function) -> Function:
    """Compile, once on a machine, into what runs without holding the interpreter's lock."""
    made: Function = numba.njit(nogil=True, cache=True)(function)
    return made
