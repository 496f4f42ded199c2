"""Reranking: a cross-encoder reads the first passages of another retriever again."""

from collections.abc import Callable, Sequence

import numpy as np

from data.records import Passage
from retrieval.bm25 import indexed_texts
from retrieval.models import PairScorer
from retrieval.rankings import NOT_FOUND, Rankings, Retriever, ranked

_BLOCK = 64  # questions between two words of progress


class Reranked:
    """The first `depth` passages of `first` in a new order, the others below them as they were.

    Among the first `depth`, the score is `weight * r + (1 - weight) * f` with r the reranker's and f the first
    retriever's scores, each brought to 0..1 within the question (min-max). Those below score
    under 0, in their order.
    """

    def __init__(
        self,
        name: str,
        first: Retriever,
        scorer: PairScorer,
        passages: Sequence[Passage],
        *,
        depth: int = 20,
        weight: float = 1.0,
        title: bool = True,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        if depth < 1 or not 0 <= weight <= 1:
            raise ValueError(f"depth must be 1 or more and weight between 0 and 1, not {depth} and {weight}")
        self.name = name
        self._first, self._scorer = first, scorer
        self._texts = indexed_texts(passages, title=title)
        self._depth, self._weight = depth, weight
        self._on_progress = on_progress

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question."""
        found = self._first.search(questions, max(k, self._depth))
        candidates = found.first(self._depth)
        scores = interpolated(candidates, self.candidate_scores(questions, candidates), self._weight)
        places = np.arange(self._depth, found.indices.shape[1])
        rest = np.broadcast_to(self._depth - 1.0 - places, (len(questions), len(places)))
        return ranked(found.indices, np.hstack([scores, rest]), k)

    def candidate_scores(self, questions: Sequence[str], candidates: Rankings) -> np.ndarray:
        """Reranker's scores `(n_questions, depth)` of the candidates, -inf where there is none."""
        scores = np.full(candidates.indices.shape, -np.inf, dtype=np.float32)
        for start in range(0, len(questions), _BLOCK):
            rows, places = np.nonzero(candidates.indices[start : start + _BLOCK] != NOT_FOUND)
            rows += start
            found = zip(rows.tolist(), candidates.indices[rows, places].tolist(), strict=True)
            pairs = [(questions[row], self._texts[passage]) for row, passage in found]
            if pairs:
                scores[rows, places] = self._scorer.score(pairs)
            if self._on_progress:
                self._on_progress(min(1.0, (start + _BLOCK) / len(questions)))
        return scores


def interpolated(candidates: Rankings, reranker_scores: np.ndarray, weight: float) -> np.ndarray:
    """Weighted sum of both scores after min-max within each question; -inf where there is no candidate."""
    mixed = weight * min_max(reranker_scores) + (1 - weight) * min_max(candidates.scores)
    return np.where(candidates.indices != NOT_FOUND, mixed, -np.inf)


def min_max(scores: np.ndarray) -> np.ndarray:
    """Bring each row's finite scores to 0..1 (equal scores to 0); the others become 0."""
    finite = np.isfinite(scores)
    low = np.where(finite, scores, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    spread = np.where(finite, scores, -np.inf).max(axis=1, keepdims=True, initial=-np.inf) - low
    with np.errstate(invalid="ignore"):
        return np.where(finite & (spread > 0), (scores - low) / np.where(spread > 0, spread, 1), 0.0)
