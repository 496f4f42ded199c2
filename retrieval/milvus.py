"""Milvus as a retriever, from a file of this workspace to a cluster: one vector field, or several fused by Milvus.

Passages lie in one collection, their rows in the corpus as ids. A field is a vector of every passage: an encoder's
vector, or BM25 weights by term, whose inner product with the term counts of a question is the BM25 score.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from mrc_workbench.retrieval.combine import RRF_CONSTANT
from mrc_workbench.retrieval.dense import HNSW_CANDIDATES, HNSW_CANDIDATES_TO_BUILD, HNSW_NEIGHBOURS, IndexKind, cells
from mrc_workbench.retrieval.lexical import counts_by_term, idf_of
from mrc_workbench.retrieval.lexical.bm25 import BM25Options
from mrc_workbench.retrieval.milvus_connection import MOST, PATIENCE, ROW, Field, Place, Vectors, connected, load
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, ranked

_VERSION = 1  # part of a collection's name: raise it when what lies in one changes
_QUESTIONS = 100  # a request


class Search(StrEnum):
    """What is compared: BM25 weights of terms, vectors of a bi-encoder, or both, fused by Milvus."""

    BM25 = "bm25"
    DENSE = "dense"
    HYBRID = "hybrid"


class Ranker(StrEnum):
    """How Milvus fuses: the sum of 1 / (60 + rank), or of weight * (1/2 + arctan(score) / pi), over what found it."""

    RRF = "rrf"
    WEIGHTED = "weighted"


@dataclass(frozen=True)
class EngineFusion:
    """The first `depth` passages of each field, fused by Milvus; `weights` (0 to 1) are for `WEIGHTED` only."""

    ranker: Ranker = Ranker.RRF
    depth: int = 100
    weights: tuple[float, ...] | None = None  # all the same


class Milvus:
    """A corpus in a Milvus collection; making one loads it, unless it is there. Raises `MilvusError`.

    Several `fields` are fused by `fusion`. The collection's name identifies its content: another corpus, analyzer or
    model is another collection.
    """

    def __init__(
        self,
        name: str,
        n_passages: int,
        fields: Sequence[Field],
        place: Place,
        *,
        fusion: EngineFusion | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        if len(fields) > 1 and fusion is None:
            raise ValueError("several fields need a fusion")
        self.name, self.place = name, place
        self._n_passages, self._fields, self._fusion = n_passages, fields, fusion
        self.collection = f"mrc_{key_of(_VERSION, n_passages, [field.key for field in fields])[:40]}"
        if n_passages:
            with connected(place, self.collection) as client:
                load(client, self.collection, fields, n_passages, on_progress)

    def cut_off(self) -> int:
        return sum(field.cut_off() for field in self._fields if isinstance(field, VectorField))

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        k = min(k, self._n_passages)
        rankings = Rankings.of_nothing(len(questions), k)
        if not len(questions) or not self._n_passages:
            return rankings
        asked = [field.of_questions(questions) for field in self._fields]
        with connected(self.place, self.collection) as client:
            client.load_collection(self.collection, **PATIENCE)
            if self._fusion is None:
                (known, vectors) = asked[0]
                for start in range(0, len(known), _QUESTIONS):
                    self._fill(client, rankings, known[start : start + _QUESTIONS], vectors[start : start + _QUESTIONS])
            else:
                self._fill_fused(client, rankings, asked, self._fusion)
        return rankings

    def _fill(self, client: Any, rankings: Rankings, rows: np.ndarray, vectors: Vectors, depth: int = 0) -> None:
        field, k = self._fields[0], rankings.indices.shape[1]
        deepest = min(self._n_passages, field.most)
        depth = min(depth or k + 1, deepest)
        how = {"anns_field": field.name, "limit": depth, "search_params": field.search, "output_fields": [ROW]}
        hits = client.search(self.collection, data=vectors, **how, **PATIENCE)
        indices, scores = _arrays(hits, depth)
        best = ranked(indices, scores, k)
        rankings.indices[rows], rankings.scores[rows] = best.indices, best.scores
        if k <= depth < deepest:
            # Milvus picks freely among passages that tie with the k-th: there all that tie are fetched
            tied = np.flatnonzero((scores[:, k - 1] == scores[:, -1]) & (indices[:, -1] != NOT_FOUND))
            if len(tied):
                self._fill(client, rankings, rows[tied], [vectors[row] for row in tied], 2 * depth)  # type: ignore[arg-type]

    def _fill_fused(
        self, client: Any, rankings: Rankings, asked: Sequence[tuple[np.ndarray, Vectors]], fusion: EngineFusion
    ) -> None:
        """Fuse the fields that know a question: those of which nothing is known would bring passages by chance."""
        vectors = [dict(zip(known.tolist(), found, strict=True)) for known, found in asked]
        knowing: dict[tuple[int, ...], list[int]] = {}
        for row in range(len(rankings.indices)):
            knowing.setdefault(tuple(field for field, known in enumerate(vectors) if row in known), []).append(row)
        knowing.pop((), None)
        for fields, rows in knowing.items():
            for start in range(0, len(rows), _QUESTIONS):
                some = rows[start : start + _QUESTIONS]
                found = self._fused(client, {field: [vectors[field][row] for row in some] for field in fields}, fusion)
                best = ranked(*found, rankings.indices.shape[1])
                rankings.indices[some], rankings.scores[some] = best.indices, best.scores

    def _fused(self, client: Any, vectors: dict[int, list[Any]], fusion: EngineFusion) -> tuple[np.ndarray, np.ndarray]:
        from pymilvus import AnnSearchRequest, RRFRanker, WeightedRanker

        depths = {field: min(fusion.depth, self._n_passages, self._fields[field].most) for field in vectors}
        requests = [
            AnnSearchRequest(data, self._fields[field].name, self._fields[field].search, limit=depths[field])
            for field, data in vectors.items()
        ]
        weights = [fusion.weights[field] if fusion.weights else 0.5 for field in vectors]
        ranker = RRFRanker(RRF_CONSTANT) if fusion.ranker is Ranker.RRF else WeightedRanker(*weights)
        limit = min(sum(depths.values()), self._n_passages, MOST)  # all of them: ties are ours to order
        hits = client.hybrid_search(self.collection, requests, ranker, limit=limit, output_fields=[ROW], **PATIENCE)
        return _arrays(hits, limit)


def _arrays(hits: Sequence[Any], depth: int) -> tuple[np.ndarray, np.ndarray]:
    indices = np.full((len(hits), depth), NOT_FOUND, dtype=np.int64)
    scores = np.full((len(hits), depth), -np.inf, dtype=np.float32)
    for row, found in enumerate(hits):
        indices[row, : len(found.ids)], scores[row, : len(found.ids)] = found.ids, found.distances
    return indices, scores


class TermField:
    """BM25 weights by term; a question's vector is its term counts. The scores are those of `BM25`."""

    name = "terms"

    def __init__(self, passages: Sequence[Passage], options: BM25Options) -> None:
        texts = Passages.of(passages).indexed_texts(title=options.title)
        self._analysis = options.analysis(texts)
        analyze(self._analysis, [""])  # loads what it needs now: with tokens from disk it would wait for a question
        tokens = tokens_of(self._analysis, texts)
        self._weights = cache(partial(term_weights, tokens, options.k1, options.b))  # once they are asked for
        self._number = {term: number for number, term in enumerate(tokens.vocabulary)}
        # the numbers of the terms are part of the key: a vector's dimensions mean nothing without them
        digest = hashlib.sha256("\n".join(tokens.vocabulary).encode())
        for array in (tokens.ids, tokens.offsets):
            digest.update(array.astype(np.int64).tobytes())
        self.key, self.most = key_of("bm25", digest.hexdigest(), options.k1, options.b), MOST
        self.search: dict[str, Any] = {"metric_type": "IP", "params": {}}

    def schema(self) -> dict[str, Any]:
        from pymilvus import DataType

        return {"field_name": self.name, "datatype": DataType.SPARSE_FLOAT_VECTOR}

    def index(self) -> dict[str, Any]:
        return {"field_name": self.name, "index_type": "SPARSE_INVERTED_INDEX", "metric_type": "IP"}

    def of_passages(self, start: int, stop: int) -> Vectors:
        """Return weights by term. A passage without any, which Milvus does not take, holds a term nobody asks for."""
        return [vector or {len(self._number): 1.0} for vector in by_term(self._weights()[start:stop])]

    def of_questions(self, questions: Sequence[str]) -> tuple[np.ndarray, Vectors]:
        ids, offsets = tokens_of(self._analysis, questions).flat_ids_in(self._number)
        known = np.flatnonzero(np.diff(offsets))
        return known, by_term(counts_by_term(ids, np.append(offsets[known], len(ids)), len(self._number)))


