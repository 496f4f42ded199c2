"""Which window of a passage that a model does not read whole gave the passage its score."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from data.passages import Passages
from data.records import Passage
from models.encoders.cross_encoder import CrossEncoderScorer
from models.encoders.protocols import WindowEncoder
from models.windows import Window, WindowOptions


@dataclass(frozen=True)
class WindowScore:
    """A window of the indexed text, and its cosine with the question or the reranker's score of both."""

    window: Window
    score: float


@dataclass(frozen=True)
class WindowExplanation:
    """The windows of a passage, as it is indexed, in their order: one or more."""

    text: str
    windows: tuple[WindowScore, ...]

    @property
    def best(self) -> int:
        """Place of the window whose score is the passage's; of equals the first."""
        return max(range(len(self.windows)), key=lambda place: self.windows[place].score)

    @property
    def score(self) -> float:
        """The passage's score."""
        return self.windows[self.best].score


def dense_windows(
    encoder: WindowEncoder, question: str, passage: Passage, options: WindowOptions, *, title: bool = True
) -> WindowExplanation | None:
    """Score a passage window by window with a bi-encoder, which may load it; None where the model reads it whole."""
    text, head = _indexed(passage, title=title)
    windows = encoder.windows_of([text], np.array([head]), options).of(0)
    if not windows:
        return None
    vectors = encoder.encode_passages([window.text(text) for window in windows])
    return _explained(text, windows, vectors @ encoder.encode_questions([question])[0])


def reranker_windows(
    scorer: CrossEncoderScorer, question: str, passage: Passage, options: WindowOptions, *, title: bool = True
) -> WindowExplanation | None:
    """Score a passage window by window with a cross-encoder, which loads it; None where it fits beside the question."""
    text, head = _indexed(passage, title=title)
    windows = scorer.windows_of(question, text, head, options)
    if not windows:
        return None
    return _explained(text, windows, scorer.score([(question, window.text(text)) for window in windows]))


def _indexed(passage: Passage, *, title: bool) -> tuple[str, int]:
    of = Passages.of([passage])
    return of.indexed_texts(title=title)[0], int(of.heads(title=title)[0])


def _explained(text: str, windows: Sequence[Window], scores: np.ndarray) -> WindowExplanation:
    return WindowExplanation(text, tuple(map(WindowScore, windows, scores.tolist())))
