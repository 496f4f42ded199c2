"""Why a sparse encoder gives a passage its score: the terms that weigh in both texts, also those that stand in none."""

import math
import unicodedata
from dataclasses import dataclass

import numpy as np

from data.passages import Passages
from data.records import Passage
from models.encoders.sparse_encoder import SparseTextEncoder
from retrieval.explain.bm25 import TermExplanation
from text.located import indexed_text
from text.matching import Span


@dataclass(frozen=True)
class WeighedTerm:
    """A term as a person reads it, and its weight in the question and in the passage.

    The spans, letters of the composed texts, say where it stands; where it stands in neither it is expansion.
    """

    text: str
    question: float
    passage: float
    question_spans: tuple[Span, ...]
    passage_spans: tuple[Span, ...]

    @property
    def value(self) -> float:
        """What it adds to the score: the product of both weights."""
        return self.question * self.passage

    @property
    def is_expansion(self) -> bool:
        """Whether it stands in neither text."""
        return not (self.question_spans or self.passage_spans)


class SparseExplanation(TermExplanation[WeighedTerm]):
    """The terms that a question and a passage share; the score is the dot product."""

    @property
    def by_expansion(self) -> float:
        """What terms add to the score that stand in neither text."""
        return math.fsum(term.value for term in self.terms if term.is_expansion)


def term_contributions(
    encoder: SparseTextEncoder, question: str, passage: Passage, *, title: bool = True
) -> SparseExplanation:
    """Explain the score of a passage for a question by reading both anew, which loads the model. Raises `ModelError`.

    In bfloat16 texts that are read alone have weights that differ in the last digits from those of the ranking.
    """
    held_text = Passages.of([passage]).indexed_texts(title=title)[0]
    asked, held = encoder.encode("question", [question]), encoder.encode("passage", [held_text])
    composed, indexed = unicodedata.normalize("NFC", question), indexed_text(passage, title=title)
    in_question, in_passage = encoder.spans_by_term(composed), encoder.spans_by_term(indexed.text)
    shared, asked_places, held_places = np.intersect1d(asked.indices, held.indices, return_indices=True)
    weights = zip(asked.data[asked_places].tolist(), held.data[held_places].tolist(), strict=True)
    terms = [
        WeighedTerm(text, *both, in_question.get(term, ()), in_passage.get(term, ()))
        for term, text, both in zip(shared.tolist(), encoder.readings(shared.tolist()), weights, strict=True)
    ]
    return SparseExplanation(composed, indexed, tuple(sorted(terms, key=lambda term: -term.value)))
