"""Why bi-encoders: what it takes to hold each of n sentences against all others (Reimers & Gurevych 2019, section 1).

A cross-encoder reads every pair, n (n - 1) / 2 of them. A bi-encoder reads every sentence once; then the nearest of
each is looked for among the vectors, exactly or in a graph (HNSW). All of it is measured here and now for as many
sentences as the time given allows; further on it is computed: a cross-encoder's seconds grow with the number of pairs,
encoding with n, exact search with n^2 and the graph with n log n.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import combinations, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from pydantic import TypeAdapter

from mrc_workbench.labs.embeddings.encoder import EmbeddingError
from mrc_workbench.labs.embeddings.geometry import neighbours
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.sources import find_model

SIZES = (30, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)  # the first is always measured
SECONDS = 60.0
_WARM_UP = 32  # texts or pairs read first: what is loaded late counts for nobody
_AT_ONCE = 256
_LINKS, _CANDIDATES = 32, 128  # of a vector in the graph, and looked at while it is built and searched
Tell = Callable[[float], None]
T = TypeVar("T")


class Method(StrEnum):
    """How the sentences are held against each other."""

    CROSS_ENCODER = "cross-encoder"
    EXACT = "exact"
    HNSW = "hnsw"


@dataclass(frozen=True)
class Point:
    """Seconds that a method takes for so many sentences, reading them with it; `measured` here, or computed."""

    method: Method
    sentences: int
    seconds: float
    measured: bool


class _Taken(NamedTuple):
    seconds: float
    measured: bool


@dataclass(frozen=True)
class Cost:
    """All points, by method and then by size. `agreement` is the share of sentences whose nearest HNSW finds."""

    points: tuple[Point, ...]
    agreement: float


COST = TypeAdapter(Cost)


def cost(
    bi_encoder: str,
    cross_encoder: str,
    sentences: Sequence[str],
    *,
    seconds: float = SECONDS,
    base: Path | None = None,
    on_progress: Tell | None = None,
) -> Cost:
    """Measure both models, by their references, on the first of these sentences; each kind for so many seconds.

    Nothing is taken from what is kept of them, and nothing is kept. Raises `ModelError`, and `EmbeddingError`
    (`few_sentences`) where there are fewer than the smallest size.
    """
    if len(sentences) < SIZES[0]:
        message = f"{len(sentences)} sentences are too few to measure with, {SIZES[0]} are needed"
        raise EmbeddingError("few_sentences", message, sentences=len(sentences), least=SIZES[0])
    tell = on_progress or (lambda _: None)
    # it is timed alone, and a head that nobody trained takes as long
    scorer = CrossEncoderScorer(find_model(cross_encoder, base), sentences, new_head=True)
    pairs = _read_pairs(scorer, sentences, _Clock(seconds, lambda share: tell(share / 2)))
    encoder = BiEncoder(find_model(bi_encoder, base), sentences)
    points, agreement = _search(encoder, sentences, _Clock(seconds, lambda share: tell(0.5 + share / 2)))
    tell(1.0)
    return Cost((*pairs, *points), agreement)


class _Clock:
    """Takes the time of work, and says what share of the seconds there are is spent."""

    def __init__(self, seconds: float, tell: Tell) -> None:
        self.seconds, self.spent, self._tell = seconds, 0.0, tell

    def time(self, work: Callable[[], T]) -> tuple[float, T]:
        began = time.perf_counter()
        done = work()
        taken = time.perf_counter() - began
        self.spent += taken
        self._tell(min(1.0, self.spent / self.seconds))
        return taken, done


def _line(run: Callable[[int], float], grows: Callable[[int], float], most: int, clock: _Clock) -> list[_Taken]:
    """Seconds of `run` by size: measured up to `most` sentences while there is time, then computed as it `grows`."""
    line: list[_Taken] = []
    for place, size in enumerate(SIZES):
        expected = line[-1].seconds * grows(size) / grows(SIZES[place - 1]) if line else 0.0
        fits = size <= most and clock.spent + expected <= clock.seconds and all(one.measured for one in line)
        line.append(_Taken(run(size) if fits or not line else expected, fits or not line))
    return line


def _read_pairs(scorer: CrossEncoderScorer, sentences: Sequence[str], clock: _Clock) -> list[Point]:
    scorer.score([*islice(combinations(sentences, 2), _WARM_UP)])

    def run(size: int) -> float:
        pairs, seconds = combinations(sentences[:size], 2), 0.0
        while block := [*islice(pairs, _AT_ONCE)]:
            seconds += clock.time(partial(scorer.score, block))[0]
        return seconds

    line = _line(run, lambda size: math.comb(size, 2), len(sentences), clock)
    return [Point(Method.CROSS_ENCODER, size, *one) for size, one in zip(SIZES, line, strict=True)]


def _search(encoder: BiEncoder, sentences: Sequence[str], clock: _Clock) -> tuple[list[Point], float]:
    encoder.encode("question", sentences[:_WARM_UP])
    blocks: list[np.ndarray] = []

    def read(size: int) -> float:
        blocks.clear()
        seconds = 0.0
        for start in range(0, size, _AT_ONCE):
            block = sentences[start : min(size, start + _AT_ONCE)]
            taken, vectors = clock.time(partial(encoder.encode, "question", block))
            blocks.append(vectors)
            seconds += taken
        return seconds

    reading = _line(read, float, len(sentences), clock)
    vectors = np.concatenate(blocks)
    found: dict[Method, dict[int, np.ndarray]] = {Method.EXACT: {}, Method.HNSW: {}}

    def look(method: Method, search: Callable[[np.ndarray], np.ndarray], clock: _Clock, size: int) -> float:
        seconds, rows = clock.time(lambda: search(vectors[:size]))
        found[method][size] = np.where(rows[:, 0] == np.arange(size), rows[:, 1], rows[:, 0])  # not the sentence itself
        return seconds

    points = []
    ways: list[tuple[Method, Callable[[np.ndarray], np.ndarray], Callable[[int], float]]] = [
        (Method.EXACT, lambda some: neighbours(some, some, 2)[1], lambda size: float(size) ** 2),
        (Method.HNSW, _by_graph, lambda size: size * math.log(size)),
    ]
    for method, search, grows in ways:
        search(vectors[:_WARM_UP])
        alone = _Clock(clock.seconds, lambda _: None)
        looking = _line(partial(look, method, search, alone), grows, len(vectors), alone)
        points += [
            Point(method, size, one.seconds + other.seconds, one.measured and other.measured)
            for size, one, other in zip(SIZES, reading, looking, strict=True)
        ]
    most = max(found[Method.EXACT].keys() & found[Method.HNSW].keys())
    return points, float(np.mean(found[Method.EXACT][most] == found[Method.HNSW][most]))


def _by_graph(vectors: np.ndarray) -> np.ndarray:
    """Rows of the two nearest of each in a graph, `(n, 2)`."""
    import faiss

    index = faiss.IndexHNSWFlat(vectors.shape[1], _LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = index.hnsw.efSearch = _CANDIDATES
    index.add(vectors)
    rows: np.ndarray = index.search(vectors, 2)[1]
    return rows
