"""Batches without false negatives: texts of similar length, and other batches each epoch.

A passage has several questions, and encoding it is most of a step's work. If examples share passages, a batch holds
passages, each with up to `MOST_QUESTIONS` of its questions, so that an epoch encodes each passage about once instead of
once for each question. Questions of the same passage are no negatives of each other.
"""

from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sentence_transformers.base.sampler import DefaultBatchSampler

from mrc_workbench.training.base import Examples

_WINDOW = 8  # batches, at least, among which texts of like length are dealt: more mix better, and need more padding


def _deal(groups: np.ndarray, count: int, window: int) -> np.ndarray:
    """The batch of each position, `(n,)` in 0 to `count` - 1; `groups`, `(n,)`, holds equal numbers side by side.

    Positions are cut into windows of at least `window` batches, and dealt in turn to these: no two of a group to the
    same batch, unless a group is larger than `count`. Sizes differ by one at most.
    """
    bounds = np.arange(count + 1) * len(groups) // count
    dealt = np.empty(len(groups), dtype=np.int64)
    for first, last in pairwise(_windows(np.cumsum(np.diff(groups, prepend=groups[0]) != 0), bounds, window)):
        start, end = bounds[first], bounds[last]
        dealt[start:end] = first + np.arange(end - start) % (last - first)
    return dealt


def _windows(runs: np.ndarray, bounds: np.ndarray, window: int) -> list[int]:
    """Starts of windows, in batches, and the end: each has as many batches as its longest run has positions."""
    count, width, cuts = len(bounds) - 1, window, [0]
    while cuts[-1] < count:
        last = cuts[-1] + width if cuts[-1] + width + window <= count else count
        start = bounds[cuts[-1]]
        longest = int(np.bincount(runs[start : bounds[last]] - runs[start]).max())
        if longest <= last - cuts[-1] or (last == count and len(cuts) == 1):
            cuts.append(last)
            width = window
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
        return cls(*([row.tolist() for row in np.split(of.indices, of.indptr[1:-1])] for of in (shown, forbidden)))


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

    A batch takes as many as all would hold if they were equal, and then up to `size`. If none can, one is added to the
    first of `counts` up to the second. In the end a batch of one example gets another from a batch of three or more.
    Returns the batches and the examples in none.
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
    for lone in [batch for batch in batches if len(batch.examples) == 1]:  # alone, a question has no negatives
        crowded = [batch for batch in batches if len(batch.examples) > 2]
        offers = ((batch, example) for batch in crowded for example in batch.examples if lone.takes(example))
        if offer := next(offers, None):
            giver, example = offer
            giver.examples.remove(example)
            lone.add(example)
    return [np.array(batch.examples, dtype=np.int64) for batch in batches], stuck


def _find(batches: list[_Batch], wish: int, size: int, example: int) -> _Batch | None:
    for place in chain(range(wish, len(batches)), range(wish)):
        if len(batches[place].examples) < size and batches[place].takes(example):
            return batches[place]
    return None


_JITTER = 0.1  # share by which a length may seem longer or shorter, so that every epoch has another order


def sampler_of(
    examples: Examples, *, batch_size: int, processes: int = 1, seed: int = 0
) -> Callable[..., DefaultBatchSampler]:
    """Return the `batch_sampler` of training arguments; `batch_size` is that of all processes together.

    It counts passages if the examples share them. No batch holds a passage that is relevant to a question of another
    passage in the batch. Called by the trainer, it raises `ValueError` if the data set does not match the examples, or
    is too small.
    """
    return partial(_sampler, examples, batch_size, processes, seed)  # it can be pickled: trainers keep their arguments


def _sampler(
    examples: Examples, size: int, processes: int, seed: int, dataset: Sized, /, *, drop_last: bool = False, **_: Any
) -> DefaultBatchSampler:
    n_examples = len(examples.question)
    if len(dataset) != n_examples:
        raise ValueError(f"{len(dataset)} rows to train on, but {n_examples} examples to make batches of")
    if examples.shared:
        return _SharedSampler(dataset, examples, batch_size=size, drop_last=drop_last, seed=seed)
    return _Sampler(dataset, examples, processes, batch_size=size, drop_last=drop_last, seed=seed)


