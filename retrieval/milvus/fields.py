"""The vectors a collection holds of every passage, and what asks for them: terms with BM25 weights, or an encoder's."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array

from data.cache import key_of
from data.passages import Passages
from data.records import Passage
from data.texts import fingerprint_of
from models.encoders.protocols import Encoder
from retrieval.dense import HNSW_CANDIDATES, HNSW_CANDIDATES_TO_BUILD, HNSW_NEIGHBOURS, IndexKind, cells
from retrieval.lexical.bm25 import BM25Options
from retrieval.lexical.weights import idf_of
from text.analysis import analyze
from text.tokens import Tokens, tokens_of


class TermWeights:
    """What `retrieval.lexical.weights` lists by term, by passage. `key` tells the weights without computing them."""

    def __init__(self, tokens: Tokens, k1: float, b: float) -> None:
        self._tokens, self._k1, self._b = tokens, k1, b
        self.key = key_of("bm25", _fingerprint(tokens), k1, b)

    def of(self, start: int, stop: int) -> csr_array:
        """Return the weights of passages `start` to `stop`, `(stop - start, n_terms)` float32, none of them 0."""
        return self._by_passage[start:stop]

    @cached_property
    def _by_passage(self) -> csr_array:
        weights = counts(self._tokens.ids, self._tokens.offsets, len(self._tokens.vocabulary))
        holders = np.bincount(weights.indices, minlength=weights.shape[1])
        lengths = np.diff(self._tokens.offsets)
        mean_length = len(self._tokens.ids) / max(1, len(lengths))
        held_back = self._k1 * (1 - self._b + self._b * lengths / (mean_length or 1))
        idf = idf_of(holders, len(lengths))[weights.indices]
        weights.data = idf * weights.data / (weights.data + np.repeat(held_back, np.diff(weights.indptr)))
        return weights.astype(np.float32)


def counts(ids: np.ndarray, offsets: np.ndarray, n_terms: int) -> csr_array:
    """Return how often each text holds each term, `(n_texts, n_terms)` float64, terms in order."""
    given = np.ones(len(ids)), ids, offsets
    found = csr_array(given, shape=(len(offsets) - 1, n_terms), copy=True)  # to add up changes its arrays
    found.sum_duplicates()
    return found


def _fingerprint(tokens: Tokens) -> str:
    """Tell tokens by what they are, the numbers of the terms too: a vector's dimensions mean nothing without them."""
    digest = hashlib.sha256("\n".join(tokens.vocabulary).encode())
    for array in (tokens.ids, tokens.offsets):
        digest.update(array.astype(np.int64).tobytes())
    return digest.hexdigest()


MOST = 16_384  # hits that Milvus gives for a question

Vectors = list[dict[int, float]] | list[list[float]]


class Field(Protocol):
    """A vector of every passage, compared with a question's by inner product: higher is better."""

    name: str
    key: str  # changes whenever a vector of a passage would, or its index
    most: int  # passages that a search ever finds
    search: dict[str, Any]  # what a search in this index asks for

    def schema(self) -> dict[str, Any]:
        """Return what `create_schema().add_field` is told."""
        ...

    def index(self) -> dict[str, Any]:
        """Return what `prepare_index_params().add_index` is told."""
        ...

    def of_passages(self, start: int, stop: int) -> Vectors:
        """Return the vectors of some rows of the corpus."""
        ...

    def of_questions(self, questions: Sequence[str]) -> tuple[np.ndarray, Vectors]:
        """Return the rows of the questions that something is known of, and their vectors."""
        ...


