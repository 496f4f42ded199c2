"""Weights of terms in passages (BM25 and BM25F), the statistics they are made from, and the lists of an index.

Terms are 64-bit hashes: as strings, those of a million passages take gigabytes. Two of ten million terms share a hash
in one of 400,000 corpora.

BM25F weighs a passage's title and its text as two fields, each with lengths of its own. A term adds `idf * c / (c +
k1)`, with `c = sum over the fields of weight * f / (1 - b + b * length / mean length)`: f is its count in the field,
lengths are of the field, and the text weighs 1. So it is saturated once, however its counts are parted. Its idf is that
of BM25, of the passages that hold it in either field. Robertson, Zaragoza & Taylor 2004, "Simple BM25 extension to
multiple weighted fields"; Zaragoza et al. 2004, "Microsoft Cambridge at TREC 13", for the lengths.

Few tokens are counted by numpy, many by compiled code in `lexical.index`, to the same last bit: compiling the loops
takes longer than counting a small corpus, and a new user waits for it first.
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
Write = Callable[[str, Array], None]  # appends a part to the array of a name
MAX_NUMPY_TOKENS = 1_000_000  # tokens that numpy counts in a tenth of a second
_COUNTS_VERSION = 2  # raise when the stored counts change
# questions, and scores, at a time: 200 MB
_BLOCK = 512
_CELLS = 50_000_000
Function = TypeVar("Function", bound=Callable[..., Any])
WORD_BITS = 64  # passages a word of a map
# where a term's list in a segment is; as one record, so that a term costs one wait for memory
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
    """The lists of some passages: those of `terms`, one after another, each of so many `lengths`."""

    terms: Array  # (n_lists,) uint64, no term twice
    lengths: Array  # (n_lists,) int32, 1 or more
    rows: Array  # (n_postings,) uint16
    weights: Array  # (n_postings,) float32


def collect_arrays(dtypes: Mapping[str, Any], fill: Callable[[Write], None]) -> dict[str, Array]:
    """Return the arrays whose parts `fill` writes."""
    parts = {name: [np.zeros(0, dtype)] for name, dtype in dtypes.items()}
    fill(lambda name, part: parts[name].append(part.astype(dtypes[name], copy=False).ravel()))
    return {name: np.concatenate(blocks) for name, blocks in parts.items()}


def write_arrays(folder: Path, dtypes: Mapping[str, Any], fill: Callable[[Write], None]) -> None:
    """Write the arrays whose parts `fill` writes to files of their names."""
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / name).open("wb")) for name in dtypes}
        fill(lambda name, part: np.ascontiguousarray(part, dtype=dtypes[name]).tofile(files[name]))


def concatenate_and_clear(parts: list[Array]) -> Array:
    """Return the parts, at least one, as one array, and leave none of them: both would take their memory twice."""
    whole = np.empty(sum(map(len, parts)), parts[0].dtype)
    end = len(whole)
    while parts:
        part = parts.pop()
        whole[end - len(part) : end] = part
        end -= len(part)
    return whole


def first_positions(ordered: Array) -> Array:
    """Return where each value of an ordered array stands first."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])


@dataclass(frozen=True)
class TermStatistics:
    """Terms by ascending `hashes`, how many passages hold each (`holders`), and the passages' mean length in tokens."""

    hashes: np.ndarray  # (n_terms,) uint64
    document_frequencies: np.ndarray  # (n_terms,) int64
    n_passages: int
    mean_length: float

    @property
    def n_tokens(self) -> int:
        return round(self.mean_length * self.n_passages)

    def positions_of(self, terms: Sequence[str]) -> np.ndarray:
        """Return each term's place in `holders`, `(len(terms),)` int64; -1 where no passage holds it."""
        return find_positions(self.hashes, hash_terms(terms))


def term_statistics(
    analysis: Analyzer | Analysis, texts: Sequence[str], parts: Iterable[Tokens] | None = None
) -> TermStatistics:
    """Count the passages that hold each term in `parts` (the texts' tokens), or read the stored counts."""

    def count() -> dict[str, np.ndarray]:
        return counts_of(token_parts(analysis, texts) if parts is None else parts)

    stored = cached_arrays(
        "terms", key_of(_COUNTS_VERSION, VERSION, *Analysis.from_analyzer(analysis).key, fingerprint_of(texts)), count
    )
    mean_length = float(stored["n_tokens"]) / max(1, len(texts))
    return TermStatistics(stored["hashes"], stored["document_frequencies"], len(texts), mean_length)


