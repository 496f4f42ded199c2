"""Combined retrievers: fusion of several rankings, and reranking of the first passages by a cross-encoder.

A passage's fused score is the sum over the retrievers of weight * value, higher is better. The values in a retriever's
list for a question are

- reciprocal rank: `1 / (60 + rank)`, 0 for absent passages (Cormack, Clarke & Buettcher 2009);
- min-max: `(score - lowest) / (highest - lowest)`, or 1 if all scores are equal; 0 for absent passages (Lee 1997);
- z-score: `(score - mean) / standard deviation`; absent passages have the value of the list's last (Montague & Aslam
  2001 shift the scores to the same effect); if all scores are equal, 0, and -1 for absent passages.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, astuple, dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.cache import is_caching, key_of, read_arrays, write_arrays
from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import Passage
from mrc_workbench.data.texts import fingerprint_of
from mrc_workbench.data.workspace import write_json
from mrc_workbench.models.sources import Meter, ModelSource
from mrc_workbench.models.vectors import LimitedScorer, PairScorer, PreloadingScorer, WindowScorer
from mrc_workbench.models.windows import WindowOptions
from mrc_workbench.retrieval.rankings import (
    NOT_FOUND,
    Rankings,
    Retriever,
    find_positions,
    rank_candidates,
    top_k_sparse,
)

RRF_CONSTANT = 60
_WRITE_INTERVAL_SECONDS = 30.0  # a killed process loses at most so much work
_BLOCK = 64  # questions between two progress reports
_FILE = "reranking.json"


class Fusion(StrEnum):
    """The normalization of a retriever's list; see the module."""

    RRF = "rrf"
    MIN_MAX = "min-max"
    Z_SCORE = "z-score"


