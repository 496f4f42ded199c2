"""What every search returns, the one seam every retriever fits, and one question asked of one retriever."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.records import QuestionSet, composed

NOT_FOUND = -1
MAX_PASSAGES = 2**31 - 1  # passages: their rows are int32
DEPTH = 100  # passages fetched, however few are shown: the rank of the answer passage is looked up among them
# a page that is drawn anew while a search goes on asks the same retriever, or its model, from a second thread
search_lock = threading.Lock()


@dataclass(frozen=True)
class Rankings:
    """For each question the rows of the corpus found, best first.

    `indices` is `(n_questions, k)` int32, -1 where fewer than k passages were found; `scores` is the same shape in
    float32, descending along each row (ties by corpus row), -inf where nothing was found. k is at most the corpus size.
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
        """Return the rankings with at least k columns: nothing is found in those added."""
        missing = ((0, 0), (0, max(0, k - self.indices.shape[1])))
        return Rankings(
            np.pad(self.indices, missing, constant_values=NOT_FOUND),
            np.pad(self.scores, missing, constant_values=-np.inf),
        )


def concatenate(blocks: Sequence[Rankings]) -> Rankings:
    """Return the rankings of several parts of the questions, at least one, as those of all."""
    if len(blocks) == 1:
        return blocks[0]
    return Rankings(
        np.concatenate([block.indices for block in blocks]), np.concatenate([block.scores for block in blocks])
    )


class Retriever(Protocol):
    """Anything that finds passages for questions. BM25 and dense are leaves; hybrid and reranked wrap others."""

    @property
    def name(self) -> str: ...

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question, `(n_questions, k)`, or as many columns as there are passages."""


def rank_candidates(indices: np.ndarray, scores: np.ndarray, k: int) -> Rankings:
    """Order candidates `(n_questions, m)` by score, ties by row; keep k columns without -1 and infinite scores."""
    scores = scores.astype(np.float32, copy=False)  # first: what ties in the result must be in the order of ties
    is_hit = (indices != NOT_FOUND) & np.isfinite(scores)
    scores = np.where(is_hit, scores, -np.inf)
    order = np.lexsort((indices, -scores), axis=1)[:, :k]
    indices = np.where(np.take_along_axis(is_hit, order, 1), np.take_along_axis(indices, order, 1), NOT_FOUND)
    return Rankings(indices.astype(np.int32), np.take_along_axis(scores, order, 1)).padded(k)


def top_k(scores: np.ndarray, k: int) -> Rankings:
    """Best k columns of a dense score matrix `(n_questions, n_passages)`; a score that is not finite is not found."""
    scores = scores.astype(np.float32, copy=False)
    scores = np.where(np.isfinite(scores), scores, np.float32(-np.inf))
    n_passages = scores.shape[1]
    if k >= n_passages:
        return rank_candidates(np.broadcast_to(np.arange(n_passages), scores.shape), scores, n_passages)
    candidates = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    threshold = np.take_along_axis(scores, candidates, 1).min(axis=1, keepdims=True)
    # argpartition picks freely among passages that tie with the k-th; only there the whole row is sorted
    tied = np.flatnonzero(((scores >= threshold).sum(axis=1) > k) & np.isfinite(threshold[:, 0]))
    candidates[tied] = np.argsort(-scores[tied], axis=1, kind="stable")[:, :k]
    return rank_candidates(candidates, np.take_along_axis(scores, candidates, 1), k)


def top_k_sparse(scores: csr_array, k: int) -> Rankings:
    """Best k stored and finite entries of each row of a sparse score matrix `(n_questions, n_passages)`."""
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
    """Number the members of each group from 0, group after group, where groups have so many `counts`."""
    return np.asarray(np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts))


def find_positions(ordered: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return where each number stands among ascending ones, none of them twice, int64; -1 where it does not."""
    positions = np.searchsorted(ordered, values)
    is_present = positions < len(ordered)
    is_present[is_present] = ordered[positions[is_present]] == values[is_present]
    return np.where(is_present, positions, -1)


@dataclass(frozen=True)
class QueryHits:
    """Rows of the corpus found, best first, and their scores, higher is better."""

    rows: tuple[int, ...]
    scores: tuple[float, ...]

    @classmethod
    def from_rankings(cls, rankings: Rankings, question: int = 0) -> "QueryHits":
        columns = np.flatnonzero(rankings.indices[question] != NOT_FOUND)
        return cls(
            tuple(rankings.indices[question, columns].tolist()), tuple(rankings.scores[question, columns].tolist())
        )

    def rank_of(self, row: int) -> int | None:
        """Rank (1 is best) of a passage; None where it was not found."""
        return self.rows.index(row) + 1 if row in self.rows else None


@dataclass(frozen=True)
class GroundTruth:
    """What a question set says of a question: its answers and the corpus rows of its relevant passages."""

    answers: tuple[str, ...]
    rows: tuple[int, ...]


def search_question(retriever: Retriever, question: str) -> QueryHits:
    """Search the first `DEPTH` passages of one question. Raises whatever building the retriever raises."""
    with search_lock:
        rankings = retriever.search([question], DEPTH)
    return QueryHits.from_rankings(rankings)


def ground_truth(question_set: QuestionSet, text: str) -> GroundTruth | None:
    """Return what the set says of the questions with this text; None where it has none."""
    normalized = composed(text)
    matching = [question for question in question_set.questions if composed(question.text) == normalized]
    if not matching:
        return None
    answers = dict.fromkeys(answer for question in matching for answer in question.answers)
    rows = dict.fromkeys(question_set.row_of_passage[id_] for question in matching for id_ in question.relevant)
    return GroundTruth(tuple(answers), tuple(rows))