def counts_of(parts: Iterable[Tokens]) -> dict[str, np.ndarray]:
    """Count the passages that hold each term, of analyzed passages a part at a time."""
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
    """Return what terms are told apart by, `(len(terms),)` uint64."""
    return np.asarray(pd.util.hash_array(np.array(terms, dtype=object), categorize=False))


def counts_by_term(ids: np.ndarray, offsets: np.ndarray, n_terms: int) -> csr_array:
    """Return how often each text holds each term, `(n_texts, n_terms)` float64, terms in order."""
    csr_parts = np.ones(len(ids)), ids, offsets
    counts = csr_array(csr_parts, shape=(len(offsets) - 1, n_terms), copy=True)  # to add up changes its arrays
    counts.sum_duplicates()
    return counts


def idf_of(document_frequencies: np.ndarray, n_passages: int) -> np.ndarray:
    """Return `ln(1 + (N - n + .5) / (n + .5))` of terms that so many passages hold."""
    return np.log1p((n_passages - document_frequencies + 0.5) / (document_frequencies + 0.5))


@dataclass(frozen=True)
class FieldStatistics:
    """The terms of both fields together, and the mean lengths of titles and of texts in tokens, of all passages."""

    terms: TermStatistics
    mean_title: float
    mean_text: float


def field_statistics(
    analysis: Analysis, passages: Passages, on_progress: Callable[[float], None] | None = None
) -> FieldStatistics:
    """Count the passages that hold each term in either field, or read the stored counts."""

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
    """Return the tokens of each passage's title and text as one, in one vocabulary."""
    token_ids = {token: index for index, token in enumerate(texts.vocabulary)}
    translation = np.array([token_ids.setdefault(token, len(token_ids)) for token in titles.vocabulary], dtype=np.int32)
    rows = np.concatenate([np.repeat(np.arange(len(part)), np.diff(part.offsets)) for part in (titles, texts)])
    ids = np.concatenate([translation[titles.ids], texts.ids])[np.argsort(rows, kind="stable")]
    return Tokens(list(token_ids), ids, titles.offsets + texts.offsets)


def bm25_segments(parts: Iterable[Tokens], statistics: TermStatistics, k1: float, b: float) -> Iterator[Segment]:
    """Yield the lists of passages, weighed as `retrieval.lexical.bm25` says."""
    for tokens in parts:
        lengths = np.diff(tokens.offsets)
        length_norm = k1 * (1 - b + b * lengths / statistics.mean_length)
        yield _weighted_segment(
            tokens, statistics, length_norm, np.zeros(len(tokens), np.int64), np.ones((2, len(tokens)))
        )


def bm25f_segments(
    parts: Iterable[tuple[Tokens, Tokens]], statistics: FieldStatistics, k1: float, b: float, title_weight: float
) -> Iterator[Segment]:
    """Yield the lists of passages, given as titles and texts, weighed as said above."""
    for titles, texts in parts:
        title_lengths = np.diff(titles.offsets)
        lengths = np.diff(texts.offsets)
        title_gains = _gains(title_lengths, statistics.mean_title, b) * title_weight
        gains = np.stack([title_gains, _gains(lengths, statistics.mean_text, b)])
        tokens = concatenate_fields(titles, texts)
        yield _weighted_segment(tokens, statistics.terms, np.full(len(texts), k1), title_lengths, gains)


def _gains(lengths: np.ndarray, mean: float, b: float) -> np.ndarray:
    """Return what a token counts in fields of these lengths; in an empty one there is none."""
    return 1 / np.where(lengths > 0, 1 - b + b * lengths / (mean or 1), 1)


def _weighted_segment(
    tokens: Tokens, statistics: TermStatistics, length_norm: np.ndarray, title_lengths: np.ndarray, gains: np.ndarray
) -> Segment:
    """Return the lists of passages; a term of count c, its tokens' `gains`, weighs `idf * c / (c + held_back)`."""
    idf = idf_of(statistics.document_frequencies[statistics.positions_of(tokens.vocabulary)], statistics.n_passages)
    lengths = count_document_frequencies(tokens.ids, tokens.offsets, len(tokens.vocabulary))
    rows, counts = count_terms(tokens.ids, tokens.offsets, lengths, title_lengths, gains)
    weights = np.repeat(idf, lengths) * counts / (counts + length_norm[rows])
    is_used = lengths > 0
    return Segment(
        hash_terms(tokens.vocabulary)[is_used], lengths[is_used].astype(np.int32), rows, weights.astype(np.float32)
    )


