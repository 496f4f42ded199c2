"""Dense retrieval, by a vector of each passage, and late interaction, by a vector of each token.

FAISS indexes compare vectors of length 1 by inner product, so scores are cosines. `exact` compares a question with
every vector; `int8` does the same with 8 bits per dimension. `hnsw` searches a graph of neighbours (Malkov & Yashunin
2018) and returns at most `HNSW_CANDIDATES`; `ivf` searches the cells nearest to the question (Sivic & Zisserman 2003)
and may return fewer results than requested.

Memory for n vectors of d dimensions, in bytes: `exact` uses the given vectors, 4nd, which may be mapped from a file;
`hnsw` holds a copy and the graph, n(4d + 272); `ivf` a copy by cells, n(4d + 8); `int8` n * d. One million of 384: 1.5,
1.8, 1.5 and 0.4 GB. All build and search on all cores, except small graphs: see `MAX_DETERMINISTIC_HNSW`.

In late interaction (ColBERT: Khattab & Zaharia 2020) the score is the mean over the question's tokens of the best
cosine with a token of the passage: MaxSim divided by the number of question tokens.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import Passage
from mrc_workbench.models.vectors import (
    Encoder,
    LimitedEncoder,
    TermEncoder,
    TokenVectorEncoder,
    TokenVectors,
    WindowEncoder,
)
from mrc_workbench.models.windows import WindowOptions
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, Retriever, concatenate, rank_candidates, top_k

if TYPE_CHECKING:
    from mrc_workbench.retrieval.centroids import TokenIndex

HNSW_NEIGHBOURS = 32  # links of a vector in the graph
HNSW_CANDIDATES_TO_BUILD = 128
HNSW_CANDIDATES = 256  # more increase recall and time
MAX_DETERMINISTIC_HNSW = 100_000  # vectors: one core links up to so many, which makes the graph reproducible
_VECTORS_PER_CELL = 39  # the number that FAISS recommends to train a cell
ENCODING_FRACTION = 0.7  # of the progress: encoding passages and questions
_QUESTIONS_AT_ONCE = 32  # compared at a time with all passages
_TOKENS_AT_ONCE = 8192  # passage tokens per block: the similarities fit into the processor's cache
_MAX_EXACT_PASSAGES = 10_000  # comparing a question with all of them takes some tenths of a second


class IndexKind(StrEnum):
    """An index of vectors: exact, a graph, cells, or exact with 8 bits per dimension."""

    EXACT = "exact"
    HNSW = "hnsw"
    IVF = "ivf"
    INT8 = "int8"


class VectorIndex:
    """An index over `vectors` `(n, dimensions)` float32, deterministic up to `MAX_DETERMINISTIC_HNSW` vectors."""

    def __init__(self, vectors: np.ndarray, kind: IndexKind = IndexKind.EXACT) -> None:
        self.size = len(vectors)
        self.max_hits = HNSW_CANDIDATES if kind is IndexKind.HNSW else self.size
        self._index = _build_index(np.ascontiguousarray(vectors, dtype=np.float32), kind)

    def search(self, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return cosines and rows `(n_questions, k)` of the nearest vectors, best first; row -1 if missing."""
        scores, rows = self._index.search(vectors, k)
        return np.where(rows < 0, -np.inf, scores), rows

    @cached_property
    def memory_bytes(self) -> int:
        if isinstance(self._index, _Exact):
            return self._index.vectors.nbytes
        import faiss

        sizes: list[int] = []
        # in parts, as `serialize_index` would copy the whole index
        writer = faiss.PyCallbackIOWriter(lambda part: sizes.append(len(part)))  # type: ignore[attr-defined]
        faiss.write_index(self._index, writer)
        return sum(sizes)


