"""The sizes of BERT, and how well hidden tokens are guessed: perplexity and accuracy, beside a model of frequencies.

The perplexity of a masked language model is exp of the mean of -ln P over the tokens hidden, each given all that is
shown (Devlin et al. 2019, table 6). It depends on the tokenizer and on the share hidden: only models that guess the
same tokens of the same rows can be compared by it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from mrc_workbench.models.files import ModelError
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.language.masking import IGNORED

if TYPE_CHECKING:
    from mrc_workbench.models.reader_networks import MaskedNetwork


class Size(StrEnum):
    """BERT by its size: base and large of Devlin et al. 2019, the smaller ones of Turc et al. 2019."""

    TINY = "tiny"
    MINI = "mini"
    SMALL = "small"
    MEDIUM = "medium"
    BASE = "base"
    LARGE = "large"


class Shape(NamedTuple):
    """Layers, and the dimensions of their vectors."""

    layers: int
    hidden: int


SHAPES = {
    Size.TINY: Shape(2, 128),
    Size.MINI: Shape(4, 256),
    Size.SMALL: Shape(4, 512),
    Size.MEDIUM: Shape(8, 512),
    Size.BASE: Shape(12, 768),
    Size.LARGE: Shape(24, 1024),
}


def configuration(size: Size, vocabulary: int, length: int, pad: int) -> dict[str, Any]:
    """Return what transformers' `BertConfig` is made of, for so many pieces and texts of `length` tokens at most."""
    shape = SHAPES[size]
    return {
        "vocab_size": vocabulary,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.hidden // 64,  # dimensions of a head, in all sizes
        "intermediate_size": 4 * shape.hidden,
        "max_position_embeddings": max(512, length),
        "pad_token_id": pad,
    }


PERPLEXITY, LOG_LIKELIHOOD = "perplexity", "log_likelihood"
GUESSED, FOLLOWED = "masked_accuracy", "next_accuracy"
_COLUMNS = ("losses", "hidden", "right", "follow_right")


@dataclass(frozen=True)
class Guesses:
    """What was said of hidden tokens, row by row: sums of -ln P (natural), how many were hidden, how many right."""

    losses: np.ndarray  # (n,) float64
    hidden: np.ndarray  # (n,) int64
    right: np.ndarray  # (n,) int64
    follow_right: np.ndarray  # (n,) bool, of pairs, whether it was told if they belong together; (0,) without pairs

    def means(self) -> dict[str, float]:
        """Perplexity, from 1, lower is better; the rest is better higher: mean of ln P, and shares that were right."""
        loss = float(self.losses.sum() / max(1, self.hidden.sum()))
        found = {
            PERPLEXITY: float(np.exp(loss)),
            LOG_LIKELIHOOD: -loss,
            GUESSED: float(self.right.sum() / max(1, self.hidden.sum())),
        }
        return found | ({FOLLOWED: float(self.follow_right.mean())} if len(self.follow_right) else {})

    def intervals(self) -> dict[str, tuple[float, float]]:
        """95% intervals: of the bootstrap over rows, and Wilson's of pairs, as each of these is right or wrong."""
        losses, right, hidden = (self._resampled(values) for values in (self.losses, self.right, self.hidden))
        loss = _ends(losses / np.maximum(1, hidden))
        found = {
            PERPLEXITY: (float(np.exp(loss[0])), float(np.exp(loss[1]))),
            LOG_LIKELIHOOD: (-loss[1], -loss[0]),
            GUESSED: _ends(right / np.maximum(1, hidden)),
        }
        return found | ({FOLLOWED: share_interval(self.follow_right)} if len(self.follow_right) else {})

    def gain(self, before: "Guesses") -> tuple[float, tuple[float, float]]:
        """How much larger the share guessed right is than before, and its 95% interval, of the same rows drawn."""
        difference, hidden = self._resampled(self.right - before.right), self._resampled(self.hidden)
        return self.means()[GUESSED] - before.means()[GUESSED], _ends(difference / np.maximum(1, hidden))

    def kept(self) -> dict[str, list[Any]]:
        return {name: getattr(self, name).tolist() for name in _COLUMNS}

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Self:
        types = (np.float64, np.int64, np.int64, np.bool_)
        return cls(*(np.array(kept[name], dtype=of) for name, of in zip(_COLUMNS, types, strict=True)))

    def _resampled(self, values: np.ndarray) -> np.ndarray:
        """Sums over as many rows drawn with replacement, `(2000,)`: the same rows every time."""
        rng, n = np.random.default_rng(0), len(values)
        return np.array([values[rng.integers(n, size=n)].sum() for _ in range(2000)])


def share_interval(right: np.ndarray) -> tuple[float, float]:
    """Wilson's 95% interval (1927) of the share of what is right, `(n,)` bool."""
    from scipy.stats import binomtest

    found = binomtest(int(right.sum()), len(right)).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def guesses(network: "MaskedNetwork", batches: Iterable[Mapping[str, Any]], precision: Precision) -> Guesses:
    """Let a model guess the hidden tokens of batches, as `MaskedNetwork.judged` reads them; it stays as it is.

    Raises `ModelError` `not_finite` where it has no numbers for them.
    """
    import torch

    from mrc_workbench.models.inference import in_precision

    was_training = network.training
    network.eval()
    found: dict[str, list[np.ndarray]] = {}
    with torch.inference_mode(), in_precision(network[0], precision):
        for batch in batches:
            judged = network.judged({name: value.to(network.device) for name, value in batch.items()})
            for name, value in judged.items():
                found.setdefault(name, []).append(value.cpu().numpy())
    network.train(was_training)
    columns = {name: np.concatenate(values) for name, values in found.items()}
    if not np.isfinite(columns["token_losses"]).all():
        raise ModelError("not_finite", "the model answers with what is no number: its weights are damaged", model="")
    return Guesses(
        columns["token_losses"].astype(np.float64),
        columns["hidden"].astype(np.int64),
        columns["right"].astype(np.int64),
        columns.get("follow_right", np.zeros(0, dtype=bool)),
    )


def unigram_guesses(labels: Sequence[np.ndarray], counts: np.ndarray, special: np.ndarray) -> Guesses:
    """What frequency alone says of the same tokens, `labels` of rows: P = (count + 1) / (sum of counts + pieces).

    `counts` `(vocabulary,)` are those of the text learned from, with one added to each (Laplace); pieces that are
    `special`, of the same shape, are never hidden and so never guessed. The likeliest piece is always the most frequent
    one, and nothing is said of pairs.
    """
    counts = np.where(special, 0, counts)
    losses = -np.log((counts + 1) / (counts.sum() + (~special).sum()))
    asked = [row[row != IGNORED] for row in labels]
    return Guesses(
        np.array([losses[row].sum() for row in asked]),
        np.array([len(row) for row in asked], dtype=np.int64),
        np.array([(row == counts.argmax()).sum() for row in asked], dtype=np.int64),
        np.zeros(0, dtype=bool),
    )


def _ends(drawn: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(drawn, (0.025, 0.975))
    return float(low), float(high)
