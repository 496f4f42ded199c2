"""Our engine as the comparison uses it."""

import os
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.clones import Clones
from benchmarks.speed.bm25.engine import K1, B, Words
from text.tokens import Tokens

if TYPE_CHECKING:
    from retrieval.lexical.postings.index import Postings
    from retrieval.lexical.postings.segment import Segment
    from retrieval.rankings import Rankings

_KEY, _COUNT = "clones", "passages.txt"


class Ours:
    """The postings of `retrieval.lexical`, mapped from the disk."""

    name = "ours"
    wanted: float | None = None

    def __init__(self, postings: "Postings") -> None:
        self._postings = postings

    @classmethod
    def build(cls, clones: Clones, folder: Path) -> float:
        """See `Engine`."""
        few = next(clones.parts(10))
        list(_segments(Clones(few, few, np.arange(len(few)))))  # compiles
        start = perf_counter()
        _mapped(folder, len(clones.tokens), clones)
        (folder / _COUNT).write_text(str(len(clones.tokens)), encoding="utf-8")
        return perf_counter() - start

    @classmethod
    def open(cls, folder: Path) -> "Ours":
        """See `Engine`."""
        return cls(_mapped(folder, int((folder / _COUNT).read_text(encoding="utf-8"))))

    def asked(self, questions: Sequence[Words]) -> Tokens:
        """See `Engine`."""
        number: dict[str, int] = {}
        ids = np.array([number.setdefault(word, len(number)) for word in chain(*questions)], dtype=np.int32)
        return Tokens(list(number), ids, np.array([0, *accumulate(map(len, questions))]))

    def search(self, asked: Tokens, k: int, threads: int) -> "Rankings":
        """See `Engine`."""
        from retrieval.lexical.weights import hashes_of

        return self._postings.search(hashes_of(asked.vocabulary)[asked.ids], asked.offsets, k, cores=threads)

    def found(self, questions: Sequence[Words], k: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Engine`."""
        rankings = self.search(self.asked(questions), k, 1)
        return rankings.indices, rankings.scores


def _mapped(folder: Path, n_passages: int, clones: Clones | None = None) -> "Postings":
    """Open the index of a folder; it is made of the clones where they are given."""
    from retrieval.lexical.postings.index import mapped_postings

    os.environ["MRC_WORKSPACE"] = str(folder)  # where indexes are kept
    return mapped_postings(_KEY, n_passages, lambda: _segments(clones))


def _segments(clones: Clones | None) -> "Iterator[Segment]":
    """Count and weigh the passages, a part at a time."""
    from retrieval.lexical.weights import TermStatistics, bm25_segments, counts_of

    if clones is None:
        raise FileNotFoundError("there is no index to open")
    counts, n_passages = counts_of(clones.parts()), len(clones.tokens)
    mean_length = float(counts["n_tokens"]) / n_passages
    statistics = TermStatistics(counts["hashes"], counts["holders"], n_passages, mean_length)
    return bm25_segments(clones.parts(), statistics, K1, B)
