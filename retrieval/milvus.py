"""Milvus as a retriever, from a local file to a cluster: a single vector field, or several that Milvus fuses.

A collection holds the passages, with corpus rows as ids. A field is a vector of every passage: an encoder's vector, or
BM25 weights by term, which give the BM25 score as the inner product with a question's term counts.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import Passage
from mrc_workbench.data.text.analysis import Tokens, analyze, tokens_of
from mrc_workbench.data.texts import fingerprint_of
from mrc_workbench.models.vectors import Encoder, LimitedEncoder
from mrc_workbench.retrieval import dense
from mrc_workbench.retrieval import milvus_connection as connection
from mrc_workbench.retrieval.combine import RRF_CONSTANT
from mrc_workbench.retrieval.dense import HNSW_CANDIDATES, IndexKind
from mrc_workbench.retrieval.lexical import counts_by_term, idf_of
from mrc_workbench.retrieval.lexical.bm25 import BM25Options
from mrc_workbench.retrieval.milvus_connection import MilvusField, MilvusSettings, Vectors
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, rank_candidates

_VERSION = 1  # part of a collection's name: raise it when the content changes
_QUESTIONS = 100  # per request
_OUTPUT: dict[str, Any] = {"output_fields": [connection.ROW], **connection.RETRY_OPTIONS}


class MilvusSearchMode(StrEnum):
    """The fields of a search: BM25 weights of terms, vectors of a bi-encoder, or both, fused by Milvus."""

    BM25 = "bm25"
    DENSE = "dense"
    HYBRID = "hybrid"


class Ranker(StrEnum):
    """The fusion of Milvus: the sum over fields of 1 / (60 + rank), or of weight * (1/2 + arctan(score) / pi)."""

    RRF = "rrf"
    WEIGHTED = "weighted"


@dataclass(frozen=True)
class EngineFusion:
    """The first `depth` passages of each field, fused by Milvus; `weights` (0 to 1) are for `WEIGHTED` only."""

    ranker: Ranker = Ranker.RRF
    depth: int = 100
    weights: tuple[float, ...] | None = None  # equal by default


@dataclass(eq=False, repr=False)
class MilvusRetriever:
    """A corpus in a Milvus collection, named by its content and filled if missing. Raises `MilvusError`."""

    name: str
    n_passages: int
    fields: Sequence[MilvusField]
    settings: MilvusSettings
    _: KW_ONLY
    fusion: EngineFusion | None = None
    on_progress: connection.Progress | None = None

    def __post_init__(self) -> None:
        if len(self.fields) > 1 and self.fusion is None:
            raise ValueError("several fields need a fusion")
        self.collection = f"mrc_{key_of(_VERSION, self.n_passages, [field.key for field in self.fields])[:40]}"
        if self.n_passages:
            with connection.open_client(self.settings, self.collection) as client:
                connection.load(client, self.collection, self.fields, self.n_passages, self.on_progress)

    def count_truncated(self) -> int:
        return sum(field.count_truncated() for field in self.fields if isinstance(field, VectorField))

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        k = min(k, self.n_passages)
        rankings = Rankings.empty(len(questions), k)
        if not len(questions) or not self.n_passages:
            return rankings
        encoded = [field.question_vectors(questions) for field in self.fields]
        with connection.open_client(self.settings, self.collection) as client:
            client.load_collection(self.collection, **connection.RETRY_OPTIONS)
            if self.fusion is None:
                (known, vectors) = encoded[0]
                for start in range(0, len(known), _QUESTIONS):
                    self._fill(client, rankings, known[start : start + _QUESTIONS], vectors[start : start + _QUESTIONS])
            else:
                self._fill_fused(client, rankings, encoded, self.fusion)
        return rankings

    def _fill(self, client: Any, rankings: Rankings, rows: np.ndarray, vectors: Vectors, depth: int = 0) -> None:
        field = self.fields[0]
        k = rankings.indices.shape[1]
        max_depth = min(self.n_passages, field.max_hits)
        depth = min(depth or k + 1, max_depth)
        options = {"anns_field": field.name, "search_params": field.search, **_OUTPUT}
        hits = client.search(self.collection, data=vectors, limit=depth, **options)
        indices, scores = _to_arrays(hits, depth)
        best = rank_candidates(indices, scores, k)
        rankings.assign(rows, best)
        if k <= depth < max_depth:
            # Milvus selects arbitrarily among passages that tie with the k-th: fetch all of them
            tied = np.flatnonzero((scores[:, k - 1] == scores[:, -1]) & (indices[:, -1] != NOT_FOUND))
            if len(tied):
                self._fill(client, rankings, rows[tied], [vectors[row] for row in tied], 2 * depth)  # type: ignore[arg-type]

    def _fill_fused(
        self, client: Any, rankings: Rankings, encoded: Sequence[tuple[np.ndarray, Vectors]], fusion: EngineFusion
    ) -> None:
        """Fuse the fields with known terms or vectors of a question: others would return random passages."""
        vectors = [dict(zip(known.tolist(), arrays, strict=True)) for known, arrays in encoded]
        rows_by_fields: dict[tuple[int, ...], list[int]] = {}
        for row in range(len(rankings.indices)):
            fields = tuple(field for field, known in enumerate(vectors) if row in known)
            rows_by_fields.setdefault(fields, []).append(row)
        rows_by_fields.pop((), None)
        for fields, rows in rows_by_fields.items():
            for start in range(0, len(rows), _QUESTIONS):
                block = rows[start : start + _QUESTIONS]
                of_fields = {field: [vectors[field][row] for row in block] for field in fields}
                arrays = self._fused(client, of_fields, fusion)
                rankings.assign(block, rank_candidates(*arrays, rankings.indices.shape[1]))

    def _fused(self, client: Any, vectors: dict[int, list[Any]], fusion: EngineFusion) -> tuple[np.ndarray, np.ndarray]:
        from pymilvus import AnnSearchRequest, RRFRanker, WeightedRanker

        depths = {field: min(fusion.depth, self.n_passages, self.fields[field].max_hits) for field in vectors}
        requests = [
            AnnSearchRequest(data, self.fields[field].name, self.fields[field].search, limit=depths[field])
            for field, data in vectors.items()
        ]
        weights = [fusion.weights[field] if fusion.weights else 0.5 for field in vectors]
        ranker = RRFRanker(RRF_CONSTANT) if fusion.ranker is Ranker.RRF else WeightedRanker(*weights)
        limit = min(sum(depths.values()), self.n_passages, connection.MAX_HITS)  # all, to order ties here
        hits = client.hybrid_search(self.collection, requests, ranker, limit=limit, **_OUTPUT)
        return _to_arrays(hits, limit)


def _to_arrays(hits: Sequence[Any], depth: int) -> tuple[np.ndarray, np.ndarray]:
    indices = np.full((len(hits), depth), NOT_FOUND, dtype=np.int64)
    scores = np.full((len(hits), depth), -np.inf, dtype=np.float32)
    for row, result in enumerate(hits):
        indices[row, : len(result.ids)] = result.ids
        scores[row, : len(result.ids)] = result.distances
    return indices, scores


class TermField:
    """BM25 weights by term; a question's vector is its term counts. The scores are those of `BM25`."""

    name = "terms"

    def __init__(self, passages: Sequence[Passage], options: BM25Options) -> None:
        texts = Passages.from_passages(passages).indexed_texts(title=options.title)
        self._analysis = options.analysis(texts)
        analyze(self._analysis, [""])  # loads the analyzer before the first question
        tokens = tokens_of(self._analysis, texts)
        self._weights = cache(partial(term_weights, tokens, options.k1, options.b))  # lazy
        self._term_ids = {term: number for number, term in enumerate(tokens.vocabulary)}
        # term numbers are part of the key: they are the dimensions of vectors
        digest = hashlib.sha256("\n".join(tokens.vocabulary).encode())
        for array in (tokens.ids, tokens.offsets):
            digest.update(array.astype(np.int64).tobytes())
        self.key = key_of("bm25", digest.hexdigest(), options.k1, options.b)
        self.max_hits = connection.MAX_HITS
        self.search: dict[str, Any] = {"metric_type": "IP", "params": {}}

    def schema(self) -> dict[str, Any]:
        from pymilvus import DataType

        return {"field_name": self.name, "datatype": DataType.SPARSE_FLOAT_VECTOR}

    def index(self) -> dict[str, Any]:
        return {"field_name": self.name, "index_type": "SPARSE_INVERTED_INDEX", "metric_type": "IP"}

    def passage_vectors(self, start: int, stop: int) -> Vectors:
        """Return weights by term; an empty passage, which Milvus rejects, gets a term outside the vocabulary."""
        return [vector or {len(self._term_ids): 1.0} for vector in to_sparse_dicts(self._weights()[start:stop])]

    def question_vectors(self, questions: Sequence[str]) -> tuple[np.ndarray, Vectors]:
        ids, offsets = tokens_of(self._analysis, questions).flat_ids_in(self._term_ids)
        known = np.flatnonzero(np.diff(offsets))
        return known, to_sparse_dicts(counts_by_term(ids, np.append(offsets[known], len(ids)), len(self._term_ids)))


