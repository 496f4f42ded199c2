"""Batches in which each passage is encoded once, beside all its questions.

A passage has several questions, and encoding it is most of a step's work. A batch of pairs holds it once, so an epoch
encodes it once for each of its questions. Here a batch holds passages, each with up to `MOST_QUESTIONS` of its
questions, so an epoch encodes each passage about once. Questions of one passage are no negatives of each other.
"""

from collections.abc import Callable, Iterator, Sized
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sentence_transformers.base.sampler import DefaultBatchSampler

from mrc_workbench.training.base import Examples
from mrc_workbench.training.engine.batches import batch_sampler

MOST_QUESTIONS = 8  # of a passage in a batch, drawn anew each epoch


def sampler_of(
    examples: Examples, *, batch_size: int, processes: int = 1, seed: int = 0
) -> Callable[..., DefaultBatchSampler]:
    """Return what training arguments take as `batch_sampler`; `batch_size` counts passages if the examples share them.

    Shared examples have a positive passage each and no other. No batch holds a passage that is relevant to a question
    of another passage in the batch. Raises `ValueError` like `batch_sampler`.
    """
    if examples.shared:
        return partial(_sampler, examples, batch_size, seed)
    return batch_sampler(examples, batch_size=batch_size, processes=processes, seed=seed)


def passage_examples(examples: Examples) -> tuple[Examples, list[np.ndarray]]:
    """Return examples of passages, and the rows of the examples given that show each of them."""
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


def _sampler(
    examples: Examples, size: int, seed: int, dataset: Sized, /, *, drop_last: bool = False, **_: Any
) -> DefaultBatchSampler:
    if len(dataset) != len(examples.question):
        raise ValueError(f"{len(dataset)} rows to train on, but {len(examples.question)} examples to make batches of")
    return _SharedSampler(dataset, examples, batch_size=size, drop_last=drop_last, seed=seed)


class _SharedSampler(DefaultBatchSampler):
    """Batches of passages as `training.engine.batches` makes them, each passage replaced by rows of its questions."""

    def __init__(self, dataset: Sized, examples: Examples, *, batch_size: int, seed: int, **settings: Any) -> None:
        super().__init__(dataset, batch_size=batch_size, seed=seed, **settings)
        passages, self._rows = passage_examples(examples)
        self._passages = batch_sampler(passages, batch_size=batch_size, seed=seed)(range(len(self._rows)))

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
