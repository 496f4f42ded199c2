"""Weights of terms in passages (BM25 and BM25F), their statistics, and the posting lists of an index.

Terms are 64-bit hashes: as strings, those of a million passages take gigabytes. Ten million terms contain a collision
in one of 400,000 corpora.

BM25F weighs title and text as two fields with separate lengths. A term adds `idf * c / (c + k1)`, with `c = sum over
the fields of weight * f / (1 - b + b * length / mean length)`: f is its count in the field, lengths are of the field,
and the weight of the text is 1. The idf is that of BM25, of passages that contain the term in either field. Robertson,
Zaragoza & Taylor 2004, "Simple BM25 extension to multiple weighted fields"; Zaragoza et al. 2004, "Microsoft Cambridge
at TREC 13", for the lengths.

numpy counts small corpora, and compiled code in `lexical.index` large ones, with the same results to the last bit:
compiling takes longer than counting a small corpus.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from mrc_workbench.data.cache import cached_arrays, key_of
from mrc_workbench.data.passages import Passages
from mrc_workbench.data.text.analysis import Analysis, Tokens, token_parts
from mrc_workbench.data.text.analyzers import VERSION, Analyzer
from mrc_workbench.data.texts import fingerprint_of
from mrc_workbench.retrieval.rankings import Rankings, concatenate, find_positions, top_k

Array = np.ndarray[Any, Any]
Write = Callable[[str, Array], None]  # appends a part to the named array
MAX_NUMPY_TOKENS = 1_000_000  # which numpy counts in a tenth of a second
_COUNTS_VERSION = 2  # raise when the stored counts change
_BLOCK = 512  # questions at a time
_CELLS = 50_000_000  # scores at a time: 200 MB
Function = TypeVar("Function", bound=Callable[..., Any])
WORD_BITS = 64  # passages per word of a bitmap
# a term's list in a segment, as a single record: one memory access per term
LIST_DTYPE = np.dtype(
    [("segment", "<i4"), ("length", "<i4"), ("begin", "<i8"), ("map", "<i8"), ("largest", "<f4"), ("unused", "<f4")]
)
DTYPES = {
    "terms": np.dtype("<u8"),
    "firsts": np.dtype("<i8"),
    "entries": LIST_DTYPE,
    "rows": np.dtype("<u2"),
    "weights": np.dtype("<f4"),
    "bits": np.dtype("<u8"),
    "ranks": np.dtype("<u2"),
}


class Segment(NamedTuple):
    """The concatenated posting lists of the `terms` of some passages; list i has `lengths[i]` postings."""

    terms: Array  # (n_lists,) uint64, distinct
    lengths: Array  # (n_lists,) int32, 1 or more
    rows: Array  # (n_postings,) uint16
    weights: Array  # (n_postings,) float32


def collect_arrays(dtypes: Mapping[str, Any], fill: Callable[[Write], None]) -> dict[str, Array]:
    """Return the arrays that `fill` writes in parts."""
    parts = {name: [np.zeros(0, dtype)] for name, dtype in dtypes.items()}
    fill(lambda name, part: parts[name].append(part.astype(dtypes[name], copy=False).ravel()))
    return {name: np.concatenate(blocks) for name, blocks in parts.items()}


def write_arrays(folder: Path, dtypes: Mapping[str, Any], fill: Callable[[Write], None]) -> None:
    """Write the arrays that `fill` writes in parts to files of their names."""
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / name).open("wb")) for name in dtypes}
        fill(lambda name, part: np.ascontiguousarray(part, dtype=dtypes[name]).tofile(files[name]))


def concatenate_and_clear(parts: list[Array]) -> Array:
    """Concatenate the parts, at least one, and remove them one by one: saves the memory of a second copy."""
    whole = np.empty(sum(map(len, parts)), parts[0].dtype)
    end = len(whole)
    while parts:
        part = parts.pop()
        whole[end - len(part) : end] = part
        end -= len(part)
    return whole


def first_positions(ordered: Array) -> Array:
    """Return the first position of each value of an ordered array."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])


@dataclass(frozen=True)
class TermStatistics:
    """Terms by ascending `hashes`, their document frequencies, and the mean length of passages in tokens."""

    hashes: np.ndarray  # (n_terms,) uint64
    document_frequencies: np.ndarray  # (n_terms,) int64
    n_passages: int
    mean_length: float

    @property
    def n_tokens(self) -> int:
        return round(self.mean_length * self.n_passages)

    def positions_of(self, terms: Sequence[str]) -> np.ndarray:
        """Return the index of each term in the arrays, int64; -1 if no passage contains it."""
        return find_positions(self.hashes, hash_terms(terms))


