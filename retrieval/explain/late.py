"""Why late interaction gives a passage its score: which of its tokens answered which token of the question."""

import unicodedata
from dataclasses import dataclass

import numpy as np

from data.passages import Passages
from data.records import Passage
from models.encoders.token_encoder import TokenEncoder
from retrieval.explain.bm25 import Explanation, Weights
from text.analysis import indexed_text
from text.analyzers import Span


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
class LateExplanation(Explanation):
    """The matches of a question's tokens, in their order; the score is the mean of their cosines."""

    matches: tuple[TokenMatch, ...]

    @property
    def score(self) -> float:
        return float(np.mean([match.cosine for match in self.matches]))

    @property
    def weights(self) -> tuple[Weights, Weights]:
        """What each match lies above the mean, of the letters of both texts."""
        told = [match for match in self.matches if match.asked[0] < match.asked[1]]
        return [(match.asked, match.above) for match in told], [(match.answered, match.above) for match in told]


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
