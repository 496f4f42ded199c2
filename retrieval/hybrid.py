"""Hybrid retrieval: several retrievers are asked, and their rankings fused into one.

A passage's fused score is the sum over the retrievers of weight * value, higher is better. With ranks and scores of one
retriever's list for one question, its values are

- reciprocal rank: `1 / (60 + rank)`, 0 for a passage that is not in the list (Cormack, Clarke & Buettcher 2009);
- min-max: `(score - lowest) / (highest - lowest)`, 0 for a passage that is not in the list, as for the last one that is
  (Lee 1997); where all scores are equal, 1;
- z-score: `(score - mean) / standard deviation`; a passage that is not in the list counts as the last one that is
  (Montague & Aslam 2001 shift the scores to the same end); where all scores are equal, 0, and -1 for those not in it.
"""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, Retriever, top_k_sparse

RRF_CONSTANT = 60


class Fusion(StrEnum):
    """What a retriever contributes: 1 / (60 + rank), or its score by the range or the deviation of its list."""

    RRF = "rrf"
    MIN_MAX = "min-max"
    Z_SCORE = "z-score"


def min_max(scores: np.ndarray) -> np.ndarray:
    """Bring each row's finite scores to 0..1, all to 1 where they are equal; the others become 0."""
    finite = np.isfinite(scores)
    low = np.where(finite, scores, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    spread = np.where(finite, scores, -np.inf).max(axis=1, keepdims=True, initial=-np.inf) - low
    with np.errstate(invalid="ignore"):
        values = np.where(spread > 0, (scores - low) / np.where(spread > 0, spread, 1), 1.0)
    return np.where(finite, values, 0.0)


def fused(
    rankings: Sequence[Rankings], n_passages: int, fusion: Fusion, weights: Sequence[float] | None, k: int
) -> Rankings:
    """Fuse rankings of the same questions and return the best k passages of each.

    Every passage of every list is a candidate; `weights` None means 1 each. A retriever of weight 0 brings nothing, not
    even candidates: the ends of a weight curve are the retrievers themselves. Ties go to the lower row of the corpus.
    """
    given = zip(rankings, weights or [1.0] * len(rankings), strict=True)
    return summed([(one, *normalised(one, fusion), weight) for one, weight in given if weight], n_passages, k)


def summed(lists: Sequence[tuple[Rankings, np.ndarray, np.ndarray, float]], n_passages: int, k: int) -> Rankings:
    """Add up what lists say of passages, and return the best k of each question; ties go to the lower row.

    A list is its rankings, the values of what it found and of what it did not, as `normalised` returns them, and its
    weight.
    """
    rows, columns, values = [], [], []
    n_questions = len(lists[0][0].indices)
    of_none = np.zeros(n_questions)  # score of a passage that no list holds
    for one, found, absent, weight in lists:
        row, place = np.nonzero(one.indices != NOT_FOUND)
        rows.append(row)
        columns.append(one.indices[row, place])
        values.append(weight * (found[row, place] - absent[row]))
        of_none += weight * absent
    entries = (np.concatenate(rows), np.concatenate(columns))
    # what several lists give a passage is summed here; adding matrices would drop those that come to 0
    scores = csr_array((np.concatenate(values), entries), shape=(n_questions, n_passages))
    scores.data += np.repeat(of_none, np.diff(scores.indptr))
    return top_k_sparse(scores, k)


def normalised(rankings: Rankings, fusion: Fusion) -> tuple[np.ndarray, np.ndarray]:
    """Return the value of every passage found `(n_questions, k)` and of one that is not `(n_questions,)`, float64.

    The value is NaN in places where nothing was found.
    """
    found = rankings.indices != NOT_FOUND
    scores = np.where(found, rankings.scores, np.nan).astype(np.float64)
    if fusion is not Fusion.Z_SCORE:
        values = 1.0 / (RRF_CONSTANT + 1 + np.arange(scores.shape[1])) if fusion is Fusion.RRF else min_max(scores)
        return np.where(found, values, np.nan), np.zeros(len(scores))
    count = np.maximum((~np.isnan(scores)).sum(axis=1, keepdims=True), 1)
    centred = scores - np.nansum(scores, axis=1, keepdims=True) / count
    deviation = np.sqrt(np.nansum(centred**2, axis=1, keepdims=True) / count)
    lowest, highest = (at.reduce(scores, axis=1, keepdims=True) for at in (np.fmin, np.fmax))  # NaN for an empty list
    differ = highest > lowest
    values = np.where(differ, centred / np.where(differ, deviation, 1), 0.0)
    absent = np.where(differ, np.fmin.reduce(values, axis=1, keepdims=True), np.where(np.isnan(lowest), 0.0, -1.0))
    return np.where(found, values, np.nan), absent[:, 0]


class Hybrid:
    """The first `depth` passages of each retriever, all of them fused; see `fused`.

    `depths` are how many of each retriever's first passages have scores of their own, if fewer than `depth`: a reranker
    leaves those that it did not read below, with scores that only keep their order. Where scores are fused, these
    passages are left out of its list; where ranks are, they keep their ranks.

    What is fused does not depend on how many are asked for: past the passages that the retrievers brought, nothing is
    found.
    """

    def __init__(
        self,
        name: str,
        parts: Sequence[Retriever],
        *,
        n_passages: int,
        depth: int = 100,
        fusion: Fusion = Fusion.Z_SCORE,
        weights: Sequence[float] | None = None,
        depths: Sequence[int] = (),
    ) -> None:
        if len(parts) < 2:
            raise ValueError("a hybrid needs at least two retrievers")
        self.name = name
        self._parts, self._n_passages, self._depth = parts, n_passages, depth
        self._fusion, self._weights = fusion, weights
        by_score = depths and fusion is not Fusion.RRF
        self._depths = depths if by_score else [depth] * len(parts)

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        searched = zip(self._parts, self._depths, strict=True)
        rankings = [part.search(questions, self._depth).first(depth) for part, depth in searched]
        return fused(rankings, self._n_passages, self._fusion, self._weights, k)