def ivf_cell_counts(n_vectors: int) -> tuple[int, int]:
    """Return the number of IVF cells, and how many of them a question searches: 8, or their square root."""
    count = max(1, min(round(4 * math.sqrt(n_vectors)), n_vectors // _VECTORS_PER_CELL))
    return count, min(count, max(8, math.ceil(math.sqrt(count))))


@dataclass(frozen=True)
class _Exact:
    """An `IndexFlatIP` without a copy of the vectors."""

    vectors: np.ndarray

    def search(self, vectors: np.ndarray, k: int) -> Any:
        import faiss

        return faiss.knn(np.ascontiguousarray(vectors), self.vectors, k, metric=faiss.METRIC_INNER_PRODUCT)


def _build_index(vectors: np.ndarray, kind: IndexKind) -> Any:
    if kind is IndexKind.EXACT:
        return _Exact(vectors)
    import faiss

    dimensions = vectors.shape[1]
    metric = faiss.METRIC_INNER_PRODUCT
    threads = faiss.omp_get_max_threads()
    index: Any
    if kind is IndexKind.HNSW:
        index = faiss.IndexHNSWFlat(dimensions, HNSW_NEIGHBOURS, metric)
        index.hnsw.efConstruction = HNSW_CANDIDATES_TO_BUILD
        index.hnsw.efSearch = HNSW_CANDIDATES
        if len(vectors) <= MAX_DETERMINISTIC_HNSW:
            faiss.omp_set_num_threads(1)
    elif kind is IndexKind.IVF:
        count, n_probe = ivf_cell_counts(len(vectors))
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimensions), dimensions, count, metric)
        index.cp.seed = 0
        index.cp.min_points_per_centroid = 1  # no warnings about few vectors
        index.nprobe = n_probe
    else:
        index = faiss.IndexScalarQuantizer(dimensions, faiss.ScalarQuantizer.QT_8bit, metric)
    try:
        index.train(vectors)
        index.add(vectors)
    finally:
        faiss.omp_set_num_threads(threads)
    return index


