"""Where the heads of a transformer look: at neighbours, at themselves, at separators, or within the same word.

The kinds are those that Clark et al. 2019 (What does BERT look at?) tell heads by.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from language.inside.network import Network, Piece, composed
from language.problems import LanguageError

MOST_SENTENCES = 50


class Target(StrEnum):
    """What a piece may look at. A piece can be several of them: the one before may be of the same word."""

    PREVIOUS = "previous"
    NEXT = "next"
    ITSELF = "itself"
    SPECIAL = "special"  # what the tokenizer adds: [CLS] and [SEP]
    SAME_WORD = "same_word"  # another piece of the same word, the words being separated by spaces


@dataclass(frozen=True)
class SentenceAttention:
    """How much each piece looks at each, `weights[layer, head, from, to]`, `(n_layers, n_heads, n, n)` float32.

    Each row, all that one piece looks at, sums to 1.
    """

    pieces: tuple[Piece, ...]
    weights: np.ndarray


@dataclass(frozen=True)
class Heads:
    """How much of its attention each head gives each `Target`, `shares` `(n_layers, n_heads, 5)` float64, 0 to 1.

    Averaged over the pieces that have such a target, those that the tokenizer adds left out as givers; NaN where no
    piece has one. `even` `(5,)` is what a head would give that looks at all pieces alike.
    """

    shares: np.ndarray
    even: np.ndarray


def attention_of(network: Network, sentence: str) -> SentenceAttention:
    """Return the attention of all heads over a sentence. Raises `LanguageError`: `no_sentence`."""
    import torch

    sentence = composed(sentence)
    if not sentence:
        raise LanguageError("no_sentence", "type a sentence")
    with torch.inference_mode():
        told = network.model(**network.features([sentence]), output_attentions=True)
        weights = np.stack([layer[0].float().cpu().numpy() for layer in told.attentions])
    return SentenceAttention(tuple(network.pieces(sentence)), weights)


def heads_of(found: Sequence[SentenceAttention]) -> Heads:
    """Tell heads by what they look at, over the pieces of all these sentences, each piece counting the same."""
    layers, heads = found[0].weights.shape[:2]
    given, even, givers = np.zeros((layers, heads, len(Target))), np.zeros(len(Target)), np.zeros(len(Target))
    for one in found:
        targets = targets_of(one.pieces)
        given += np.einsum("lhij,tij->lht", one.weights, targets, dtype=np.float64)
        even += targets.sum(axis=(1, 2)) / len(one.pieces)
        givers += targets.any(axis=2).sum(axis=1)
    counts = np.where(givers > 0, givers, np.nan)
    return Heads(given / counts, even / counts)


def targets_of(pieces: Sequence[Piece]) -> np.ndarray:
    """Which pieces are which target of which, `[target, from, to]`, `(5, n, n)` bool; added pieces give to none."""
    n = len(pieces)
    words = np.array([one.word for one in pieces], dtype=np.int64)
    added = words < 0
    itself = np.eye(n, dtype=bool)
    by_target = {
        Target.PREVIOUS: np.eye(n, k=-1, dtype=bool),
        Target.NEXT: np.eye(n, k=1, dtype=bool),
        Target.ITSELF: itself,
        Target.SPECIAL: np.tile(added, (n, 1)),
        Target.SAME_WORD: (words[:, None] == words) & ~itself,
    }
    found: np.ndarray = np.stack([by_target[target] for target in Target]) & ~added[:, None]
    return found
