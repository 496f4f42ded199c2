"""What a masked language model expects at a masked place: the likeliest pieces, and how likely a given word is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from language.loading import load_masked
from language.network import Network, composed
from language.problems import LanguageError
from models.sources import ModelSource

MASK = "[MASK]"  # how a person marks a place; every model has a token of its own for it
MOST_MASKS = 8
_BEGINNINGS = ("", "##", "▁", "Ġ")  # how pieces are written that stand inside a word, or after a space


@dataclass(frozen=True)
class Guess:
    """A piece, as it is read, and its probability, 0 to 1."""

    piece: str
    probability: float


def probabilities(network: Network, text: str) -> np.ndarray:
    """Return how likely every piece of the vocabulary is at every masked place, `(n_masks, n_pieces)` float64.

    Several places are told each alone, the others staying masked: P(piece | all that can be seen). A row is the softmax
    of the head's logits and sums to 1. Raises `LanguageError`: `no_mask` of a text without a place, `many_masks`.
    """
    import torch

    features = network.features([_with_own_mask(network, text)])
    places = (features["input_ids"][0] == network.tokenizer.mask_token_id).nonzero()[:, 0]
    if not 0 < len(places) <= MOST_MASKS:
        code, wanted = ("many_masks", f"{MOST_MASKS} places at most") if len(places) else ("no_mask", "a place")
        raise LanguageError(code, f"mark {wanted} with {MASK} in {text[:80]!r}", mask=MASK, most=MOST_MASKS)
    with torch.inference_mode():
        logits = network.model(**features).logits[0, places]
        found: np.ndarray = torch.softmax(logits.double(), dim=-1).cpu().numpy()
    return found


def fill(network: Network, text: str, k: int = 10) -> list[list[Guess]]:
    """Return the `k` likeliest pieces at every masked place, the likeliest first. Raises as `probabilities` does."""
    return [
        [Guess(_readable(network, int(piece)), float(row[piece])) for piece in np.argsort(-row, kind="stable")[:k]]
        for row in probabilities(network, text)
    ]


def word_probability(network: Network, text: str, word: str) -> float:
    """Return how likely a word is at the first masked place: the sum over the pieces that read so.

    A word may be a piece of its own both after a space and inside another word. Raises `LanguageError`
    `not_one_piece` where the model's tokenizer has no piece for the whole word, and as `probabilities` does.
    """
    word = composed(word)
    numbers = _pieces_of(network, word)
    if not numbers:
        pieces = " · ".join(network.tokenizer.tokenize(word))
        message = f"{word!r} is no single piece for {network.reference!r}, but {pieces}"
        raise LanguageError("not_one_piece", message, word=word, pieces=pieces, model=network.reference)
    return float(probabilities(network, text)[0, numbers].sum())


def word_curve(folders: Sequence[Path], text: str, word: str) -> list[float]:
    """Return how likely a word is at the first masked place by the model in each folder, as a training's checkpoints.

    Loaded one after the other, so that they take the memory of one. Raises as `word_probability` and `load_masked` do;
    NaN of a model whose tokenizer has no piece for the word.
    """
    found = []
    for folder in folders:
        network = load_masked(ModelSource(folder.name, folder=folder))
        try:
            found.append(word_probability(network, text, word))
        except LanguageError as error:
            if error.code != "not_one_piece":
                raise
            found.append(math.nan)
    return found


def _with_own_mask(network: Network, text: str) -> str:
    return composed(text).replace(MASK, network.tokenizer.mask_token)


def _pieces_of(network: Network, word: str) -> list[int]:
    tokenizer = network.tokenizer
    vocabulary = tokenizer.get_vocab()
    alone = {tuple(tokenizer.tokenize(f"{space}{word}")) for space in ("", " ")}
    texts = {f"{beginning}{word}" for beginning in _BEGINNINGS} | {one[0] for one in alone if len(one) == 1}
    return sorted({vocabulary[one] for one in texts if one in vocabulary} - {tokenizer.unk_token_id})


def _readable(network: Network, piece: int) -> str:
    """As letters, where it is written in bytes or with a mark for a space; as it is written where it has no letter."""
    told: str = network.tokenizer.decode([piece]).strip()
    return told or str(network.tokenizer.convert_ids_to_tokens(piece))
