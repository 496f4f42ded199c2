"""Which layer makes the best sentence vectors, and pooled how: judged by pairs that people scored."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from data.pairs.records import PairKind, PairSet
from language.inside.network import Network
from language.inside.pooled import Pooling, points
from language.problems import LanguageError

_PAIRS_AT_ONCE = 16
_LEAST = 3  # pairs: of two, every order is perfect


@dataclass(frozen=True)
class LayerScores:
    """Spearman's correlation of cosine and people's score, `(n_layers + 1, 3)` float64 by layer and `Pooling`.

    -1 to 1, higher is better; layer 0 is what goes into the first. NaN where all cosines are the same: what the first
    piece is before it saw the others.
    """

    spearman: np.ndarray
    pairs: int

    @property
    def best(self) -> tuple[int, Pooling]:
        """The layer and the pooling that follow people best. Raises `ValueError` where none is a number."""
        layer, pooling = np.unravel_index(np.nanargmax(self.spearman), self.spearman.shape)
        return int(layer), list(Pooling)[pooling]


def layer_scores(network: Network, pairs: PairSet, on_progress: Callable[[float], None] | None = None) -> LayerScores:
    """Measure every layer and pooling over pairs with scores, a few pairs at a time.

    Only cosines are kept, so memory does not grow with the model's width. Raises `LanguageError`: `no_scores` of pairs
    that nobody scored, `few_pairs`.
    """
    if pairs.kind is not PairKind.SCORED:
        raise LanguageError("no_scores", f"{pairs.name!r} has no scores: take pairs that people scored")
    if len(pairs) < _LEAST:
        raise LanguageError("few_pairs", f"{len(pairs)} pairs are too few, {_LEAST} are needed", least=_LEAST)
    first, second = ([str(text) for text in column] for column in pairs.texts)
    order = sorted(range(len(pairs)), key=lambda row: -len(first[row]) - len(second[row]))
    parts = []
    for at in range(0, len(order), _PAIRS_AT_ONCE):
        rows = order[at : at + _PAIRS_AT_ONCE]
        parts.append(_cosines(network, [first[row] for row in rows], [second[row] for row in rows]))
        if on_progress:
            on_progress((at + len(rows)) / len(order))
    cosines = np.concatenate(parts, axis=2)
    gold = pairs.gold[order]
    return LayerScores(np.array([[_spearman(one, gold) for one in of_layer] for of_layer in cosines]), len(pairs))


def _spearman(cosines: np.ndarray, gold: np.ndarray) -> float:
    if np.ptp(cosines) < 1e-6:  # rounding is no order
        return float("nan")
    return float(spearmanr(cosines, gold).statistic)


def _cosines(network: Network, first: list[str], second: list[str]) -> np.ndarray:
    """Cosines of sentences side by side, `(n_layers + 1, 3, n_pairs)` float64."""
    every = points(network, first + second)
    found: np.ndarray = np.einsum("lpnd,lpnd->lpn", every[:, :, : len(first)], every[:, :, len(first) :])
    return found
