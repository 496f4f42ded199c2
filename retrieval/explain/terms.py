"""A score that is a sum over terms, and where in both texts each of them stands."""

import math
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from text.located import IndexedText, Piece, weighted_pieces
from text.matching import Span


class LocatedTerm(Protocol):
    """A term, what it adds to the score, and the letters of the composed texts where it stands."""

    @property
    def value(self) -> float:
        """What it adds."""

    @property
    def question_spans(self) -> tuple[Span, ...]:
        """Where it stands in the question."""

    @property
    def passage_spans(self) -> tuple[Span, ...]:
        """Where it stands in the passage as it is indexed."""


T = TypeVar("T", bound=LocatedTerm)


@dataclass(frozen=True)
class TermExplanation(Generic[T]):
    """The terms of a question over one passage, those that add most first; their values sum to the score."""

    question: str
    passage: IndexedText
    terms: tuple[T, ...]

    @property
    def score(self) -> float:
        """The sum of all values. A passage whose score is not above 0 is not found."""
        return math.fsum(term.value for term in self.terms)

    def question_pieces(self) -> list[Piece]:
        """Cut the question by what its letters add to the score."""
        weights = [(span, term.value) for term in self.terms for span in term.question_spans]
        return weighted_pieces(self.question, weights, 0, len(self.question))

    def title_pieces(self) -> list[Piece]:
        """Cut the title by what the terms that stand there add to the score."""
        return self.passage.title_pieces(self._passage_weights())

    def text_pieces(self) -> list[Piece]:
        """Cut the passage's own text by what the terms that stand there add to the score."""
        return self.passage.text_pieces(self._passage_weights())

    def _passage_weights(self) -> list[tuple[Span, float]]:
        return [(span, term.value) for term in self.terms for span in term.passage_spans]
