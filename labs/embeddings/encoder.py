"""Sentences and their vectors, the models that a user added, and the cost of comparing n sentences pairwise.

A cross-encoder reads every pair, n (n - 1) / 2 of them. A bi-encoder reads every sentence once and searches the vectors
for nearest neighbours, exactly or in a graph (HNSW; Reimers & Gurevych 2019, section 1). Costs are measured for as many
sentences as the time allows, then extrapolated: cross-encoder time grows with the number of pairs, encoding with n,
exact search with n^2 and the graph with n log n.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, partial
from itertools import chain, combinations, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from pydantic import TypeAdapter

from mrc_workbench.data.files import accept_earlier_names, back_up_damaged_file, read_user_file
from mrc_workbench.data.pairs import PairSet, number_sentences, row_groups
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.workspace import workspace, write_json
from mrc_workbench.labs.embeddings.geometry import find_neighbours
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.sources import find_model

_FILE = "models.json"
SIZES = (30, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)  # the first is always measured
SECONDS = 60.0
_WARM_UP = 32  # texts or pairs before the first timing: lazy loading is not timed
_BATCH_SIZE = 256
# links of each vector in the graph, and candidates while it is built and searched
_HNSW_LINKS = 32
_HNSW_CANDIDATES = 128
ReportProgress = Callable[[float], None]
T = TypeVar("T")


class EmbeddingError(Failure):
    """Data that cannot be measured. Codes: `no_pairs` (an empty part), `few_sentences`."""


@dataclass(frozen=True)
class DistinctSentences:
    """Distinct sentences; `sentence_rows` `(n_rows, width)` int64 are the sentences of each row of a set."""

    sentences: list[str]
    sentence_rows: np.ndarray = field(repr=False)

    @classmethod
    def from_pairs(cls, pairs: PairSet) -> "DistinctSentences":
        """Return the sentences of a set in order of first appearance, column by column."""
        (sentence_rows,) = number_sentences(pairs)
        first = np.unique(sentence_rows.T, return_index=True)[1]
        column_of = first // max(1, len(pairs))
        rows = first % max(1, len(pairs))
        texts = (column.at(rows[column_of == number]) for number, column in enumerate(pairs.texts))
        return cls([*chain.from_iterable(texts)], sentence_rows)

    @cached_property
    def groups(self) -> np.ndarray:
        """Numbers `(n_rows,)` int64 of the groups of rows that share a sentence, directly or through others."""
        return row_groups(self.sentence_rows)

    @cached_property
    def sentence_groups(self) -> np.ndarray:
        """The group of each sentence's rows, `(n_sentences,)` int64."""
        groups = np.zeros(len(self.sentences), dtype=np.int64)
        groups[self.sentence_rows] = self.groups[:, None]
        return groups


@dataclass(frozen=True)
class SentenceVectors:
    """Memory-mapped unit vectors `(n_sentences, dimensions)` float32, and the seconds that encoding took.

    `fingerprint` identifies the model's content.
    """

    vectors: np.ndarray
    fingerprint: str
    seconds: float


def encode(
    reference: str,
    sentences: Sequence[str],
    corpus: Sequence[str],
    *,
    base: Path | None = None,
    on_progress: Callable[[float], Any] | None = None,
) -> SentenceVectors:
    """Encode distinct sentences with the model's question prompt; vectors are cached block by block.

    The starter model is fitted on `corpus`, all sentences of the set. An interrupted call continues after the last
    complete block. Raises `ModelError`.
    """
    encoder = BiEncoder(find_model(reference, base), corpus, on_progress=on_progress)
    vectors = encoder.encode_sentences(sentences)
    return SentenceVectors(vectors, encoder.fingerprint, encoder.meter.lap()[1])


def added_models() -> list[str]:
    """Return the references of the added models, the first added first."""
    try:
        return _read_added()[0]
    except OSError:
        return []


def _read_added() -> tuple[list[str], bool]:
    """Return the readable references, and whether the file holds anything else."""
    content, is_damaged = read_user_file(workspace() / "embeddings" / _FILE)
    models = content.get("models", [])
    references = [model for model in models if isinstance(model, str)] if isinstance(models, list) else []
    return references, is_damaged or references != models


def add_model(reference: str) -> None:
    """Add a model, once. Raises `ModelError` if no model has this name, here or on the hub."""
    find_model(reference)
    _write([*(model for model in added_models() if model != reference), reference])


def remove_model(reference: str) -> None:
    """Remove a model from the list; its files and results stay."""
    _write([model for model in added_models() if model != reference])


def _write(models: list[str]) -> None:
    path = workspace() / "embeddings" / _FILE
    if _read_added()[1]:
        back_up_damaged_file(path)
    write_json(path, {"models": models})


class Method(StrEnum):
    """How sentences are compared with each other."""

    CROSS_ENCODER = "cross-encoder"
    EXACT = "exact"
    HNSW = "hnsw"


@dataclass(frozen=True)
class CostPoint:
    """Seconds of a method for a number of sentences, encoding included: measured, or extrapolated."""

    method: Method
    sentences: int
    seconds: float
    is_measured: bool
    _earlier = accept_earlier_names({"measured": "is_measured"})


class _Timing(NamedTuple):
    seconds: float
    is_measured: bool


@dataclass(frozen=True)
class CostComparison:
    """Points by method, then by size. `agreement` is the fraction of nearest neighbours that HNSW finds."""

    points: tuple[CostPoint, ...]
    agreement: float


COST_ADAPTER = TypeAdapter(CostComparison)


