"""Sentences and their vectors, the models that a user added, and the cost of comparing n sentences with each other.

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

from mrc_workbench.data.files import read_user_file, set_aside
from mrc_workbench.data.pairs import PairSet, numbers_of, row_groups
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.workspace import workspace, write_json
from mrc_workbench.labs.embeddings.geometry import neighbours
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.sources import find_model


class EmbeddingError(Failure):
    """A measure that cannot be taken: `no_pairs` of a part, `few_sentences`."""


@dataclass(frozen=True)
class Distinct:
    """Sentences, each once, and where they stand: `places` `(n_rows, width)` int64 are rows of `sentences`."""

    sentences: list[str]
    places: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, pairs: PairSet) -> "Distinct":
        """Return the sentences of a set in order of first appearance, column by column."""
        (places,) = numbers_of(pairs)
        first = np.unique(places.T, return_index=True)[1]
        column_of = first // max(1, len(pairs))
        rows = first % max(1, len(pairs))
        texts = (column.at(rows[column_of == number]) for number, column in enumerate(pairs.texts))
        return cls([*chain.from_iterable(texts)], places)

    @cached_property
    def groups(self) -> np.ndarray:
        """Numbers `(n_rows,)` int64 of the groups of rows that share a sentence, directly or through others."""
        return row_groups(self.places)

    @cached_property
    def sentence_groups(self) -> np.ndarray:
        """The group of the rows that each sentence stands in, `(n_sentences,)` int64."""
        groups = np.zeros(len(self.sentences), dtype=np.int64)
        groups[self.places] = self.groups[:, None]
        return groups


@dataclass(frozen=True)
class SentenceVectors:
    """Unit vectors `(n_sentences, dimensions)` float32 in the order of the sentences, memory-mapped.

    `fingerprint` is that of the model's content; `seconds` are those of encoding.
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
    """Encode different sentences with the model's question prompt; vectors are cached block by block.

    A starter is made of the `corpus`, all sentences of the set. An interrupted call continues after the last whole
    block. Raises `ModelError`.
    """
    encoder = BiEncoder(find_model(reference, base), corpus, on_progress=on_progress)
    vectors = encoder.encode_sentences(sentences)
    return SentenceVectors(vectors, encoder.fingerprint, encoder.meter.lap()[1])


_FILE = "models.json"


def added() -> list[str]:
    """Return the references of the added models, the first added first."""
    try:
        return _added()[0]
    except OSError:
        return []


def _added() -> tuple[list[str], bool]:
    """Return the readable references, and whether the file holds anything else."""
    content, is_damaged = read_user_file(workspace() / "embeddings" / _FILE)
    models = content.get("models", [])
    found = [model for model in models if isinstance(model, str)] if isinstance(models, list) else []
    return found, is_damaged or found != models


def add(reference: str) -> None:
    """Add a model, once. Raises `ModelError` if no model has this name, here or on the hub."""
    find_model(reference)
    _write([*(one for one in added() if one != reference), reference])


def remove(reference: str) -> None:
    """Remove a model from the list; its files and results stay."""
    _write([one for one in added() if one != reference])


def _write(models: list[str]) -> None:
    path = workspace() / "embeddings" / _FILE
    if _added()[1]:
        set_aside(path)
    write_json(path, {"models": models})


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

    Reads and writes no cache. Raises `ModelError`, and `EmbeddingError` (`few_sentences`).
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
    """Seconds of `run` by size: measured up to `most` sentences while there is time, then computed by `grows`."""
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
    searches: dict[Method, tuple[Callable[[np.ndarray], np.ndarray], Callable[[int], float]]] = {
        Method.EXACT: (lambda some: neighbours(some, some, 2)[1], lambda size: float(size) ** 2),
        Method.HNSW: (_by_graph, lambda size: size * math.log(size)),
    }
    for method, (search, grows) in searches.items():
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
    return np.asarray(index.search(vectors, 2)[1])
