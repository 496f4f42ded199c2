"""Dealing examples to batches: those of one passage to different ones, and those that do not go together apart."""

from dataclasses import dataclass, field
from itertools import chain, pairwise

import numpy as np
from scipy.sparse import csr_array

_WINDOW = 8  # batches, at least, among which neighbours are dealt: more mix better, and keep like lengths less together


def deal(groups: np.ndarray, count: int) -> np.ndarray:
    """The batch of each position, `(n,)` in 0 to `count` - 1; `groups`, `(n,)`, holds equal numbers side by side.

    Positions are cut into windows of some batches each, and dealt in turn to these: no two of a group to the same
    batch, unless a group is larger than `count`. Sizes differ by one at most.
    """
    bounds = np.arange(count + 1) * len(groups) // count
    dealt = np.empty(len(groups), dtype=np.int64)
    for first, last in pairwise(_windows(np.cumsum(np.diff(groups, prepend=groups[0]) != 0), bounds)):
        start, end = bounds[first], bounds[last]
        dealt[start:end] = first + np.arange(end - start) % (last - first)
    return dealt


def _windows(runs: np.ndarray, bounds: np.ndarray) -> list[int]:
    """Where windows begin, in batches, and the end: each has as many batches as its longest run has positions."""
    count, width, cuts = len(bounds) - 1, _WINDOW, [0]
    while cuts[-1] < count:
        last = cuts[-1] + width if cuts[-1] + width + _WINDOW <= count else count
        start = bounds[cuts[-1]]
        longest = int(np.bincount(runs[start : bounds[last]] - runs[start]).max())
        if longest <= last - cuts[-1] or (last == count and len(cuts) == 1):
            cuts.append(last)
            width = _WINDOW
        elif last < count:
            width = longest
        else:  # too few batches are left: the windows before give theirs
            cuts = [cut for cut in cuts if count - cut >= longest] or [0]
            width = count
    return cuts


@dataclass(frozen=True)
class Rules:
    """Two examples may share a batch where neither shows a passage that the other forbids."""

    shown: list[list[int]]  # passages, by example
    forbidden: list[list[int]]

    @classmethod
    def of(cls, shown: csr_array, forbidden: csr_array) -> "Rules":
        """Read two matrices `(n_examples, n_passages)`."""
        return cls(_columns(shown), _columns(forbidden))


def _columns(matrix: csr_array) -> list[list[int]]:
    indices = matrix.indices.tolist()
    return [indices[start:end] for start, end in pairwise(matrix.indptr.tolist())]


@dataclass
class _Batch:
    rules: Rules
    examples: list[int] = field(default_factory=list)
    shown: set[int] = field(default_factory=set)
    forbidden: set[int] = field(default_factory=set)

    def takes(self, example: int) -> bool:
        shown, forbidden = self.rules.shown[example], self.rules.forbidden[example]
        return self.shown.isdisjoint(forbidden) and self.forbidden.isdisjoint(shown)

    def add(self, example: int) -> None:
        self.examples.append(example)
        self.shown.update(self.rules.shown[example])
        self.forbidden.update(self.rules.forbidden[example])


def pack(
    order: np.ndarray, wishes: np.ndarray, rules: Rules, size: int, counts: tuple[int, int]
) -> tuple[list[np.ndarray], list[int]]:
    """Put each example of `order`, `(n,)`, into the batch it wishes, `(n,)`, or the next one that can take it.

    A batch takes as many as all would hold if they were equal, and then up to `size`. Where none can, one is added to
    the first of `counts` up to the second. Returns the batches and the examples that are in none.
    """
    batches, stuck = [_Batch(rules) for _ in range(counts[0])], []
    even = -(-len(order) // counts[0])
    for example, wish in zip(order.tolist(), wishes.tolist(), strict=True):
        batch = _find(batches, wish, even, example) or _find(batches, wish, size, example)
        if not batch and len(batches) < counts[1]:
            batches.append(batch := _Batch(rules))
        if batch:
            batch.add(example)
        else:
            stuck.append(example)
    _leave_none_alone(batches)
    return [np.array(batch.examples, dtype=np.int64) for batch in batches], stuck


def _find(batches: list[_Batch], wish: int, size: int, example: int) -> _Batch | None:
    for place in chain(range(wish, len(batches)), range(wish)):
        if len(batches[place].examples) < size and batches[place].takes(example):
            return batches[place]
    return None


def _leave_none_alone(batches: list[_Batch]) -> None:
    """Give a batch of one an example of a batch of three or more: alone, a question has no negatives."""
    for lone in [batch for batch in batches if len(batch.examples) == 1]:
        crowded = [batch for batch in batches if len(batch.examples) > 2]
        offers = ((batch, example) for batch in crowded for example in batch.examples if lone.takes(example))
        if offer := next(offers, None):
            giver, example = offer
            giver.examples.remove(example)
            lone.add(example)
