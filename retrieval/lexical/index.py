"""An index of passages by weighted terms and its search, exact and on all cores; large ones are mapped into memory.

The index is built segment by segment, so that only one segment is in memory while it is written.

The system kills a process that reads a mapped file beyond a later truncation. Processes therefore map unnamed copies of
the stored files, which no other process can change. Copying takes disk space and a second or two for the 2 GB of a
million passages, except on file systems that share copied blocks (Btrfs, XFS).
"""

import json
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO
from weakref import WeakValueDictionary

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.cache import cached_folder, is_intact, key_of
from mrc_workbench.data.text.analysis import Tokens
from mrc_workbench.data.workspace import is_disk_error, read_json
from mrc_workbench.retrieval import lexical
from mrc_workbench.retrieval.lexical import WORD_BITS, Array, PostingLists, Segment, compiled
from mrc_workbench.retrieval.lexical.search import (
    Buffers,
    Queries,
    add_list,
    allocate,
    count_bits,
    prepare_query,
    search,
)
from mrc_workbench.retrieval.rankings import Rankings

logger = logging.getLogger(__name__)

SEGMENT = 1 << 16  # passages: their rows take 2 bytes, and their sums fit into the processor's cache
_AT_A_TIME = 16  # questions per task of a core
_LISTS = 1 << 20  # that are written at a time
_MAPPED = 16  # a list with at least a 16th of the segment's passages has a bitmap


class Postings:
    """The posting lists of `n_passages` passages in segments of at most 65,536, else raises `ValueError`.

    Terms are numbers (uint64): hashes of words, or ids of a model. A score is the sum over the question's terms of
    weight times count, in float64, in an order that depends only on the question, rounded to float32; higher is better,
    ties by row. Results have sums above 0.
    """

    def __init__(self, lists: PostingLists, n_passages: int, segment: int = SEGMENT) -> None:
        if not 0 < segment <= SEGMENT:
            raise ValueError(f"a segment has 1 to {SEGMENT:,} passages, not {segment}")
        self.lists = lists
        self.n_passages = n_passages
        self.segment = segment
        for array in lists:
            array.flags.writeable = False  # as mapped arrays: functions are compiled for a single kind
        self._buffers = _ThreadBuffers(min(segment, n_passages))

    @classmethod
    def from_segments(cls, segments: Iterable[Segment], n_passages: int, segment: int = SEGMENT) -> "Postings":
        arrays = lexical.collect_arrays(lexical.DTYPES, lambda write: _write_postings(segments, write, segment))
        return cls(PostingLists(**arrays), n_passages, segment)

    @property
    def memory_bytes(self) -> int:
        return sum(array.nbytes for array in self.lists)

    def search(
        self,
        terms: np.ndarray,
        offsets: np.ndarray,
        k: int,
        factors: np.ndarray | None = None,
        *,
        cores: int | None = None,
    ) -> Rankings:
        """Return the best k passages; question i has `terms[offsets[i]:offsets[i + 1]]`, with `factors` if given."""
        n_questions = len(offsets) - 1
        k = min(k, self.n_passages)
        factors = np.ones(len(terms), dtype=np.float32) if factors is None else factors
        rankings = Rankings.empty(n_questions, k)

        def search_block(start: int) -> None:
            block = rankings.select(slice(start, start + _AT_A_TIME))  # views, which are filled
            queries = Queries(terms, factors, offsets[start : start + _AT_A_TIME + 1])
            buffers = self._buffers.arrays
            search(self.lists, self.n_passages, self.segment, queries, buffers, block.indices, block.scores)

        starts = range(0, n_questions if k else 0, _AT_A_TIME)
        if len(starts) > 1 and cores != 1:
            with ThreadPoolExecutor(cores or os.cpu_count()) as pool:
                list(pool.map(search_block, starts))
        else:
            list(map(search_block, starts))  # starting threads takes longer than searching a question
        return rankings

    def scores(
        self, terms: np.ndarray, offsets: np.ndarray, at_a_time: int, factors: np.ndarray | None = None
    ) -> Iterator[np.ndarray]:
        factors = np.ones(len(terms), dtype=np.float32) if factors is None else factors
        for start in range(0, len(offsets) - 1, at_a_time):
            queries = Queries(terms, factors, offsets[start : start + at_a_time + 1])
            yield all_scores(self.lists, self.n_passages, self.segment, queries, self._buffers.arrays.sums)


class _ThreadBuffers(threading.local):
    def __init__(self, size: int) -> None:
        self.arrays = Buffers(np.empty(size, dtype=np.float64), np.empty(size, dtype=np.int32))