def term_weights(tokens: Tokens, k1: float, b: float, lengths: np.ndarray | None = None) -> csr_array:
    """Return BM25 weights by passage and term, `(n_passages, n_terms)` float32; an engine may round `lengths`."""
    weights = counts_by_term(tokens.ids, tokens.offsets, len(tokens.vocabulary))
    document_frequencies = np.bincount(weights.indices, minlength=weights.shape[1])
    lengths = np.diff(tokens.offsets) if lengths is None else lengths
    mean_length = len(tokens.ids) / max(1, len(lengths))
    length_norm = k1 * (1 - b + b * lengths / (mean_length or 1))
    idf = idf_of(document_frequencies, len(lengths))[weights.indices]
    weights.data = idf * weights.data / (weights.data + np.repeat(length_norm, np.diff(weights.indptr)))
    return weights.astype(np.float32)


class VectorField:
    """An encoder's vectors in an index; the scores are those of `Dense`, up to the index's precision."""

    name = "vector"

    def __init__(
        self, passages: Sequence[Passage], encoder: Encoder, *, title: bool = True, index: IndexKind = IndexKind.EXACT
    ) -> None:
        self._texts = Passages.from_passages(passages).indexed_texts(title=title)
        self._encoder = encoder
        self._type, self._build, self.search = index_parameters(index, len(passages))
        self.max_hits = HNSW_CANDIDATES if index is IndexKind.HNSW else connection.MAX_HITS
        self.key = key_of("vector", encoder.fingerprint, fingerprint_of(self._texts), self._type, self._build)

    @cached_property
    def _vectors(self) -> np.ndarray:
        return self._encoder.encode_passages(self._texts)

    def count_truncated(self) -> int:
        return self._encoder.count_truncated(self._texts) if isinstance(self._encoder, LimitedEncoder) else 0

    def schema(self) -> dict[str, Any]:
        from pymilvus import DataType

        return {"field_name": self.name, "datatype": DataType.FLOAT_VECTOR, "dim": self._vectors.shape[1]}

    def index(self) -> dict[str, Any]:
        # nested `params`: the client unpacks one level, and Lite reads the other; a server accepts both
        build = {"params": self._build}
        return {"field_name": self.name, "index_type": self._type, "metric_type": "IP", "params": build}

    def passage_vectors(self, start: int, stop: int) -> Vectors:
        return list(self._vectors[start:stop])

    def question_vectors(self, questions: Sequence[str]) -> tuple[np.ndarray, Vectors]:
        vectors = self._encoder.encode_questions(questions)
        known = np.flatnonzero(np.any(vectors != 0, axis=1)) if len(vectors) else np.zeros(0, dtype=np.int64)
        return known, list(vectors[known])


