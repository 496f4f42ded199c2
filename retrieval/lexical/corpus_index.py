"""The index of a corpus: its passages analyzed, counted, weighed and put into postings, a part at a time.

The tokens that are kept together make a segment. A corpus of one is indexed in memory, which takes a second, and where
its tokens are few nothing is compiled for it; the index of a larger one is kept on the disk.
"""

from collections.abc import Callable, Iterator

from data.cache import key_of
from data.passages import Passages
from retrieval.lexical.engines import Index, InOneSegment, InPostings, NothingFound
from retrieval.lexical.fields import field_statistics
from retrieval.lexical.postings.segment import FEW, Segment
from retrieval.lexical.statistics import TermStatistics, term_statistics
from retrieval.lexical.weights import bm25_segments, bm25f_segments
from text.analysis import Analysis
from text.tokens import PART, token_parts

_ANALYSIS = 0.9  # the share of analysis in all the work
Told = Callable[[float], None]


def text_index(
    passages: Passages, analysis: Analysis, k1: float, b: float, *, title: bool, on_progress: Told | None = None
) -> Index:
    """Return the index of passages as one text each, `on_progress` told the share of the work that is done."""
    texts = passages.indexed_texts(title=title)
    parts = token_parts(analysis, texts, _analysis_told(on_progress))
    if len(texts) <= PART:
        tokens = [next(parts)]
        statistics = term_statistics(analysis, texts, tokens)
        return _in_memory(bm25_segments(tokens, statistics, k1, b), statistics)
    statistics = term_statistics(analysis, texts, parts)

    def segments() -> Iterator[Segment]:
        return _told(bm25_segments(token_parts(analysis, texts), statistics, k1, b), len(texts), on_progress)

    return _mapped(key_of("bm25", *analysis.key, texts.fingerprint, k1, b), segments, statistics)


def field_index(
    passages: Passages,
    analysis: Analysis,
    k1: float,
    b: float,
    *,
    title_weight: float,
    on_progress: Told | None = None,
) -> Index:
    """Return the index of passages as a title and a text each; see `text_index`."""
    statistics = field_statistics(analysis, passages, _analysis_told(on_progress))

    def segments() -> Iterator[Segment]:
        both = zip(token_parts(analysis, passages.titles), token_parts(analysis, passages.texts), strict=True)
        return _told(bm25f_segments(both, statistics, k1, b, title_weight), len(passages), on_progress)

    if len(passages) <= PART:
        return _in_memory(segments(), statistics.terms)
    told_by = passages.titles.fingerprint, passages.texts.fingerprint
    return _mapped(key_of("bm25f", *analysis.key, *told_by, k1, b, title_weight), segments, statistics.terms)


def _in_memory(segments: Iterator[Segment], statistics: TermStatistics) -> Index:
    if not statistics.mean_length:
        return NothingFound(statistics.n_passages)
    if statistics.n_tokens <= FEW:
        return InOneSegment(next(segments), statistics.n_passages)
    from retrieval.lexical.postings.index import Postings  # imports a compiler

    return InPostings(Postings.of(segments, statistics.n_passages, PART))


def _mapped(key: str, segments: Callable[[], Iterator[Segment]], statistics: TermStatistics) -> Index:
    if not statistics.mean_length:
        return NothingFound(statistics.n_passages)
    from retrieval.lexical.postings.index import mapped_postings  # imports a compiler

    return InPostings(mapped_postings(key, statistics.n_passages, segments, PART))


def _analysis_told(on_progress: Told | None) -> Told | None:
    return on_progress and (lambda share: on_progress(_ANALYSIS * share))


def _told(segments: Iterator[Segment], n_passages: int, on_progress: Told | None) -> Iterator[Segment]:
    for number, segment in enumerate(segments, start=1):
        yield segment
        if on_progress:
            on_progress(_ANALYSIS + (1 - _ANALYSIS) * min(1.0, number * PART / n_passages))
