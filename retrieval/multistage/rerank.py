"""Reranking: a cross-encoder reads the first passages of another retriever again."""

from collections.abc import Callable, Sequence

import numpy as np

from data.passages import Passages
from data.records import Passage
from models.meter import Meter
from models.protocols import PairScorer
from models.windows import WindowOptions
from retrieval.hybrid import min_max
from retrieval.multistage.pair_scores import PairScores
from retrieval.rankings import NOT_FOUND, Rankings, Retriever, ranked


class Reranked:
    """The first `depth` passages of `first` in a new order, the others below them as they were.

    Among the first `depth`, the score is `weight * r + (1 - weight) * f` with r the reranker's and f the first
    retriever's scores, each brought to 0..1 within the question (min-max). Those below score
    under 0, in their order. With a `meter` the scores of pairs are kept on disk, and with `windows` a passage that the
    reranker does not read whole has the score of its best window; see `PairScores`.
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
        windows: WindowOptions | None = None,
        meter: Meter | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        if depth < 1 or not 0 <= weight <= 1:
            raise ValueError(f"depth must be 1 or more and weight between 0 and 1, not {depth} and {weight}")
        self.name = name
        self._first, self._depth, self._weight = first, depth, weight
        of = Passages.of(passages)
        texts, heads = of.indexed_texts(title=title), of.heads(title=title) if windows else None
        self._pairs = PairScores(scorer, texts, meter, on_progress, windows=windows, heads=heads)

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question, no more than the first retriever knows of."""
        found = self._first.search(questions, max(k, self._depth))
        candidates = found.first(self._depth)
        scores = interpolated(candidates, self.candidate_scores(questions, candidates), self._weight)
        known = found.indices.shape[1]
        places = np.arange(self._depth, known)
        rest = np.broadcast_to(self._depth - 1.0 - places, (len(questions), len(places)))
        return ranked(found.indices, np.hstack([scores, rest]), min(k, known))

    def candidate_scores(self, questions: Sequence[str], candidates: Rankings) -> np.ndarray:
        """Reranker's scores `(n_questions, depth)` of the candidates, -inf where there is none."""
        return self._pairs.of(questions, candidates)


def interpolated(candidates: Rankings, reranker_scores: np.ndarray, weight: float) -> np.ndarray:
    """Weighted sum of both scores after min-max within each question; -inf where there is no candidate."""
    mixed = weight * min_max(reranker_scores) + (1 - weight) * min_max(candidates.scores)
    return np.where(candidates.indices != NOT_FOUND, mixed, -np.inf)
