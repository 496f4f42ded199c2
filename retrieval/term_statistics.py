"""What BM25 knows of a corpus beside each passage: which terms there are, and how many passages hold them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retrieval.analyzers import Analyzer
from retrieval.tokens import token_parts


@dataclass(frozen=True)
class TermStatistics:
    """Each term's number, how many passages hold it (`holders` `(n_terms,)` int64), and the mean length in tokens."""

    number: dict[str, int]
    holders: np.ndarray
    n_passages: int
    mean_length: float


def term_statistics(analyzer: Analyzer, texts: Sequence[str]) -> TermStatistics:
    """Count the passages that hold each term; of the tokens, a part is held at a time."""
    from retrieval.postings import holders  # imports a compiler

    number: dict[str, int] = {}
    counted, n_tokens = np.zeros(0, dtype=np.int64), 0
    for part in token_parts(analyzer, texts):
        places = np.array([number.setdefault(token, len(number)) for token in part.vocabulary], dtype=np.int64)
        counted = np.concatenate([counted, np.zeros(len(number) - len(counted), dtype=np.int64)])
        counted[places] += holders(part.ids, part.offsets, len(part.vocabulary))
        n_tokens += len(part.ids)
    return TermStatistics(number, counted, len(texts), n_tokens / max(1, len(texts)))
