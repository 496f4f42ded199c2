"""Why BM25 over windows gives a passage its score: what each term adds to the score of its best window."""

from collections.abc import Sequence

from data.records import Passage
from retrieval.bm25 import BM25Options
from retrieval.explain.bm25 import BM25Explainer, BM25Explanation
from retrieval.windows import windows


class WindowedBM25Explainer:
    """Explains the scores of a `WindowedBM25` over the same passages with the same options and sentences a window."""

    def __init__(self, passages: Sequence[Passage], options: BM25Options | None = None, *, sentences: int = 1) -> None:
        cut = [windows(passage.text, sentences) for passage in passages]
        self._first = [0]  # window of every passage, and one past the last
        for found in cut:
            self._first.append(self._first[-1] + len(found))
        texts = [Passage("", text, p.title) for p, found in zip(passages, cut, strict=True) for text in found]
        self._explainer = BM25Explainer(texts, options)

    def explain(self, question: str, row: int) -> BM25Explanation:
        """Explain the score of the passage in a row of the corpus; the passage explained is its best window."""
        of_passage = range(self._first[row], self._first[row + 1])
        explained = (self._explainer.explain(question, window) for window in of_passage)
        return max(explained, key=lambda one: one.score)
