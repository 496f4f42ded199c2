"""Explanations of BM25 scores, of whole passages or of their best windows: the contribution of each term."""

import math
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import Passage
from mrc_workbench.data.text.analysis import Tokens, analyze, has_cached_tokens, tokens_of
from mrc_workbench.data.text.analyzers import Span
from mrc_workbench.data.text.marking import IndexedText, Piece, TokenKind, describe_token, indexed_text, spans_by_token
from mrc_workbench.retrieval.lexical import BM25Engine, field_statistics, idf_of, term_statistics
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options, Feedback, options_for, windows_of
from mrc_workbench.retrieval.rankings import NOT_FOUND


@dataclass(frozen=True)
class LocatedTerm:
    """A term, `value`, its contribution to the score, and its spans in the composed texts."""

    text: str
    value: float
    question_spans: tuple[Span, ...]
    passage_spans: tuple[Span, ...]


T = TypeVar("T", bound=LocatedTerm)
Weights = list[tuple[Span, float]]


@dataclass(frozen=True)
class Explanation(ABC):
    """A score as contributions of characters: each text is cut into pieces by contribution."""

    question: str
    passage: IndexedText

    @property
    @abstractmethod
    def weights(self) -> tuple[Weights, Weights]:
        """Contributions of spans of the question, and of spans of the indexed passage."""

    def title_pieces(self) -> list[Piece]:
        return self.passage.title_pieces(self.weights[1])

    def text_pieces(self) -> list[Piece]:
        return self.passage.text_pieces(self.weights[1])


@dataclass(frozen=True)
class TermExplanation(Explanation, Generic[T]):
    """The terms of a question, the largest contributions to the score first."""

    terms: tuple[T, ...]

    @property
    def score(self) -> float:
        return math.fsum(term.value for term in self.terms)

    @property
    def weights(self) -> tuple[Weights, Weights]:
        return (
            [(span, term.value) for term in self.terms for span in term.question_spans],
            [(span, term.value) for term in self.terms for span in term.passage_spans],
        )


class TokenOccurrences(NamedTuple):
    """The count of a token in a text, and its spans if known."""

    times: int = 0
    spans: tuple[Span, ...] = ()


OccurrencesByToken = Mapping[str, TokenOccurrences]  # by token, in the order of the text


@dataclass(frozen=True)
class TermContribution(LocatedTerm):
    """A term of the question with its counts.

    `passages` is its document frequency. `weight` is its count in the question unless feedback changed it; `sources`
    are the rows of the passages from which feedback added it.
    """

    kind: TokenKind
    in_question: int
    in_passage: int
    passages: int
    idf: float
    in_title: int
    weight: float
    sources: tuple[int, ...] = ()

    @property
    def in_text(self) -> int:
        return self.in_passage - self.in_title

    @property
    def added(self) -> bool:
        return not self.in_question


@dataclass(frozen=True)
class BM25Explanation(TermExplanation[TermContribution]):
    """The terms of a question in a passage, and lengths in tokens; title lengths are 0 unless it is a field."""

    length: int
    mean_length: float
    title_length: int = 0
    mean_title_length: float = 0.0


