"""How long texts are for a model that reads only so many tokens; found out once on this machine."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from data.cache import cached_arrays, key_of
from data.texts import fingerprint_of
from models.sources import SourcedModel
from models.windows import Cutter

_VERSION = 1  # raise when texts come to have other lengths


class Lengths(NamedTuple):
    """Tokens of each text, `(n_texts,)` int64, and how many a model reads of a text and of a pair."""

    tokens: np.ndarray
    room: int
    pair_room: int

    @property
    def cut_off(self) -> int:
        """Of how many of them only the beginning is read."""
        return int(np.count_nonzero(self.tokens > self.room))


def kept_lengths(model: SourcedModel, texts: Sequence[str], cutter: Callable[[], Cutter | None]) -> Lengths:
    """Return the lengths of texts, which loads the model where they are not known; 0 where its tokenizer is a slow one.

    `cutter` makes what cuts texts for the model, None where it cannot.
    """

    def count() -> dict[str, np.ndarray]:
        model.load()
        cuts = cutter()
        tokens = cuts.lengths(texts) if cuts else np.zeros(len(texts), dtype=np.int64)
        return {"tokens": tokens, "rooms": np.array([cuts.room, cuts.pair_room] if cuts else [0, 0])}

    key = key_of(_VERSION, type(model).__name__, model.fingerprint, fingerprint_of(texts))
    kept = cached_arrays("lengths", key, count, keep=len(texts) > 1)
    room, pair_room = kept["rooms"].tolist()
    return Lengths(kept["tokens"], room, pair_room)
