"""Search in Milvus: one field alone, or several fused by Milvus itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from data.cache import key_of
from retrieval.hybrid import RRF_CONSTANT
from retrieval.milvus.connection import PATIENCE, ROW, Place, connected, load
from retrieval.milvus.fields import MOST, Field, Vectors
from retrieval.rankings import NOT_FOUND, Rankings, ranked


class Search(StrEnum):
    """What is compared: BM25 weights of terms, vectors of a bi-encoder, or both, fused by Milvus."""

    BM25 = "bm25"
    DENSE = "dense"
    HYBRID = "hybrid"


class Ranker(StrEnum):
    """How Milvus fuses: the sum of 1 / (60 + rank), or of weight * (1/2 + arctan(score) / pi), over what found it."""

    RRF = "rrf"
    WEIGHTED = "weighted"


_VERSION = 1  # part of a collection's name: raise it when what lies in one changes
_QUESTIONS = 100  # a request


@dataclass(frozen=True)
class EngineFusion:
    """The first `depth` passages of each field, fused by Milvus; `weights` (0 to 1) are for `WEIGHTED` only."""

    ranker: Ranker = Ranker.RRF
    depth: int = 100
    weights: tuple[float, ...] | None = None  # all the same


class Milvus:
    """A corpus in a Milvus collection; making one loads it, unless it is there. Raises `MilvusError`.

    Several `fields` are fused by `fusion`, and past the passages they bring nothing is found. The collection's name
    tells its content, so that a changed corpus, analyzer or model is another collection.
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

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question."""
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
        hits = client.search(
            self.collection,
            data=vectors,
            anns_field=field.name,
            limit=depth,
            search_params=field.search,
            output_fields=[ROW],
            **PATIENCE,
        )
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
    """Return rows of the corpus and scores `(n_questions, depth)` of what was found, best first."""
    indices = np.full((len(hits), depth), NOT_FOUND, dtype=np.int64)
    scores = np.full((len(hits), depth), -np.inf, dtype=np.float32)
    for row, found in enumerate(hits):
        indices[row, : len(found.ids)], scores[row, : len(found.ids)] = found.ids, found.distances
    return indices, scores