class BM25Explainer:
    """Explains the scores of a `BM25` over the same passages with the same options, of either engine.

    It evaluates the formula on token counts, so it needs no index, except with feedback. Reuse it: building is slow.
    `read` returns the tokens of a composed text; the default loads an analyzer.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        options: BM25Options | None = None,
        read: Callable[[str], OccurrencesByToken] | None = None,
    ) -> None:
        self.options = options or BM25Options()
        self._passages = Passages.from_passages(passages)
        texts = self._passages.indexed_texts(title=self.options.title)
        self.analysis = self.options.analysis(texts)
        self._read = read or self._find_occurrences
        if read is None:
            self._find_occurrences("")  # loads the analyzer before the first question
        self._feedback = None
        if feedback := self.options.feedback:
            self._feedback = Feedback(feedback, self.analysis, texts, term_statistics(self.analysis, texts))
            self._first = BM25("first", self._passages, replace(self.options, fb_docs=0))
        if self.options.title_weight:
            of_fields = field_statistics(self.analysis, self._passages)
            self._corpus = of_fields.terms
            self._mean_lengths = [of_fields.mean_text, of_fields.mean_title]
        else:
            self._corpus = term_statistics(self.analysis, texts)
            self._mean_lengths = [self._corpus.mean_length]
        okapi = self.options.engine is BM25Engine.RANK_BM25
        self._idf = (_floored_idf if okapi else idf_of)(self._corpus.document_frequencies, len(passages))
        self._factor = self.options.k1 + 1 if okapi else 1.0

    def explain(self, question: str, row: int) -> BM25Explanation:
        question = unicodedata.normalize("NFC", question)
        passage = indexed_text(self._passages[row], title=self.options.title)
        occurrences = self._read(question)
        query_terms = {token: _QueryTerm(float(entry.times), entry) for token, entry in occurrences.items()}
        if self._feedback:
            query_terms = self._expanded_terms(self._feedback, question, occurrences)
        fields = self._fields(passage)
        positions = self._corpus.positions_of(list(query_terms)).tolist()
        pairs = zip(query_terms.items(), positions, strict=True)
        terms = [self._term(token, position, entry, fields, (question, passage)) for (token, entry), position in pairs]
        terms.sort(key=lambda term: -term.value)
        text, *title = fields
        title_lengths = (title[0].length, title[0].mean_length) if title else (0, 0.0)
        return BM25Explanation(question, passage, tuple(terms), text.length, text.mean_length, *title_lengths)

    def _find_occurrences(self, text: str) -> OccurrencesByToken:
        (located,) = spans_by_token(self.analysis, [text])
        return {token: TokenOccurrences(len(spans), spans) for token, spans in located.items()}

    def _expanded_terms(self, feedback: Feedback, question: str, tokens: OccurrencesByToken) -> dict[str, "_QueryTerm"]:
        first = self._first.search([question], feedback.options.passages)
        expanded = feedback.expand_queries(analyze(self.analysis, [question]), first)
        weights = dict(zip(expanded.tokens.texts()[0], expanded.factors.tolist(), strict=True))
        rows = [row for row in first.indices[0].tolist() if row != NOT_FOUND]
        passage_tokens = [(row, set(words)) for row, words in zip(rows, feedback.tokens(rows), strict=True)]
        terms = {token: _QueryTerm(weights.get(token, 0.0), occurrence) for token, occurrence in tokens.items()}
        for token, weight in weights.items():
            if token not in tokens:
                sources = tuple(row for row, words in passage_tokens if token in words)
                terms[token] = _QueryTerm(weight, TokenOccurrences(), sources)
        return terms

    def _fields(self, passage: IndexedText) -> list["_Field"]:
        if not self.options.title_weight:
            return [_Field(1.0, self._read(passage.text), self._mean_lengths[0])]
        start = passage.start
        text = dict(self._read(passage.text[start:]))
        title = self._read(passage.text[: max(0, start - 1)])
        for token, occurrence in text.items():
            spans = tuple((begin + start, end + start) for begin, end in occurrence.spans)
            text[token] = TokenOccurrences(occurrence.times, spans)
        text_length, title_length = self._mean_lengths
        return [_Field(1.0, text, text_length), _Field(self.options.title_weight, title, title_length)]

    def _term(
        self,
        token: str,
        position: int,
        query_term: "_QueryTerm",
        fields: Sequence["_Field"],
        texts: tuple[str, IndexedText],
    ) -> TermContribution:
        question, passage = texts
        occurrences = [field.occurrences.get(token, TokenOccurrences()) for field in fields] if position >= 0 else []
        spans = tuple(sorted(span for occurrence in occurrences for span in occurrence.spans))
        idf = float(self._idf[position]) if position >= 0 else 0.0
        counts = zip(fields, occurrences, strict=False)
        count = sum(field.counted(occurrence.times, self.options.b) for field, occurrence in counts)
        saturation = self._factor * count / (count + self.options.k1) if count else 0.0
        texts_and_spans = ((question, query_term.occurrences.spans), (passage.text, spans))
        surface = next((text[slice(*of_text[0])].lower() for text, of_text in texts_and_spans if of_text), "")
        text, kind = describe_token(self.analysis, token, surface)
        return TermContribution(
            text=text,
            kind=kind,
            in_question=query_term.occurrences.times,
            in_passage=sum(occurrence.times for occurrence in occurrences),
            passages=int(self._corpus.document_frequencies[position]) if position >= 0 else 0,
            idf=idf,
            value=query_term.weight * idf * saturation,
            question_spans=query_term.occurrences.spans,
            passage_spans=spans,
            in_title=sum(end < passage.start for _, end in spans),
            weight=query_term.weight,
            sources=query_term.sources,
        )


def counting_explainer(
    passages: Sequence[Passage], options: BM25Options, questions: Sequence[str]
) -> BM25Explainer | None:
    """Return an explainer without spans that reads the stored tokens of these questions and all passages.

    It loads no analyzer, which takes two seconds for Korean. None if tokens are missing, or if the options need more
    than tokens. Other questions raise `KeyError`.
    """
    texts = Passages.from_passages(passages).indexed_texts(title=options.title)
    analysis = options.analysis(texts)
    are_cached = all(has_cached_tokens(analysis, batch) for batch in (texts, questions))
    if options.title_weight or options.feedback or not are_cached:
        return None
    rows_by_text: dict[str, tuple[Tokens, int]] = {}
    for batch in (texts, questions):
        tokens = tokens_of(analysis, batch)
        rows_by_text |= {unicodedata.normalize("NFC", text): (tokens, row) for row, text in enumerate(batch)}

    def read(text: str) -> OccurrencesByToken:
        tokens, row = rows_by_text[text]
        start, end = tokens.offsets[row : row + 2]
        counts = Counter(tokens.vocabulary[number] for number in tokens.ids[start:end].tolist())
        return {token: TokenOccurrences(count) for token, count in counts.items()}

    return BM25Explainer(passages, options, read)


class _QueryTerm(NamedTuple):
    weight: float
    occurrences: TokenOccurrences
    sources: tuple[int, ...] = ()


class _Field(NamedTuple):
    weight: float
    occurrences: OccurrencesByToken
    mean_length: float

    @property
    def length(self) -> int:
        return sum(occurrence.times for occurrence in self.occurrences.values())

    def counted(self, times: int, b: float) -> float:
        return self.weight * times / (1 - b + b * self.length / self.mean_length) if times else 0.0


def _floored_idf(frequencies: np.ndarray, n_passages: int) -> np.ndarray:
    """Okapi's idf; a quarter of the mean idf for terms of more than half of the passages, which have an idf below 0."""
    idf = np.log((n_passages - frequencies + 0.5) / (frequencies + 0.5))
    return np.where(idf < 0, 0.25 * idf.mean(), idf) if len(idf) else idf


class WindowedBM25Explainer:
    """Explains the scores of a `WindowedBM25` with the same passages, options and sentences per window."""

    def __init__(self, passages: Sequence[Passage], options: BM25Options | None = None, *, sentences: int = 1) -> None:
        texts, self._bounds = windows_of(passages, sentences)
        self._explainer = BM25Explainer(texts, options_for(passages, options))

    def explain(self, question: str, row: int) -> BM25Explanation:
        windows = range(self._bounds[row], self._bounds[row + 1])
        explanations = (self._explainer.explain(question, window) for window in windows)
        return max(explanations, key=lambda explanation: explanation.score)
