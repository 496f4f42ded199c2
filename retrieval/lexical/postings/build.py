"""An index as arrays, which compiled functions take as one argument and a file can hold; made a segment at a time.

A segment is made from what is known of its passages and of the collection's terms; no segment needs another. So only
one is held in memory while an index is written to a file. What is put together at the end is where each term's lists
are, never the lists themselves.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from scipy.sparse import csr_array

from retrieval.lexical.postings.segment import Segment, first_places, in_one

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


_AT_A_TIME = 1 << 20  # lists that are written
_MAPPED = 16  # a list of more passages than a segment's 16th has a map


def segments_of(weights: csr_array, size: int = SEGMENT) -> Iterator[Segment]:
    """Yield the segments of passages whose terms have weights already, `(n_passages, n_terms)`."""
    for first in range(0, weights.shape[0], size):
        by_term = csr_array(weights[first : first + size]).tocsc()
        by_term.sort_indices()
        lengths = np.diff(by_term.indptr)
        terms = np.flatnonzero(lengths)
        rows, values = by_term.indices.astype(np.uint16), by_term.data.astype(np.float32)
        yield Segment(terms.astype(np.uint64), lengths[terms].astype(np.int32), rows, values)


def put_together(segments: Iterable[Segment], write: Callable[[str, Array], None], size: int = SEGMENT) -> None:
    """Write the arrays of `Lists`, some in parts: `write` is told an array's name and what comes next in it."""
    terms, found = [np.zeros(0, np.uint64)], [np.zeros(0, LIST)]
    n_postings = n_words = 0
    for number, segment in enumerate(segments):
        begins = np.concatenate([[0], np.cumsum(segment.lengths, dtype=np.int64)])
        maps, bits, ranks = _maps(begins, segment.rows, -(-size // WORD), max(1, size // _MAPPED))
        for name, part in (("rows", segment.rows), ("weights", segment.weights), ("bits", bits), ("ranks", ranks)):
            write(name, part)
        here = np.zeros(len(segment.terms), LIST)
        here["segment"], here["length"], here["begin"] = number, segment.lengths, begins[:-1] + n_postings
        here["map"], here["largest"] = np.where(maps >= 0, maps + n_words, -1), _largest(begins, segment.weights)
        terms.append(segment.terms)
        found.append(here)
        n_postings, n_words = n_postings + len(segment.rows), n_words + len(bits)
    all_terms, all_found = in_one(terms), in_one(found)
    order = np.argsort(all_terms, kind="stable")  # of one term the segments stay in their order
    all_terms = all_terms[order]
    firsts = first_places(all_terms)
    write("terms", all_terms[firsts])
    write("firsts", np.append(firsts, len(all_terms)))
    for start in range(0, len(order), _AT_A_TIME):
        write("found", all_found[order[start : start + _AT_A_TIME]])


def in_memory(segments: Iterable[Segment], size: int = SEGMENT) -> Lists:
    """Return the segments put together in memory."""
    parts: dict[str, list[Array]] = {name: [] for name in Lists._fields}

    def write(name: str, part: Array) -> None:
        parts[name].append(part.astype(DTYPES[name], copy=False))

    put_together(segments, write, size)
    empty = {name: np.zeros(0, dtype) for name, dtype in DTYPES.items()}
    return Lists(**{name: np.concatenate(found or [empty[name]]) for name, found in parts.items()})


@compiled
def holders(ids: Array, offsets: Array, n_terms: int) -> Array:
    """Return how many passages hold each term, `(n_terms,)` int64. As `weights.holders`, which compiles nothing."""
    held = np.zeros(n_terms, dtype=np.int64)
    last = np.full(n_terms, -1, dtype=np.int32)
    for row in range(len(offsets) - 1):
        for place in range(offsets[row], offsets[row + 1]):
            term = ids[place]
            if last[term] != row:
                last[term] = row
                held[term] += 1
    return held


@compiled
def counted(ids: Array, offsets: Array, begins: Array, heads: Array, gains: Array) -> tuple[Array, Array]:
    """Fill the lists of all terms with their passages, and what the term counts in each.

    The list of a term begins at its place of `begins`. As `weights.counted`, which compiles nothing.
    """
    rows = np.empty(begins[-1], dtype=np.uint16)
    counts = np.empty(begins[-1], dtype=np.float64)
    ends = begins[:-1].copy()
    for row in range(len(offsets) - 1):
        head = offsets[row] + heads[row]
        for place in range(offsets[row], offsets[row + 1]):
            term, gain = ids[place], gains[0 if place < head else 1, row]
            end = ends[term]
            if end > begins[term] and rows[end - 1] == row:
                counts[end - 1] += gain
            else:
                rows[end], counts[end], ends[term] = row, gain, end + 1
    return rows, counts


@compiled
def _largest(begins: Array, weights: Array) -> Array:
    """Return the largest weight of each list, without its sign."""
    largest = np.zeros(len(begins) - 1, dtype=np.float32)
    for one in range(len(largest)):
        for place in range(begins[one], begins[one + 1]):
            largest[one] = max(largest[one], abs(weights[place]))
    return largest


@compiled
def _maps(begins: Array, rows: Array, n_words: int, least: int) -> tuple[Array, Array, Array]:
    """Return where each list's map begins, -1 where it holds fewer passages than `least`, and all bits and ranks."""
    maps = np.full(len(begins) - 1, -1, dtype=np.int64)
    size = 0
    for one in range(len(maps)):
        if begins[one + 1] - begins[one] >= least:
            maps[one] = size
            size += n_words
    bits, ranks = np.zeros(size, dtype=np.uint64), np.zeros(size, dtype=np.uint16)
    for one in range(len(maps)):
        if maps[one] < 0:
            continue
        for place in range(begins[one], begins[one + 1]):
            bits[maps[one] + rows[place] // WORD] |= np.uint64(1) << np.uint64(rows[place] % WORD)
        before = 0
        for word in range(maps[one], maps[one] + n_words):
            ranks[word] = before
            before += ones(bits[word])
    return maps, bits, ranks
