"""Explanations of a model's scores by tokens, terms, token matches, sentences or windows."""

import json
import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import Passage
from mrc_workbench.data.text import marking
from mrc_workbench.data.text.analyzers import Analyzer, Span
from mrc_workbench.data.text.marking import IndexedText, TokenKind
from mrc_workbench.models.encoders import CrossEncoderScorer, SparseTextEncoder
from mrc_workbench.models.sources import find_model, is_starter, starter_bi_encoder_folder
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.models.vectors import Encoder, WindowEncoder
from mrc_workbench.models.windows import Window, WindowOptions
from mrc_workbench.retrieval.explain import Explanation, LocatedTerm, TermExplanation, Weights

NumberedPiece = tuple[str, tuple[int, ...]]  # a piece of text, and the indices of matches that cover it


@dataclass(frozen=True)
class TokenContribution:
    """A distinct token, and `value`, its contribution to the cosine: 0 of unknown tokens."""

    text: str
    kind: TokenKind
    known: bool
    value: float
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class StaticExplanation(Explanation):
    """The cosine of two texts, which is the sum of the values of either text's tokens, the highest first."""

    question_tokens: tuple[TokenContribution, ...]
    passage_tokens: tuple[TokenContribution, ...]

    @property
    def score(self) -> float:
        return math.fsum(token.value for token in self.question_tokens)

    @property
    def weights(self) -> tuple[Weights, Weights]:
        return (
            [(span, token.value) for token in self.question_tokens for span in token.spans],
            [(span, token.value) for token in self.passage_tokens for span in token.spans],
        )


class StaticExplainer:
    """Explains the cosines of a starter bi-encoder from its folder. Reuse it: building is slow.

    With v_i the vectors of the distinct known tokens of a question and w_j those of a passage, the cosine is `(sum v_i)
    . (sum w_j) / (|sum v_i| |sum w_j|)`: token i adds `v_i . (sum w_j) / (|sum v_i| |sum w_j|)`, and token j `(sum v_i)
    . w_j / (|sum v_i| |sum w_j|)`. The score of an 8-bit index differs slightly.
    """

    def __init__(self, folder: Path, passages: Sequence[Passage], *, title: bool = True) -> None:
        from safetensors import safe_open
        from tokenizers import Tokenizer

        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        module = folder / modules[0]["path"]
        self.analyzer = Analyzer(json.loads((module / "config.json").read_text(encoding="utf-8"))["analyzer"])
        self._passages = passages
        self._title = title
        self._token_ids: dict[str, int] = Tokenizer.from_file(str(module / "tokenizer.json")).get_vocab()
        # a lazy slice, as all vectors may take 100 MB
        weights: Any = safe_open(module / "model.safetensors", framework="np")
        self._vectors = weights.get_slice("embedding.weight")
        marking.spans_by_token(self.analyzer, [""])  # loads the analyzer before the first question

    def explain(self, question: str, row: int) -> StaticExplanation:
        question = unicodedata.normalize("NFC", question)
        passage = marking.indexed_text(self._passages[row], title=self._title)
        question_tokens, passage_tokens = marking.spans_by_token(self.analyzer, [question, passage.text])
        question_vectors = self._vectors_of(question_tokens)
        passage_vectors = self._vectors_of(passage_tokens)
        question_sum = question_vectors.sum(axis=0)
        passage_sum = passage_vectors.sum(axis=0)
        lengths = float(np.linalg.norm(question_sum) * np.linalg.norm(passage_sum)) or math.inf
        return StaticExplanation(
            question,
            passage,
            self._contributions(question, question_tokens, question_vectors @ passage_sum / lengths),
            self._contributions(passage.text, passage_tokens, passage_vectors @ question_sum / lengths),
        )

    def _vectors_of(self, tokens: Mapping[str, object]) -> np.ndarray:
        vectors = np.zeros((len(tokens), self._vectors.get_shape()[1]))
        for row, token in enumerate(tokens):
            if (token_id := self._token_ids.get(token)) is not None:
                vectors[row] = self._vectors[token_id : token_id + 1][0]
        return vectors

    def _contributions(
        self, text: str, tokens: Mapping[str, tuple[Span, ...]], values: np.ndarray
    ) -> tuple[TokenContribution, ...]:
        contributions = []
        for (token, spans), value in zip(tokens.items(), values.tolist(), strict=True):
            text_and_kind = marking.describe_token(self.analyzer, token, text[slice(*spans[0])].lower())
            contributions.append(TokenContribution(*text_and_kind, token in self._token_ids, value, spans))
        return tuple(sorted(contributions, key=lambda token: -token.value))