def term_weights(tokens: Tokens, k1: float, b: float, lengths: np.ndarray | None = None) -> csr_array:
    """Return BM25 weights by passage and term, `(n_passages, n_terms)` float32; an engine may round `lengths`."""
    weights = counts_by_term(tokens.ids, tokens.offsets, len(tokens.vocabulary))
    holders = np.bincount(weights.indices, minlength=weights.shape[1])
    lengths = np.diff(tokens.offsets) if lengths is None else lengths
    mean_length = len(tokens.ids) / max(1, len(lengths))
    held_back = k1 * (1 - b + b * lengths / (mean_length or 1))
    idf = idf_of(holders, len(lengths))[weights.indices]
    weights.data = idf * weights.data / (weights.data + np.repeat(held_back, np.diff(weights.indptr)))
    return weights.astype(np.float32)


class VectorField:
    """An encoder's vectors in an index of some kind; the scores are those of `Dense`, to the index's exactness."""

    name = "vector"

    def __init__(
        self, passages: Sequence[Passage], encoder: Encoder, *, title: bool = True, index: IndexKind = IndexKind.EXACT
    ) -> None:
        self._texts, self._encoder = Passages.of(passages).indexed_texts(title=title), encoder
        self._type, self._build, self.search = index_of(index, len(passages))
        self.most = HNSW_CANDIDATES if index is IndexKind.HNSW else MOST
        self.key = key_of("vector", encoder.fingerprint, fingerprint_of(self._texts), self._type, self._build)

    @cached_property
    def _vectors(self) -> np.ndarray:
        return self._encoder.encode_passages(self._texts)

    def cut_off(self) -> int:
        return self._encoder.cut_off(self._texts) if isinstance(self._encoder, LimitedEncoder) else 0

    def schema(self) -> dict[str, Any]:
        from pymilvus import DataType

        return {"field_name": self.name, "datatype": DataType.FLOAT_VECTOR, "dim": self._vectors.shape[1]}

    def index(self) -> dict[str, Any]:
        # within `params` once more: the client takes them out of one, and Lite looks for the other; a server takes both
        build = {"params": self._build}
        return {"field_name": self.name, "index_type": self._type, "metric_type": "IP", "params": build}

    def of_passages(self, start: int, stop: int) -> Vectors:
        return list(self._vectors[start:stop])

    def of_questions(self, questions: Sequence[str]) -> tuple[np.ndarray, Vectors]:
        vectors = self._encoder.encode_questions(questions)
        known = np.flatnonzero(np.any(vectors != 0, axis=1)) if len(vectors) else np.zeros(0, dtype=np.int64)
        return known, list(vectors[known])


