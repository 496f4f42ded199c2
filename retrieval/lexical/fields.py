"""BM25F: a passage's title and its text as two fields, each with lengths of its own.

A term adds `idf * c / (c + k1)`, with `c = sum over the fields of weight * f / (1 - b + b * length / mean length)`: f
is its count in the field, lengths are of the field, and the text weighs 1. So it is saturated once, however its counts
are parted. Its idf is that of BM25, of the passages that hold it in either field. Robertson, Zaragoza & Taylor 2004,
"Simple BM25 extension to multiple weighted fields"; Zaragoza et al. 2004, "Microsoft Cambridge at TREC 13", for the
lengths.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from data.cache import cached_arrays, key_of
from data.passages import Passages
from retrieval.lexical.statistics import TermStatistics, counts_of
from text.analysis import Analysis
from text.analyzers import VERSION
from text.tokens import Tokens, token_parts


@dataclass(frozen=True)
class FieldStatistics:
    """The terms of both fields together, and the mean lengths of titles and of texts in tokens, of all passages."""

    terms: TermStatistics
    mean_title: float
    mean_text: float


def field_statistics(
    analysis: Analysis, passages: Passages, on_progress: Callable[[float], None] | None = None
) -> FieldStatistics:
    """Count the passages that hold each term in either field, or read the counts that were kept.

    `on_progress` is told the share of the texts that are analyzed; titles are few letters beside them.
    """

    def count() -> dict[str, np.ndarray]:
        n_title = 0

        def both() -> Iterator[Tokens]:
            nonlocal n_title
            parts = token_parts(analysis, passages.titles), token_parts(analysis, passages.texts, on_progress)
            for titles, texts in zip(*parts, strict=True):
                n_title += len(titles.ids)
                yield one_after_the_other(titles, texts)

        return counts_of(both()) | {"n_title": np.array(n_title)}

    key = key_of(VERSION, *analysis.key, passages.titles.fingerprint, passages.texts.fingerprint)
    kept, n_passages = cached_arrays("field-terms", key, count), max(1, len(passages))
    n_title, n_all = int(kept["n_title"]), int(kept["n_tokens"])
    terms = TermStatistics(kept["hashes"], kept["holders"], len(passages), n_all / n_passages)
    return FieldStatistics(terms, n_title / n_passages, (n_all - n_title) / n_passages)


def one_after_the_other(titles: Tokens, texts: Tokens) -> Tokens:
    """Return the tokens of each passage's title and text as one, in one vocabulary."""
    number = {token: place for place, token in enumerate(texts.vocabulary)}
    translation = np.array([number.setdefault(token, len(number)) for token in titles.vocabulary], dtype=np.int32)
    rows = np.concatenate([np.repeat(np.arange(len(part)), np.diff(part.offsets)) for part in (titles, texts)])
    ids = np.concatenate([translation[titles.ids], texts.ids])[np.argsort(rows, kind="stable")]
    return Tokens(list(number), ids, titles.offsets + texts.offsets)
