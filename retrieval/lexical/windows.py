"""BM25 over windows of sentences: a passage is as relevant as its best window.

A question is often answered by one sentence, whose words the rest of a long passage dilutes. Callan 1994,
"Passage-level evidence in document retrieval", scores documents so; Dai & Callan 2019 call it MaxP. A window alone has
lost what its passage is about, so the title stands before it; fused with BM25 over whole passages it finds more than
either does.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from data.passages import Passage, Passages
from retrieval.lexical.bm25 import BM25, BM25Options
from retrieval.lexical.engines import best_of_blocks
from retrieval.rankings import Rankings
from text.sentences import marked_sentences


class WindowedBM25:
    """`score(passage) = max over its windows of BM25(window)`, windows being all runs of `sentences` sentences.

    The windows of all passages are the collection that BM25 counts in: its N, n and mean length are of windows. A
    passage of fewer sentences is one window. Raises `ValueError` where `sentences` is less than 1.
    """

    def __init__(
        self,
        name: str,
        passages: Sequence[Passage],
        options: BM25Options | None = None,
        *,
        sentences: int = 1,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        if sentences < 1:
            raise ValueError(f"a window must hold 1 sentence or more, not {sentences}")
        self.name = name
        texts, bounds = windows_of(passages, sentences)
        self._first = bounds[:-1]
        self._index = BM25(name, texts, options, on_progress)
        self.memory_bytes = self._index.memory_bytes

    def make_ready(self, questions: Sequence[str]) -> None:
        """Load what analyzes these questions; see `BM25.make_ready`."""
        self._index.make_ready(questions)

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question; a score is the BM25 of the best window, higher is better."""
        blocks = self._index.score_blocks(questions) if len(self._first) else ()
        best_windows = (np.maximum.reduceat(scores, self._first, axis=1) for scores in blocks)
        return best_of_blocks(best_windows, (len(questions), len(self._first)), k)


def windows_of(passages: Sequence[Passage], sentences: int) -> tuple[Passages, np.ndarray]:
    """Cut passages into windows, each with its passage's title; those of row i are `bounds[i]` to `bounds[i + 1]`."""
    bounds = [0]

    def cut() -> Iterator[Passage]:
        for passage in passages:
            found = windows(passage.text, sentences)
            bounds.append(bounds[-1] + len(found))
            yield from (Passage("", text, passage.title) for text in found)

    return Passages.of(cut()), np.array(bounds)


def windows(text: str, sentences: int) -> list[str]:
    """Return every run of `sentences` sentences, each beginning one sentence later; the whole text where it has fewer.

    They are `marked_sentences`, in Korean too.
    """
    spans = marked_sentences(text)
    if len(spans) <= sentences:
        return [text]
    return [text[start:end] for (start, _), (_, end) in zip(spans, spans[sentences - 1 :], strict=False)]
