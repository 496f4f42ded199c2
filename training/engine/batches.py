"""Batches without false negatives: of texts of like length, and other ones each epoch."""

from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sentence_transformers.base.sampler import DefaultBatchSampler

from training.engine.packing import Rules, deal, pack
from training.engine.task import Examples

_JITTER = 0.1  # share by which a length may seem longer or shorter, so that every epoch has another order
_ATTEMPTS = 5  # at finding a place for every example of an epoch


def batch_sampler(
    examples: Examples, *, batch_size: int, processes: int = 1, seed: int = 0
) -> Callable[..., DefaultBatchSampler]:
    """Return what training arguments take as `batch_sampler`; `batch_size` is that of all processes together.

    Called by the trainer, it raises `ValueError` where the data set is not that of the examples, or too small.
    """
    return _Plan(examples, batch_size, processes, seed)


@dataclass(frozen=True)
class _Plan:
    examples: Examples
    batch_size: int
    processes: int
    seed: int

    def __call__(self, dataset: Sized, *, drop_last: bool = False, **_: Any) -> DefaultBatchSampler:
        n_examples = len(self.examples.question)
        if len(dataset) != n_examples:
            raise ValueError(f"{len(dataset)} rows to train on, but {n_examples} examples to make batches of")
        return _Sampler(dataset, self, drop_last)


class _Sampler(DefaultBatchSampler):
    """No batch holds a passage twice, nor one relevant to a question of the batch that is not that example's positive.

    An epoch's batches follow from the plan and the epoch's number alone, and are as many every epoch. With several
    processes, each batch is given as so many parts of equal size, one after the other. `left_out` counts the examples
    without a place in the epoch: those that break the rule alone and, with several processes, those too many for equal
    parts.
    """

    def __init__(self, dataset: Sized, plan: _Plan, drop_last: bool) -> None:
        super().__init__(dataset, batch_size=plan.batch_size, drop_last=drop_last, seed=plan.seed)
        if plan.processes > 1:
            self.batch_size = None  # accelerate passes over batches that are not of this size
        self._examples = examples = plan.examples
        self._processes = plan.processes
        self._size = self._whole(plan.batch_size)
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
            raise ValueError(f"{len(rows)} examples make no batch of {plan.batch_size} for {plan.processes} processes")
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
        """The batches of the first epoch: as many as it takes for every example to have a place."""
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
        for _ in range(_ATTEMPTS):
            batches, stuck = self._packed(order, wishes, count, count)
            as_many = self._missing(batches) <= self._missing(self._first)
            if as_many and min(map(len, batches)) >= self._processes:
                return batches
            turn = np.argsort(~np.isin(order, stuck), kind="stable")  # those without a place go first
            order, wishes = order[turn], wishes[turn]
        return self._first  # these are known to leave out no more

    def _dealt(self, epoch: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the examples in the order in which they are to be placed, and the batch that each wishes to be in.

        Wishes are dealt by length, or by article in an order drawn anew. The hardest to place come first, as Welsh &
        Powell 1967 colour graphs.
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
        order, wishes = chosen[by_length], deal(group[by_length], count)
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
