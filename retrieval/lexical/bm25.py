"""BM25 over analyzed passages, or over windows of their sentences.

Scores follow Lucene's BM25 (Robertson & Zaragoza 2009 without the constant factor k1 + 1):
`sum over question terms of ln(1 + (N - n + .5) / (n + .5)) * f / (f + k1 * (1 - b + b * length / mean length))`
with N passages, document frequency n, and f the count in the passage. Higher is better; results share a term with the
question. See Kamphuis et al. 2020, "Which BM25 do you mean?", for the variants.

Often a single sentence answers a question, and the rest of a long passage dilutes its words. With windows, a passage is
as relevant as its best window (Callan 1994; Dai & Callan 2019 call it MaxP). The title precedes each window, as it
names the topic; fusion with BM25 over whole passages retrieves more than either.

Pseudo-relevance feedback (RM3) searches a question again with terms of its first results, assumed to be relevant: the
best terms of their distribution, weighted by score, are mixed with those of the question (Lavrenko & Croft 2001,
"Relevance-based language models"; Abdul-Jaleel et al. 2004, "UMass at TREC 2004").
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, diags_array

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.passages import Passage, Passages
from mrc_workbench.data.text.analysis import (
    TEXTS_PER_PART,
    Analysis,
    Tokens,
    analyze,
    has_cached_tokens,
    token_parts,
    tokens_of,
)
from mrc_workbench.data.text.analyzers import PLAIN_PART, Analyzer, Compounds
from mrc_workbench.data.text.dictionary import Dictionary
from mrc_workbench.data.text.marking import TokenKind, describe_token, marked_sentences
from mrc_workbench.retrieval import lexical
from mrc_workbench.retrieval.lexical import BM25Engine, Index, Segment, TermStatistics
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, concatenate

QUERIES_AT_ONCE = 512  # expanded at a time: the tokens of their first passages are in memory
_MAX_DOCUMENT_FRACTION = 0.1  # more frequent terms are not added
_TIE = 12  # digits: differences below come from the order of summation
_MAX_WEIGHT = 1e6  # of a count: sums and quotients stay finite in float32
_ANALYSIS_FRACTION = 0.9  # of the progress of building an index
Progress = Callable[[float], None]


@dataclass(frozen=True)
class FeedbackOptions:
    """The number of feedback `passages`, of added `terms`, and the weight (`share`) of these; defaults of Anserini."""

    passages: int = 10
    terms: int = 10
    share: float = 0.5

    def __post_init__(self) -> None:
        if self.passages < 1 or self.terms < 1 or not 0 <= self.share <= 1:
            received = f"{self.passages}, {self.terms} and {self.share}"
            expected = "feedback needs 1 or more passages, 1 or more terms, and a share between 0 and 1"
            raise ValueError(f"{expected}, not {received}")


@dataclass(frozen=True)
class BM25Options:
    """`k1` (0 to a million) bounds the effect of repetition, `b` (0 to 1) normalizes by length; defaults of Anserini.

    `title` indexes the article title with the passage: as a part of its text, or with `title_weight` (above 0, at most
    a million) as a weighted field (BM25F). `fb_docs` above 0 enable feedback, see `FeedbackOptions`. Both
    need the engine `POSTINGS`. `compounds`, `dictionary`, `pairs` and `stop_words` are those of `Analysis`.
    """

    analyzer: Analyzer = Analyzer.AUTO
    k1: float = 0.9
    b: float = 0.4
    title: bool = True
    engine: BM25Engine = BM25Engine.POSTINGS
    title_weight: float | None = None
    fb_docs: int = 0
    fb_terms: int = FeedbackOptions.terms
    fb_weight: float = FeedbackOptions.share
    compounds: Compounds = Compounds.AS_READ
    dictionary: Dictionary | None = None
    pairs: bool = False
    stop_words: bool = False

    def __post_init__(self) -> None:
        if not (0 <= self.k1 <= _MAX_WEIGHT and 0 <= self.b <= 1):
            raise ValueError(f"k1 must be 0 to 1,000,000 and b 0 to 1, not k1={self.k1}, b={self.b}")
        if self.title_weight is not None and not (self.title and 0 < self.title_weight <= _MAX_WEIGHT):
            received = f"not {self.title_weight}"
            raise ValueError(f"title_weight is a number above 0, up to 1,000,000, for title = true, {received}")
        if (self.feedback or self.title_weight) and self.engine is not BM25Engine.POSTINGS:
            raise ValueError(f"title_weight and feedback are for the engine {BM25Engine.POSTINGS}, not {self.engine}")

    @property
    def feedback(self) -> FeedbackOptions | None:
        if not self.fb_docs:
            return None
        return FeedbackOptions(self.fb_docs, self.fb_terms, self.fb_weight)

    def analysis(self, texts: Iterable[str]) -> Analysis:
        """Return the analysis of these texts. Raises `DictionaryError` if their analyzer cannot use the options."""
        analysis = Analysis(self.analyzer, self.compounds, self.dictionary, self.pairs, self.stop_words)
        return analysis.resolved(texts)


class BM25:
    """A BM25 index over passages; building it analyzes them. `all_questions` are those with cached tokens."""

    def __init__(
        self,
        name: str,
        passages: Sequence[Passage],
        options: BM25Options | None = None,
        on_progress: Callable[[float], None] | None = None,
        *,
        all_questions: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.options = options or BM25Options()
        self._all_questions = all_questions
        corpus = Passages.from_passages(passages)
        texts = corpus.indexed_texts(title=self.options.title)
        self.analysis = self.options.analysis(texts)
        if self.options.engine is BM25Engine.RANK_BM25:
            tokens = tokens_of(self.analysis, texts, on_progress)
            has_tokens = len(tokens.ids) > 0
            self._index = RankBM25(tokens, self.options.k1, self.options.b) if has_tokens else Index(len(tokens))
        else:
            index_of = _field_index if self.options.title_weight else _text_index
            self._index = index_of(corpus, self.analysis, self.options, on_progress)
        self.memory_bytes = self._index.memory_bytes
        self._feedback = None
        if feedback := self.options.feedback:
            self._feedback = Feedback(feedback, self.analysis, texts, lexical.term_statistics(self.analysis, texts))

    def make_ready(self, questions: Sequence[str]) -> None:
        """Load the analyzer unless the questions' tokens are cached: loading does not count as search time."""
        if not has_cached_tokens(self.analysis, questions):
            analyze(self.analysis, [""])

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        queries = self._expanded_queries(questions)
        return concatenate([self._index.search(tokens, k, factors) for tokens, factors in queries])

    def score_blocks(self, questions: Sequence[str]) -> Iterator[np.ndarray]:
        return chain.from_iterable(self._index.score_blocks(*query) for query in self._expanded_queries(questions))

    def _expanded_queries(self, questions: Sequence[str]) -> Iterator[tuple[Tokens, np.ndarray | None]]:
        tokens = self._tokens_of(questions)
        if not self._feedback:
            yield tokens, None
            return
        first = self._index.search(tokens, self._feedback.options.passages)
        analyzed = tokens.texts()
        for start in range(0, max(1, len(questions)), QUERIES_AT_ONCE):
            block = slice(start, start + QUERIES_AT_ONCE)
            yield self._feedback.expand_queries(analyzed[block], first.select(block))

    def _tokens_of(self, questions: Sequence[str]) -> Tokens:
        row_of = {text: row for row, text in enumerate(self._all_questions)}
        rows = [row_of.get(text, -1) for text in questions]
        if rows and min(rows) >= 0 and has_cached_tokens(self.analysis, self._all_questions):
            return tokens_of(self.analysis, self._all_questions).select(rows)
        return tokens_of(self.analysis, questions)


