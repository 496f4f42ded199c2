"""Indexes of weighed terms: what the engines of BM25 make of analyzed passages, and learned sparse retrieval."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import Passage
from mrc_workbench.data.text.analysis import PART, Analysis, Tokens, token_parts
from mrc_workbench.models.vectors import LimitedEncoder, TermEncoder
from mrc_workbench.retrieval.lexical import (
    FEW,
    Segment,
    TermStatistics,
    bm25_segments,
    bm25f_segments,
    field_statistics,
    hashes_of,
    term_statistics,
)
from mrc_workbench.retrieval.rankings import Rankings, joined, places_in, top_k

if TYPE_CHECKING:
    from mrc_workbench.retrieval.lexical.index import Postings  # imports a compiler

_BLOCK, _CELLS = 512, 50_000_000  # questions, and scores, at a time: 200 MB


class Engine(StrEnum):
    """`POSTINGS` is the engine; `RANK_BM25` is a slow reference in its own variant (Okapi with an idf floor): there a
    term of half of the passages weighs nothing, and a passage that scores 0 or less is not found.
    """

    POSTINGS = "postings"
    RANK_BM25 = "rank-bm25"


class Index:
    """What an engine makes of analyzed passages; this one, of passages without a token, finds nothing.

    `memory_bytes` is the size of its arrays, 0 where not known.
    """

    memory_bytes = 0

    def __init__(self, n_passages: int) -> None:
        self._n_passages, self._block = n_passages, max(1, min(_BLOCK, _CELLS // max(1, n_passages)))

    def search(self, questions: Tokens, k: int, factors: np.ndarray | None = None) -> Rankings:
        """Return the best k passages of each analyzed question, with weights of its tokens (`POSTINGS` only)."""
        return best_of_blocks(self.score_blocks(questions, factors), (len(questions), self._n_passages), k)

    def score_blocks(self, questions: Tokens, factors: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """Score every passage for some questions at a time: `(rows, n_passages)`, -inf where no term is shared."""
        del factors
        for start in range(0, len(questions), self._block):
            yield np.full((min(self._block, len(questions) - start), self._n_passages), -np.inf, dtype=np.float32)


def best_of_blocks(blocks: Iterable[np.ndarray], shape: tuple[int, int], k: int) -> Rankings:
    """Return the best k columns of a score matrix of this shape that comes a few rows at a time, or never."""
    parts = [top_k(scores, k) for scores in blocks]
    return joined(parts or [top_k(np.full(shape, -np.inf, dtype=np.float32), k)])


class InPostings(Index):
    """The engine: see `retrieval.lexical.index`."""

    def __init__(self, postings: "Postings") -> None:
        super().__init__(postings.n_passages)
        self._postings = postings
        self.memory_bytes = postings.memory_bytes

    def search(self, questions: Tokens, k: int, factors: np.ndarray | None = None) -> Rankings:
        return self._postings.search(_terms(questions), questions.offsets, k, factors)

    def score_blocks(self, questions: Tokens, factors: np.ndarray | None = None) -> Iterator[np.ndarray]:
        return self._postings.scores(_terms(questions), questions.offsets, self._block, factors)


def _terms(questions: Tokens) -> np.ndarray:
    return np.asarray(hashes_of(questions.vocabulary)[questions.ids])


class InOneSegment(Index):
    """The engine's own scores of a few passages, to the last bit, with nothing to compile: see `lexical.index`."""

    def __init__(self, segment: Segment, n_passages: int) -> None:
        super().__init__(n_passages)
        order = np.argsort(segment.terms, kind="stable")
        ends = np.cumsum(segment.lengths, dtype=np.int64)
        self._terms, self._lists = segment.terms[order], np.stack([ends - segment.lengths, ends], axis=1)[order]
        self._rows, self._weights = segment.rows, segment.weights
        largest = np.maximum.reduceat(np.abs(self._weights), ends - segment.lengths) if len(ends) else np.zeros(0)
        self._largest = largest[order].astype(np.float64)
        arrays = (self._terms, self._lists, self._largest, self._rows, self._weights)
        self.memory_bytes = sum(array.nbytes for array in arrays)

    def score_blocks(self, questions: Tokens, factors: np.ndarray | None = None) -> Iterator[np.ndarray]:
        terms, offsets = _terms(questions), questions.offsets
        weighed = np.ones(len(terms)) if factors is None else factors.astype(np.float64)
        for scores, start in zip(super().score_blocks(questions), range(0, len(questions), self._block), strict=True):
            for row in range(len(scores)):
                asked = slice(offsets[start + row], offsets[start + row + 1])
                sums = self._sums(terms[asked], weighed[asked])
                scores[row] = np.where(sums > 0, sums, -np.inf)
            yield scores

    def _sums(self, terms: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Add up what the terms weigh in each passage, those first that can add most, as the engine does."""
        places = places_in(self._terms, terms)
        distinct, which = np.unique(places[places >= 0], return_inverse=True)
        counts = np.bincount(which, factors[places >= 0], len(distinct))
        sums = np.zeros(self._n_passages)
        for one in np.lexsort((distinct, -self._largest[distinct] * np.abs(counts))):
            here = slice(*self._lists[distinct[one]])
            sums[self._rows[here]] += counts[one] * self._weights[here].astype(np.float64)
        return sums


class RankBM25(Index):
    """A reference, whose memory is not known."""

    def __init__(self, tokens: Tokens, k1: float, b: float) -> None:
        super().__init__(len(tokens))
        from rank_bm25 import BM25Okapi

        self._index = BM25Okapi(tokens.texts(), k1=k1, b=b)

    def score_blocks(self, questions: Tokens, factors: np.ndarray | None = None) -> Iterator[np.ndarray]:
        del factors
        for words in questions.texts():
            scores = self._index.get_scores(words)[None, :]
            yield np.where(scores > 0, scores, -np.inf)


_ANALYSIS = 0.9  # the share of analysis in all the work
Told = Callable[[float], None]


def text_index(
    passages: Passages, analysis: Analysis, k1: float, b: float, *, title: bool, on_progress: Told | None = None
) -> Index:
    """Return the index of passages as one text each, `on_progress` told the share of the work that is done."""
    texts = passages.indexed_texts(title=title)
    analyzed = token_parts(analysis, texts, on_progress and (lambda done: on_progress(_ANALYSIS * done)))
    held = [next(analyzed)] if len(texts) <= PART else None  # as tokens, all of them
    statistics = term_statistics(analysis, texts, held or analyzed)

    def segments() -> Iterator[Segment]:
        return bm25_segments(held or token_parts(analysis, texts), statistics, k1, b)

    return _index(key_of("bm25", *analysis.key, texts.fingerprint, k1, b), segments, statistics, on_progress)


def field_index(
    passages: Passages, analysis: Analysis, k1: float, b: float, *, title_weight: float, on_progress: Told | None = None
) -> Index:
    """Return the index of passages as a title and a text each; see `text_index`."""
    statistics = field_statistics(analysis, passages, on_progress and (lambda done: on_progress(_ANALYSIS * done)))

    def segments() -> Iterator[Segment]:
        both = zip(token_parts(analysis, passages.titles), token_parts(analysis, passages.texts), strict=True)
        return bm25f_segments(both, statistics, k1, b, title_weight)

    texts = passages.titles.fingerprint, passages.texts.fingerprint
    key = key_of("bm25f", *analysis.key, *texts, k1, b, title_weight)
    return _index(key, segments, statistics.terms, on_progress)


def _index(
    key: str, segments: Callable[[], Iterator[Segment]], statistics: TermStatistics, on_progress: Told | None
) -> Index:
    """Return the index that the collection's size asks for; one of more than `PART` passages is kept under the key."""
    n_passages = statistics.n_passages
    if not statistics.mean_length:
        return Index(n_passages)
    if n_passages <= PART and statistics.n_tokens <= FEW:
        return InOneSegment(next(segments()), n_passages)
    from mrc_workbench.retrieval.lexical.index import Postings, mapped_postings  # imports a compiler

    def told() -> Iterator[Segment]:
        for number, segment in enumerate(segments(), start=1):
            yield segment
            if on_progress:
                on_progress(_ANALYSIS + (1 - _ANALYSIS) * min(1.0, number * PART / n_passages))

    if n_passages <= PART:
        return InPostings(Postings.of(told(), n_passages, PART))
    return InPostings(mapped_postings(key, n_passages, told, PART))


class LearnedSparse:
    """Terms weighed by a model, searched exactly in postings like those of BM25 (SPLADE: Formal et al. 2021).

    `score = sum over the terms of weight in the question * weight in the passage`, a dot product over the model's
    vocabulary, higher is better, ties by row. Terms that stand in neither text may carry weight: the model expands
    both. A passage that shares no term with the question, or whose score is not above 0, is not found.
    """

    def __init__(self, name: str, passages: Sequence[Passage], encoder: TermEncoder, *, title: bool = True) -> None:
        from mrc_workbench.retrieval.lexical.index import Postings, segments_of  # imports a compiler

        self.name = name
        self._encoder = encoder
        self._texts = Passages.of(passages).indexed_texts(title=title)
        weights = encoder.encode_passages(self._texts)
        self._n_terms = weights.shape[1]
        self._postings = Postings.of(segments_of(weights), len(passages))
        self.memory_bytes = self._postings.memory_bytes

    def cut_off(self) -> int:
        return self._encoder.cut_off(self._texts) if isinstance(self._encoder, LimitedEncoder) else 0

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question. Raises `ValueError` where their vocabulary is a larger one."""
        asked = self._encoder.encode_questions(questions)
        if asked.shape[1] > self._n_terms:
            raise ValueError("the model's questions have terms that its passages cannot have")
        terms, weights = asked.indices.astype(np.uint64), asked.data.astype(np.float32, copy=False)
        return self._postings.search(terms, asked.indptr.astype(np.int64), k, weights)
