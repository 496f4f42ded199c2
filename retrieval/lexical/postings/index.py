"""An index of passages by weighed terms, and its search: exact, and on all cores."""

import os
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from retrieval.lexical.postings.build import in_memory
from retrieval.lexical.postings.lists import SEGMENT, Lists
from retrieval.lexical.postings.search import all_scores, search
from retrieval.lexical.postings.segment import Segment
from retrieval.rankings import NOT_FOUND, Rankings

_AT_A_TIME = 16  # questions that a core takes: few enough that none waits long for the others


class Postings:
    """The lists of `n_passages` passages in segments of so many. Raises `ValueError` where these are more than 65,536.

    Terms are numbers (uint64): hashes of words, or a model's own. A score is the sum of what the question's terms weigh
    in a passage, each times its count in the question, made in float64 in an order that depends on the question alone
    and rounded to float32; higher is better, ties by row. A passage whose sum is not above 0 is not found.
    """

    def __init__(self, lists: Lists, n_passages: int, segment: int = SEGMENT) -> None:
        if not 0 < segment <= SEGMENT:
            raise ValueError(f"a segment is of 1 to {SEGMENT:,} passages, not {segment}")
        self.lists, self.n_passages, self.segment = lists, n_passages, segment
        for array in lists:
            array.flags.writeable = False  # those of a file are: a function is compiled for one kind
        self._room = threading.local()

    @classmethod
    def of(cls, segments: Iterable[Segment], n_passages: int, segment: int = SEGMENT) -> "Postings":
        """Put segments together in memory."""
        return cls(in_memory(segments, segment), n_passages, segment)

    @property
    def memory_bytes(self) -> int:
        """Size of all arrays."""
        return sum(array.nbytes for array in self.lists)

    def search(
        self,
        terms: np.ndarray,
        offsets: np.ndarray,
        k: int,
        factors: np.ndarray | None = None,
        *,
        cores: int | None = None,
    ) -> Rankings:
        """Return the best k passages of questions whose terms are `terms[offsets[i]:offsets[i + 1]]`, or of all.

        A term counts as often as it is asked, times its `factors` `(n_asked,)` float32 where they are given; one that
        no passage holds adds nothing. All `cores` of the machine are used, or so many.
        """
        n_questions, k = len(offsets) - 1, min(k, self.n_passages)
        factors = np.ones(len(terms), dtype=np.float32) if factors is None else factors
        rows = np.full((n_questions, k), NOT_FOUND, dtype=np.int32)
        scores = np.full((n_questions, k), -np.inf, dtype=np.float32)

        def some(start: int) -> None:
            asked, part = offsets[start : start + _AT_A_TIME + 1], slice(start, start + _AT_A_TIME)
            given = self.lists, self.n_passages, self.segment, terms, factors, asked
            search(*given, *self._space(), rows[part], scores[part])

        starts = range(0, n_questions if k else 0, _AT_A_TIME)
        if len(starts) > 1 and cores != 1:
            with ThreadPoolExecutor(cores or os.cpu_count()) as pool:
                list(pool.map(some, starts))
        else:
            list(map(some, starts))  # threads take longer to start than one question to answer
        return Rankings(rows, scores)

    def scores(
        self, terms: np.ndarray, offsets: np.ndarray, at_a_time: int, factors: np.ndarray | None = None
    ) -> Iterator[np.ndarray]:
        """Score all passages for some questions at a time: `(at_a_time, n_passages)` float32, -inf where no term is."""
        factors = np.ones(len(terms), dtype=np.float32) if factors is None else factors
        for start in range(0, len(offsets) - 1, at_a_time):
            asked = offsets[start : start + at_a_time + 1]
            given = self.lists, self.n_passages, self.segment, terms, factors, asked
            yield all_scores(*given, self._space()[0])

    def _space(self) -> tuple[np.ndarray, np.ndarray]:
        """Return this thread's room for the sums and candidates of a segment."""
        if not hasattr(self._room, "arrays"):
            size = min(self.segment, self.n_passages)
            self._room.arrays = np.empty(size, dtype=np.float64), np.empty(size, dtype=np.int32)
        arrays: tuple[np.ndarray, np.ndarray] = self._room.arrays
        return arrays