def min_max(scores: np.ndarray) -> np.ndarray:
    """Scale each row's finite scores to 0..1, or to 1 if all are equal; others become 0."""
    finite = np.isfinite(scores)
    minimum = np.where(finite, scores, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    score_range = np.where(finite, scores, -np.inf).max(axis=1, keepdims=True, initial=-np.inf) - minimum
    with np.errstate(invalid="ignore"):
        values = np.where(score_range > 0, (scores - minimum) / np.where(score_range > 0, score_range, 1), 1.0)
    return np.where(finite, values, 0.0)


def fuse(
    rankings: Sequence[Rankings], n_passages: int, fusion: Fusion, weights: Sequence[float] | None, k: int
) -> Rankings:
    """Fuse rankings of the same questions, with weights above 0, and return the best k passages; ties by row."""
    weighted = zip(rankings, weights or [1.0] * len(rankings), strict=True)
    lists = [(ranking, *normalize_scores(ranking, fusion), weight) for ranking, weight in weighted if weight]
    return sum_by_passage(lists, n_passages, k)


def sum_by_passage(lists: list[tuple[Rankings, np.ndarray, np.ndarray, float]], n_passages: int, k: int) -> Rankings:
    """Add up the values of lists, see `normalize_scores`, by passage and return the best k."""
    rows = []
    columns = []
    values = []
    n_questions = len(lists[0][0].indices)
    absent_scores = np.zeros(n_questions)  # of a passage that is in no list
    for ranking, normalized, absent, weight in lists:
        row, column = np.nonzero(ranking.indices != NOT_FOUND)
        rows.append(row)
        columns.append(ranking.indices[row, column])
        values.append(weight * (normalized[row, column] - absent[row]))
        absent_scores += weight * absent
    entries = (np.concatenate(rows), np.concatenate(columns))
    # the constructor adds up entries of a passage; adding matrices would drop sums of 0
    scores = csr_array((np.concatenate(values), entries), shape=(n_questions, n_passages))
    scores.data += np.repeat(absent_scores, np.diff(scores.indptr))
    return top_k_sparse(scores, k)


def normalize_scores(rankings: Rankings, fusion: Fusion) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of results, `(n_questions, k)` or NaN, and of absent passages, `(n_questions,)`."""
    is_hit = rankings.indices != NOT_FOUND
    scores = np.where(is_hit, rankings.scores, np.nan).astype(np.float64)
    if fusion is not Fusion.Z_SCORE:
        values = 1.0 / (RRF_CONSTANT + 1 + np.arange(scores.shape[1])) if fusion is Fusion.RRF else min_max(scores)
        return np.where(is_hit, values, np.nan), np.zeros(len(scores))
    count = np.maximum((~np.isnan(scores)).sum(axis=1, keepdims=True), 1)
    centred = scores - np.nansum(scores, axis=1, keepdims=True) / count
    deviation = np.sqrt(np.nansum(centred**2, axis=1, keepdims=True) / count)
    lowest = np.fmin.reduce(scores, axis=1, keepdims=True)  # NaN for an empty list
    highest = np.fmax.reduce(scores, axis=1, keepdims=True)
    differ = highest > lowest
    values = np.where(differ, centred / np.where(differ, deviation, 1), 0.0)
    absent = np.where(differ, np.fmin.reduce(values, axis=1, keepdims=True), np.where(np.isnan(lowest), 0.0, -1.0))
    return np.where(is_hit, values, np.nan), absent[:, 0]


@dataclass(eq=False)
class Hybrid:
    """Fuses the first `depth` passages of each retriever, see `fuse`; `depths` limit lists with fused scores."""

    name: str
    retrievers: Sequence[Retriever]
    _: KW_ONLY
    n_passages: int
    depth: int = 100
    fusion: Fusion = Fusion.Z_SCORE
    weights: Sequence[float] | None = None
    depths: Sequence[int] = ()

    def __post_init__(self) -> None:
        if len(self.retrievers) < 2:
            raise ValueError("a hybrid needs at least two retrievers")
        if not self.depths or self.fusion is Fusion.RRF:
            self.depths = [self.depth] * len(self.retrievers)

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        searched = zip(self.retrievers, self.depths, strict=True)
        rankings = [retriever.search(questions, self.depth).first(depth) for retriever, depth in searched]
        return fuse(rankings, self.n_passages, self.fusion, self.weights, k)


class StoredPairScores:
    """Scores `(width,)` of each pair, and the seconds they took; stored as `kind` if there is a `key`."""

    def __init__(self, n_passages: int, key: str | None = None, *, kind: str = "pairs", width: int = 1) -> None:
        self._n_passages = n_passages
        self._key = key
        self._kind = kind
        empty: dict[str, np.ndarray] = {"codes": np.zeros(0, np.int64), "scores": np.zeros(0, np.float32)}
        stored = (read_arrays(kind, key) if key else None) or empty | {"seconds": np.zeros(2)}
        self._codes = stored["codes"]
        self._scores = stored["scores"].reshape(-1, width)
        self.load_seconds, self._seconds = map(float, stored["seconds"])
        self._new: list[tuple[np.ndarray, np.ndarray]] = []
        self._count = len(self._codes)
        self._written = time.perf_counter()

    def seconds_of(self, n_pairs: int) -> float:
        return n_pairs * (self._seconds / max(1, self._count))

    def lookup(self, indices: np.ndarray) -> np.ndarray:
        """Return scores of candidates `(n_questions, depth, width)`: NaN if unknown, -inf if there is no candidate."""
        missing = np.where(indices == NOT_FOUND, -np.inf, np.nan).astype(np.float32)
        scores = np.repeat(missing[..., None], self._scores.shape[1], axis=2)
        rows, columns = np.nonzero(indices != NOT_FOUND)
        position = find_positions(self._codes, self._pair_codes(rows, indices[rows, columns]))
        is_known = position >= 0
        scores[rows[is_known], columns[is_known]] = self._scores[position[is_known]]
        return scores

    def add(
        self, rows: np.ndarray, passages: np.ndarray, scores: np.ndarray, *, load_seconds: float, seconds: float
    ) -> None:
        """Add scores `(n_pairs, width)` and their seconds; write them from time to time."""
        self._new.append((self._pair_codes(rows, passages), scores))
        self.load_seconds = max(self.load_seconds, load_seconds)
        self._seconds += seconds
        self._count += len(rows)
        if time.perf_counter() - self._written > _WRITE_INTERVAL_SECONDS:
            self.write()

    def write(self) -> None:
        if self._key and self._new:
            codes = np.concatenate([self._codes, *(codes for codes, _ in self._new)])
            scores = np.concatenate([self._scores, *(scores for _, scores in self._new)])
            order = np.argsort(codes)
            self._codes = codes[order]
            self._scores = scores[order]
            self._new = []
            seconds = np.array([self.load_seconds, self._seconds])
            write_arrays(self._kind, self._key, {"codes": self._codes, "scores": self._scores, "seconds": seconds})
            self._written = time.perf_counter()

    def _pair_codes(self, rows: np.ndarray, passages: np.ndarray) -> np.ndarray:
        return np.asarray(rows * self._n_passages + passages)


@dataclass(eq=False, repr=False)
class PairScores:
    """Scores of pairs of a question and a passage of the corpus `texts`.

    With a `meter` they are stored by scorer, corpus and questions: another weight, depth or first stage scores only new
    pairs. `on_progress` gets the fraction of questions. With `windows` a long passage has the score of its best window.
    `title_lengths` is `(n_passages,)`.
    """

    scorer: PairScorer
    texts: Sequence[str]
    meter: Meter | None = None
    on_progress: Callable[[float], None] | None = None
    _: KW_ONLY
    windows: WindowOptions | None = None
    title_lengths: np.ndarray | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.scorer, WindowScorer):
            self.windows = None

    def score_candidates(self, questions: Sequence[str], candidates: Rankings) -> np.ndarray:
        began = time.perf_counter()
        stored = self._stored_scores(questions)
        scores = stored.lookup(candidates.indices)[..., 0]
        try:
            for start in range(0, len(questions), _BLOCK):
                rows, columns = np.nonzero(np.isnan(scores[start : start + _BLOCK]))
                rows += start
                if len(rows):
                    scores[rows, columns] = self._score(questions, rows, candidates.indices[rows, columns], stored)
                if self.on_progress:
                    self.on_progress(min(1.0, (start + _BLOCK) / len(questions)))
        finally:
            stored.write()
        if self.meter:
            n_pairs = int(np.count_nonzero(candidates.indices != NOT_FOUND))
            self.meter.note(time.perf_counter() - began, stored.load_seconds, stored.seconds_of(n_pairs))
        return scores

    def count_truncated(self, questions: Sequence[str], candidates: Rankings) -> int:
        if self.windows or not isinstance(self.scorer, LimitedScorer):
            return 0
        return self.scorer.count_truncated(questions, self.texts, candidates.indices)

    def count_missing(self, questions: Sequence[str], candidates: Rankings) -> int:
        return int(np.count_nonzero(np.isnan(self._stored_scores(questions).lookup(candidates.indices))))

    def _stored_scores(self, questions: Sequence[str]) -> StoredPairScores:
        if self.meter is None or len(questions) == 1 or not is_caching():
            return StoredPairScores(len(self.texts))
        windows = [astuple(self.windows)] if self.windows else []
        key = key_of(self.scorer.fingerprint, fingerprint_of(self.texts), list(questions), *windows)
        return StoredPairScores(len(self.texts), key)

    def _score(
        self, questions: Sequence[str], rows: np.ndarray, passages: np.ndarray, stored: StoredPairScores
    ) -> np.ndarray:
        began = time.perf_counter()
        self.scorer.load()
        if len(questions) > 1 and is_caching() and isinstance(self.scorer, PreloadingScorer):
            self.scorer.preload_questions(questions)
        loaded = time.perf_counter()
        numbers = zip(rows.tolist(), passages.tolist(), strict=True)
        pairs = [(questions[row], self.texts[passage]) for row, passage in numbers]
        if self.windows and isinstance(self.scorer, WindowScorer):
            titles = np.zeros(len(pairs), np.int64) if self.title_lengths is None else self.title_lengths[passages]
            scores = self.scorer.score_windows(pairs, titles.tolist(), self.windows)
        else:
            scores = self.scorer.score(pairs)
        stored.add(rows, passages, scores[:, None], load_seconds=loaded - began, seconds=time.perf_counter() - loaded)
        return scores


def recommended_weight(source: ModelSource) -> float:
    """Return the weight saved in a cross-encoder's folder; 1.0, only the reranker, by default."""
    if source.folder is None and source.hub_id is None:  # an untrained starter
        return 0.5
    if source.folder is None or not (path := source.folder / _FILE).is_file():
        return 1.0
    return float(json.loads(path.read_text(encoding="utf-8"))["weight"])


def recommend_weight(model_folder: Path, weight: float, *, selected_on: str) -> None:
    """Save the weight with a description of the data that selected it."""
    write_json(model_folder / _FILE, {"weight": weight, "selected_on": selected_on})


@dataclass(eq=False, repr=False)
class RerankedRetriever:
    """Reranks the first `depth` passages of `first`; the others keep their order below them.

    The new score is `weight * r + (1 - weight) * f` with r the reranker's and f the first retriever's scores, each
    scaled to 0..1 within the question (min-max). Passages below `depth` score under 0. For the other arguments see
    `PairScores`.
    """

    name: str
    first: Retriever
    scorer: PairScorer
    passages: Sequence[Passage]
    _: KW_ONLY
    depth: int = 20
    weight: float = 1.0
    title: bool = True
    windows: WindowOptions | None = None
    meter: Meter | None = None
    on_progress: Callable[[float], None] | None = None

    def __post_init__(self) -> None:
        if self.depth < 1 or not 0 <= self.weight <= 1:
            raise ValueError(f"depth must be 1 or more and weight between 0 and 1, not {self.depth} and {self.weight}")
        corpus = Passages.from_passages(self.passages)
        texts = corpus.indexed_texts(title=self.title)
        lengths = corpus.title_lengths(title=self.title) if self.windows else None
        options = self.meter, self.on_progress
        self._pairs = PairScores(self.scorer, texts, *options, windows=self.windows, title_lengths=lengths)
        self._last_candidates: tuple[Sequence[str], Rankings] | None = None

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        hits = self.first.search(questions, max(k, self.depth))
        candidates = hits.first(self.depth)
        self._last_candidates = questions, candidates
        scores = interpolate_scores(candidates, self.candidate_scores(questions, candidates), self.weight)
        n_columns = hits.indices.shape[1]
        ranks = np.arange(self.depth, n_columns)
        scores_below = np.broadcast_to(self.depth - 1.0 - ranks, (len(questions), len(ranks)))
        return rank_candidates(hits.indices, np.hstack([scores, scores_below]), min(k, n_columns))

    def count_truncated(self) -> int:
        return self._pairs.count_truncated(*self._last_candidates) if self._last_candidates else 0

    def candidate_scores(self, questions: Sequence[str], candidates: Rankings) -> np.ndarray:
        return self._pairs.score_candidates(questions, candidates)


def interpolate_scores(candidates: Rankings, reranker_scores: np.ndarray, weight: float) -> np.ndarray:
    """Return the weighted sum of both scores after min-max within each question; -inf if there is no candidate."""
    weighted_sum = weight * min_max(reranker_scores) + (1 - weight) * min_max(candidates.scores)
    return np.where(candidates.indices != NOT_FOUND, weighted_sum, -np.inf)
