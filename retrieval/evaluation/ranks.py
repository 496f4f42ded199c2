"""All questions by all retrievers: the rank at which each finds the first relevant passage, small enough to be seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from data.records import QuestionSet
from retrieval.evaluation.measures import first_relevant_ranks
from retrieval.rankings import Rankings

BANDS = (1, 5, 10, 20, 50, 100)  # last rank of each band; one band more holds what lies deeper or was not found


class Quadrant(StrEnum):
    """Which of two retrievers find a question."""

    BOTH = "both"
    ONLY_FIRST = "only_first"
    ONLY_SECOND = "only_second"
    NEITHER = "neither"


@dataclass(frozen=True)
class Block:
    """Neighbouring questions of the map, from `start` up to `end`, that one retriever (a column) ranks in one band."""

    column: int
    start: int
    end: int
    band: int


@dataclass(frozen=True)
class RankMap:
    """Ranks `(n_questions, n_retrievers)` int64 of the first relevant passage, 0 where none was found.

    `order` are the question rows as the map shows them: by the band of the first retriever, within it by that of the
    second and so on, so that what the retrievers see alike lies together.
    """

    ranks: np.ndarray
    order: np.ndarray

    def blocks(self) -> list[Block]:
        """Return the map as few blocks, by column and then by place."""
        shown = bands_of(self.ranks)[self.order]
        found: list[Block] = []
        for column in range(shown.shape[1]):
            edges = np.flatnonzero(np.diff(shown[:, column])) + 1
            starts, ends = [0, *edges.tolist()], [*edges.tolist(), len(shown)]
            found += [Block(column, a, b, int(shown[a, column])) for a, b in zip(starts, ends, strict=True) if a < b]
        return found


def rank_map(rankings: Sequence[Rankings], question_set: QuestionSet) -> RankMap:
    """Make the map of one or more retrievers' rankings."""
    ranks = np.stack([first_relevant_ranks(one, question_set) for one in rankings], axis=1)
    shown = bands_of(ranks)
    return RankMap(ranks, np.lexsort(shown.T[::-1]))


def bands_of(ranks: np.ndarray) -> np.ndarray:
    """Return the band of each rank: its place in `BANDS`, `len(BANDS)` where it lies deeper or is 0 (not found)."""
    return np.where(ranks == 0, len(BANDS), np.searchsorted(BANDS, ranks))


def quadrants(first: np.ndarray, second: np.ndarray, k: int) -> dict[Quadrant, np.ndarray]:
    """Return question rows (ascending) by which of two retrievers has a relevant passage among its first k.

    `first` and `second` are ranks `(n_questions,)`, 0 where none was found.
    """
    a, b = ((ranks > 0) & (ranks <= k) for ranks in (first, second))
    return {
        Quadrant.BOTH: np.flatnonzero(a & b),
        Quadrant.ONLY_FIRST: np.flatnonzero(a & ~b),
        Quadrant.ONLY_SECOND: np.flatnonzero(~a & b),
        Quadrant.NEITHER: np.flatnonzero(~a & ~b),
    }
