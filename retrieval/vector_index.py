"""FAISS indexes of vectors of length 1."""

from enum import StrEnum


class IndexKind(StrEnum):
    """How vectors are kept and searched: all of them exactly, by a graph, by cells, or in 8 bits a dimension."""

    EXACT = "exact"
    HNSW = "hnsw"
    IVF = "ivf"
    INT8 = "int8"