class _Sampler(DefaultBatchSampler):
    """No batch holds a passage twice, nor one relevant to a question of the batch that is not that example's positive.

    An epoch's batches depend on its number alone, and every epoch has as many. With several processes, each batch is
    given as so many equal parts, one after the other. `left_out` counts the examples without a place in the epoch.
    """

    def __init__(self, dataset: Sized, examples: Examples, processes: int, *, batch_size: int, **settings: Any) -> None:
        super().__init__(dataset, batch_size=batch_size, **settings)
        if processes > 1:
            self.batch_size = None  # accelerate passes over batches that are not of this size
        self._examples, self._processes = examples, processes
        self._size = self._whole(batch_size)
        self._rows = rows = examples.sound()
        self._shown, self._forbidden = examples.shown()[rows], examples.forbidden()[rows]
        times_shown = np.bincount(self._shown.indices, minlength=self._shown.shape[1])
        self._crowd = int(times_shown.max(initial=1)) if examples.in_batch else 1
        self._hardness = self._shown @ times_shown  # whose passages many show, goes with few
        self._group = np.unique(examples.passages[rows, 0] if examples.in_batch else rows, return_inverse=True)[1]
        self._length = np.bincount(self._group, examples.lengths[rows]) / np.bincount(self._group)
        self._article = None
        if examples.article is not None:
            self._article = np.zeros(len(self._length), dtype=np.int64)
            self._article[self._group] = np.unique(examples.article[rows], return_inverse=True)[1]
        self._first = self._settled() if self._size and self._whole(len(rows)) else []
        if not self._first:
            raise ValueError(f"{len(rows)} examples make no batch of {batch_size} for {processes} processes")
        self.left_out = self._missing(self._first)

    def __len__(self) -> int:
        return len(self._first) * self._processes

    def __iter__(self) -> Iterator[list[int]]:
        batches = self._batches() if self.epoch else self._first
        self.left_out = self._missing(batches)
        rng = np.random.default_rng((self.seed, self.epoch, 1))
        for place in rng.permutation(len(batches)).tolist():
            batch = rng.permutation(self._rows[batches[place]])
            yield from batch[: self._whole(len(batch))].reshape(self._processes, -1).tolist()

    def _whole(self, size: int) -> int:
        return size // self._processes * self._processes

    def _missing(self, batches: list[np.ndarray]) -> int:
        return len(self._examples.question) - sum(self._whole(len(batch)) for batch in batches)

    def _settled(self) -> list[np.ndarray]:
        """The batches of the first epoch: as many as every example needs to have a place."""
        highest = len(self._rows) // self._processes
        # several processes would have to cut batches that are not quite full
        fewest = -(-len(self._rows) // self._size) if self._processes == 1 else len(self._rows) // self._size
        count = min(max(fewest, self._crowd), highest)
        while True:
            order, wishes = self._dealt(0, count)
            batches, _ = self._packed(order, wishes, count, highest)
            if len(batches) == count:
                return [batch for batch in batches if self._whole(len(batch))]
            count = len(batches)  # once more, so that the batches that were added are as full as the others

    def _batches(self) -> list[np.ndarray]:
        count = len(self._first)
        order, wishes = self._dealt(self.epoch, count)
        for _ in range(5):  # attempts at finding a place for every example
            batches, stuck = self._packed(order, wishes, count, count)
            as_many = self._missing(batches) <= self._missing(self._first)
            if as_many and min(map(len, batches)) >= self._processes:
                return batches
            turn = np.argsort(~np.isin(order, stuck), kind="stable")  # those without a place go first
            order, wishes = order[turn], wishes[turn]
        return self._first  # these are known to leave out no more

    def _dealt(self, epoch: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the examples in the order in which they are placed, the hardest first, and the batch that each wishes.

        Wishes are dealt by length, or by article in a random order. Order: Welsh & Powell 1967 (graph colouring).
        """
        rng, n = np.random.default_rng((self.seed, epoch)), len(self._rows)
        drawn = n if self._processes == 1 else count * self._whole(min(self._size, n // count))
        chosen = np.sort(rng.permutation(n)[:drawn])
        seeming: np.ndarray
        if self._article is None:
            seeming = (self._length + 1) * rng.uniform(1 - _JITTER, 1 + _JITTER, len(self._length))
        else:
            seeming = rng.permutation(int(self._article.max()) + 1)[self._article]
        group = self._group[chosen]
        by_length = np.lexsort((rng.random(drawn), group, seeming[group]))
        # an article's passages stay together: dealt to several batches, they would be no negatives of each other
        window = _WINDOW if self._article is None else 1
        order, wishes = chosen[by_length], _deal(group[by_length], count, window)
        hardest_first = np.argsort(-self._hardness[order], kind="stable")
        return order[hardest_first], wishes[hardest_first]

    @cached_property
    def _rules(self) -> Rules:
        return Rules.of(self._shown, self._forbidden)

    def _packed(
        self, order: np.ndarray, wishes: np.ndarray, count: int, highest: int
    ) -> tuple[list[np.ndarray], list[int]]:
        own_passage_only = not self._examples.in_batch or self._forbidden.nnz == len(self._rows)
        if own_passage_only and self._crowd <= count:  # so no two that were dealt to a batch are at odds
            ends = np.cumsum(np.bincount(wishes, minlength=count))
            return np.split(order[np.argsort(wishes, kind="stable")], ends[:-1]), []
        return pack(order, wishes, self._rules, self._size, (count, highest))


MOST_QUESTIONS = 8  # of a passage in a batch, drawn anew each epoch


def passage_examples(examples: Examples) -> tuple[Examples, list[np.ndarray]]:
    """Return examples of passages, and the rows of the given examples that show each of them."""
    passages, passage_of = np.unique(examples.passages[:, 0], return_inverse=True)
    rows = np.split(np.argsort(passage_of, kind="stable"), np.cumsum(np.bincount(passage_of))[:-1])
    shape = (len(passages), len(examples.question))
    members = csr_array((np.ones(len(passage_of), dtype=np.int32), (passage_of, np.arange(len(passage_of)))), shape)
    relevance = csr_array(members @ (examples.relevance[examples.question] != 0).astype(np.int32))
    first = np.array([some[0] for some in rows])
    lengths = np.bincount(passage_of, examples.lengths) / np.bincount(passage_of)
    article = None if examples.article is None else examples.article[first]
    shown = passages[:, None].astype(np.int32)
    return Examples(np.arange(len(passages)), shown, relevance, lengths, examples.in_batch, article), rows


class _SharedSampler(DefaultBatchSampler):
    """Batches of passages, each replaced by rows of its questions."""

    def __init__(self, dataset: Sized, examples: Examples, *, batch_size: int, seed: int, **settings: Any) -> None:
        super().__init__(dataset, batch_size=batch_size, seed=seed, **settings)
        passages, self._rows = passage_examples(examples)
        self._passages = sampler_of(passages, batch_size=batch_size, seed=seed)(range(len(self._rows)))

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self._passages.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self._passages)

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng((self.seed, self.epoch, 2))
        for batch in self._passages:
            drawn = [rng.permutation(self._rows[passage])[:MOST_QUESTIONS] for passage in batch]
            yield np.concatenate(drawn).tolist()
