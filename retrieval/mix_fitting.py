"""Fit the weights of a learned mix: several fits, averaged by how well each ranks training queries that it did not see.

A signal has `VALUES` values for a candidate passage of a query, so `n` signals have `VALUES * n` weights; a score is
the weighted sum of all values, higher is better. One fit minimises

    sum over queries of the mean over relevant passages p of -log softmax(w . x)[p]  +  sum of s_j * (w_j - t * m_j)^2

with the softmax over a query's candidates (a listwise loss, Cao et al. 2007), m the untrained mix, t the factor with
which it alone explains the queries best, and s the strength: one number of `STRENGTHS` for the retrievers that are
mixed, `EXTRA` times as much for the signals that count only as far as that is learned. The loss is convex.

Which strength is right depends on how many queries there are, and with few of them one retriever alone can be better
than any fit. So the weights are the average over the components: each retriever alone, the untrained mix, and a fit of
each strength pulled to either of two m: the untrained mix, or the average of the retrievers alone and the untrained
mix, each in proportion to the root of its likelihood. All are scaled to explain the queries best. A component
counts in proportion to its prior * exp(`SHARPNESS` * the sum over training queries of nDCG@10), each query ranked by
the component as fitted without the query's fold (exponential weights: Rigollet & Tsybakov 2012, "Sparse estimation by
exponential weighting"). The components that are not fitted share a prior of `UNFITTED`, the fits share the rest. An
average of linear weights is linear. Strengths, prior and sharpness were chosen on development sets, with all their
queries and with samples of 60.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax

from data.split.folds import FOLDS, Lessons
from retrieval.evaluation.measures import CUT, evaluate
from retrieval.rankings import NOT_FOUND, ranked

VALUES = 2  # of a passage, by each signal
STRENGTHS = (30.0, 10.0, 3.0)  # of the pull to the untrained mix, in queries
USUAL_STRENGTH = 10.0  # of a single fit, where several would take long
UNFITTED = 0.5  # prior of each retriever alone and of the untrained mix, together
SHARPNESS = 1.0
EXTRA = 10.0  # times the strength, for signals that are not in the untrained mix
_STEEPEST = 100.0  # the largest factor of the untrained mix
_MOST_HELD_OUT = 1000  # queries that weigh the components


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
    _fits: dict[tuple[object, ...], np.ndarray] = field(default_factory=dict, repr=False)

    def some(self, rows: np.ndarray) -> "TrainingLists":
        """Return the lists of the queries at `rows`."""
        return TrainingLists(
            self.lessons.some(rows), self.indices[rows], self.values[rows], self.relevant[rows], self.trained
        )

    def averaged(self, start: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Return the averaged weights, `(FOLDS + 1, n_values)`: for each fold from the others, and last from all.

        `start` `(n_values,)` is the untrained mix; weights that are not `free` `(n_values,)` bool are 0.
        """
        if self.trained.any() and self.lessons.known.all():
            return self._without_trained(start, free)
        few = self.some(_drawn(len(self.values), _MOST_HELD_OUT)) if len(self.values) > _MOST_HELD_OUT else self
        averaged = np.zeros((FOLDS + 1, len(start)))
        for fold in range(FOLDS + 1):
            without = frozenset({fold} - {FOLDS})
            proportions = softmax(np.log(_prior(start)) + SHARPNESS * few.held_out_ndcg(without, start, free))
            averaged[fold] = proportions @ self.components(without, start, free)
        return averaged

    def _without_trained(self, start: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Return the weights if trained models know all queries: nothing shows how good they are on others."""
        others = np.where(self.trained, 0.0, start)
        if not others.any():
            return np.tile(start, (FOLDS + 1, 1))
        lessons = replace(self.lessons, known=np.zeros_like(self.lessons.known))
        lists = TrainingLists(lessons, self.indices, self.values, self.relevant, np.zeros_like(self.trained))
        return lists.averaged(others, free & ~self.trained)

    def components(self, without: frozenset[int], start: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Return the weights of each component, `(n_components, n_values)`, learned from the folds not in `without`.

        First the retrievers alone, in the order of the signals, then the untrained mix, then a fit of each strength
        pulled to it, then those pulled to the average.
        """
        key = (without, start.tobytes(), free.tobytes())
        if key not in self._fits:
            rows = ~np.isin(self.lessons.folds, [*without])
            scaled = np.array([self._scaled(rows, weights) for weights in (*_alone(start), start)])
            losses = self._queries(rows & ~self.lessons.known).losses(scaled)
            centre = softmax(-0.5 * losses) @ scaled
            fits = [fit for mean in (start, centre) for fit in self.fits(rows, mean, free, STRENGTHS, _is_mixed(start))]
            self._fits[key] = np.array([*scaled, *fits])
        return self._fits[key]

    def fits(
        self,
        rows: np.ndarray,
        start: np.ndarray,
        free: np.ndarray,
        strengths: Sequence[float] = (USUAL_STRENGTH,),
        is_mixed: np.ndarray | None = None,
    ) -> list[np.ndarray]:
        """Return the weights `(n_values,)` of a fit of each strength to the queries at `rows` `(n_queries,)` bool.

        A model's own training queries show nothing of how good it is on others: they weigh the other signals only, and
        all signals are then fitted to the remaining queries, pulled to those weights.
        """
        is_mixed = _is_mixed(start) if is_mixed is None else is_mixed
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

    def held_out_ndcg(self, without: frozenset[int], start: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Return the sum of nDCG@10 over the queries outside `without` for each component, `(n_components,)`.

        The queries of a fold are ranked by the components that the folds left learned. Queries that a model was trained
        on do not count.
        """
        sums = np.zeros(len(_prior(start)))
        for fold in sorted({*range(FOLDS)} - without):
            rows = np.flatnonzero((self.lessons.folds == fold) & ~self.lessons.known)
            if len(rows):
                scores = np.einsum("qcv,kv->kqc", self.values[rows], self.components(without | {fold}, start, free))
                sums += [self._ndcg_sum(rows, of_component) for of_component in scores]
        return sums

    def _ndcg_sum(self, rows: np.ndarray, scores: np.ndarray) -> float:
        """Return the sum of nDCG@10 of the queries at `rows`, their candidates in the order of `scores`."""
        scores = np.where(self.indices[rows] != NOT_FOUND, scores, -np.inf).astype(np.float32)
        order = np.lexsort((self.indices[rows], -scores), axis=1)[:, :CUT]
        gains = np.take_along_axis(self._gains[rows], order, axis=1)
        return float((gains @ _DISCOUNTS[: gains.shape[1]]).sum())

    @cached_property
    def _gains(self) -> np.ndarray:
        """1 / ideal DCG of each relevant candidate, `(n_queries, n)`, so that discounted sums are nDCG@10."""
        counts = np.diff(self.lessons.question_set.relevance.indptr)
        ideal = _DISCOUNTS.cumsum()[np.clip(counts, 1, CUT) - 1]
        return np.asarray(self.relevant / ideal[:, None])

    def _scaled(self, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return weights times the factor with which they explain the queries at `rows` best.

        Queries that a model was trained on say nothing of its scale: they are left out where it counts.
        """
        known = self.lessons.known & bool((weights[self.trained] != 0).any())
        return self._queries(rows & ~known).scaled(weights)

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

    def losses(self, weights: np.ndarray) -> np.ndarray:
        """Return the loss of each of some weights `(n, n_values)`, `(n,)`."""
        return np.array([self._loss(self._values @ some)[0] for some in weights])

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


_DISCOUNTS = 1.0 / np.log2(np.arange(2, CUT + 2))


def _drawn(n_queries: int, most: int) -> np.ndarray:
    """Return the rows of `most` queries, always the same, in order."""
    return np.sort(np.random.default_rng(0).permutation(n_queries)[:most])


def _alone(start: np.ndarray) -> list[np.ndarray]:
    """Return the weights of each retriever of the untrained mix alone, by the value that is in it."""
    return [np.where(np.arange(len(start)) == position, 1.0, 0.0) for position in np.flatnonzero(start)]


def _prior(start: np.ndarray) -> np.ndarray:
    """Return the prior of each component, `(n_components,)` of sum 1."""
    n_unfitted = int(np.count_nonzero(start)) + 1
    n_fits = 2 * len(STRENGTHS)
    return np.array([UNFITTED / n_unfitted] * n_unfitted + [(1 - UNFITTED) / n_fits] * n_fits)


def _is_mixed(start: np.ndarray) -> np.ndarray:
    """Return whether each weight is of a retriever of the untrained mix, `(n_values,)` bool."""
    return np.repeat(start.reshape(-1, VALUES).any(axis=1), VALUES)
