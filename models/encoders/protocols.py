"""What a model can do for whoever searches: encode texts, as vectors or as terms, or score pairs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.models.windows import WindowOptions, Windows


@dataclass(frozen=True)
class TokenVectors:
    """Vectors of the tokens of some texts: `vectors` `(n_tokens, dimensions)` float16 of length 1, one text's after the
    other's, and `starts` `(n_texts + 1,)` int64, the first row of each text and the one after the last's.
    """

    vectors: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, texts: Sequence[np.ndarray]) -> "TokenVectors":
        """Join the vectors of single texts, at least one."""
        starts = np.concatenate([[0], np.cumsum([len(vectors) for vectors in texts])]).astype(np.int64)
        return cls(np.concatenate(texts), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def between(self, first: int, last: int) -> "TokenVectors":
        """Return the vectors of the texts from `first` to before `last`, or to the end."""
        starts = self.starts[first : min(last, len(self)) + 1]
        return TokenVectors(self.vectors[starts[0] : starts[-1]], starts - starts[0])

    def at(self, rows: np.ndarray) -> "TokenVectors":
        """Return the vectors of the texts at `rows`, in that order."""
        if not len(rows):
            return TokenVectors(self.vectors[:0], np.zeros(1, dtype=np.int64))
        return TokenVectors.of([self.vectors[self.starts[row] : self.starts[row + 1]] for row in rows])


class Encoder(Protocol):
    """Turns texts into vectors of length 1, `(n_texts, dimensions)` float32."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the vectors would."""

    def encode_questions(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of questions; a text nothing is known of has a vector of zeros."""

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray: ...


class TermEncoder(Protocol):
    """Turns texts into weights of the terms of one vocabulary, `(n_texts, n_terms)` float32, few of them not 0."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the weights would."""

    def encode_questions(self, texts: Sequence[str]) -> csr_array:
        """Term weights of questions; a text nothing is known of has none."""

    def encode_passages(self, texts: Sequence[str]) -> csr_array: ...


class TokenVectorEncoder(Protocol):
    """Turns texts into vectors of length 1 of their tokens."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the vectors would."""

    def encode_questions(self, texts: Sequence[str]) -> TokenVectors:
        """Vectors of the tokens of questions; a text nothing is known of has none."""

    def encode_passages(self, texts: Sequence[str], heads: np.ndarray) -> TokenVectors:
        """Vectors of the tokens of passages, before any question's; `heads` are the lengths of their titles."""

    def passage_blocks(self, texts: Sequence[str], heads: np.ndarray) -> Iterator[tuple[np.ndarray, TokenVectors]]:
        """Yield the rows of some passages at a time, from all over, and what `encode_passages` returns of them."""

    def key_of_passages(self, texts: Sequence[str], heads: np.ndarray) -> str:
        """Changes whenever the vectors of these passages would."""


@runtime_checkable
class WindowEncoder(Encoder, Protocol):
    """Encodes passages that it cannot read whole as windows; `heads` `(n_texts,)` are their titles' lengths."""

    def windows_of(self, texts: Sequence[str], heads: np.ndarray, options: WindowOptions) -> Windows:
        """Windows of the passages that are too long; none of a model that reads texts of any length."""

    def encode_windows(self, texts: Sequence[str], windows: Windows) -> tuple[np.ndarray, np.ndarray]:
        """Vectors of passages and of windows, and the row of the passage of each, `(n_vectors,)` int64."""


@runtime_checkable
class WindowScorer(Protocol):
    """Scores pairs whose passage it cannot read whole by the best of the passage's windows."""

    def score_windows(
        self, pairs: Sequence[tuple[str, str]], heads: Sequence[int], options: WindowOptions
    ) -> np.ndarray:
        """Scores `(n_pairs,)` float32; `heads` are the lengths of the passages' titles."""


@runtime_checkable
class LimitedEncoder(Protocol):
    """Reads only the beginning of passages that are too long for it."""

    def cut_off(self, texts: Sequence[str]) -> int:
        """Of how many of these passages that is so."""


@runtime_checkable
class LimitedScorer(Protocol):
    """Reads only the beginning of passages that do not fit beside a question."""

    def cut_off(self, questions: Sequence[str], texts: Sequence[str], candidates: np.ndarray) -> int:
        """Of how many passages that is so; `candidates` `(n_questions, depth)` are rows of `texts`, -1 of none."""


@runtime_checkable
class ForeseeingScorer(Protocol):
    """Scores pairs sooner where it knows beforehand which questions are to come."""

    def foresee(self, questions: Sequence[str]) -> None:
        """Hear what will be asked, of passages of its corpus; scores are the same without."""


class PairScorer(Protocol):
    """Scores question-passage pairs together; higher is more relevant."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the scores would."""

    def load(self) -> None:
        """Make ready to score, which counts as building an index; called again it does nothing."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Scores `(n_pairs,)` float32."""
