"""Why BM25 over windows gives a passage its score: what each term adds to the score of its best window."""

from collections.abc import Sequence

from data.records import Passage
from retrieval.explain.bm25 import BM25Explainer, BM25Explanation
from retrieval.lexical.bm25 import BM25Options, windows_of


class WindowedBM25Explainer:
    """Explains the scores of a `WindowedBM25` over the same passages with the same options and sentences a window."""

    def __init__(self, passages: Sequence[Passage], options: BM25Options | None = None, *, sentences: int = 1) -> None:
        texts, self._bounds = windows_of(passages, sentences)
        self._explainer = BM25Explainer(texts, options)

    def explain(self, question: str, row: int) -> BM25Explanation:
        """Explain the score of the passage in a row of the corpus; the passage explained is its best window."""
        of_passage = range(self._bounds[row], self._bounds[row + 1])
        explained = (self._explainer.explain(question, window) for window in of_passage)
        return max(explained, key=lambda one: one.score)