def measure_cost(
    bi_encoder: str,
    cross_encoder: str,
    sentences: Sequence[str],
    *,
    seconds: float = SECONDS,
    base: Path | None = None,
    on_progress: ReportProgress | None = None,
) -> CostComparison:
    """Measure two models, named by reference, on the first sentences, for at most `seconds` each.

    Uses no cache. Raises `ModelError`, and `EmbeddingError` (`few_sentences`).
    """
    if len(sentences) < SIZES[0]:
        message = f"{len(sentences)} sentences are too few to measure with, {SIZES[0]} are needed"
        raise EmbeddingError("few_sentences", message, sentences=len(sentences), least=SIZES[0])
    report_progress = on_progress or (lambda _: None)
    # an untrained head takes as long
    scorer = CrossEncoderScorer(find_model(cross_encoder, base), sentences, new_head=True)
    pairs = _time_cross_encoder(scorer, sentences, _Clock(seconds, lambda fraction: report_progress(fraction / 2)))
    encoder = BiEncoder(find_model(bi_encoder, base), sentences)
    clock = _Clock(seconds, lambda fraction: report_progress(0.5 + fraction / 2))
    points, agreement = _time_searches(encoder, sentences, clock)
    report_progress(1.0)
    return CostComparison((*pairs, *points), agreement)


@dataclass
class _Clock:
    """Times work, and reports the fraction of the time limit that is spent."""

    seconds: float
    on_progress: ReportProgress
    spent: float = 0.0

    def time(self, work: Callable[[], T]) -> tuple[float, T]:
        started = time.perf_counter()
        result = work()
        elapsed = time.perf_counter() - started
        self.spent += elapsed
        self.on_progress(min(1.0, self.spent / self.seconds))
        return elapsed, result


def _time_by_size(
    run: Callable[[int], float], growth: Callable[[int], float], max_size: int, clock: _Clock
) -> list[_Timing]:
    """Time `run` by size, up to `max_size` sentences while time is left; extrapolate larger sizes by `growth`."""
    timings: list[_Timing] = []
    for index, size in enumerate(SIZES):
        expected = timings[-1].seconds * growth(size) / growth(SIZES[index - 1]) if timings else 0.0
        fits = size <= max_size and clock.spent + expected <= clock.seconds
        is_measured = not timings or (fits and timings[-1].is_measured)
        timings.append(_Timing(run(size) if is_measured else expected, is_measured))
    return timings


def _time_cross_encoder(scorer: CrossEncoderScorer, sentences: Sequence[str], clock: _Clock) -> list[CostPoint]:
    scorer.score([*islice(combinations(sentences, 2), _WARM_UP)])

    def run(size: int) -> float:
        pairs = combinations(sentences[:size], 2)
        seconds = 0.0
        while block := [*islice(pairs, _BATCH_SIZE)]:
            seconds += clock.time(partial(scorer.score, block))[0]
        return seconds

    timings = _time_by_size(run, lambda size: math.comb(size, 2), len(sentences), clock)
    return [CostPoint(Method.CROSS_ENCODER, size, *timing) for size, timing in zip(SIZES, timings, strict=True)]


def _time_searches(encoder: BiEncoder, sentences: Sequence[str], clock: _Clock) -> tuple[list[CostPoint], float]:
    encoder.encode("question", sentences[:_WARM_UP])
    blocks: list[np.ndarray] = []

    def read(size: int) -> float:
        blocks.clear()
        seconds = 0.0
        for start in range(0, size, _BATCH_SIZE):
            block = sentences[start : min(size, start + _BATCH_SIZE)]
            elapsed, vectors = clock.time(partial(encoder.encode, "question", block))
            blocks.append(vectors)
            seconds += elapsed
        return seconds

    encoding_times = _time_by_size(read, float, len(sentences), clock)
    vectors = np.concatenate(blocks)
    nearest: dict[Method, dict[int, np.ndarray]] = {Method.EXACT: {}, Method.HNSW: {}}

    def time_search(method: Method, search: Callable[[np.ndarray], np.ndarray], clock: _Clock, size: int) -> float:
        seconds, rows = clock.time(lambda: search(vectors[:size]))
        is_itself = rows[:, 0] == np.arange(size)
        nearest[method][size] = np.where(is_itself, rows[:, 1], rows[:, 0])
        return seconds

    points = []
    searches: dict[Method, tuple[Callable[[np.ndarray], np.ndarray], Callable[[int], float]]] = {
        Method.EXACT: (lambda subset: find_neighbours(subset, subset, 2)[1], lambda size: float(size) ** 2),
        Method.HNSW: (_search_graph, lambda size: size * math.log(size)),
    }
    for method, (search, growth) in searches.items():
        search(vectors[:_WARM_UP])
        search_clock = _Clock(clock.seconds, lambda _: None)
        run = partial(time_search, method, search, search_clock)
        search_times = _time_by_size(run, growth, len(vectors), search_clock)
        for size, encoded, searched in zip(SIZES, encoding_times, search_times, strict=True):
            is_measured = encoded.is_measured and searched.is_measured
            points.append(CostPoint(method, size, encoded.seconds + searched.seconds, is_measured))
    largest = max(nearest[Method.EXACT].keys() & nearest[Method.HNSW].keys())
    return points, float(np.mean(nearest[Method.EXACT][largest] == nearest[Method.HNSW][largest]))


def _search_graph(vectors: np.ndarray) -> np.ndarray:
    """Return the rows of each vector's two nearest neighbours, `(n, 2)`."""
    import faiss

    index = faiss.IndexHNSWFlat(vectors.shape[1], _HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = index.hnsw.efSearch = _HNSW_CANDIDATES
    index.add(vectors)
    return np.asarray(index.search(vectors, 2)[1])
