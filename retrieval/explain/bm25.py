"""Why BM25 gives a passage its score: what each term of the question adds to it."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from data.passages import Passages
from data.records import Passage
from retrieval.explain.terms import TermExplanation
from retrieval.lexical.bm25 import BM25Options
from retrieval.lexical.engines import Engine
from retrieval.lexical.statistics import term_statistics
from text.analyzers import choose
from text.located import TokenKind, indexed_text, reading, spans_by_token
from text.matching import Span


@dataclass(frozen=True)
class TermContribution:
    """A term of the question as a person reads it, its counts, and `value`, what it adds to the score.

    `passages` is its document frequency; a term that no passage holds has an idf and a value of 0. Spans are letters of
    the composed question and of the passage as it is indexed.
    """

    text: str
    kind: TokenKind
    in_question: int
    in_passage: int
    passages: int
    idf: float
    value: float
    question_spans: tuple[Span, ...]
    passage_spans: tuple[Span, ...]


@dataclass(frozen=True)
class BM25Explanation(TermExplanation[TermContribution]):
    """The terms of a question over one passage.

    `length` and `mean_length` count tokens, of this passage and of all on average.
    """

    length: int
    mean_length: float


class BM25Explainer:
    """Explains the scores of a `BM25` over the same passages with the same options, of either engine.

    It counts the same tokens and follows the written formula, so it needs no index: what it holds is how many passages
    hold each term (kept on disk), and a passage is analyzed again when it is asked about. Build it once and ask often.
    """

    def __init__(self, passages: Sequence[Passage], options: BM25Options | None = None) -> None:
        self.options = options or BM25Options()
        self._passages = passages
        texts = Passages.of(passages).indexed_texts(title=self.options.title)
        self.analyzer = choose(self.options.analyzer, texts)
        spans_by_token(self.analyzer, [""])  # loads what it needs now, not with the first question
        self._corpus = term_statistics(self.analyzer, texts)
        okapi = self.options.engine is Engine.RANK_BM25
        self._idf = (_floored_idf if okapi else _lucene_idf)(self._corpus.holders, len(passages))
        self._factor = self.options.k1 + 1 if okapi else 1.0

    def explain(self, question: str, row: int) -> BM25Explanation:
        """Explain the score of the passage in a row of the corpus for a question."""
        question = unicodedata.normalize("NFC", question)
        passage = indexed_text(self._passages[row], title=self.options.title)
        asked, held = spans_by_token(self.analyzer, [question, passage.text])
        length = sum(map(len, held.values()))
        places = self._corpus.places_of(list(asked)).tolist()
        terms = [
            self._term(token, place, spans, held.get(token, ()), length)
            for (token, spans), place in zip(asked.items(), places, strict=True)
        ]
        terms.sort(key=lambda term: -term.value)
        return BM25Explanation(question, passage, tuple(terms), length, self._corpus.mean_length)

    def _term(
        self, token: str, place: int, asked: tuple[Span, ...], held: tuple[Span, ...], length: int
    ) -> TermContribution:
        text, kind = reading(self.analyzer, token)
        if place < 0:
            return TermContribution(text, kind, len(asked), 0, 0, 0.0, 0.0, asked, ())
        count, idf, holders = len(held), float(self._idf[place]), int(self._corpus.holders[place])
        value = len(asked) * idf * self._saturated(count, length)
        return TermContribution(text, kind, len(asked), count, holders, idf, value, asked, held)

    def _saturated(self, count: int, length: int) -> float:
        if not count:
            return 0.0
        k1, b = self.options.k1, self.options.b
        return self._factor * count / (count + k1 * (1 - b + b * length / self._corpus.mean_length))


def _lucene_idf(holders: np.ndarray, n_passages: int) -> np.ndarray:
    return np.log1p((n_passages - holders + 0.5) / (holders + 0.5))


def _floored_idf(holders: np.ndarray, n_passages: int) -> np.ndarray:
    """Okapi's idf; where it is below 0, for a term of more than half of the passages, a quarter of the mean idf."""
    idf = np.log((n_passages - holders + 0.5) / (holders + 0.5))
    return np.where(idf < 0, 0.25 * idf.mean(), idf) if len(idf) else idf