_VERSION = 2  # raise when the arrays of the same passages change
_MAX_STORED_INDEXES = 4  # an index of a million passages takes 2 GB
_METADATA_FILE = "about.json"
_OPEN_INDEXES: WeakValueDictionary[Path, Postings] = WeakValueDictionary()  # of this process, which copies each once


def mapped_postings(
    key: str, n_passages: int, segments: Callable[[], Iterable[Segment]], size: int = SEGMENT
) -> Postings:
    """Return the index stored under a key, built if missing or damaged."""

    def write(folder: Path) -> None:
        lexical.write_arrays(folder, lexical.DTYPES, lambda write_part: _write_postings(segments(), write_part, size))
        (folder / _METADATA_FILE).write_text(json.dumps({"passages": n_passages, "segment": size}), encoding="utf-8")

    with cached_folder("postings", key_of(_VERSION, key, n_passages, size), write, _MAX_STORED_INDEXES) as folder:
        if folder is not None:
            try:
                return _open_index(folder)
            except OSError as error:
                logger.warning("the index %s cannot be opened: %s", folder, error)
    return Postings.from_segments(segments(), n_passages, size)


def _open_index(folder: Path) -> Postings:
    if (known := _OPEN_INDEXES.get(folder)) is not None:
        return known  # the name contains the key of the content
    metadata = read_json(folder / _METADATA_FILE)
    arrays = {name: _map_file(folder / name, dtype) for name, dtype in lexical.DTYPES.items()}
    if not is_intact(folder):
        raise OSError(f"{folder} was changed while it was opened")
    _OPEN_INDEXES[folder] = opened = Postings(PostingLists(**arrays), metadata["passages"], metadata["segment"])
    return opened


def _map_file(path: Path, dtype: np.dtype) -> Array:
    with tempfile.TemporaryFile(dir=path.parent.parent) as copy:
        with path.open("rb") as file:
            _copy(file, copy)
        if not (size := copy.seek(0, os.SEEK_END)) or size % dtype.itemsize:
            return np.zeros(0, dtype)  # an empty file cannot be mapped
        return np.asarray(np.memmap(copy, dtype, mode="r"))


def _copy(file: IO[bytes], target: IO[bytes]) -> None:
    """Copy a file by a system call, which may share its blocks, or else by reading and writing."""
    block = 1 << 24  # bytes at a time
    try:
        while os.copy_file_range(file.fileno(), target.fileno(), block):
            continue
    except (AttributeError, OSError) as error:
        if is_disk_error(error):
            raise
        file.seek(0)
        target.seek(0)
        shutil.copyfileobj(file, target, block)
        target.flush()


def segments_of(weights: csr_array, size: int = SEGMENT) -> Iterator[Segment]:
    """Yield the segments of passages from term weights `(n_passages, n_terms)`."""
    for first in range(0, weights.shape[0], size):
        by_term = csr_array(weights[first : first + size]).tocsc()
        by_term.sort_indices()
        lengths = np.diff(by_term.indptr)
        terms = np.flatnonzero(lengths)
        rows = by_term.indices.astype(np.uint16)
        values = by_term.data.astype(np.float32)
        yield Segment(terms.astype(np.uint64), lengths[terms].astype(np.int32), rows, values)


