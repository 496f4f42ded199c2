"""What a model can do for whoever searches: encode texts, or score pairs."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Encoder(Protocol):
    """Turns texts into vectors of length 1, `(n_texts, dimensions)` float32."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the vectors would."""
        ...

    def encode_questions(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of questions; a text nothing is known of has a vector of zeros."""
        ...

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of passages."""
        ...


class PairScorer(Protocol):
    """Scores question-passage pairs together; higher is more relevant."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the scores would."""
        ...

    def load(self) -> None:
        """Make ready to score, which counts as building an index; called again it does nothing."""
        ...

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Scores `(n_pairs,)` float32."""
        ...
