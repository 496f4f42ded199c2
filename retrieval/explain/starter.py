"""Why a starter bi-encoder gives a passage its cosine: what each token of either text adds to it. Imports no torch."""

import json
import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from data.passages import Passages
from data.records import Passage
from models.sources import find_model, is_starter, starter_bi_encoder_folder
from text.analyzers import Analyzer
from text.located import IndexedText, Piece, TokenKind, indexed_text, reading, spans_by_token, weighted_pieces
from text.matching import Span


@dataclass(frozen=True)
class TokenContribution:
    """A distinct token as a person reads it, and `value`, what it adds to the cosine (below 0: what it takes).

    A token the model does not know adds 0. Spans are letters of the composed text it comes from.
    """

    text: str
    kind: TokenKind
    known: bool
    value: float
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class StaticExplanation:
    """The cosine of a question and a passage, told twice: the values of either's tokens sum to it.

    Tokens that add most come first.
    """

    question: str
    passage: IndexedText
    question_tokens: tuple[TokenContribution, ...]
    passage_tokens: tuple[TokenContribution, ...]

    @property
    def score(self) -> float:
        """The cosine; 0 where nothing is known of one of the texts."""
        return math.fsum(token.value for token in self.question_tokens)

    def question_pieces(self) -> list[Piece]:
        """Cut the question by what its letters add to the cosine."""
        return weighted_pieces(self.question, _weights(self.question_tokens), 0, len(self.question))

    def title_pieces(self) -> list[Piece]:
        """Cut the title by what its letters add to the cosine."""
        return self.passage.title_pieces(_weights(self.passage_tokens))

    def text_pieces(self) -> list[Piece]:
        """Cut the passage's own text by what its letters add to the cosine."""
        return self.passage.text_pieces(_weights(self.passage_tokens))


class StaticExplainer:
    """Explains the cosines of a starter bi-encoder, read from its folder. Build it once and ask often.

    With v_i the vectors of the distinct known tokens of a question and w_j those of a passage, the cosine is
    `(sum v_i) . (sum w_j) / (|sum v_i| |sum w_j|)`, so token i of the question adds
    `v_i . (sum w_j) / (|sum v_i| |sum w_j|)`, and token j of the passage the same with its own vector.
    An index that keeps vectors in 8 bits scores the pair a little differently.
    """

    def __init__(self, folder: Path, passages: Sequence[Passage], *, title: bool = True) -> None:
        from safetensors import safe_open
        from tokenizers import Tokenizer

        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        module = folder / modules[0]["path"]
        self.analyzer = Analyzer(json.loads((module / "config.json").read_text(encoding="utf-8"))["analyzer"])
        self._passages, self._title = passages, title
        self._number: dict[str, int] = Tokenizer.from_file(str(module / "tokenizer.json")).get_vocab()
        # rows are read when they are asked for: all of them may be 100 MB
        weights: Any = safe_open(module / "model.safetensors", framework="np")
        self._vectors = weights.get_slice("embedding.weight")
        spans_by_token(self.analyzer, [""])  # loads what it needs now, not with the first question

    def explain(self, question: str, row: int) -> StaticExplanation:
        """Explain the cosine of a question and the passage in a row of the corpus."""
        question = unicodedata.normalize("NFC", question)
        passage = indexed_text(self._passages[row], title=self._title)
        asked, held = spans_by_token(self.analyzer, [question, passage.text])
        asked_vectors, held_vectors = self._vectors_of(asked), self._vectors_of(held)
        asked_sum, held_sum = asked_vectors.sum(axis=0), held_vectors.sum(axis=0)
        lengths = float(np.linalg.norm(asked_sum) * np.linalg.norm(held_sum)) or math.inf
        return StaticExplanation(
            question,
            passage,
            self._contributions(asked, asked_vectors @ held_sum / lengths),
            self._contributions(held, held_vectors @ asked_sum / lengths),
        )

    def _vectors_of(self, tokens: Mapping[str, object]) -> np.ndarray:
        """Vectors of tokens, `(n_tokens, dimensions)` float64; zeros for a token that is not known."""
        vectors = np.zeros((len(tokens), self._vectors.get_shape()[1]))
        for place, token in enumerate(tokens):
            if (number := self._number.get(token)) is not None:
                vectors[place] = self._vectors[number : number + 1][0]
        return vectors

    def _contributions(
        self, tokens: Mapping[str, tuple[Span, ...]], values: np.ndarray
    ) -> tuple[TokenContribution, ...]:
        told = [
            TokenContribution(*reading(self.analyzer, token), token in self._number, value, spans)
            for (token, spans), value in zip(tokens.items(), values.tolist(), strict=True)
        ]
        return tuple(sorted(told, key=lambda token: -token.value))


def static_explainer(
    model: str, passages: Sequence[Passage], *, title: bool = True, base: Path | None = None
) -> StaticExplainer | None:
    """Return an explainer of a dense retriever's model over passages, None where the model is no starter.

    Raises `ModelError` where there is no such model, `FileNotFoundError` where the starter was never built.
    """
    source = find_model(model, base)
    if not is_starter(source):
        return None
    return StaticExplainer(
        starter_bi_encoder_folder(source, Passages.of(passages).indexed_texts(title=title)), passages, title=title
    )


def _weights(tokens: Sequence[TokenContribution]) -> list[tuple[Span, float]]:
    return [(span, token.value) for token in tokens for span in token.spans]
