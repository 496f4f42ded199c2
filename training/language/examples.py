"""What a masked language model learns from: rows of tokens, some of them hidden, other ones in every epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from language.masking.blocks import Blocks
from language.masking.masker import Masker
from training.engine.task import Columns, Examples

_TOLD = 256  # rows that are told as texts


@dataclass(frozen=True)
class HiddenTokens:
    """Rows of tokens to guess some of; `whole` says that words are hidden, not tokens."""

    blocks: Blocks
    masker: Masker
    whole: bool
    seed: int

    def __len__(self) -> int:
        return len(self.blocks)

    def batch(self, rows: Sequence[int]) -> dict[str, np.ndarray]:
        """Hide tokens of some rows; the arrays are those that `MaskedNetwork` reads.

        What is hidden follows from the seed and from which rows stand together, in which order: that is otherwise in
        every epoch, and the same where a training is taken up again.
        """
        rng = np.random.default_rng([self.seed, *rows])
        read = self.blocks.read(rows, rng)
        alone = np.broadcast_to(np.arange(read.tokens.shape[1]), read.tokens.shape)
        shown, labels = self.masker.masked(read.tokens, read.words if self.whole else alone, rng)
        hidden = max(1, int((labels >= 0).sum()))
        told = {
            "input_ids": shown,
            "token_type_ids": read.segments,
            "attention_mask": (np.arange(read.tokens.shape[1]) < read.lengths[:, None]).astype(np.int64),
            "labels": labels,
            "shares": np.full((len(rows), 1), len(rows) / hidden, dtype=np.float32),
        }
        return told | ({} if read.follows is None else {"follows": read.follows[:, None]})

    def features(self, rows: Sequence[int]) -> dict[str, Any]:
        """The same as tensors."""
        import torch

        return {name: torch.from_numpy(values) for name, values in self.batch(rows).items()}

    def columns(self, tokenizer: Any) -> Columns:
        """Texts for who wants to know how long they are: those of the first rows again and again, as all are alike."""
        read = self.blocks.read(range(min(_TOLD, len(self))), np.random.default_rng(self.seed))
        texts = [
            str(tokenizer.decode(row[:length], skip_special_tokens=True))
            for row, length in zip(read.tokens.tolist(), read.lengths.tolist(), strict=True)
        ]
        return {"text": [texts[row % len(texts)] for row in range(len(self))]}


@dataclass(frozen=True)
class MeasuredRows:
    """Rows by chance, at most `limit` (0: all), in batches that never change."""

    hidden: HiddenTokens
    limit: int
    size: int

    @cached_property
    def rows(self) -> np.ndarray:
        """Which rows, `(n,)`, ascending."""
        rows = np.arange(len(self.hidden))
        if 0 < self.limit < len(rows):
            rows = np.sort(np.random.default_rng(self.hidden.seed).permutation(rows)[: self.limit])
        return rows

    def features(self, places: Sequence[int]) -> dict[str, Any]:
        """Some of them, by their places among all that are measured."""
        return self.hidden.features(self.rows[list(places)].tolist())

    def batches(self) -> list[list[int]]:
        """The rows of each batch, those of like length together."""
        ordered = self.rows[np.argsort(self.hidden.blocks.lengths()[self.rows], kind="stable")]
        return [ordered[start : start + self.size].tolist() for start in range(0, len(ordered), self.size)]

    def labels(self) -> list[np.ndarray]:
        """What is to be guessed in each row."""
        return [row for batch in self.batches() for row in self.hidden.batch(batch)["labels"]]


def examples_of(lengths: np.ndarray) -> Examples:
    """Rows of these lengths as batches are made of them: any may stand together, those of like length do."""
    rows = np.arange(len(lengths))
    itself = csr_array((np.ones(len(rows), dtype=np.int32), (rows, rows)), shape=(len(rows), len(rows)))
    return Examples(rows, rows[:, None].astype(np.int32), itself, lengths.astype(float), in_batch=False)