class WeightedQueries(NamedTuple):
    """Questions as terms, and their weights, `(n_tokens,)` float32."""

    tokens: Tokens
    factors: np.ndarray


@dataclass(frozen=True)
class Feedback:
    """Expands questions with terms of their first passages; `statistics` are the terms of these `texts`.

    A term has the weight `(1 - share) * count + share * n * P(term | R)` with n the number of the question's tokens:
    RM3 times n, which ranks the same and keeps the magnitude of BM25 scores. With `P(D)` the passages' scores over
    their sum, `P(term | R)` is `sum over D of P(D) * count in D / length of D` of the best terms, over its sum; ties by
    term. A question without such terms is unchanged.

    Counts and lengths are of terms that may be added: those of at most a tenth of the passages (or of one), as in
    Anserini, and only morphemes of morphological analyzers. Unlike Anserini, all terms of a passage are candidates.
    """

    options: FeedbackOptions
    analysis: Analysis
    texts: Sequence[str]
    statistics: TermStatistics

    def expand_queries(self, questions: Sequence[Sequence[str]], first: Rankings) -> WeightedQueries:
        """Return analyzed questions with new weights of distinct terms; `first` are their first results."""
        is_hit = first.indices != NOT_FOUND
        rows, inverse = np.unique(first.indices[is_hit], return_inverse=True)
        documents = [*questions, *self.tokens(rows.tolist())]
        numbers, terms = pd.factorize(np.array([token for tokens in documents for token in tokens], dtype=object))
        offsets = np.cumsum([0, *map(len, documents)])
        counts = lexical.counts_by_term(numbers, offsets, len(terms))
        query_counts = counts[: len(questions)]
        passage_counts = counts[len(questions) :]
        expansion_terms = _distributions(passage_counts @ diags_array(self._expansion_mask(terms.tolist())))
        by_question = first.scores[is_hit].astype(np.float64), inverse, np.cumsum([0, *is_hit.sum(axis=1)])
        of_passages = _distributions(csr_array(by_question, shape=(len(questions), len(rows))))
        relevance = csr_array(of_passages @ expansion_terms)
        model = _distributions(_top_terms(relevance, np.argsort(np.argsort(terms)), self.options.terms))
        feedback_weights = np.where(np.diff(model.indptr) > 0, self.options.share, 0.0)
        mixed = csr_array(
            diags_array(1 - feedback_weights) @ query_counts
            + diags_array(feedback_weights * query_counts.sum(axis=1)) @ model
        )
        mixed.eliminate_zeros()
        tokens = Tokens(terms.tolist(), mixed.indices.astype(np.int32), mixed.indptr.astype(np.int64))
        return WeightedQueries(tokens, mixed.data.astype(np.float32))

    def tokens(self, rows: Sequence[int]) -> list[list[str]]:
        return analyze(self.analysis, [self.texts[row] for row in rows])

    def _expansion_mask(self, terms: Sequence[str]) -> np.ndarray:
        positions = self.statistics.positions_of(terms)
        document_frequencies = np.zeros(len(terms), dtype=np.int64)
        known = positions >= 0
        document_frequencies[known] = self.statistics.document_frequencies[positions[known]]
        maximum = max(1, _MAX_DOCUMENT_FRACTION * self.statistics.n_passages)
        is_rare = (document_frequencies > 0) & (document_frequencies <= maximum)
        if self.analysis.analyzer in PLAIN_PART:
            is_rare &= [describe_token(self.analysis, term)[1] is not TokenKind.BIGRAM for term in terms]
        return is_rare.astype(np.float64)