def term_statistics(
    analysis: Analyzer | Analysis, texts: Sequence[str], parts: Iterable[Tokens] | None = None
) -> TermStatistics:
    """Count the document frequencies in `parts` (the texts' tokens), or read the stored counts."""

    def count() -> dict[str, np.ndarray]:
        return counts_of(token_parts(analysis, texts) if parts is None else parts)

    key = key_of(_COUNTS_VERSION, VERSION, *Analysis.from_analyzer(analysis).key, fingerprint_of(texts))
    stored = cached_arrays("terms", key, count)
    mean_length = float(stored["n_tokens"]) / max(1, len(texts))
    return TermStatistics(stored["hashes"], stored["document_frequencies"], len(texts), mean_length)


def counts_of(parts: Iterable[Tokens]) -> dict[str, np.ndarray]:
    """Count the document frequencies of analyzed passages, a part at a time."""
    hashes = [np.zeros(0, np.uint64)]
    counts = [np.zeros(0, np.int64)]
    n_tokens = 0
    for part in parts:
        hashes.append(hash_terms(part.vocabulary))
        counts.append(count_document_frequencies(part.ids, part.offsets, len(part.vocabulary)))
        n_tokens += len(part.ids)
    terms = concatenate_and_clear(hashes)
    frequencies = concatenate_and_clear(counts)
    order = np.argsort(terms, kind="stable")
    terms = terms[order]
    firsts = first_positions(terms)
    frequencies = np.add.reduceat(frequencies[order], firsts) if len(firsts) else frequencies
    return {"hashes": terms[firsts], "document_frequencies": frequencies, "n_tokens": np.array(n_tokens)}


def hash_terms(terms: Sequence[str]) -> np.ndarray:
    """Return the hashes of terms, `(len(terms),)` uint64."""
    return np.asarray(pd.util.hash_array(np.array(terms, dtype=object), categorize=False))


def counts_by_term(ids: np.ndarray, offsets: np.ndarray, n_terms: int) -> csr_array:
    """Return the counts of terms in texts, `(n_texts, n_terms)` float64, terms in order."""
    shape = (len(offsets) - 1, n_terms)
    counts = csr_array((np.ones(len(ids)), ids, offsets), shape=shape, copy=True)  # summed in place
    counts.sum_duplicates()
    return counts


def idf_of(document_frequencies: np.ndarray, n_passages: int) -> np.ndarray:
    """Return `ln(1 + (N - n + .5) / (n + .5))` of document frequencies n."""
    return np.log1p((n_passages - document_frequencies + 0.5) / (document_frequencies + 0.5))


@dataclass(frozen=True)
class FieldStatistics:
    """The terms of both fields together, and the mean lengths of titles and texts in tokens."""

    terms: TermStatistics
    mean_title: float
    mean_text: float


def field_statistics(
    analysis: Analysis, passages: Passages, on_progress: Callable[[float], None] | None = None
) -> FieldStatistics:
    """Count the document frequencies over both fields, or read the stored counts."""

    def count() -> dict[str, np.ndarray]:
        n_title = 0

        def tokens_of_fields() -> Iterator[Tokens]:
            nonlocal n_title
            parts = token_parts(analysis, passages.titles), token_parts(analysis, passages.texts, on_progress)
            for titles, texts in zip(*parts, strict=True):
                n_title += len(titles.ids)
                yield concatenate_fields(titles, texts)

        return counts_of(tokens_of_fields()) | {"n_title": np.array(n_title)}

    key = key_of(_COUNTS_VERSION, VERSION, *analysis.key, passages.titles.fingerprint, passages.texts.fingerprint)
    stored = cached_arrays("field-terms", key, count)
    n_passages = max(1, len(passages))
    n_title = int(stored["n_title"])
    n_all = int(stored["n_tokens"])
    terms = TermStatistics(stored["hashes"], stored["document_frequencies"], len(passages), n_all / n_passages)
    return FieldStatistics(terms, n_title / n_passages, (n_all - n_title) / n_passages)


def concatenate_fields(titles: Tokens, texts: Tokens) -> Tokens:
    """Return the tokens of each passage's title and text in a shared vocabulary."""
    token_ids = {token: index for index, token in enumerate(texts.vocabulary)}
    translation = np.array([token_ids.setdefault(token, len(token_ids)) for token in titles.vocabulary], dtype=np.int32)
    rows = np.concatenate([np.repeat(np.arange(len(part)), np.diff(part.offsets)) for part in (titles, texts)])
    ids = np.concatenate([translation[titles.ids], texts.ids])[np.argsort(rows, kind="stable")]
    return Tokens(list(token_ids), ids, titles.offsets + texts.offsets)