class TermField:
    """BM25 weights by term; a question's vector is its term counts. The scores are those of `BM25`."""

    name = "terms"

    def __init__(self, passages: Sequence[Passage], options: BM25Options) -> None:
        texts = Passages.of(passages).indexed_texts(title=options.title)
        self._analysis = options.analysis(texts)
        analyze(self._analysis, [""])  # loads what it needs now: with tokens from disk it would wait for a question
        tokens = tokens_of(self._analysis, texts)
        self._weights = TermWeights(tokens, options.k1, options.b)
        self._number = {term: number for number, term in enumerate(tokens.vocabulary)}
        self.key, self.most = self._weights.key, MOST
        self.search: dict[str, Any] = {"metric_type": "IP", "params": {}}

    def schema(self) -> dict[str, Any]:
        """Return the field's type."""
        from pymilvus import DataType

        return {"field_name": self.name, "datatype": DataType.SPARSE_FLOAT_VECTOR}

    def index(self) -> dict[str, Any]:
        """Return the inverted index of the terms."""
        return {"field_name": self.name, "index_type": "SPARSE_INVERTED_INDEX", "metric_type": "IP"}

    def of_passages(self, start: int, stop: int) -> Vectors:
        """Return weights by term. A passage without any, which Milvus does not take, holds a term nobody asks for."""
        return [vector or {len(self._number): 1.0} for vector in _by_term(self._weights.of(start, stop))]

    def of_questions(self, questions: Sequence[str]) -> tuple[np.ndarray, Vectors]:
        """Return the questions that share a term with any passage, and their counts by term."""
        ids, offsets = tokens_of(self._analysis, questions).flat_ids_in(self._number)
        known = np.flatnonzero(np.diff(offsets))
        return known, _by_term(counts(ids, np.append(offsets[known], len(ids)), len(self._number)))


class VectorField:
    """An encoder's vectors in an index of some kind; the scores are those of `Dense`, to the index's exactness."""

    name = "vector"

    def __init__(
        self,
        passages: Sequence[Passage],
        encoder: Encoder,
        *,
        title: bool = True,
        index: IndexKind = IndexKind.EXACT,
    ) -> None:
        self._texts, self._encoder = Passages.of(passages).indexed_texts(title=title), encoder
        self._type, self._build, self.search = _index(index, len(passages))
        self.most = HNSW_CANDIDATES if index is IndexKind.HNSW else MOST
        self.key = key_of("vector", encoder.fingerprint, fingerprint_of(self._texts), self._type, self._build)

    @cached_property
    def _vectors(self) -> np.ndarray:
        return self._encoder.encode_passages(self._texts)

    def schema(self) -> dict[str, Any]:
        """Return the field's type, which takes the encoder's work."""
        from pymilvus import DataType

        return {"field_name": self.name, "datatype": DataType.FLOAT_VECTOR, "dim": self._vectors.shape[1]}

    def index(self) -> dict[str, Any]:
        """Return the kind of index and how it is built."""
        # within `params` once more: the client takes them out of one, and Lite looks for the other; a server takes both
        build = {"params": self._build}
        return {"field_name": self.name, "index_type": self._type, "metric_type": "IP", "params": build}

    def of_passages(self, start: int, stop: int) -> Vectors:
        """Return the encoder's vectors."""
        return list(self._vectors[start:stop])

    def of_questions(self, questions: Sequence[str]) -> tuple[np.ndarray, Vectors]:
        """Return the questions that the encoder knows anything of, and their vectors."""
        vectors = self._encoder.encode_questions(questions)
        known = np.flatnonzero(np.any(vectors != 0, axis=1)) if len(vectors) else np.zeros(0, dtype=np.int64)
        return known, list(vectors[known])


def _by_term(vectors: csr_array) -> list[dict[int, float]]:
    bounds = list(zip(vectors.indptr[:-1], vectors.indptr[1:], strict=True))
    return [dict(zip(vectors.indices[a:z].tolist(), vectors.data[a:z].tolist(), strict=True)) for a, z in bounds]


def _index(kind: IndexKind, n_passages: int) -> tuple[str, dict[str, int], dict[str, Any]]:
    """Return Milvus's name of the index, how it is built and how it is searched: as the local one of that kind."""
    count, looked_into = cells(n_passages)
    built: dict[IndexKind, tuple[str, dict[str, int], dict[str, int]]] = {
        IndexKind.EXACT: ("FLAT", {}, {}),
        IndexKind.HNSW: (
            "HNSW",
            {"M": HNSW_NEIGHBOURS, "efConstruction": HNSW_CANDIDATES_TO_BUILD},
            {"ef": HNSW_CANDIDATES},
        ),
        IndexKind.IVF: ("IVF_FLAT", {"nlist": count}, {"nprobe": looked_into}),
        IndexKind.INT8: ("IVF_SQ8", {"nlist": 1}, {"nprobe": 1}),  # one cell: every vector is compared
    }
    name, build, search = built[kind]
    return name, build, {"metric_type": "IP", "params": search}
