"""What a model can do for whoever searches: encode texts, as vectors or as terms, or score pairs."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.sparse import csr_array

from models.windows import WindowOptions, Windows


class Encoder(Protocol):
    """Turns texts into vectors of length 1, `(n_texts, dimensions)` float32."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the vectors would."""
        ...

    def encode_questions(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of questions; a text nothing is known of has a vector of zeros."""
        ...

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray: ...


class TermEncoder(Protocol):
    """Turns texts into weights of the terms of one vocabulary, `(n_texts, n_terms)` float32, few of them not 0."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the weights would."""
        ...

    def encode_questions(self, texts: Sequence[str]) -> csr_array:
        """Term weights of questions; a text nothing is known of has none."""
        ...

    def encode_passages(self, texts: Sequence[str]) -> csr_array: ...


@runtime_checkable
class WindowEncoder(Encoder, Protocol):
    """Encodes passages that it cannot read whole as windows; `heads` `(n_texts,)` are their titles' lengths."""

    def windows_of(self, texts: Sequence[str], heads: np.ndarray, options: WindowOptions) -> Windows:
        """Windows of the passages that are too long; none of a model that reads texts of any length."""
        ...

    def encode_windows(self, texts: Sequence[str], windows: Windows) -> tuple[np.ndarray, np.ndarray]:
        """Vectors of passages and of windows, and the row of the passage of each, `(n_vectors,)` int64."""
        ...


@runtime_checkable
class WindowScorer(Protocol):
    """Scores pairs whose passage it cannot read whole by the best of the passage's windows."""

    def score_windows(
        self, pairs: Sequence[tuple[str, str]], heads: Sequence[int], options: WindowOptions
    ) -> np.ndarray:
        """Scores `(n_pairs,)` float32; `heads` are the lengths of the passages' titles."""
        ...


@runtime_checkable
class ForeseeingScorer(Protocol):
    """Scores pairs sooner where it knows beforehand which questions are to come."""

    def foresee(self, questions: Sequence[str]) -> None:
        """Hear what will be asked, of passages of its corpus; scores are the same without."""
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
