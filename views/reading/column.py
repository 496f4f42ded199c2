"""What a reader says of the passages that one retriever found for one question, and whose span is taken."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from data.records import QuestionSet
from reading.depth import summed
from text.marking import MarkedText
from text.matching import Span


@dataclass(frozen=True)
class ReadPassage:
    """A passage found: its row, the retriever's score, and the spans read in it, better ones first.

    `scores` are those of the spans, log P, and `total` is what the passage competes by: the best of them less what it
    lies below the best passage found, weighted.
    """

    row: int
    found: float
    spans: tuple[Span, ...]
    scores: tuple[float, ...]
    total: float
    relevant: bool

    @property
    def best(self) -> float:
        """The score of the best span; -inf where there is none."""
        return self.scores[0] if self.scores else -np.inf


@dataclass(frozen=True)
class ReadColumn:
    """The passages that a retriever found, the first K; `won` is the place of the one whose span is taken, -1: none.

    The retriever's score counts `weight` times, told in `unit`s. `read` is False where nobody read them, and `silent`
    is True where the reader finds in all of them that there is no answer.
    """

    name: str
    passages: tuple[ReadPassage, ...]
    won: int
    weight: float
    unit: float
    read: bool = True
    silent: bool = False

    @property
    def right(self) -> int:
        """The place of the passage that answers by the data, the first of several; -1 where there is none."""
        return next((place for place, one in enumerate(self.passages) if one.relevant), -1)

    def below(self, place: int) -> float:
        """How far a passage lies below the best one found, in units."""
        return (max(one.found for one in self.passages) - self.passages[place].found) / self.unit


def read_column(
    name: str,
    rows: Sequence[int],
    found: Sequence[float],
    spans: Sequence[Sequence[tuple[int, int, float]]],
    *,
    relevant: Collection[int],
    weight: float,
    unit: float,
    silent: bool = False,
) -> ReadColumn:
    """Put a column together; `spans` of each passage are begin, end and log P, better ones first, none where unread."""
    best = np.array([[one[0][2] if one else -np.inf for one in spans]])
    totals = summed(best, np.array([found], dtype=np.float64), weight, unit)[0]
    passages = tuple(
        ReadPassage(
            row,
            score,
            tuple((start, end) for start, end, _ in of),
            tuple(value for *_, value in of),
            total,
            row in relevant,
        )
        for row, score, of, total in zip(rows, found, spans, totals.tolist(), strict=True)
    )
    won = int(np.argmax(totals)) if len(totals) and np.isfinite(totals).any() else -1
    return ReadColumn(name, passages, won, weight, unit, read=any(spans), silent=silent)


def answer_of(column: ReadColumn, question_set: QuestionSet, place: int | None = None) -> str:
    """The text of the span that is taken, or of the best one of another passage; empty where there is none."""
    place = column.won if place is None else place
    if place < 0 or not column.passages[place].spans:
        return ""
    start, end = column.passages[place].spans[0]
    return question_set.passages[column.passages[place].row].text[start:end]


@dataclass(frozen=True)
class SpannedText(MarkedText):
    """A passage with the best span marked, as if it matched, and the others underlined, as if they answered."""

    @property
    def excerpt(self) -> Span:
        """The part that holds the best span."""
        return MarkedText(self.text, (), self.matches).excerpt


def spanned(text: str, spans: Sequence[Span]) -> SpannedText:
    """Mark the spans of a passage, better ones first."""
    return SpannedText(text, tuple(spans[:1]), tuple(spans[1:]))