def count_document_frequencies(ids: np.ndarray, offsets: np.ndarray, n_terms: int) -> np.ndarray:
    """Return how many passages hold each term, `(n_terms,)` int64."""
    if len(ids) > MAX_NUMPY_TOKENS:
        from mrc_workbench.retrieval.lexical import index

        return index.count_document_frequencies(ids, offsets, n_terms)
    pairs = np.unique(_pairs(ids, offsets))
    return np.bincount(pairs // max(1, len(offsets) - 1), minlength=n_terms).astype(np.int64)


def count_terms(
    ids: np.ndarray, offsets: np.ndarray, lengths: np.ndarray, title_lengths: np.ndarray, gains: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the passages (uint16) and counts (float64) of all terms' lists, of `lengths`, added up in token order."""
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
    """`POSTINGS` is the engine; `RANK_BM25` is a slow reference in its own variant (Okapi with an idf floor): there a
    term of half of the passages weighs nothing, and a passage that scores 0 or less is not found.
    """

    POSTINGS = "postings"
    RANK_BM25 = "rank-bm25"


class Index:
    """The index of an engine; this one, of passages without a token, finds nothing. `memory_bytes` is 0 if unknown."""

    memory_bytes = 0

    def __init__(self, n_passages: int) -> None:
        self._n_passages = n_passages
        self._block = max(1, min(_BLOCK, _CELLS // max(1, n_passages)))

    def search(self, questions: Tokens, k: int, factors: np.ndarray | None = None) -> Rankings:
        """Return the best k passages of each analyzed question, with weights of its tokens (`POSTINGS` only)."""
        return best_of_blocks(self.score_blocks(questions, factors), (len(questions), self._n_passages), k)

    def score_blocks(self, questions: Tokens, factors: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """Score every passage for some questions at a time: `(rows, n_passages)`, -inf where no term is shared."""
        del factors
        for start in range(0, len(questions), self._block):
            yield np.full((min(self._block, len(questions) - start), self._n_passages), -np.inf, dtype=np.float32)


def best_of_blocks(blocks: Iterable[np.ndarray], shape: tuple[int, int], k: int) -> Rankings:
    """Return the best k columns of a score matrix of this shape that comes a few rows at a time, or never."""
    parts = [top_k(scores, k) for scores in blocks]
    return concatenate(parts or [top_k(np.full(shape, -np.inf, dtype=np.float32), k)])


def query_term_hashes(questions: Tokens) -> np.ndarray:
    """Return the terms of questions as the index knows them, one question after the other."""
    return np.asarray(hash_terms(questions.vocabulary)[questions.ids])


class SingleSegmentIndex(Index):
    """The engine's own scores of a few passages, to the last bit, with nothing to compile: see `lexical.index`."""

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
        """Add up what the terms weigh in each passage, those first that can add most, as the engine does."""
        positions = find_positions(self._terms, terms)
        distinct, inverse = np.unique(positions[positions >= 0], return_inverse=True)
        counts = np.bincount(inverse, factors[positions >= 0], len(distinct))
        sums = np.zeros(self._n_passages)
        for index in np.lexsort((distinct, -self._largest[distinct] * np.abs(counts))):
            postings = slice(*self._lists[distinct[index]])
            sums[self._rows[postings]] += counts[index] * self._weights[postings].astype(np.float64)
        return sums


class PostingLists(NamedTuple):
    """Passages are cut into segments of the same size; a term has a list in every segment that holds it.

    Term t, `terms[t]`, has the lists `entries[firsts[t]]` to `entries[firsts[t + 1]]`, by ascending segment. The passages
    of a list, counted from the first of its `segment`, are the `length` of `rows` from `begin` on, ascending, and it
    adds the `weights` of the same places, the largest of which (without its sign) is `largest`.

    A list of many passages has a map beside it, the words from `map` on (-1 where it has none): bit `row % 64` of
    `bits[map + row // 64]` says whether it holds a passage, and `ranks` of that word how many come before it.
    """

    terms: Array  # (n_terms,) uint64, ascending
    firsts: Array  # (n_terms + 1,) int64
    entries: Array  # (n_lists,) of `LIST_DTYPE`
    rows: Array  # (n_postings,) uint16
    weights: Array  # (n_postings,) float32
    bits: Array  # (n_words,) uint64
    ranks: Array  # (n_words,) uint16


def compiled(function: Function) -> Function:
    """Compile, once on a machine, into what runs without holding the interpreter's lock."""
    import numba

    wrapped: Function = numba.njit(nogil=True, cache=True)(function)
    return wrapped
