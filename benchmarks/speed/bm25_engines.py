"""BM25 engines for the comparison: ours, bm25s with its numba backend, rank-bm25 and Tantivy.

rank-bm25 scores all passages with Python dictionaries and suits small corpora. Tantivy is a search engine in Rust. Its
Python bindings always use a multi-collector, which scores all postings: block-max WAND has no effect, and one hit takes
as long as ten. It stores document lengths in one byte, so scores differ slightly. A question is a disjunction of its
terms. Positions are not indexed, since no other engine stores them.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from itertools import accumulate, chain, pairwise
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from benchmarks.clones import Clones
from mrc_workbench.data.text.analysis import Tokens

if TYPE_CHECKING:
    from mrc_workbench.retrieval.lexical import Segment
    from mrc_workbench.retrieval.lexical.index import Postings
    from mrc_workbench.retrieval.rankings import Rankings

# Tantivy's fixed values of k1 and b
K1 = 1.2
B = 0.75
POSTING_BYTES = 8  # of bm25s: row and weight of 4 bytes each; ours has 2 and 4
Words = Sequence[str]  # of a question, with duplicates


class Engine(Protocol):
    """An open index on disk.

    `name` includes the version. `target_speedup` is the factor by which our BM25 should be faster for the top 100 of a
    million passages with one thread; None without a target.
    """

    name: str
    target_speedup: float | None

    @classmethod
    def build(cls, clones: Clones, folder: Path) -> float:
        """Build and save the index; returns the seconds, without the conversion of the tokens."""
        ...

    @classmethod
    def open(cls, folder: Path) -> "Engine":
        """Open the index that `build` saved."""
        ...

    def prepare_queries(self, questions: Sequence[Words]) -> Any:
        """Convert questions for `search`; its time is not counted."""
        ...

    def search(self, queries: Any, k: int, threads: int) -> Any:
        """Search the top k passages of each question."""
        ...

    def top_k(self, questions: Sequence[Words], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and scores of the top k, `(n_questions, k)` each; higher is better, row -1 after the last hit."""
        ...


_KEY = "clones"
_COUNT = "passages.txt"


