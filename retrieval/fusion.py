"""Fusion: the rankings of several retrievers made into one."""

from enum import StrEnum


class Fusion(StrEnum):
    """What a retriever contributes: 1 / (60 + rank), or its score by the range or the deviation of its list."""

    RRF = "rrf"
    MIN_MAX = "min-max"
    Z_SCORE = "z-score"
