"""What a masked language model expects at a masked place: the likeliest pieces, and how likely a given word is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from language.inside.network import Network, composed, load_masked
from language.texts import LanguageError
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

    features = network.features([composed(text).replace(MASK, network.tokenizer.mask_token)])
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
    rows = [(row, np.argsort(-row, kind="stable")[:k].tolist()) for row in probabilities(network, text)]
    return [[Guess(_readable(network.tokenizer, one), float(row[one])) for one in best] for row, best in rows]


@dataclass(frozen=True)
class Course:
    """What models with one tokenizer, as those of a training's steps, expect at the first masked place of a text.

    `probabilities` `(n_models, n_pieces)` float64, in the order of the models.
    """

    reference: str
    tokenizer: Any
    probabilities: np.ndarray

    def of(self, word: str) -> np.ndarray:
        """Return how likely a word is by each model, `(n_models,)`: the sum over the pieces that read so.

        A word may be a piece of its own both after a space and inside another word. Raises `LanguageError`
        `not_one_piece` where the tokenizer has no piece for the whole word.
        """
        word = composed(word)
        numbers = _pieces_of(self.tokenizer, word)
        if not numbers:
            pieces = " · ".join(self.tokenizer.tokenize(word))
            message = f"{word!r} is no single piece for {self.reference!r}, but {pieces}"
            raise LanguageError("not_one_piece", message, word=word, pieces=pieces, model=self.reference)
        found: np.ndarray = self.probabilities[:, numbers].sum(axis=1)
        return found

    def likeliest(self, k: int) -> list[str]:
        """Return the `k` likeliest pieces of the last model that are words of letters, the likeliest first."""
        found: dict[str, None] = {}
        for piece in np.argsort(-self.probabilities[-1], kind="stable"):
            read = _readable(self.tokenizer, int(piece))
            if read.isalnum() and _pieces_of(self.tokenizer, read):
                found[read] = None
            if len(found) == k:
                break
        return [*found]


def course(sources: Sequence[ModelSource], text: str, on_progress: Callable[[float], None] | None = None) -> Course:
    """Ask one model after the other, each loaded alone, so that they take the memory of one.

    There must be one at least. Raises as `probabilities` and `load_masked` do, and `ValueError` where vocabularies are
    not of one size.
    """
    rows = []
    for place, source in enumerate(sources):
        network = load_masked(source)
        rows.append(probabilities(network, text)[0])
        if on_progress:
            on_progress((place + 1) / len(sources))
    return Course(network.reference, network.tokenizer, np.stack(rows))


def _pieces_of(tokenizer: Any, word: str) -> list[int]:
    alone = {tuple(tokenizer.tokenize(f"{space}{word}")) for space in ("", " ")}
    texts = {f"{beginning}{word}" for beginning in _BEGINNINGS} | {one[0] for one in alone if len(one) == 1}
    numbers = {tokenizer.convert_tokens_to_ids(one) for one in texts}
    return sorted(numbers - {tokenizer.unk_token_id, None})


def _readable(tokenizer: Any, piece: int) -> str:
    """As letters, where it is written in bytes or with a mark for a space; as it is written where it has no letter."""
    told: str = tokenizer.decode([piece]).strip()
    return told or str(tokenizer.convert_ids_to_tokens(piece))