def _write_postings(segments: Iterable[Segment], write: lexical.Write, size: int = SEGMENT) -> None:
    """Write the arrays of `PostingLists`, some in parts: `write` appends a part to the named array."""
    terms = [np.zeros(0, np.uint64)]
    lists = [np.zeros(0, lexical.LIST_DTYPE)]
    n_postings = n_words = 0
    for number, segment in enumerate(segments):
        begins = np.concatenate([[0], np.cumsum(segment.lengths, dtype=np.int64)])
        maps, bits, ranks = _maps(begins, segment.rows, -(-size // WORD_BITS), max(1, size // _MAPPED))
        for name, part in (("rows", segment.rows), ("weights", segment.weights), ("bits", bits), ("ranks", ranks)):
            write(name, part)
        segment_lists = np.zeros(len(segment.terms), lexical.LIST_DTYPE)
        segment_lists["segment"] = number
        segment_lists["length"] = segment.lengths
        segment_lists["begin"] = begins[:-1] + n_postings
        segment_lists["map"] = np.where(maps >= 0, maps + n_words, -1)
        segment_lists["largest"] = _largest(begins, segment.weights)
        terms.append(segment.terms)
        lists.append(segment_lists)
        n_postings += len(segment.rows)
        n_words += len(bits)
    all_terms = lexical.concatenate_and_clear(terms)
    all_lists = lexical.concatenate_and_clear(lists)
    order = np.argsort(all_terms, kind="stable")  # a term's segments stay in their order
    all_terms = all_terms[order]
    firsts = lexical.first_positions(all_terms)
    write("terms", all_terms[firsts])
    write("firsts", np.append(firsts, len(all_terms)))
    for start in range(0, len(order), _LISTS):
        write("entries", all_lists[order[start : start + _LISTS]])


@compiled
def count_document_frequencies(ids: Array, offsets: Array, n_terms: int) -> Array:
    """Return the document frequencies `(n_terms,)` int64, as the uncompiled function of `retrieval.lexical` does."""
    frequencies = np.zeros(n_terms, dtype=np.int64)
    last = np.full(n_terms, -1, dtype=np.int32)
    for row in range(len(offsets) - 1):
        for position in range(offsets[row], offsets[row + 1]):
            term = ids[position]
            if last[term] != row:
                last[term] = row
                frequencies[term] += 1
    return frequencies


@compiled
def count_terms(ids: Array, offsets: Array, begins: Array, title_lengths: Array, gains: Array) -> tuple[Array, Array]:
    """Fill the lists of all terms, which begin at `begins`, as `lexical.count_terms` does without compiling."""
    rows = np.empty(begins[-1], dtype=np.uint16)
    counts = np.empty(begins[-1], dtype=np.float64)
    ends = begins[:-1].copy()
    for row in range(len(offsets) - 1):
        title_end = offsets[row] + title_lengths[row]
        for position in range(offsets[row], offsets[row + 1]):
            term = ids[position]
            gain = gains[0 if position < title_end else 1, row]
            end = ends[term]
            if end > begins[term] and rows[end - 1] == row:
                counts[end - 1] += gain
            else:
                rows[end] = row
                counts[end] = gain
                ends[term] = end + 1
    return rows, counts


@compiled
def _largest(begins: Array, weights: Array) -> Array:
    largest = np.zeros(len(begins) - 1, dtype=np.float32)
    for index in range(len(largest)):
        for position in range(begins[index], begins[index + 1]):
            largest[index] = max(largest[index], abs(weights[position]))
    return largest


@compiled
def _maps(begins: Array, rows: Array, n_words: int, min_length: int) -> tuple[Array, Array, Array]:
    """Return the first word of each list's bitmap, -1 below `min_length` passages, and all bits and ranks."""
    maps = np.full(len(begins) - 1, -1, dtype=np.int64)
    size = 0
    for index in range(len(maps)):
        if begins[index + 1] - begins[index] >= min_length:
            maps[index] = size
            size += n_words
    bits = np.zeros(size, dtype=np.uint64)
    ranks = np.zeros(size, dtype=np.uint16)
    for index in range(len(maps)):
        if maps[index] < 0:
            continue
        for position in range(begins[index], begins[index + 1]):
            bits[maps[index] + rows[position] // WORD_BITS] |= np.uint64(1) << np.uint64(rows[position] % WORD_BITS)
        n_before = 0
        for word in range(maps[index], maps[index] + n_words):
            ranks[word] = n_before
            n_before += count_bits(bits[word])
    return maps, bits, ranks


@compiled
def all_scores(lists: PostingLists, n_passages: int, segment: int, queries: Queries, sums: Array) -> Array:
    """Score all passages for each question, `(n_questions, n_passages)` float32, -inf without a shared term."""
    scores = np.empty((len(queries.offsets) - 1, n_passages), dtype=np.float32)
    query = allocate(queries.offsets, (n_passages + segment - 1) // segment)
    for question in range(len(scores)):
        n_terms = prepare_query(lists, queries, question, query)
        for number in range(len(query.order)):
            first = number * segment
            n_here = min(segment, n_passages - first)
            sums[:n_here] = 0
            for term in range(n_terms):
                index = query.lists[number, term]
                if index >= 0:
                    begin = lists.entries[index].begin
                    add_list(lists, query.counts[term], begin, begin + lists.entries[index].length, sums)
            for row in range(n_here):
                scores[question, first + row] = sums[row] if sums[row] > 0 else -np.inf
    return scores


class PostingsIndex(lexical.Index):
    """The engine of large corpora."""

    def __init__(self, postings: Postings) -> None:
        super().__init__(postings.n_passages)
        self._postings = postings
        self.memory_bytes = postings.memory_bytes

    def search(self, questions: Tokens, k: int, factors: np.ndarray | None = None) -> Rankings:
        return self._postings.search(lexical.query_term_hashes(questions), questions.offsets, k, factors)

    def score_blocks(self, questions: Tokens, factors: np.ndarray | None = None) -> Iterator[np.ndarray]:
        return self._postings.scores(lexical.query_term_hashes(questions), questions.offsets, self._block, factors)
