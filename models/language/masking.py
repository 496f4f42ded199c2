"""Masked language modelling: masking of tokens, rows from a file of tokens, and scores of predictions.

Tokens are masked as in Devlin et al. 2019, 3.1. The perplexity of a masked language model is exp of the mean of -ln P
over the masked tokens, given all visible tokens (table 6 there). It depends on the tokenizer and on the masked
fraction: compare only models that predict the same tokens of the same rows.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np

from mrc_workbench.data.text.corpora import LanguageError
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.inference import Precision, in_precision
from mrc_workbench.models.language.tokenizers import Specials, TokenFile

if TYPE_CHECKING:
    from mrc_workbench.models.reader_networks import MaskedNetwork


IGNORED = -100  # label of visible tokens in torch's cross-entropy
# labels of second segments in BERT
NEXT = 0
RANDOM = 1
PERPLEXITY = "perplexity"
LOG_LIKELIHOOD = "log_likelihood"
GUESSED = "masked_accuracy"
FOLLOWED = "next_accuracy"
_TYPES = {"losses": np.float64, "hidden": np.int64, "right": np.int64, "follow_right": np.bool_}  # of predictions


@dataclass(frozen=True)
class MaskingOptions:
    """The fraction of masked tokens, and the fractions of these that [MASK] and random tokens replace."""

    fraction: float = 0.15
    masked: float = 0.8
    random: float = 0.1  # the rest is unchanged


@dataclass(frozen=True)
class Masker:
    """Masks tokens at random, except special tokens."""

    options: MaskingOptions
    mask: int  # the id of [MASK]
    special: np.ndarray = field(repr=False)  # (vocabulary,) bool

    def mask_tokens(
        self, tokens: np.ndarray, words: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the masked tokens and the labels (`IGNORED` at visible tokens), both like `tokens` `(n, width)`.

        `words`, of the same shape, numbers the words of each row from 0: whole words are masked with the probability
        `fraction`, and the replacement of each of their tokens is independent.
        """
        random_values = np.take_along_axis(rng.random(tokens.shape), words, axis=1)
        is_selected = (random_values < self.options.fraction) & ~self.special[tokens]
        labels = np.where(is_selected, tokens, IGNORED)
        replacement_draw = rng.random(tokens.shape)
        others = np.flatnonzero(~self.special)
        inputs = np.where(is_selected & (replacement_draw < self.options.masked), self.mask, tokens)
        random_end = self.options.masked + self.options.random
        is_random = is_selected & (replacement_draw >= self.options.masked) & (replacement_draw < random_end)
        inputs[is_random] = others[rng.integers(len(others), size=int(is_random.sum()))]
        return inputs, labels


def words_of(starts: np.ndarray) -> np.ndarray:
    """Number the words of rows of tokens from 0, `(n, width)`, by their starts, `(n, width)` bool."""
    return np.asarray(np.maximum(np.cumsum(starts, axis=1) - 1, 0))


class Rows(NamedTuple):
    """A batch of rows: `tokens`, `segments` and `words` are `(n, width)`, `lengths` and `follows` `(n,)`."""

    tokens: np.ndarray  # int64, padded on the right
    segments: np.ndarray  # int64, 1 of a second segment
    words: np.ndarray  # int64, the number of each token's word in its row
    lengths: np.ndarray
    follows: np.ndarray | None  # `NEXT` or `RANDOM`, None without pairs


class Blocks(Protocol):
    """Rows by number."""

    def __len__(self) -> int: ...

    def lengths(self) -> np.ndarray: ...

    def read(self, rows: Sequence[int], rng: np.random.Generator) -> Rows:
        """Return some rows; `rng` makes random choices."""


