"""Hybrid retrieval: several retrievers are asked, and their rankings fused."""

from collections.abc import Sequence

from retrieval.multistage.fusion import Fusion, fused
from retrieval.rankings import Rankings, Retriever


class Hybrid:
    """The first `depth` passages of each retriever, all of them fused; see `retrieval.multistage.fusion`.

    What is fused does not depend on how many are asked for: past the passages that the retrievers brought, nothing is
    found.
    """

    def __init__(
        self,
        name: str,
        parts: Sequence[Retriever],
        *,
        n_passages: int,
        depth: int = 100,
        fusion: Fusion = Fusion.RRF,
        weights: Sequence[float] | None = None,
    ) -> None:
        if len(parts) < 2:
            raise ValueError("a hybrid needs at least two retrievers")
        self.name = name
        self._parts, self._n_passages, self._depth = parts, n_passages, depth
        self._fusion, self._weights = fusion, weights

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question."""
        rankings = [part.search(questions, self._depth) for part in self._parts]
        return fused(rankings, self._n_passages, self._fusion, self._weights, k)