@dataclass(eq=False, repr=False)
class Dense:
    """Searches passage vectors in an index; scores are cosines, higher is better.

    A passage that is too long for the encoder has the cosine of its best window with `windows`, else of its beginning.
    An index that is exact for vectors is exact for passages too; several of `hnsw`'s results may be windows of the same
    passage. A question without known tokens (a vector of zeros) has no results.
    """

    name: str
    passages: Sequence[Passage]
    encoder: Encoder
    _: KW_ONLY
    title: bool = True
    index: IndexKind = IndexKind.EXACT
    windows: WindowOptions | None = None

    def __post_init__(self) -> None:
        corpus = Passages.from_passages(self.passages)
        self._passages = np.arange(len(corpus))  # the passage of each vector
        self._texts = corpus.indexed_texts(title=self.title)
        if self.windows and isinstance(self.encoder, WindowEncoder):
            windows = self.encoder.windows_of(self._texts, corpus.title_lengths(title=self.title), self.windows)
            vectors, self._passages = self.encoder.encode_windows(self._texts, windows)
        else:
            vectors = self.encoder.encode_passages(self._texts)
        self._index = VectorIndex(vectors, self.index)
        self._has_windows = len(vectors) > len(corpus)
        self._vectors_per_passage = len(vectors) / max(1, len(corpus))

    @property
    def memory_bytes(self) -> int:
        return self._index.memory_bytes

    def count_truncated(self) -> int:
        if self.windows or not isinstance(self.encoder, LimitedEncoder):
            return 0
        return self.encoder.count_truncated(self._texts)

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        vectors = self.encoder.encode_questions(questions)
        k = min(k, len(self._texts))
        if not len(vectors):
            return rank_candidates(np.zeros((0, 0), dtype=np.int32), np.zeros((0, 0)), k)
        known = np.flatnonzero(np.any(vectors != 0, axis=1))
        rankings = Rankings.empty(len(vectors), k)
        self._fill(rankings, known, vectors[known], math.ceil((k + 1) * self._vectors_per_passage))
        return rankings

    def _fill(self, rankings: Rankings, rows: np.ndarray, vectors: np.ndarray, depth: int) -> None:
        k = rankings.indices.shape[1]
        max_depth = min(self._index.size, self._index.max_hits)
        scores, indices = self._index.search(vectors, min(depth, max_depth))
        best = rank_candidates(self._best_per_passage(indices), scores, k)
        rankings.assign(rows, best)
        if depth < max_depth:
            # FAISS selects arbitrarily among vectors that tie with the k-th passage, and all may be windows of few
            # passages: fetch more until the last vector is below the k-th passage
            unresolved = np.flatnonzero((best.scores[:, k - 1] <= scores[:, -1]) & (indices[:, -1] != NOT_FOUND))
            if len(unresolved):
                self._fill(rankings, rows[unresolved], vectors[unresolved], 2 * depth)

    def _best_per_passage(self, vector_rows: np.ndarray) -> np.ndarray:
        """Return the passages of vectors, `(n_questions, depth)`, -1 for all but the best vector of a passage."""
        passages = np.where(vector_rows != NOT_FOUND, self._passages[vector_rows], NOT_FOUND)
        if not self._has_windows:
            return passages
        order = np.argsort(passages, axis=1, kind="stable")  # the vectors are in the order of scores
        ordered = np.take_along_axis(passages, order, axis=1)
        worse = np.zeros_like(passages, dtype=bool)
        np.put_along_axis(worse, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
        return np.where(worse, NOT_FOUND, passages)


class LateIndex(StrEnum):
    """Passages that a question is compared with: all, or candidates from an index of centroids."""

    AUTO = "auto"  # candidates only in large corpora
    EXACT = "exact"
    CENTROIDS = "centroids"


def max_sim(questions: TokenVectors, passages: TokenVectors) -> np.ndarray:
    """Score every question with every passage, `(n_questions, n_passages)` float32, -inf for texts without tokens."""
    scores = np.full((len(questions), len(passages)), -np.inf, dtype=np.float32)
    lengths = np.diff(passages.starts)
    question_lengths = np.diff(questions.starts)
    question_vectors = questions.vectors.astype(np.float32)
    if not (non_empty := np.flatnonzero(question_lengths)).size:
        return scores
    for rows, vectors in _length_batches(passages, lengths):
        similarities = (vectors @ question_vectors.T).reshape(len(rows), -1, len(question_vectors))
        sums = np.add.reduceat(similarities.max(axis=1), questions.starts[:-1][non_empty], axis=1)
        scores[np.ix_(non_empty, rows)] = (sums / question_lengths[non_empty]).T
    return scores


def _length_batches(passages: TokenVectors, lengths: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows of passages of similar length, and their vectors `(n * longest, dimensions)` float32, padded."""
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    first = 0
    while first < len(order):
        last = first + 1
        while last < len(order) and (last + 1 - first) * lengths[order[last]] <= _TOKENS_AT_ONCE:
            last += 1
        rows = order[first:last]
        positions = np.minimum(np.arange(lengths[rows[-1]]), lengths[rows][:, None] - 1)
        token_rows = passages.starts[rows][:, None] + positions
        yield rows, passages.vectors[token_rows.ravel()].astype(np.float32)
        first = last


@dataclass(eq=False, repr=False)
class LateInteraction:
    """Searches by late interaction with all passages; scores lie between -1 and 1.

    With `first`, only the first `depth` passages of that retriever are reranked; those below keep their order. With an
    `index` of centroids (see `retrieval.centroids`), token vectors are mapped from a file in half precision or in
    `bits` per dimension, and without `first` the index selects the candidates.
    """

    name: str
    passages: Sequence[Passage]
    encoder: TokenVectorEncoder
    _: KW_ONLY
    title: bool = True
    first: Retriever | None = None
    depth: int = 100
    index: LateIndex = LateIndex.AUTO
    bits: int = 0
    on_progress: Callable[[float], None] | None = None

    def __post_init__(self) -> None:
        self._tokens: TokenVectors | TokenIndex
        corpus = Passages.from_passages(self.passages)
        self._texts = corpus.indexed_texts(title=self.title)
        title_lengths = corpus.title_lengths(title=self.title)
        uses_centroids = self.bits or len(corpus) > _MAX_EXACT_PASSAGES or self.index is LateIndex.CENTROIDS
        if self.index is LateIndex.EXACT or not uses_centroids:
            self._tokens = self.encoder.encode_passages(self._texts, title_lengths)
            return
        from mrc_workbench.retrieval.centroids import mapped_index  # imports a compiler

        key = self.encoder.key_of_passages(self._texts, title_lengths)
        blocks = partial(self.encoder.passage_blocks, self._texts, title_lengths)
        self._tokens = mapped_index(key, blocks, len(corpus), self.bits)

    @property
    def memory_bytes(self) -> int:
        return self._tokens.vectors.nbytes if isinstance(self._tokens, TokenVectors) else self._tokens.memory_bytes

    def count_truncated(self) -> int:
        return self.encoder.count_truncated(self._texts) if isinstance(self.encoder, LimitedEncoder) else 0

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        vectors = self.encoder.encode_questions(questions)
        k = min(k, len(self._texts))
        if self.first:
            return self._rerank(vectors, self.first.search(questions, max(k, self.depth)), k)
        blocks = [Rankings.empty(0, k)]
        for start in range(0, len(vectors), _QUESTIONS_AT_ONCE):
            blocks.append(self._search_block(vectors.between(start, start + _QUESTIONS_AT_ONCE), k))
            if self.on_progress:
                fraction = min(1.0, (start + _QUESTIONS_AT_ONCE) / len(vectors))
                self.on_progress(ENCODING_FRACTION + (1 - ENCODING_FRACTION) * fraction)
        return concatenate(blocks[1:] or blocks)

    def _search_block(self, questions: TokenVectors, k: int) -> Rankings:
        if isinstance(self._tokens, TokenVectors):
            return top_k(max_sim(questions, self._tokens), k)
        question_vectors = (questions.between(row, row + 1).vectors for row in range(len(questions)))
        return concatenate([self._tokens.search(vectors, k) for vectors in question_vectors])

    def _scores(self, question: TokenVectors, rows: np.ndarray) -> np.ndarray:
        if isinstance(self._tokens, TokenVectors):
            return np.asarray(max_sim(question, self._tokens.select(rows))[0])
        return self._tokens.scores(question.vectors, rows)

    def _rerank(self, questions: TokenVectors, hits: Rankings, k: int) -> Rankings:
        scores = np.full(hits.indices.shape, -np.inf)
        for row, indices in enumerate(hits.indices):
            rows = indices[: self.depth][indices[: self.depth] != NOT_FOUND]
            scores[row, : len(rows)] = self._scores(questions.between(row, row + 1), rows)
            below = np.arange(len(rows), np.count_nonzero(indices != NOT_FOUND))
            scores[row, below] = -2.0 - below  # below every cosine
        return rank_candidates(hits.indices, scores, k)


class SparseRetriever:
    """Searches term weights of a model exactly, in postings like those of BM25 (SPLADE: Formal et al. 2021).

    The score is the dot product of the weights of question and passage, higher is better, ties by row. Terms that occur
    in neither text may have weight. Results have scores above 0.
    """

    def __init__(self, name: str, passages: Sequence[Passage], encoder: TermEncoder, *, title: bool = True) -> None:
        from mrc_workbench.retrieval.lexical.index import Postings, segments_of  # imports a compiler

        self.name = name
        self._encoder = encoder
        self._texts = Passages.from_passages(passages).indexed_texts(title=title)
        weights = encoder.encode_passages(self._texts)
        self._n_terms = weights.shape[1]
        self._postings = Postings.from_segments(segments_of(weights), len(passages))
        self.memory_bytes = self._postings.memory_bytes

    def count_truncated(self) -> int:
        return self._encoder.count_truncated(self._texts) if isinstance(self._encoder, LimitedEncoder) else 0

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question. Raises `ValueError` if their vocabulary is larger."""
        question_weights = self._encoder.encode_questions(questions)
        if question_weights.shape[1] > self._n_terms:
            raise ValueError("the model's question vocabulary is larger than its passage vocabulary")
        terms = question_weights.indices.astype(np.uint64)
        weights = question_weights.data.astype(np.float32, copy=False)
        return self._postings.search(terms, question_weights.indptr.astype(np.int64), k, weights)
