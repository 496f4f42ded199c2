"""Rankings, the protocol of retrievers, and the search of a single question."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.records import QuestionSet, composed

NOT_FOUND = -1
MAX_PASSAGES = 2**31 - 1  # passages: their rows are int32
DEPTH = 100  # passages fetched, even if fewer are displayed: they include the rank of the answer passage
# a page that reruns during a search calls the same retriever, or its model, from a second thread
search_lock = threading.Lock()


@dataclass(frozen=True)
class Rankings:
    """The corpus rows of the results of each question, best first.

    `indices` is `(n_questions, k)` int32 and `scores` the same shape in float32, descending along each row (ties by
    corpus row). Missing results have the row -1 and the score -inf. k is at most the corpus size.
    """

    indices: np.ndarray
    scores: np.ndarray

    def __post_init__(self) -> None:
        if self.indices.shape != self.scores.shape or self.indices.ndim != 2:
            raise ValueError(f"indices {self.indices.shape} and scores {self.scores.shape} must be (n_questions, k)")

    @classmethod
    def empty(cls, n_questions: int, k: int) -> "Rankings":
        shape = (n_questions, k)
        return cls(np.full(shape, NOT_FOUND, dtype=np.int32), np.full(shape, -np.inf, dtype=np.float32))

    def first(self, k: int) -> "Rankings":
        return Rankings(self.indices[:, :k], self.scores[:, :k])

    def padded(self, k: int) -> "Rankings":
        """Return the rankings with at least k columns; added columns hold missing results."""
        added = ((0, 0), (0, max(0, k - self.indices.shape[1])))
        indices = np.pad(self.indices, added, constant_values=NOT_FOUND)
        return Rankings(indices, np.pad(self.scores, added, constant_values=-np.inf))

    def select(self, questions: np.ndarray | slice) -> "Rankings":
        return Rankings(self.indices[questions], self.scores[questions])

    def assign(self, questions: np.ndarray | list[int], rankings: "Rankings") -> None:
        """Replace the rankings of some questions in place."""
        self.indices[questions] = rankings.indices
        self.scores[questions] = rankings.scores


def concatenate(blocks: Sequence[Rankings]) -> Rankings:
    """Join the rankings of blocks of questions; needs at least one block."""
    if len(blocks) == 1:
        return blocks[0]
    indices = np.concatenate([block.indices for block in blocks])
    return Rankings(indices, np.concatenate([block.scores for block in blocks]))


class Retriever(Protocol):
    """Searches passages. BM25 and dense retrievers are leaves; hybrid and reranked ones wrap others."""

    @property
    def name(self) -> str: ...

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question; k is limited to the number of passages."""


def rank_candidates(indices: np.ndarray, scores: np.ndarray, k: int) -> Rankings:
    """Order candidates `(n_questions, m)` by score, ties by row; keep k columns without -1 and infinite scores."""
    scores = scores.astype(np.float32, copy=False)  # before sorting: rounding may create ties
    is_hit = (indices != NOT_FOUND) & np.isfinite(scores)
    scores = np.where(is_hit, scores, -np.inf)
    order = np.lexsort((indices, -scores), axis=1)[:, :k]
    indices = np.where(np.take_along_axis(is_hit, order, 1), np.take_along_axis(indices, order, 1), NOT_FOUND)
    return Rankings(indices.astype(np.int32), np.take_along_axis(scores, order, 1)).padded(k)


def top_k(scores: np.ndarray, k: int) -> Rankings:
    """Return the best k columns of a dense score matrix `(n_questions, n_passages)`; only finite scores count."""
    scores = scores.astype(np.float32, copy=False)
    scores = np.where(np.isfinite(scores), scores, np.float32(-np.inf))
    n_passages = scores.shape[1]
    if k >= n_passages:
        return rank_candidates(np.broadcast_to(np.arange(n_passages), scores.shape), scores, n_passages)
    candidates = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    threshold = np.take_along_axis(scores, candidates, 1).min(axis=1, keepdims=True)
    # argpartition selects arbitrarily among passages that tie with the k-th: such rows are sorted
    tied = np.flatnonzero(((scores >= threshold).sum(axis=1) > k) & np.isfinite(threshold[:, 0]))
    candidates[tied] = np.argsort(-scores[tied], axis=1, kind="stable")[:, :k]
    return rank_candidates(candidates, np.take_along_axis(scores, candidates, 1), k)


def top_k_sparse(scores: csr_array, k: int) -> Rankings:
    """Return the best k stored, finite entries of each row of a sparse score matrix `(n_questions, n_passages)`."""
    entries = scores.tocoo()
    k = min(k, scores.shape[1])
    values = entries.data.astype(np.float32)
    is_finite = np.isfinite(values)
    values = values[is_finite]
    (rows, columns) = (axis[is_finite] for axis in entries.coords)
    order = np.lexsort((columns, -values, rows))
    position = positions_within_groups(np.bincount(rows, minlength=scores.shape[0]))
    selected = order[position < k]
    rankings = Rankings.empty(scores.shape[0], k)
    rankings.indices[rows[selected], position[position < k]] = columns[selected]
    rankings.scores[rows[selected], position[position < k]] = values[selected]
    return rankings


def positions_within_groups(counts: np.ndarray) -> np.ndarray:
    """Number the members of each group from 0, group after group; `counts` are the sizes of the groups."""
    return np.asarray(np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts))


def find_positions(ordered: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the index of each value among ascending distinct values, int64; -1 if missing."""
    positions = np.searchsorted(ordered, values)
    is_present = positions < len(ordered)
    is_present[is_present] = ordered[positions[is_present]] == values[is_present]
    return np.where(is_present, positions, -1)


@dataclass(frozen=True)
class QueryHits:
    """The corpus rows of a question's results, best first, and their scores, higher is better."""

    rows: tuple[int, ...]
    scores: tuple[float, ...]

    @classmethod
    def from_rankings(cls, rankings: Rankings, question: int = 0) -> "QueryHits":
        rows = rankings.indices[question]
        is_hit = rows != NOT_FOUND
        return cls(tuple(rows[is_hit].tolist()), tuple(rankings.scores[question][is_hit].tolist()))

    def rank_of(self, row: int) -> int | None:
        """Return the rank of a passage, 1 is best; None if it is not among the results."""
        return self.rows.index(row) + 1 if row in self.rows else None


@dataclass(frozen=True)
class GroundTruth:
    """The answers of a question, and the corpus rows of its relevant passages."""

    answers: tuple[str, ...]
    rows: tuple[int, ...]


def search_question(retriever: Retriever, question: str) -> QueryHits:
    """Return the first `DEPTH` results of a question. Raises the errors of building the retriever."""
    with search_lock:
        rankings = retriever.search([question], DEPTH)
    return QueryHits.from_rankings(rankings)


def ground_truth(question_set: QuestionSet, text: str) -> GroundTruth | None:
    """Return the labels of all questions with this text; None if the set has no such question."""
    normalized = composed(text)
    matching = [question for question in question_set.questions if composed(question.text) == normalized]
    if not matching:
        return None
    answers = dict.fromkeys(answer for question in matching for answer in question.answers)
    rows = dict.fromkeys(question_set.row_of_passage[id_] for question in matching for id_ in question.relevant)
    return GroundTruth(tuple(answers), tuple(rows))
