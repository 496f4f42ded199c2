"""Batches without false negatives: texts of similar length, and other batches each epoch.

A passage has several questions, and encoding it is most of a step's work. If examples share passages, a batch holds
passages, each with up to `MAX_QUESTIONS_PER_PASSAGE` of its questions: an epoch encodes each passage about once instead
of once per question. Questions of the same passage are not negatives of each other.
"""

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sentence_transformers.base.sampler import DefaultBatchSampler

from mrc_workbench.training.base import Examples

_WINDOW = 8  # minimum number of batches that share texts of similar length: more mix better, but need more padding


def _deal_to_batches(groups: np.ndarray, count: int, window: int) -> np.ndarray:
    """Return the batch of each position, `(n,)` in 0 to `count` - 1; in `groups`, `(n,)`, equal numbers are adjacent.

    Positions are cut into windows of at least `window` batches, and dealt in turn to these: no two of a group to the
    same batch, unless a group is larger than `count`. Sizes differ by one at most.
    """
    bounds = np.arange(count + 1) * len(groups) // count
    batch_of_position = np.empty(len(groups), dtype=np.int64)
    for first, last in pairwise(_windows(np.cumsum(np.diff(groups, prepend=groups[0]) != 0), bounds, window)):
        start = bounds[first]
        end = bounds[last]
        batch_of_position[start:end] = first + np.arange(end - start) % (last - first)
    return batch_of_position


def _windows(runs: np.ndarray, bounds: np.ndarray, window: int) -> list[int]:
    """Return the starts of windows, in batches, and the end: a window has a batch per position of its longest run."""
    count = len(bounds) - 1
    width = window
    cuts = [0]
    while cuts[-1] < count:
        last = cuts[-1] + width if cuts[-1] + width + window <= count else count
        start = bounds[cuts[-1]]
        longest = int(np.bincount(runs[start : bounds[last]] - runs[start]).max())
        if longest <= last - cuts[-1] or (last == count and len(cuts) == 1):
            cuts.append(last)
            width = window
        elif last < count:
            width = longest
        else:  # too few batches are left: take those of the previous windows
            cuts = [cut for cut in cuts if count - cut >= longest] or [0]
            width = count
    return cuts


@dataclass(frozen=True)
class BatchConstraints:
    """Two examples can share a batch if neither has a passage that the other forbids."""

    passages: list[list[int]]  # passages, by example
    forbidden: list[list[int]]

    @classmethod
    def from_matrices(cls, passages: csr_array, forbidden: csr_array) -> "BatchConstraints":
        def rows(matrix: csr_array) -> list[list[int]]:
            return [row.tolist() for row in np.split(matrix.indices, matrix.indptr[1:-1])]

        return cls(rows(passages), rows(forbidden))


@dataclass
class _Batch:
    constraints: BatchConstraints
    examples: list[int] = field(default_factory=list)
    passages: set[int] = field(default_factory=set)
    forbidden: set[int] = field(default_factory=set)

    def accepts(self, example: int) -> bool:
        passages = self.constraints.passages[example]
        forbidden = self.constraints.forbidden[example]
        return self.passages.isdisjoint(forbidden) and self.forbidden.isdisjoint(passages)

    def add(self, example: int) -> None:
        self.examples.append(example)
        self.passages.update(self.constraints.passages[example])
        self.forbidden.update(self.constraints.forbidden[example])