def to_sparse_dicts(vectors: csr_array) -> list[dict[int, float]]:
    """Return each row of sparse vectors in Milvus's format: values by column."""
    bounds = list(zip(vectors.indptr[:-1], vectors.indptr[1:], strict=True))
    return [dict(zip(vectors.indices[a:z].tolist(), vectors.data[a:z].tolist(), strict=True)) for a, z in bounds]


def index_parameters(kind: IndexKind, n_passages: int) -> tuple[str, dict[str, int], dict[str, Any]]:
    """Return Milvus's name of the index, its build and its search parameters, equal to the local index."""
    count, n_probe = dense.ivf_cell_counts(n_passages)
    graph = {"M": dense.HNSW_NEIGHBOURS, "efConstruction": dense.HNSW_CANDIDATES_TO_BUILD}
    settings: dict[IndexKind, tuple[str, dict[str, int], dict[str, int]]] = {
        IndexKind.EXACT: ("FLAT", {}, {}),
        IndexKind.HNSW: ("HNSW", graph, {"ef": HNSW_CANDIDATES}),
        IndexKind.IVF: ("IVF_FLAT", {"nlist": count}, {"nprobe": n_probe}),
        IndexKind.INT8: ("IVF_SQ8", {"nlist": 1}, {"nprobe": 1}),  # one cell: every vector is compared
    }
    name, build, search = settings[kind]
    return name, build, {"metric_type": "IP", "params": search}