@dataclass(frozen=True)
class PackedBlocks:
    """Documents joined by [SEP] and cut into full rows: [CLS] ... [SEP]. Raises `LanguageError` (`no_tokens`)."""

    file: TokenFile
    length: int
    specials: Specials

    def __post_init__(self) -> None:
        if not len(self.file.tokens):
            raise LanguageError("no_tokens", "no tokens are left for training or evaluation: add more text")

    def __len__(self) -> int:
        return max(1, len(self.file.tokens) // self._room)

    def lengths(self) -> np.ndarray:
        return np.full(len(self), min(len(self.file.tokens), self._room) + 2)

    def read(self, rows: Sequence[int], rng: np.random.Generator) -> Rows:
        del rng
        bodies = [slice(row * self._room, (row + 1) * self._room) for row in rows]
        return _rows(self.file, [[body] for body in bodies], self.specials)._replace(follows=None)

    @property
    def _room(self) -> int:
        return self.length - 2


@dataclass(frozen=True)
class SegmentPairs:
    """Rows of two segments of half a row each: [CLS] a [SEP] b [SEP] (Devlin et al. 2019, 3.1).

    A document is cut at words into segments of equal size, and each two of them are a row. Half of the second segments
    are replaced by those of other, different documents. Raises `LanguageError` (`one_document`).
    """

    file: TokenFile
    length: int
    specials: Specials
    pairs: np.ndarray = field(init=False, repr=False)  # (n, 3): begins of both segments, and the end
    document: np.ndarray = field(init=False, repr=False)  # (n,) rows of `TokenFile.same`

    def __post_init__(self) -> None:
        room = self.length - 3
        bounds = array("q")
        document = array("q")
        for number, (start, end) in enumerate(zip(self.file.bounds[:-1], self.file.bounds[1:] - 1, strict=True)):
            pairs = _segments(int(start), self.file.starts[start:end], room)
            bounds.extend(pairs.ravel().tolist())
            document.extend([number] * len(pairs))
        object.__setattr__(self, "pairs", np.array(bounds, dtype=np.int64).reshape(-1, 3))
        object.__setattr__(self, "document", np.array(document, dtype=np.int64))
        if len(np.unique(self.file.same[self.document])) < 2:
            message = "pairs need several documents: add some, or train without pairs"
            raise LanguageError("one_document", message)

    def __len__(self) -> int:
        return len(self.pairs)

    def lengths(self) -> np.ndarray:
        return np.asarray(np.minimum(self.pairs[:, 2] - self.pairs[:, 0], self.length - 3) + 3)

    def read(self, rows: Sequence[int], rng: np.random.Generator) -> Rows:
        follows = np.where(rng.random(len(rows)) < 0.5, RANDOM, NEXT)
        firsts = [slice(*self.pairs[row, :2].tolist()) for row in rows]
        seconds = [
            slice(*self.pairs[row, 1:].tolist()) if follow == NEXT else self._of_another(row, rng)
            for row, follow in zip(rows, follows.tolist(), strict=True)
        ]
        room = self.length - 3
        bodies = [list(_truncate_pair(first, second, room)) for first, second in zip(firsts, seconds, strict=True)]
        return _rows(self.file, bodies, self.specials)._replace(follows=follows)

    def _of_another(self, row: int, rng: np.random.Generator) -> slice:
        own_document = self.file.same[self.document[row]]
        while self.file.same[self.document[other := int(rng.integers(len(self.pairs)))]] == own_document:
            pass
        side = int(rng.integers(2))
        return slice(*self.pairs[other, side : side + 2].tolist())


def _segments(first: int, starts: np.ndarray, room: int) -> np.ndarray:
    size = len(starts)
    if size < 2:
        return np.zeros((0, 3), dtype=np.int64)
    count = 2 * -(-size // room)
    even = size * np.arange(count + 1) // count
    words = np.append(np.flatnonzero(starts), size)
    bounds = words[np.maximum(np.searchsorted(words, even, side="right") - 1, 0)]
    bounds = even if (np.diff(bounds) <= 0).any() else bounds
    return np.asarray(first + np.stack([bounds[:-2:2], bounds[1:-1:2], bounds[2::2]], axis=1))


def _truncate_pair(first: slice, second: slice, room: int) -> tuple[slice, slice]:
    sizes = [first.stop - first.start, second.stop - second.start]
    while sum(sizes) > room:
        sizes[1 if sizes[0] < sizes[1] else 0] -= 1
    return slice(first.start, first.start + sizes[0]), slice(second.start, second.start + sizes[1])


def _rows(file: TokenFile, bodies: Sequence[Sequence[slice]], specials: Specials) -> Rows:
    lengths = np.array([1 + sum(len(range(*span.indices(len(file.tokens)))) + 1 for span in body) for body in bodies])
    shape = (len(bodies), int(lengths.max()))
    tokens = np.full(shape, specials.pad, dtype=np.int64)
    segments = np.zeros(shape, dtype=np.int64)
    starts = np.ones(shape, dtype=bool)
    for row, body in enumerate(bodies):
        tokens[row, 0] = specials.begin
        position = 1
        for number, part in enumerate(body):
            ids = file.tokens[part]
            end = position + len(ids)
            tokens[row, position:end] = ids
            tokens[row, end] = specials.end
            starts[row, position + 1 : end] = file.starts[part][1:]
            segments[row, position : end + 1] = number
            position = end + 1
    return Rows(tokens, segments, words_of(starts), lengths, None)


class Size(StrEnum):
    """BERT by its size: base and large of Devlin et al. 2019, the smaller ones of Turc et al. 2019."""

    TINY = "tiny"
    MINI = "mini"
    SMALL = "small"
    MEDIUM = "medium"
    BASE = "base"
    LARGE = "large"


SHAPES = {  # numbers of layers, and dimensions of vectors
    Size.TINY: (2, 128),
    Size.MINI: (4, 256),
    Size.SMALL: (4, 512),
    Size.MEDIUM: (8, 512),
    Size.BASE: (12, 768),
    Size.LARGE: (24, 1024),
}


def configuration(size: Size, vocabulary: int, length: int, pad: int) -> dict[str, Any]:
    """Return the arguments of transformers' `BertConfig` for texts of at most `length` tokens."""
    n_layers, dimensions = SHAPES[size]
    return {
        "vocab_size": vocabulary,
        "hidden_size": dimensions,
        "num_hidden_layers": n_layers,
        "num_attention_heads": dimensions // 64,  # dimensions per head
        "intermediate_size": 4 * dimensions,
        "max_position_embeddings": max(512, length),
        "pad_token_id": pad,
    }


@dataclass(frozen=True)
class MaskedPredictions:
    """Predictions of masked tokens by row: sums of -ln P, numbers of masked tokens and of correct predictions."""

    losses: np.ndarray  # (n,) float64
    hidden: np.ndarray  # (n,) int64
    right: np.ndarray  # (n,) int64
    follow_right: np.ndarray  # (n,) bool, correct predictions of pairs; (0,) without pairs

    def means(self) -> dict[str, float]:
        loss = float(self.losses.sum() / max(1, self.hidden.sum()))
        means = {
            PERPLEXITY: float(np.exp(loss)),
            LOG_LIKELIHOOD: -loss,
            GUESSED: float(self.right.sum() / max(1, self.hidden.sum())),
        }
        return means | ({FOLLOWED: float(self.follow_right.mean())} if len(self.follow_right) else {})

    def intervals(self) -> dict[str, tuple[float, float]]:
        losses, right, hidden = (self._resampled(values) for values in (self.losses, self.right, self.hidden))
        loss = _quantile_interval(losses / np.maximum(1, hidden))
        intervals = {
            PERPLEXITY: (float(np.exp(loss[0])), float(np.exp(loss[1]))),
            LOG_LIKELIHOOD: (-loss[1], -loss[0]),
            GUESSED: _quantile_interval(right / np.maximum(1, hidden)),
        }
        return intervals | ({FOLLOWED: proportion_interval(self.follow_right)} if len(self.follow_right) else {})

    def gain(self, before: "MaskedPredictions") -> tuple[float, tuple[float, float]]:
        difference = self._resampled(self.right - before.right)
        hidden = self._resampled(self.hidden)
        return self.means()[GUESSED] - before.means()[GUESSED], _quantile_interval(difference / np.maximum(1, hidden))

    def to_dict(self) -> dict[str, list[Any]]:
        return {name: getattr(self, name).tolist() for name in _TYPES}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        return cls(**{name: np.array(stored[name], dtype=dtype) for name, dtype in _TYPES.items()})

    def _resampled(self, values: np.ndarray) -> np.ndarray:
        """Return sums over bootstrap resamples of rows, `(2000,)`, the same for all values."""
        rng = np.random.default_rng(0)
        n = len(values)
        return np.array([values[rng.integers(n, size=n)].sum() for _ in range(2000)])


def proportion_interval(right: np.ndarray) -> tuple[float, float]:
    """Return Wilson's 95% interval (1927) of a proportion, `(n,)` bool."""
    from scipy.stats import binomtest

    interval = binomtest(int(right.sum()), len(right)).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def predict_masked_tokens(
    network: "MaskedNetwork", batches: Iterable[Mapping[str, Any]], precision: Precision
) -> MaskedPredictions:
    """Score a model's predictions of masked tokens in batches. Raises `ModelError` (`not_finite`)."""
    import torch

    was_training = network.training
    network.eval()
    values_by_name: dict[str, list[np.ndarray]] = {}
    with torch.inference_mode(), in_precision(network[0], precision):
        for batch in batches:
            scores = network.score_tokens({name: value.to(network.device) for name, value in batch.items()})
            for name, value in scores.items():
                values_by_name.setdefault(name, []).append(value.cpu().numpy())
    network.train(was_training)
    columns = {name: np.concatenate(values) for name, values in values_by_name.items()}
    if not np.isfinite(columns["token_losses"]).all():
        raise ModelError("not_finite", "the model returns no finite numbers: its weights are damaged", model="")
    return MaskedPredictions.from_dict({"follow_right": (), "losses": columns["token_losses"], **columns})


def unigram_predictions(labels: Sequence[np.ndarray], counts: np.ndarray, special: np.ndarray) -> MaskedPredictions:
    """Predict masked tokens, `labels` of rows, by frequency: P = (count + 1) / (sum of counts + pieces).

    `counts` `(vocabulary,)` are those of the training text; `special` pieces are never masked. The prediction is always
    the most frequent piece; pairs are not predicted.
    """
    counts = np.where(special, 0, counts)
    losses = -np.log((counts + 1) / (counts.sum() + (~special).sum()))
    masked = [row[row != IGNORED] for row in labels]
    right = [(row == counts.argmax()).sum() for row in masked]
    values = {"losses": [losses[row].sum() for row in masked], "hidden": [*map(len, masked)], "right": right}
    return MaskedPredictions.from_dict(values | {"follow_right": []})


def _quantile_interval(samples: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(samples, (0.025, 0.975))
    return float(low), float(high)