def bm25_segments(parts: Iterable[Tokens], statistics: TermStatistics, k1: float, b: float) -> Iterator[Segment]:
    """Yield the segments of passages with BM25 weights, see `retrieval.lexical.bm25`."""
    for tokens in parts:
        lengths = np.diff(tokens.offsets)
        length_norm = k1 * (1 - b + b * lengths / statistics.mean_length)
        title_lengths = np.zeros(len(tokens), np.int64)
        yield _weighted_segment(tokens, statistics, length_norm, title_lengths, np.ones((2, len(tokens))))


def bm25f_segments(
    parts: Iterable[tuple[Tokens, Tokens]], statistics: FieldStatistics, k1: float, b: float, title_weight: float
) -> Iterator[Segment]:
    """Yield the segments of passages, given as titles and texts, with BM25F weights."""
    for titles, texts in parts:
        title_lengths = np.diff(titles.offsets)
        lengths = np.diff(texts.offsets)
        title_gains = _gains(title_lengths, statistics.mean_title, b) * title_weight
        gains = np.stack([title_gains, _gains(lengths, statistics.mean_text, b)])
        tokens = concatenate_fields(titles, texts)
        yield _weighted_segment(tokens, statistics.terms, np.full(len(texts), k1), title_lengths, gains)


def _gains(lengths: np.ndarray, mean: float, b: float) -> np.ndarray:
    return 1 / np.where(lengths > 0, 1 - b + b * lengths / (mean or 1), 1)


def _weighted_segment(
    tokens: Tokens, statistics: TermStatistics, length_norm: np.ndarray, title_lengths: np.ndarray, gains: np.ndarray
) -> Segment:
    """Return the lists of passages; a term of count c, the sum of `gains`, weighs `idf * c / (c + length_norm)`."""
    idf = idf_of(statistics.document_frequencies[statistics.positions_of(tokens.vocabulary)], statistics.n_passages)
    lengths = count_document_frequencies(tokens.ids, tokens.offsets, len(tokens.vocabulary))
    rows, counts = count_terms(tokens.ids, tokens.offsets, lengths, title_lengths, gains)
    weights = np.repeat(idf, lengths) * counts / (counts + length_norm[rows])
    is_used = lengths > 0
    terms = hash_terms(tokens.vocabulary)[is_used]
    return Segment(terms, lengths[is_used].astype(np.int32), rows, weights.astype(np.float32))


def count_document_frequencies(ids: np.ndarray, offsets: np.ndarray, n_terms: int) -> np.ndarray:
    """Return the document frequency of each term, `(n_terms,)` int64."""
    if len(ids) > MAX_NUMPY_TOKENS:
        from mrc_workbench.retrieval.lexical import index

        return index.count_document_frequencies(ids, offsets, n_terms)
    pairs = np.sort(_pairs(ids, offsets))  # np.unique hashes, which takes seven times as long
    terms = pairs[first_positions(pairs)] // max(1, len(offsets) - 1)
    return np.bincount(terms, minlength=n_terms).astype(np.int64)