def static_explainer(
    model: str, passages: Sequence[Passage], *, title: bool = True, base: Path | None = None
) -> StaticExplainer | None:
    """Return an explainer of a starter, None for other models. Raises `ModelError`, `FileNotFoundError`."""
    source = find_model(model, base)
    if not is_starter(source):
        return None
    folder = starter_bi_encoder_folder(source, Passages.from_passages(passages).indexed_texts(title=title))
    return StaticExplainer(folder, passages, title=title)


@dataclass(frozen=True)
class WeightedTerm(LocatedTerm):
    """A term with its weights, the factors of its value; a term without spans is an expansion."""

    question: float
    passage: float

    @property
    def is_expansion(self) -> bool:
        return not (self.question_spans or self.passage_spans)


class SparseExplanation(TermExplanation[WeightedTerm]):
    """The terms that a question and a passage share; the score is the dot product."""

    @property
    def by_expansion(self) -> float:
        return math.fsum(term.value for term in self.terms if term.is_expansion)


def term_contributions(
    encoder: SparseTextEncoder, question: str, passage: Passage, *, title: bool = True
) -> SparseExplanation:
    """Explain a score by encoding both texts again; bfloat16 differs slightly. Raises `ModelError`."""
    question_weights = encoder.encode("question", [question])
    passage_weights = encoder.encode("passage", [_indexed(passage, title=title)[0]])
    composed = unicodedata.normalize("NFC", question)
    indexed = marking.indexed_text(passage, title=title)
    in_question = encoder.spans_by_term(composed)
    in_passage = encoder.spans_by_term(indexed.text)
    shared, *positions = np.intersect1d(question_weights.indices, passage_weights.indices, return_indices=True)
    ids = shared.tolist()
    weights = [question_weights.data[positions[0]].tolist(), passage_weights.data[positions[1]].tolist()]
    terms = [
        WeightedTerm(
            text, of_question * of_passage, in_question.get(id_, ()), in_passage.get(id_, ()), of_question, of_passage
        )
        for id_, text, of_question, of_passage in zip(ids, encoder.readings(ids), *weights, strict=True)
    ]
    return SparseExplanation(composed, indexed, tuple(sorted(terms, key=lambda term: -term.value)))


@dataclass(frozen=True)
class TokenMatch:
    """A token of the question and its most similar token of the passage, as spans of both texts, and their cosine.

    `above` is the cosine minus the mean over all tokens of the passage: near 0 the match means little. Special tokens
    have empty spans. `weight` is the token's weight, with a mean of 1 over the question.
    """

    question_span: Span
    passage_span: Span
    cosine: float
    above: float
    weight: float = 1.0


@dataclass(frozen=True)
class LateExplanation:
    """The matches of a question's tokens in order; the score is the weighted mean of their cosines."""

    question: str
    passage: IndexedText
    matches: tuple[TokenMatch, ...]

    @property
    def score(self) -> float:
        return float(np.mean([match.weight * match.cosine for match in self.matches]))

    @cached_property
    def visible_matches(self) -> tuple[TokenMatch, ...]:
        return tuple(match for match in self.matches if match.question_span[0] < match.question_span[1])

    def question_matches(self) -> list[NumberedPiece]:
        spans = [match.question_span for match in self.visible_matches]
        return _numbered_pieces(self.question, spans, 0, len(self.question))

    def title_matches(self) -> list[NumberedPiece]:
        return self._passage_matches(0, max(0, self.passage.start - 1))  # empty if no title is indexed

    def text_matches(self) -> list[NumberedPiece]:
        return self._passage_matches(self.passage.start, len(self.passage.text))

    def _passage_matches(self, start: int, end: int) -> list[NumberedPiece]:
        return _numbered_pieces(self.passage.text, [match.passage_span for match in self.visible_matches], start, end)


def _numbered_pieces(text: str, spans: Sequence[Span], start: int, end: int) -> list[NumberedPiece]:
    """Cut `text[start:end]` at the edges of spans, each piece with the indices of the spans that cover it."""
    cuts = sorted({start, end, *(edge for span in spans for edge in span if start < edge < end)})
    return [
        (text[a:b], tuple(number for number, (first, last) in enumerate(spans) if first <= a < last))
        for a, b in pairwise(cuts)
    ]


