"""Why late interaction gives a passage its score: which of its tokens answered which token of the question."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from data.passages import Passages
from data.records import Passage
from models.encoders.token_encoder import TokenEncoder
from text.analysis import IndexedText, indexed_text
from text.analyzers import Span

NumberedPiece = tuple[str, tuple[int, ...]]  # a stretch of text, and the matches, by their places, that stand there


@dataclass(frozen=True)
class TokenMatch:
    """A token of the question and the passage's that is most like it, as letters of either text, and their cosine.

    `above` is how far that lies above what all tokens of the passage come to on the mean: near 0 any of them would have
    done, and the match says little. A token that stands for no letters, such as that of the end, has an empty span.
    """

    asked: Span
    answered: Span
    cosine: float
    above: float


@dataclass(frozen=True)
class LateExplanation:
    """The matches of a question's tokens, in their order; the score is the mean of their cosines."""

    question: str
    passage: IndexedText
    matches: tuple[TokenMatch, ...]

    @property
    def score(self) -> float:
        return float(np.mean([match.cosine for match in self.matches]))

    @cached_property
    def told(self) -> tuple[TokenMatch, ...]:
        """The matches of tokens that stand for letters of the question: those that a person can be shown."""
        return tuple(match for match in self.matches if match.asked[0] < match.asked[1])

    def asked_matches(self) -> list[NumberedPiece]:
        """Cut the question by the matches, those of `told`, of its letters."""
        return _numbered(self.question, [match.asked for match in self.told], 0, len(self.question))

    def title_matches(self) -> list[NumberedPiece]:
        """Cut the title by the matches that it answered; empty where it is not indexed."""
        answered = [match.answered for match in self.told]
        return _numbered(self.passage.text, answered, 0, max(0, self.passage.start - 1))

    def text_matches(self) -> list[NumberedPiece]:
        """Cut the passage's own text by the matches that it answered."""
        answered = [match.answered for match in self.told]
        return _numbered(self.passage.text, answered, self.passage.start, len(self.passage.text))


def _numbered(text: str, spans: Sequence[Span], start: int, end: int) -> list[NumberedPiece]:
    """Cut `text[start:end]` where a span begins or ends, each piece with the places of the spans over it."""
    cuts = sorted({start, end, *(edge for span in spans for edge in span if start < edge < end)})
    return [
        (text[a:b], tuple(place for place, (first, last) in enumerate(spans) if first <= a < last))
        for a, b in pairwise(cuts)
    ]


def token_matches(encoder: TokenEncoder, question: str, passage: Passage, *, title: bool = True) -> LateExplanation:
    """Explain the score of a passage for a question by reading both anew, which loads the model. Raises `ModelError`.

    In bfloat16 a text that is read alone has vectors that differ in the last digits from those of the ranking.
    """
    of = Passages.of([passage])
    composed, indexed = unicodedata.normalize("NFC", question), indexed_text(passage, title=title)
    asked, asked_spans = encoder.read("question", composed)
    held, held_spans = encoder.read("passage", indexed.text, int(of.heads(title=title)[0]))
    similar = asked @ held.T
    best, means = similar.argmax(axis=1), similar.mean(axis=1)
    matches = [
        TokenMatch(span, held_spans[place], float(similar[row, place]), float(similar[row, place] - means[row]))
        for row, (span, place) in enumerate(zip(asked_spans, best.tolist(), strict=True))
    ]
    return LateExplanation(composed, indexed, tuple(matches))