def count_terms(
    ids: np.ndarray, offsets: np.ndarray, lengths: np.ndarray, title_lengths: np.ndarray, gains: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return passages (uint16) and counts (float64) of all terms' lists, of these `lengths`, summed in token order."""
    if len(ids) > MAX_NUMPY_TOKENS:
        from mrc_workbench.retrieval.lexical import index

        return index.count_terms(ids, offsets, np.concatenate([[0], np.cumsum(lengths)]), title_lengths, gains)
    passages = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    is_title = np.arange(len(ids)) - offsets[passages] < title_lengths[passages]
    pairs, inverse = np.unique(_pairs(ids, offsets), return_inverse=True)
    token_gains = gains[np.where(is_title, 0, 1), passages]
    return (pairs % max(1, len(title_lengths))).astype(np.uint16), np.bincount(inverse, token_gains, len(pairs))


def _pairs(ids: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    n_passages = len(offsets) - 1
    return ids.astype(np.int64) * n_passages + np.repeat(np.arange(n_passages), np.diff(offsets))


class BM25Engine(StrEnum):
    """`POSTINGS` is the engine; `RANK_BM25` is a slow reference of another variant: Okapi with an idf floor, in which
    a term of half of the passages has no weight, and results have scores above 0.
    """

    POSTINGS = "postings"
    RANK_BM25 = "rank-bm25"


class Index:
    """The index of an engine; this base class, of passages without tokens, has no results. `memory_bytes` may be 0."""

    memory_bytes = 0

    def __init__(self, n_passages: int) -> None:
        self._n_passages = n_passages
        self._block = max(1, min(_BLOCK, _CELLS // max(1, n_passages)))

    def search(self, questions: Tokens, k: int, factors: np.ndarray | None = None) -> Rankings:
        """Return the best k passages of each analyzed question; `factors` weigh its tokens (`POSTINGS` only)."""
        return best_of_blocks(self.score_blocks(questions, factors), (len(questions), self._n_passages), k)

    def score_blocks(self, questions: Tokens, factors: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """Score every passage for blocks of questions: `(rows, n_passages)`, -inf without a shared term."""
        del factors
        for start in range(0, len(questions), self._block):
            yield np.full((min(self._block, len(questions) - start), self._n_passages), -np.inf, dtype=np.float32)


def best_of_blocks(blocks: Iterable[np.ndarray], shape: tuple[int, int], k: int) -> Rankings:
    """Return the best k columns of a score matrix of this shape from its blocks of rows, if any."""
    parts = [top_k(scores, k) for scores in blocks]
    return concatenate(parts or [top_k(np.full(shape, -np.inf, dtype=np.float32), k)])


def query_term_hashes(questions: Tokens) -> np.ndarray:
    """Return the hashes of all tokens of the questions."""
    return np.asarray(hash_terms(questions.vocabulary)[questions.ids])


class SingleSegmentIndex(Index):
    """The scores of `lexical.index` for few passages, equal to the last bit, without compiled code."""

    def __init__(self, segment: Segment, n_passages: int) -> None:
        super().__init__(n_passages)
        order = np.argsort(segment.terms, kind="stable")
        ends = np.cumsum(segment.lengths, dtype=np.int64)
        self._terms = segment.terms[order]
        self._lists = np.stack([ends - segment.lengths, ends], axis=1)[order]
        self._rows = segment.rows
        self._weights = segment.weights
        largest = np.maximum.reduceat(np.abs(self._weights), ends - segment.lengths) if len(ends) else np.zeros(0)
        self._largest = largest[order].astype(np.float64)
        arrays = (self._terms, self._lists, self._largest, self._rows, self._weights)
        self.memory_bytes = sum(array.nbytes for array in arrays)

    def score_blocks(self, questions: Tokens, factors: np.ndarray | None = None) -> Iterator[np.ndarray]:
        terms = query_term_hashes(questions)
        offsets = questions.offsets
        weights = np.ones(len(terms)) if factors is None else factors.astype(np.float64)
        for scores, start in zip(super().score_blocks(questions), range(0, len(questions), self._block), strict=True):
            for row in range(len(scores)):
                term_slice = slice(offsets[start + row], offsets[start + row + 1])
                sums = self._sums(terms[term_slice], weights[term_slice])
                scores[row] = np.where(sums > 0, sums, -np.inf)
            yield scores

    def _sums(self, terms: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Add up the weights of terms in each passage, largest possible contributions first, as the engine does."""
        positions = find_positions(self._terms, terms)
        distinct, inverse = np.unique(positions[positions >= 0], return_inverse=True)
        counts = np.bincount(inverse, factors[positions >= 0], len(distinct))
        sums = np.zeros(self._n_passages)
        for index in np.lexsort((distinct, -self._largest[distinct] * np.abs(counts))):
            postings = slice(*self._lists[distinct[index]])
            sums[self._rows[postings]] += counts[index] * self._weights[postings].astype(np.float64)
        return sums


class PostingLists(NamedTuple):
    """Posting lists of segments of passages; a term has a list in every segment that contains it.

    Term t, `terms[t]`, has the lists `entries[firsts[t]]` to `entries[firsts[t + 1]]`, by ascending segment. The
    passages of a list, relative to its `segment`, are the `length` values of `rows` from `begin` on, ascending. Their
    `weights` are at the same positions; the largest absolute weight is `largest`.

    A long list also has a bitmap, the words from `map` on (else -1): bit `row % 64` of `bits[map + row // 64]` is set
    for its passages, and `ranks` of that word is the number of passages before the word.
    """

    terms: Array  # (n_terms,) uint64, ascending
    firsts: Array  # (n_terms + 1,) int64
    entries: Array  # (n_lists,) of `LIST_DTYPE`
    rows: Array  # (n_postings,) uint16
    weights: Array  # (n_postings,) float32
    bits: Array  # (n_words,) uint64
    ranks: Array  # (n_words,) uint16


def compiled(function: Function) -> Function:
    """Compile a function with numba, cached on disk; it releases the interpreter lock."""
    import numba

    wrapped: Function = numba.njit(nogil=True, cache=True)(function)
    return wrapped