def _distributions(counts: csr_array) -> csr_array:
    counts = csr_array(counts)
    counts.eliminate_zeros()
    sums = counts.sum(axis=1)
    return csr_array(diags_array(1 / np.where(sums > 0, sums, 1)) @ counts)


def _top_terms(weights: csr_array, order: np.ndarray, n_terms: int) -> csr_array:
    """Keep the highest weights of every row, ties by the `order` of the columns."""
    rows = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
    positions = np.lexsort((order[weights.indices], -weights.data.round(_TIE), rows))
    selected = positions[np.arange(len(positions)) - weights.indptr[rows[positions]] < n_terms]
    return csr_array((weights.data[selected], (rows[selected], weights.indices[selected])), shape=weights.shape)


class WindowedBM25:
    """`score(passage) = max over its windows of BM25(window)` with windows of `sentences` consecutive sentences.

    BM25's N, n and mean length are of windows. A passage of fewer sentences is a single window. Raises `ValueError`.
    """

    def __init__(
        self,
        name: str,
        passages: Sequence[Passage],
        options: BM25Options | None = None,
        *,
        sentences: int = 1,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        if sentences < 1:
            raise ValueError(f"a window must hold 1 sentence or more, not {sentences}")
        self.name = name
        texts, bounds = windows_of(passages, sentences)
        self._first = bounds[:-1]
        self._index = BM25(name, texts, options_for(passages, options), on_progress)
        self.memory_bytes = self._index.memory_bytes

    def make_ready(self, questions: Sequence[str]) -> None:
        self._index.make_ready(questions)

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        blocks = self._index.score_blocks(questions) if len(self._first) else ()
        best_windows = (np.maximum.reduceat(scores, self._first, axis=1) for scores in blocks)
        return lexical.best_of_blocks(best_windows, (len(questions), len(self._first)), k)


def options_for(passages: Sequence[Passage], options: BM25Options | None) -> BM25Options:
    """Return options with the analyzer that suits these passages: a window may suggest another language."""
    options = options or BM25Options()
    texts = Passages.from_passages(passages).indexed_texts(title=options.title)
    return replace(options, analyzer=options.analysis(texts).analyzer)


def windows_of(passages: Sequence[Passage], sentences: int) -> tuple[Passages, np.ndarray]:
    """Cut passages into windows with titles; passage i has the windows `bounds[i]` to `bounds[i + 1]`."""
    bounds = [0]

    def cut() -> Iterator[Passage]:
        for passage in passages:
            window_texts = windows(passage.text, sentences)
            bounds.append(bounds[-1] + len(window_texts))
            yield from (Passage("", text, passage.title) for text in window_texts)

    return Passages.from_passages(cut()), np.array(bounds)


def windows(text: str, sentences: int) -> list[str]:
    """Return all windows of so many consecutive `marked_sentences`, or the whole text if it has fewer."""
    spans = marked_sentences(text)
    if len(spans) <= sentences:
        return [text]
    return [text[start:end] for (start, _), (_, end) in zip(spans, spans[sentences - 1 :], strict=False)]


class RankBM25(Index):
    """The reference; its memory is unknown."""

    def __init__(self, tokens: Tokens, k1: float, b: float) -> None:
        super().__init__(len(tokens))
        from rank_bm25 import BM25Okapi

        self._index = BM25Okapi(tokens.texts(), k1=k1, b=b)

    def score_blocks(self, questions: Tokens, factors: np.ndarray | None = None) -> Iterator[np.ndarray]:
        del factors
        for words in questions.texts():
            scores = self._index.get_scores(words)[None, :]
            yield np.where(scores > 0, scores, -np.inf)


def _text_index(passages: Passages, analysis: Analysis, options: BM25Options, on_progress: Progress | None) -> Index:
    texts = passages.indexed_texts(title=options.title)
    analyzed = token_parts(analysis, texts, on_progress and (lambda done: on_progress(_ANALYSIS_FRACTION * done)))
    all_tokens = [next(analyzed)] if len(texts) <= TEXTS_PER_PART else None
    statistics = lexical.term_statistics(analysis, texts, all_tokens or analyzed)

    def segments() -> Iterator[Segment]:
        return lexical.bm25_segments(all_tokens or token_parts(analysis, texts), statistics, options.k1, options.b)

    key = key_of("bm25", *analysis.key, texts.fingerprint, options.k1, options.b)
    return _index(key, segments, statistics, on_progress)


def _field_index(passages: Passages, analysis: Analysis, options: BM25Options, on_progress: Progress | None) -> Index:
    parameters = (options.k1, options.b, options.title_weight or 0.0)
    report_analysis = on_progress and (lambda done: on_progress(_ANALYSIS_FRACTION * done))
    statistics = lexical.field_statistics(analysis, passages, report_analysis)

    def segments() -> Iterator[Segment]:
        fields = zip(token_parts(analysis, passages.titles), token_parts(analysis, passages.texts), strict=True)
        return lexical.bm25f_segments(fields, statistics, *parameters)

    fingerprints = passages.titles.fingerprint, passages.texts.fingerprint
    key = key_of("bm25f", *analysis.key, *fingerprints, *parameters)
    return _index(key, segments, statistics.terms, on_progress)


def _index(
    key: str, segments: Callable[[], Iterator[Segment]], terms: TermStatistics, on_progress: Progress | None
) -> Index:
    n_passages = terms.n_passages
    if not terms.mean_length:
        return Index(n_passages)
    if n_passages <= TEXTS_PER_PART and terms.n_tokens <= lexical.MAX_NUMPY_TOKENS:
        return lexical.SingleSegmentIndex(next(segments()), n_passages)
    from mrc_workbench.retrieval.lexical.index import Postings, PostingsIndex, mapped_postings  # imports a compiler

    def reporting_segments() -> Iterator[Segment]:
        for number, segment in enumerate(segments(), start=1):
            yield segment
            if on_progress:
                on_progress(
                    _ANALYSIS_FRACTION + (1 - _ANALYSIS_FRACTION) * min(1.0, number * TEXTS_PER_PART / n_passages)
                )

    if n_passages <= TEXTS_PER_PART:
        return PostingsIndex(Postings.from_segments(reporting_segments(), n_passages, TEXTS_PER_PART))
    return PostingsIndex(mapped_postings(key, n_passages, reporting_segments, TEXTS_PER_PART))
