"""Fit the weights of a learned mix: the average of fits that are pulled to the untrained mix by different strengths.

A signal has `VALUES` values for a candidate passage of a query, so `n` signals have `VALUES * n` weights; a score is
the weighted sum of all values, higher is better. One fit minimises

    sum over queries of the mean over relevant passages p of -log softmax(w . x)[p]  +  sum of s_j * (w_j - t * m_j)^2

with the softmax over a query's candidates (a listwise loss, Cao et al. 2007), m the untrained mix, t the factor with
which it alone explains the queries best, and s the strength: one number of `STRENGTHS` for the retrievers that are
mixed, `EXTRA` times as much for the signals that count only as far as that is learned. The loss is convex.

Which strength is right depends on how many queries there are, and a few do not tell which, so the weights are the
average of the fits of all strengths. An average of linear weights is linear. The strengths were chosen on development
sets, with all their queries and with samples of 60. Components that are weighed by their nDCG@10 on queries that they
did not see (each retriever alone, the untrained mix and the fits) ranked no better than this average: on few queries,
which of them is best is mostly chance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax

from mrc_workbench.data.split.partition import FOLDS, Lessons
from mrc_workbench.retrieval.evaluation.measures import CUT, evaluate
from mrc_workbench.retrieval.rankings import NOT_FOUND, ranked

VALUES = 2  # of a passage, by each signal
STRENGTHS = (30.0, 10.0, 3.0)  # of the pull to the untrained mix, in queries
USUAL_STRENGTH = 10.0  # of a single fit, where several would take long
EXTRA = 10.0  # times the strength, for signals that are not in the untrained mix
_STEEPEST = 100.0  # the largest factor of the untrained mix


@dataclass(frozen=True)
class TrainingLists:
    """Candidates of the training queries, best of the untrained mix first.

    `indices` are rows of the corpus, `(n_queries, n)`, -1 for padding; `values` `(n_queries, n, n_values)` are those of
    the signals; `relevant` is `(n_queries, n)` bool. `trained` `(n_values,)` bool marks values of models that were
    trained on some of the queries, those that `lessons.known` marks.
    """

    lessons: Lessons
    indices: np.ndarray
    values: np.ndarray
    relevant: np.ndarray
    trained: np.ndarray

    def averaged(self, start: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Return the averaged weights, `(FOLDS + 1, n_values)`: for each fold from the others, and last from all.

        `start` `(n_values,)` is the untrained mix; weights that are not `free` `(n_values,)` bool are 0.
        """
        folds = self.lessons.folds
        return np.stack(
            [np.mean(self.fits(folds != fold, start, free, STRENGTHS), axis=0) for fold in range(FOLDS + 1)]
        )

    def fits(
        self, rows: np.ndarray, start: np.ndarray, free: np.ndarray, strengths: Sequence[float] = (USUAL_STRENGTH,)
    ) -> list[np.ndarray]:
        """Return the weights `(n_values,)` of a fit of each strength to the queries at `rows` `(n_queries,)` bool.

        A model's own training queries show nothing of how good it is on others: they weigh the other signals only, and
        all signals are then fitted to the remaining queries, pulled to those weights.
        """
        is_mixed = np.repeat(start.reshape(-1, VALUES).any(axis=1), VALUES)
        pulls = [np.where(is_mixed, strength, EXTRA * strength) for strength in strengths]
        others = np.where(self.trained, 0.0, start)
        new = self._queries(rows & ~self.lessons.known)
        if not self.trained.any() or not others.any():
            return new.least(start, free, pulls)
        firsts = self._queries(rows).least(others, free & ~self.trained, pulls)
        return [new.least(first, free, [pull])[0] for first, pull in zip(firsts, pulls, strict=True)]

    def ndcg(self, weights: Mapping[int, np.ndarray]) -> float:
        """Return mean nDCG@10, 0 to 1, each query ranked by the weights `(n_values,)` of its fold.

        Only queries that no model was trained on count; 0 if there is none.
        """
        new = np.flatnonzero(~self.lessons.known)
        if not len(new):
            return 0.0
        of_query = np.stack([weights[fold] for fold in self.lessons.folds[new].tolist()])
        scores = np.einsum("qcv,qv->qc", self.values[new], of_query)
        queries = self.lessons.question_set.with_questions(new)
        return evaluate(ranked(self.indices[new], scores, CUT), queries, (CUT,)).means()[f"ndcg@{CUT}"]

    def _queries(self, rows: np.ndarray) -> "_Queries":
        """Return the queries at `rows` that have both relevant and other candidates: the rest teach nothing."""
        others = ~self.relevant & (self.indices != NOT_FOUND)
        rows = rows & self.relevant.any(axis=1) & others.any(axis=1)
        return _Queries(self.values[rows], self.relevant[rows], self.indices[rows] != NOT_FOUND)


class _Queries:
    """Candidates of some queries, and the loss of weights on them.

    `values` are `(n_queries, n, n_values)`, `relevant` and `exists` `(n_queries, n)` bool.
    """

    def __init__(self, values: np.ndarray, relevant: np.ndarray, exists: np.ndarray) -> None:
        self._values, self._exists, self._shape = values, exists, exists.shape
        self._targets = relevant / np.maximum(relevant.sum(axis=1, keepdims=True), 1)

    def scaled(self, weights: np.ndarray) -> np.ndarray:
        """Return weights `(n_values,)` times the factor, 0 to `_STEEPEST`, of the least loss."""
        if not len(self._values):
            return weights
        scores = self._values @ weights

        def loss_at(factor: float) -> float:
            return self._loss(factor * scores)[0]

        return np.asarray(weights * minimize_scalar(loss_at, bounds=(0.0, _STEEPEST), method="bounded").x)

    def least(self, start: np.ndarray, free: np.ndarray, pulls: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the weights `(n_values,)` of the least penalised loss for each of the `pulls` `(n_values,)`.

        They are pulled to the scaled `start` `(n_values,)`; weights that are not `free` `(n_values,)` bool are 0.
        """
        if not len(self._values):
            return [start] * len(pulls)
        centre = self.scaled(np.where(free, start, 0.0))[free]
        values = self._values[:, :, free].reshape(-1, len(centre))  # a row a candidate: products of matrices
        results = []
        weights = centre
        for pull in pulls:
            weights = self._minimised(values, centre, pull[free], weights)
            results.append(np.zeros(len(start)))
            results[-1][free] = weights
        return results

    def _minimised(self, values: np.ndarray, centre: np.ndarray, pull: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Minimise the penalised loss from `first` on, all `(n_free,)`; `values` are `(n_candidates, n_free)`."""

        def penalised(weights: np.ndarray) -> tuple[float, np.ndarray]:
            loss, chances = self._loss((values @ weights).reshape(self._shape))
            off = weights - centre
            slope = values.T @ (chances - self._targets).ravel()
            return loss + float(pull @ off**2), slope + 2 * pull * off

        def curvature(weights: np.ndarray) -> np.ndarray:
            chances = self._loss((values @ weights).reshape(self._shape))[1]
            weighed = values * chances.reshape(-1, 1)
            means = weighed.reshape(*self._shape, -1).sum(axis=1)
            return np.asarray(values.T @ weighed - means.T @ means + 2 * np.diag(pull))

        return np.asarray(minimize(penalised, first, jac=True, hess=curvature, method="trust-exact").x)

    def _loss(self, scores: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss of scores `(n_queries, n)`, summed over queries, and the likelihood of each candidate."""
        logs = log_softmax(np.where(self._exists, scores, -np.inf), axis=1)
        return -float((self._targets * np.where(self._exists, logs, 0.0)).sum()), np.exp(logs)
