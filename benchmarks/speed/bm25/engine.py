"""What an engine of BM25 does in this comparison, and what all of them score alike by."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.clones import Clones

K1, B = 1.2, 0.75  # what Tantivy scores by, whatever is asked for
POSTING_BYTES = 8  # a passage's row and a weight of 4 bytes each, as bm25s holds them; ours takes 2 and 4
Words = Sequence[str]  # of a question, repeated as often as they are asked


class Engine(Protocol):
    """An index on disk, opened.

    `name` is what the comparison calls it, with its version. Ours should not be slower than one with a `wanted`, and so
    many times as fast for the best hundred of a million passages, on one thread.
    """

    name: str
    wanted: float | None

    @classmethod
    def build(cls, clones: Clones, folder: Path) -> float:
        """Make and save the index; returns the seconds, without those that spell tokens as the engine wants them."""
        ...

    @classmethod
    def open(cls, folder: Path) -> "Engine":
        """Open what `build` saved."""
        ...

    def asked(self, questions: Sequence[Words]) -> Any:
        """Make of questions what `search` takes; not counted as its time."""
        ...

    def search(self, asked: Any, k: int, threads: int) -> Any:
        """Find the best k passages of every question with so many threads."""
        ...

    def found(self, questions: Sequence[Words], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and scores of the best, `(n_questions, k)` each, higher is better; -1 where nothing is found."""
        ...