def token_matches(encoder: TokenEncoder, question: str, passage: Passage, *, title: bool = True) -> LateExplanation:
    """Explain a score by encoding both texts again; bfloat16 differs slightly. Raises `ModelError`."""
    composed = unicodedata.normalize("NFC", question)
    indexed = marking.indexed_text(passage, title=title)
    question_vectors, question_spans = encoder.read("question", composed)
    passage_vectors, passage_spans = encoder.read("passage", indexed.text, _indexed(passage, title=title)[1])
    weights = np.linalg.norm(question_vectors, axis=1)
    similarities = question_vectors @ passage_vectors.T / np.maximum(weights, 1e-12)[:, None]
    best = similarities.argmax(axis=1)
    means = similarities.mean(axis=1)
    matches = []
    for row, (span, position) in enumerate(zip(question_spans, best.tolist(), strict=True)):
        cosine = similarities[row, position]
        above = float(cosine - means[row])
        matches.append(TokenMatch(span, passage_spans[position], float(cosine), above, float(weights[row])))
    return LateExplanation(composed, indexed, tuple(matches))


@dataclass(frozen=True)
class SentenceScore:
    """A sentence as a span of the indexed text, and its cosine with the question."""

    span: Span
    cosine: float


@dataclass(frozen=True)
class SentenceExplanation:
    """The cosines of the whole passage and of its sentences, which are encoded separately and do not add up."""

    passage: IndexedText
    score: float
    sentences: tuple[SentenceScore, ...]


def sentence_contributions(
    encoder: Encoder, question: str, passage: Passage, *, title: bool = True
) -> SentenceExplanation:
    """Score the sentences of a passage, including an indexed title, with a dense retriever's model."""
    indexed = marking.indexed_text(passage, title=title)
    spans = marking.sentence_spans(indexed.text)
    vectors = encoder.encode_passages([indexed.text, *(indexed.text[start:end] for start, end in spans)])
    whole, *cosines = (vectors @ encoder.encode_questions([question])[0]).tolist()
    sentences = (SentenceScore(span, cosine) for span, cosine in zip(spans, cosines, strict=True))
    return SentenceExplanation(indexed, whole, tuple(sentences))


@dataclass(frozen=True)
class WindowScore:
    """A window of the indexed text, and its cosine with the question or its reranker score."""

    window: Window
    score: float


@dataclass(frozen=True)
class WindowExplanation:
    """The windows of an indexed passage in order, at least one."""

    text: str
    windows: tuple[WindowScore, ...]

    @property
    def best(self) -> int:
        return max(range(len(self.windows)), key=lambda index: self.windows[index].score)

    @property
    def score(self) -> float:
        return self.windows[self.best].score


def dense_windows(
    encoder: WindowEncoder, question: str, passage: Passage, options: WindowOptions, *, title: bool = True
) -> WindowExplanation | None:
    """Score the windows of a passage with a bi-encoder, which may load it; None if the model reads it whole."""
    text, title_length = _indexed(passage, title=title)
    windows = encoder.windows_of([text], np.array([title_length]), options).windows_of(0)
    if not windows:
        return None
    vectors = encoder.encode_passages([window.text(text) for window in windows])
    return _window_explanation(text, windows, vectors @ encoder.encode_questions([question])[0])


def reranker_windows(
    scorer: CrossEncoderScorer, question: str, passage: Passage, options: WindowOptions, *, title: bool = True
) -> WindowExplanation | None:
    """Score the windows of a passage with a cross-encoder, which loads it; None if the pair fits."""
    text, title_length = _indexed(passage, title=title)
    windows = scorer.windows_of(question, text, title_length, options)
    if not windows:
        return None
    return _window_explanation(text, windows, scorer.score([(question, window.text(text)) for window in windows]))


def _indexed(passage: Passage, *, title: bool) -> tuple[str, int]:
    corpus = Passages.from_passages([passage])
    return corpus.indexed_texts(title=title)[0], int(corpus.title_lengths(title=title)[0])


def _window_explanation(text: str, windows: Sequence[Window], scores: np.ndarray) -> WindowExplanation:
    return WindowExplanation(text, tuple(map(WindowScore, windows, scores.tolist())))
