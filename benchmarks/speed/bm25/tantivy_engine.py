"""Tantivy, a search engine in Rust, by its Python interface.

That interface gathers hits by a collector of several collectors, counts asked for or not, and with one of these Tantivy
scores every posting: what it can skip by itself (block-max WAND), it does not skip here, and one hit takes as long as
ten. A document's length is held in a byte, so scores differ a little. A question is a disjunction of its terms.
Positions are not indexed, as nobody else holds any.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.clones import Clones
from benchmarks.speed.bm25.engine import Words

_FIELD, _ROW, _FREQUENCIES = "text", "row", "freq"


class Tantivy:
    """An index as Tantivy makes it unless told otherwise: by as many threads as there are cores, in segments."""

    name = f"Tantivy {version('tantivy')}"
    wanted: float | None = None
    _writer: tuple[int, int] = (128_000_000, 0)  # bytes held before a segment is written; threads, 0: as it likes

    def __init__(self, index: Any) -> None:
        self._searcher = index.searcher()
        self._schema = index.schema

    @classmethod
    def build(cls, clones: Clones, folder: Path) -> float:
        """See `Engine`."""
        import tantivy

        builder = tantivy.SchemaBuilder()
        builder.add_text_field(_FIELD, stored=False, tokenizer_name="whitespace", index_option=_FREQUENCIES)
        builder.add_unsigned_field(_ROW, stored=False, indexed=False, fast=True)
        start = perf_counter()
        writer = tantivy.Index(builder.build(), path=str(folder)).writer(*cls._writer)
        seconds = perf_counter() - start
        for row, text in enumerate(_texts(clones)):
            start = perf_counter()
            document = tantivy.Document()
            document.add_text(_FIELD, text)
            document.add_unsigned(_ROW, row)
            writer.add_document(document)
            seconds += perf_counter() - start
        start = perf_counter()
        writer.commit()
        writer.wait_merging_threads()
        return seconds + perf_counter() - start

    @classmethod
    def open(cls, folder: Path) -> "Tantivy":
        """See `Engine`."""
        import tantivy

        return cls(tantivy.Index.open(str(folder)))

    @property
    def n_segments(self) -> int:
        """In how many parts the index is."""
        return int(self._searcher.num_segments)

    def asked(self, questions: Sequence[Words]) -> list[Any]:
        """See `Engine`."""
        from tantivy import Occur, Query

        def term(word: str) -> tuple[Any, Any]:
            return Occur.Should, Query.term_query(self._schema, _FIELD, word, index_option=_FREQUENCIES)

        return [Query.boolean_query([term(word) for word in words]) for words in questions]

    def search(self, asked: list[Any], k: int, threads: int) -> list[Any]:
        """See `Engine`."""

        def hits(query: Any) -> Any:
            return self._searcher.search(query, limit=k, count=False).hits

        if threads == 1 or len(asked) == 1:
            return [hits(query) for query in asked]
        with ThreadPoolExecutor(threads) as cores:  # it searches without the interpreter's lock
            return list(cores.map(hits, asked))

    def found(self, questions: Sequence[Words], k: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Engine`."""
        rows, scores = np.full((len(questions), k), -1), np.full((len(questions), k), -np.inf)
        for question, hits in enumerate(self.search(self.asked(questions), k, 1)):
            found = self._searcher.fast_field_values(_ROW, [address for _, address in hits])
            rows[question, : len(hits)], scores[question, : len(hits)] = found, [score for score, _ in hits]
        return rows, scores


class TantivyInOne(Tantivy):
    """An index in one segment, which one thread writes: what is quickest to search."""

    name = f"Tantivy {version('tantivy')}, one segment"
    wanted: float | None = 1.0
    _writer = (4_000_000_000, 1)


def _texts(clones: Clones) -> Iterator[str]:
    """Spell the passages: the words as they are, with a space between them."""
    words = np.array(clones.tokens.vocabulary, dtype=object)
    for begin, end in pairwise(clones.tokens.offsets.tolist()):
        yield " ".join(words[clones.tokens.ids[begin:end]])