def by_term(vectors: csr_array) -> list[dict[int, float]]:
    """Return each row of sparse vectors as Milvus takes it: values by column, none 0."""
    bounds = list(zip(vectors.indptr[:-1], vectors.indptr[1:], strict=True))
    return [dict(zip(vectors.indices[a:z].tolist(), vectors.data[a:z].tolist(), strict=True)) for a, z in bounds]


def index_of(kind: IndexKind, n_passages: int) -> tuple[str, dict[str, int], dict[str, Any]]:
    """Return Milvus's name of the index, how it is built and how it is searched: as the local one of that kind."""
    count, looked_into = cells(n_passages)
    graph = {"M": HNSW_NEIGHBOURS, "efConstruction": HNSW_CANDIDATES_TO_BUILD}
    built: dict[IndexKind, tuple[str, dict[str, int], dict[str, int]]] = {
        IndexKind.EXACT: ("FLAT", {}, {}),
        IndexKind.HNSW: ("HNSW", graph, {"ef": HNSW_CANDIDATES}),
        IndexKind.IVF: ("IVF_FLAT", {"nlist": count}, {"nprobe": looked_into}),
        IndexKind.INT8: ("IVF_SQ8", {"nlist": 1}, {"nprobe": 1}),  # one cell: every vector is compared
    }
    name, build, search = built[kind]
    return name, build, {"metric_type": "IP", "params": search}
