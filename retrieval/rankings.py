"""What every search returns, the one seam every retriever fits, and one question asked of one retriever."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.records import QuestionSet, composed

NOT_FOUND = -1
MOST = 2**31 - 1  # passages: their rows are int32
DEPTH = 100  # passages fetched, however few are shown: the rank of the answer passage is looked up among them
# a page that is drawn anew while a search goes on asks the same retriever, or its model, from a second thread
asking = threading.Lock()


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
    def of_nothing(cls, n_questions: int, k: int) -> "Rankings":
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


def joined(parts: Sequence[Rankings]) -> Rankings:
    """Return the rankings of several parts of the questions, at least one, as those of all."""
    if len(parts) == 1:
        return parts[0]
    return Rankings(np.concatenate([part.indices for part in parts]), np.concatenate([part.scores for part in parts]))


class Retriever(Protocol):
    """Anything that finds passages for questions. BM25 and dense are leaves; hybrid and reranked wrap others."""

    @property
    def name(self) -> str: ...

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question, `(n_questions, k)`, or as many columns as there are passages."""


def ranked(indices: np.ndarray, scores: np.ndarray, k: int) -> Rankings:
    """Order candidates `(n_questions, m)` by score, ties by row; keep k columns without -1 and infinite scores."""
    scores = scores.astype(np.float32, copy=False)  # first: what ties in the result must be in the order of ties
    found = (indices != NOT_FOUND) & np.isfinite(scores)
    scores = np.where(found, scores, -np.inf)
    order = np.lexsort((indices, -scores), axis=1)[:, :k]
    indices = np.where(np.take_along_axis(found, order, 1), np.take_along_axis(indices, order, 1), NOT_FOUND)
    return Rankings(indices.astype(np.int32), np.take_along_axis(scores, order, 1)).padded(k)


def top_k(scores: np.ndarray, k: int) -> Rankings:
    """Best k columns of a dense score matrix `(n_questions, n_passages)`; a score that is not finite is not found."""
    scores = scores.astype(np.float32, copy=False)
    scores = np.where(np.isfinite(scores), scores, np.float32(-np.inf))
    n_passages = scores.shape[1]
    if k >= n_passages:
        return ranked(np.broadcast_to(np.arange(n_passages), scores.shape), scores, n_passages)
    candidates = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    threshold = np.take_along_axis(scores, candidates, 1).min(axis=1, keepdims=True)
    # argpartition picks freely among passages that tie with the k-th; only there the whole row is sorted
    tied = np.flatnonzero(((scores >= threshold).sum(axis=1) > k) & np.isfinite(threshold[:, 0]))
    candidates[tied] = np.argsort(-scores[tied], axis=1, kind="stable")[:, :k]
    return ranked(candidates, np.take_along_axis(scores, candidates, 1), k)


def top_k_sparse(scores: csr_array, k: int) -> Rankings:
    """Best k stored and finite entries of each row of a sparse score matrix `(n_questions, n_passages)`."""
    entries, k = scores.tocoo(), min(k, scores.shape[1])
    values = entries.data.astype(np.float32)
    found = np.isfinite(values)
    values, (rows, columns) = values[found], (places[found] for places in entries.coords)
    order = np.lexsort((columns, -values, rows))
    place = places_within(np.bincount(rows, minlength=scores.shape[0]))
    kept = order[place < k]
    rankings = Rankings.of_nothing(scores.shape[0], k)
    rankings.indices[rows[kept], place[place < k]] = columns[kept]
    rankings.scores[rows[kept], place[place < k]] = values[kept]
    return rankings


def places_within(counts: np.ndarray) -> np.ndarray:
    """Number the members of each group from 0, group after group, where groups have so many `counts`."""
    return np.asarray(np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts))


def places_in(ordered: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return where each number stands among ascending ones, none of them twice, int64; -1 where it does not."""
    places = np.searchsorted(ordered, wanted)
    known = places < len(ordered)
    known[known] = ordered[places[known]] == wanted[known]
    return np.where(known, places, -1)


@dataclass(frozen=True)
class Findings:
    """Rows of the corpus found, best first, and their scores, higher is better."""

    rows: tuple[int, ...]
    scores: tuple[float, ...]

    @classmethod
    def of(cls, rankings: Rankings, question: int = 0) -> "Findings":
        found = np.flatnonzero(rankings.indices[question] != NOT_FOUND)
        return cls(tuple(rankings.indices[question, found].tolist()), tuple(rankings.scores[question, found].tolist()))

    def rank_of(self, row: int) -> int | None:
        """Rank (1 is best) of a passage; None where it was not found."""
        return self.rows.index(row) + 1 if row in self.rows else None


@dataclass(frozen=True)
class Truth:
    """What a question set says of a question: its answers and the corpus rows of its relevant passages."""

    answers: tuple[str, ...]
    rows: tuple[int, ...]


def ask(retriever: Retriever, question: str) -> Findings:
    """Search the first `DEPTH` passages of one question. Raises whatever building the retriever raises."""
    with asking:
        rankings = retriever.search([question], DEPTH)
    return Findings.of(rankings)


def truth_of(question_set: QuestionSet, text: str) -> Truth | None:
    """Return what the set says of the questions with this text; None where it has none."""
    wanted = composed(text)
    same = [question for question in question_set.questions if composed(question.text) == wanted]
    if not same:
        return None
    answers = dict.fromkeys(answer for question in same for answer in question.answers)
    rows = dict.fromkeys(question_set.row_of_passage[id_] for question in same for id_ in question.relevant)
    return Truth(tuple(answers), tuple(rows))