class WorkbenchBM25:
    """The memory-mapped postings of `retrieval.lexical`."""

    name = "ours"
    target_speedup: float | None = None

    def __init__(self, postings: "Postings") -> None:
        self._postings = postings

    @classmethod
    def build(cls, clones: Clones, folder: Path) -> float:
        """See `Engine`."""
        few = next(clones.parts(10))
        list(_build_segments(Clones(few, few, np.arange(len(few)))))  # compiles
        start = perf_counter()
        _open_postings(folder, len(clones.tokens), clones)
        (folder / _COUNT).write_text(str(len(clones.tokens)), encoding="utf-8")
        return perf_counter() - start

    @classmethod
    def open(cls, folder: Path) -> "WorkbenchBM25":
        """See `Engine`."""
        return cls(_open_postings(folder, int((folder / _COUNT).read_text(encoding="utf-8"))))

    def prepare_queries(self, questions: Sequence[Words]) -> Tokens:
        """See `Engine`."""
        number: dict[str, int] = {}
        ids = np.array([number.setdefault(word, len(number)) for word in chain(*questions)], dtype=np.int32)
        return Tokens(list(number), ids, np.array([0, *accumulate(map(len, questions))]))

    def search(self, queries: Tokens, k: int, threads: int) -> "Rankings":
        """See `Engine`."""
        from mrc_workbench.retrieval.lexical import hash_terms

        return self._postings.search(hash_terms(queries.vocabulary)[queries.ids], queries.offsets, k, cores=threads)

    def top_k(self, questions: Sequence[Words], k: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Engine`."""
        rankings = self.search(self.prepare_queries(questions), k, 1)
        return rankings.indices, rankings.scores


def _open_postings(folder: Path, n_passages: int, clones: Clones | None = None) -> "Postings":
    """Open the index of a folder; build it first if clones are given."""
    from mrc_workbench.retrieval.lexical.index import mapped_postings

    os.environ["MRC_WORKSPACE"] = str(folder)  # folder of the indexes
    return mapped_postings(_KEY, n_passages, lambda: _build_segments(clones))


def _build_segments(clones: Clones | None) -> "Iterator[Segment]":
    """Count terms and compute weights, one part at a time."""
    from mrc_workbench.retrieval.lexical import TermStatistics, bm25_segments, counts_of

    if clones is None:
        raise FileNotFoundError("there is no index to open")
    counts = counts_of(clones.parts())
    n_passages = len(clones.tokens)
    mean_length = float(counts["n_tokens"]) / n_passages
    statistics = TermStatistics(counts["hashes"], counts["document_frequencies"], n_passages, mean_length)
    return bm25_segments(clones.parts(), statistics, K1, B)


_MAX_LIST_PASSAGES = 100_000  # above, token lists do not fit into memory; bm25s is fastest with lists


class BM25S:
    """A memory-mapped index of bm25s."""

    name = f"bm25s {version('bm25s')} (numba)"
    target_speedup: float | None = 2.0

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def build(cls, clones: Clones, folder: Path) -> float:
        """See `Engine`."""
        import bm25s

        tokens = clones.tokens
        documents: list[Any] = [tokens.ids[begin:end] for begin, end in pairwise(tokens.offsets.tolist())]
        if len(documents) <= _MAX_LIST_PASSAGES:
            documents = [part.tolist() for part in documents]
        vocabulary = {token: number for number, token in enumerate(tokens.vocabulary)}
        start = perf_counter()
        index = bm25s.BM25(method="lucene", k1=K1, b=B, backend="numba")
        index.index((documents, vocabulary), show_progress=False)
        index.save(folder, show_progress=False)
        return perf_counter() - start

    @classmethod
    def open(cls, folder: Path) -> "BM25S":
        """See `Engine`."""
        import bm25s

        return cls(bm25s.BM25.load(folder, mmap=True, show_progress=False))

    def prepare_queries(self, questions: Sequence[Words]) -> list[list[str]]:
        """See `Engine`."""
        return [list(words) for words in questions]

    def search(self, queries: list[list[str]], k: int, threads: int) -> Any:
        """See `Engine`."""
        return self._index.retrieve(queries, k=k, n_threads=threads, show_progress=False, sorted=True)

    def top_k(self, questions: Sequence[Words], k: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Engine`."""
        result = self.search(self.prepare_queries(questions), k, 1)
        return np.where(result.scores > 0, result.documents, -1), result.scores


class RankBM25Library:
    """An index of rank-bm25. It cannot be saved, so `open` rebuilds it from the stored corpus."""

    name = f"rank-bm25 {version('rank-bm25')}"
    target_speedup: float | None = None

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def build(cls, clones: Clones, folder: Path) -> float:
        """See `Engine`."""
        from rank_bm25 import BM25Okapi

        clones.save(folder)
        texts = clones.tokens.texts()
        start = perf_counter()
        BM25Okapi(texts, k1=K1, b=B)
        return perf_counter() - start

    @classmethod
    def open(cls, folder: Path) -> "RankBM25Library":
        """See `Engine`."""
        from rank_bm25 import BM25Okapi

        return cls(BM25Okapi(Clones.load(folder).tokens.texts(), k1=K1, b=B))

    def prepare_queries(self, questions: Sequence[Words]) -> Sequence[Words]:
        """See `Engine`."""
        return questions

    def search(self, queries: Sequence[Words], k: int, threads: int) -> list[np.ndarray]:
        """See `Engine`; always uses one thread."""
        del threads
        return [np.argsort(-self._index.get_scores(words))[:k] for words in queries]

    def top_k(self, questions: Sequence[Words], k: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Engine`."""
        scores = np.stack([self._index.get_scores(words) for words in questions])
        rows = np.argsort(-scores, axis=1)[:, :k]
        return rows, np.take_along_axis(scores, rows, axis=1)


_FIELD = "text"
_ROW = "row"
_FREQUENCIES = "freq"


class Tantivy:
    """An index of Tantivy with its defaults: written by all cores, in several segments."""

    name = f"Tantivy {version('tantivy')}"
    target_speedup: float | None = None
    _writer: tuple[int, int] = (128_000_000, 0)  # heap size in bytes; threads, 0: all cores

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
        """The number of segments."""
        return int(self._searcher.num_segments)

    def prepare_queries(self, questions: Sequence[Words]) -> list[Any]:
        """See `Engine`."""
        from tantivy import Occur, Query

        def term(word: str) -> tuple[Any, Any]:
            return Occur.Should, Query.term_query(self._schema, _FIELD, word, index_option=_FREQUENCIES)

        return [Query.boolean_query([term(word) for word in words]) for words in questions]

    def search(self, queries: list[Any], k: int, threads: int) -> list[Any]:
        """See `Engine`."""

        def hits(query: Any) -> Any:
            return self._searcher.search(query, limit=k, count=False).hits

        if threads == 1 or len(queries) == 1:
            return [hits(query) for query in queries]
        with ThreadPoolExecutor(threads) as cores:  # searching releases the GIL
            return list(cores.map(hits, queries))

    def top_k(self, questions: Sequence[Words], k: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Engine`."""
        rows = np.full((len(questions), k), -1)
        scores = np.full((len(questions), k), -np.inf)
        for question, hits in enumerate(self.search(self.prepare_queries(questions), k, 1)):
            passage_rows = self._searcher.fast_field_values(_ROW, [address for _, address in hits])
            rows[question, : len(hits)] = passage_rows
            scores[question, : len(hits)] = [score for score, _ in hits]
        return rows, scores


class TantivySingleSegment(Tantivy):
    """An index of one segment, written by one thread: the fastest to search."""

    name = f"Tantivy {version('tantivy')}, one segment"
    target_speedup: float | None = 1.0
    _writer = (4_000_000_000, 1)


def _texts(clones: Clones) -> Iterator[str]:
    """Yield the passages as words separated by spaces."""
    words = np.array(clones.tokens.vocabulary, dtype=object)
    for begin, end in pairwise(clones.tokens.offsets.tolist()):
        yield " ".join(words[clones.tokens.ids[begin:end]])
