"""What an experiment chooses of Milvus."""

from enum import StrEnum


class Search(StrEnum):
    """What is compared: BM25 weights of terms, vectors of a bi-encoder, or both, fused by Milvus."""

    BM25 = "bm25"
    DENSE = "dense"
    HYBRID = "hybrid"


class Ranker(StrEnum):
    """How Milvus fuses: the sum of 1 / (60 + rank), or of weight * (1/2 + arctan(score) / pi), over what found it."""

    RRF = "rrf"
    WEIGHTED = "weighted"