def pack(
    order: np.ndarray, preferred_batches: np.ndarray, constraints: BatchConstraints, size: int, counts: tuple[int, int]
) -> tuple[list[np.ndarray], list[int]]:
    """Put each example of `order`, `(n,)`, into its preferred batch, `(n,)`, or the next one that accepts it.

    A batch first takes an equal share, then up to `size`. If no batch accepts an example, a new one is added; `counts`
    are the initial and the maximum number. At the end, a batch of one example gets another from a batch of three or
    more. Returns the batches and the unplaced examples.
    """
    batches = [_Batch(constraints) for _ in range(counts[0])]
    unplaced = []
    even_size = -(-len(order) // counts[0])
    for example, preferred in zip(order.tolist(), preferred_batches.tolist(), strict=True):
        batch = _find_batch(batches, preferred, even_size, example) or _find_batch(batches, preferred, size, example)
        if not batch and len(batches) < counts[1]:
            batches.append(batch := _Batch(constraints))
        if batch:
            batch.add(example)
        else:
            unplaced.append(example)
    for single in [batch for batch in batches if len(batch.examples) == 1]:  # its question has no negatives
        donors = [batch for batch in batches if len(batch.examples) > 2]
        candidates = ((batch, example) for batch in donors for example in batch.examples if single.accepts(example))
        if candidate := next(candidates, None):
            donor, example = candidate
            donor.examples.remove(example)
            single.add(example)
    return [np.array(batch.examples, dtype=np.int64) for batch in batches], unplaced


def _find_batch(batches: list[_Batch], preferred: int, size: int, example: int) -> _Batch | None:
    for position in chain(range(preferred, len(batches)), range(preferred)):
        if len(batches[position].examples) < size and batches[position].accepts(example):
            return batches[position]
    return None


_JITTER = 0.1  # random fraction by which lengths vary: each epoch has another order


def make_sampler(
    examples: Examples, *, batch_size: int, processes: int = 1, seed: int = 0
) -> Callable[..., DefaultBatchSampler]:
    """Return the `batch_sampler` of training arguments; `batch_size` counts shared passages if there are any."""
    return partial(_sampler, examples, batch_size, processes, seed)  # picklable: trainers store their arguments


def _sampler(
    examples: Examples, size: int, processes: int, seed: int, dataset: Sized, /, *, drop_last: bool = False, **_: Any
) -> DefaultBatchSampler:
    n_examples = len(examples.question)
    if len(dataset) != n_examples:
        raise ValueError(f"the dataset has {len(dataset)} rows, but there are {n_examples} examples")
    if examples.shared:
        return _SharedPassageSampler(dataset, examples, batch_size=size, drop_last=drop_last, seed=seed)
    return _ExampleSampler(dataset, examples, processes, batch_size=size, drop_last=drop_last, seed=seed)


class _ExampleSampler(DefaultBatchSampler):
    """No batch holds a passage twice, nor one relevant to a question of the batch that is not that example's positive.

    Batches depend only on the number of the epoch, and all epochs have the same number of batches. With several
    processes, a batch is yielded as equal parts. `left_out` counts the examples without a batch in this epoch.
    """

    def __init__(self, dataset: Sized, examples: Examples, processes: int, *, batch_size: int, **settings: Any) -> None:
        super().__init__(dataset, batch_size=batch_size, **settings)
        if processes > 1:
            self.batch_size = None  # accelerate skips batches that do not have this size
        self._examples = examples
        self._processes = processes
        self._max_batch_size = self._round_down(batch_size)
        self._rows = rows = examples.usable_rows()
        self._passages = examples.passage_matrix()[rows]
        self._forbidden = examples.forbidden()[rows]
        passage_counts = np.bincount(self._passages.indices, minlength=self._passages.shape[1])
        self._highest_passage_count = int(passage_counts.max(initial=1)) if examples.in_batch_negatives else 1
        self._hardness = self._passages @ passage_counts  # frequent passages fit into few batches
        group_keys = examples.passages[rows, 0] if examples.in_batch_negatives else rows
        self._group = np.unique(group_keys, return_inverse=True)[1]
        self._length = np.bincount(self._group, examples.lengths[rows]) / np.bincount(self._group)
        self._article = None
        if examples.article is not None:
            self._article = np.zeros(len(self._length), dtype=np.int64)
            self._article[self._group] = np.unique(examples.article[rows], return_inverse=True)[1]
        self._first_epoch = self._make_first_epoch() if self._max_batch_size and self._round_down(len(rows)) else []
        if not self._first_epoch:
            raise ValueError(f"{len(rows)} examples are too few for a batch of {batch_size} and {processes} processes")
        self.left_out = self._count_left_out(self._first_epoch)

    def __len__(self) -> int:
        return len(self._first_epoch) * self._processes

    def __iter__(self) -> Iterator[list[int]]:
        batches = self._make_batches() if self.epoch else self._first_epoch
        self.left_out = self._count_left_out(batches)
        rng = np.random.default_rng((self.seed, self.epoch, 1))
        for position in rng.permutation(len(batches)).tolist():
            batch = rng.permutation(self._rows[batches[position]])
            yield from batch[: self._round_down(len(batch))].reshape(self._processes, -1).tolist()

    def _round_down(self, size: int) -> int:
        return size // self._processes * self._processes

    def _count_left_out(self, batches: list[np.ndarray]) -> int:
        return len(self._examples.question) - sum(self._round_down(len(batch)) for batch in batches)

    def _make_first_epoch(self) -> list[np.ndarray]:
        """Return the batches of the first epoch: enough for all examples."""
        highest = len(self._rows) // self._processes
        fewest = len(self._rows) // self._max_batch_size
        # several processes would have to cut a batch that is not full
        if self._processes == 1 and len(self._rows) % self._max_batch_size:
            fewest += 1
        count = min(max(fewest, self._highest_passage_count), highest)
        while True:
            order, preferred_batches = self._assign_preferences(0, count)
            batches, _ = self._pack_batches(order, preferred_batches, count, highest)
            if len(batches) == count:
                return [batch for batch in batches if self._round_down(len(batch))]
            count = len(batches)  # repeat, so that added batches are as full as the others

    def _make_batches(self) -> list[np.ndarray]:
        count = len(self._first_epoch)
        order, preferred_batches = self._assign_preferences(self.epoch, count)
        for _ in range(5):  # attempts to place all examples
            batches, unplaced = self._pack_batches(order, preferred_batches, count, count)
            leaves_out_no_more = self._count_left_out(batches) <= self._count_left_out(self._first_epoch)
            if leaves_out_no_more and min(map(len, batches)) >= self._processes:
                return batches
            new_order = np.argsort(~np.isin(order, unplaced), kind="stable")  # unplaced examples go first
            order = order[new_order]
            preferred_batches = preferred_batches[new_order]
        return self._first_epoch

    def _assign_preferences(self, epoch: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the examples, the hardest first (Welsh & Powell 1967), and the preferred batch of each."""
        rng = np.random.default_rng((self.seed, epoch))
        n = len(self._rows)
        sample_size = n if self._processes == 1 else count * self._round_down(min(self._max_batch_size, n // count))
        selected = np.sort(rng.permutation(n)[:sample_size])
        jittered_lengths: np.ndarray
        if self._article is None:
            jittered_lengths = (self._length + 1) * rng.uniform(1 - _JITTER, 1 + _JITTER, len(self._length))
        else:
            jittered_lengths = rng.permutation(int(self._article.max()) + 1)[self._article]
        group = self._group[selected]
        by_length = np.lexsort((rng.random(sample_size), group, jittered_lengths[group]))
        # an article's passages stay in one batch, so that they are negatives of each other
        window = _WINDOW if self._article is None else 1
        order = selected[by_length]
        preferred_batches = _deal_to_batches(group[by_length], count, window)
        hardest_first = np.argsort(-self._hardness[order], kind="stable")
        return order[hardest_first], preferred_batches[hardest_first]

    @cached_property
    def _constraints(self) -> BatchConstraints:
        return BatchConstraints.from_matrices(self._passages, self._forbidden)

    def _pack_batches(
        self, order: np.ndarray, preferred_batches: np.ndarray, count: int, highest: int
    ) -> tuple[list[np.ndarray], list[int]]:
        has_single_passages = not self._examples.in_batch_negatives or self._forbidden.nnz == len(self._rows)
        if has_single_passages and self._highest_passage_count <= count:  # no examples of a batch conflict
            ends = np.cumsum(np.bincount(preferred_batches, minlength=count))
            return np.split(order[np.argsort(preferred_batches, kind="stable")], ends[:-1]), []
        return pack(order, preferred_batches, self._constraints, self._max_batch_size, (count, highest))


class FixedBatches(DefaultBatchSampler):
    """Yields given batches in their order."""

    def __init__(self, batches: Sequence[list[int]], dataset: Sized, **settings: Any) -> None:
        super().__init__(dataset, **settings)
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self._batches)


MAX_QUESTIONS_PER_PASSAGE = 8  # in a batch, sampled in each epoch


def group_by_passage(examples: Examples) -> tuple[Examples, list[np.ndarray]]:
    """Return one example per passage, and the rows of the given examples of each passage."""
    passages, passage_of = np.unique(examples.passages[:, 0], return_inverse=True)
    rows = np.split(np.argsort(passage_of, kind="stable"), np.cumsum(np.bincount(passage_of))[:-1])
    shape = (len(passages), len(examples.question))
    membership = csr_array((np.ones(len(passage_of), dtype=np.int32), (passage_of, np.arange(len(passage_of)))), shape)
    relevance = csr_array(membership @ (examples.relevance[examples.question] != 0).astype(np.int32))
    first = np.array([group[0] for group in rows])
    lengths = np.bincount(passage_of, examples.lengths) / np.bincount(passage_of)
    article = None if examples.article is None else examples.article[first]
    passage_rows = passages[:, None].astype(np.int32)
    numbers = np.arange(len(passages))
    return Examples(numbers, passage_rows, relevance, lengths, examples.in_batch_negatives, article), rows


class _SharedPassageSampler(DefaultBatchSampler):
    """Samples batches of passages and yields rows of their questions."""

    def __init__(self, dataset: Sized, examples: Examples, *, batch_size: int, seed: int, **settings: Any) -> None:
        super().__init__(dataset, batch_size=batch_size, seed=seed, **settings)
        passages, self._rows = group_by_passage(examples)
        self._passage_sampler = make_sampler(passages, batch_size=batch_size, seed=seed)(range(len(self._rows)))

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self._passage_sampler.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self._passage_sampler)

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng((self.seed, self.epoch, 2))
        for batch in self._passage_sampler:
            sampled = [rng.permutation(self._rows[passage])[:MAX_QUESTIONS_PER_PASSAGE] for passage in batch]
            yield np.concatenate(sampled).tolist()
