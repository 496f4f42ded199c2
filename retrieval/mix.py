"""A learned mix: how much each retriever counts is learned in seconds from queries whose relevant passages are known.

A retriever is a signal of two values for a passage of a query: its z-score in the retriever's list (see `combine`), and
how far its score lies below the best of that list, in usual deviations of this retriever's lists: the first compares
within the query, the second tells a clear best from one among many. A passage's score is the weighted sum of all
values, higher is better: `n` signals have `VALUES * n` weights. With few training queries the mix stays near the
untrained mix, with many it learns more (Bruch, Gai & Ingber 2023 find that a mix of two needs few). One fit minimises

    sum over queries of the mean over relevant passages p of -log softmax(w . x)[p]  +  sum of s_j * (w_j - t * m_j)^2

with the softmax over a query's candidates (a listwise loss, Cao et al. 2007), m the untrained mix, t the factor with
which it alone explains the queries best, and s the strength: one number of `STRENGTHS` for the retrievers that are
mixed, `EXTRA` times as much for the signals that count only as far as that is learned. The loss is convex. A few
queries do not tell which strength is right, so the weights are the average of the fits of all strengths, chosen on
development sets with all their queries and with samples of 60. Trees over the same values (LambdaMART, Burges 2010) and
fits weighted by their held-out nDCG@10 ranked no better.

A model that was trained on some of these queries would be trusted too much for them: these queries teach how the other
signals count, and the remaining queries alone how far to go from there with all of them, in the same way. No query is
ranked by weights fitted to it: the training queries are in folds by groups of their passages, and those of a fold are
ranked by weights learned from the other folds.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, FiniteFloat
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax
from typing_extensions import TypedDict

from mrc_workbench.data.earlier_names import current_names
from mrc_workbench.data.records import composed
from mrc_workbench.data.split.partition import FOLDS, TrainingQueries
from mrc_workbench.retrieval.combine import Fusion, fuse, normalize_scores
from mrc_workbench.retrieval.measures import DEFAULT_CUTOFF, evaluate, relevant_hits
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, Retriever, rank_candidates

VALUES_PER_SIGNAL = 2  # of a passage, by each signal
STRENGTHS = (30.0, 10.0, 3.0)  # of the pull to the untrained mix, in queries
DEFAULT_STRENGTH = 10.0  # of a single fit, where several would take long
EXTRA_STRENGTH = 10.0  # times the strength, for signals that are not in the untrained mix
_MAX_FACTOR = 100.0  # the largest factor of the untrained mix
_CANDIDATES = 50  # a question, that teach: what lies below the untrained mix's first tells little
_AT_ONCE = 1000  # questions that are ranked at a time
_EXPLAINED_QUERIES = 1000  # questions on which it is looked up what each signal brings


@dataclass(frozen=True)
class TrainingLists:
    """Candidates of the training queries, best of the untrained mix first.

    `indices` are rows of the corpus, `(n_queries, n)`, -1 for padding; `values` `(n_queries, n, n_values)` are those of
    the signals; `relevant` is `(n_queries, n)` bool. `trained` `(n_values,)` bool marks values of models that were
    trained on the queries of `lessons.known`.
    """

    training_queries: TrainingQueries
    indices: np.ndarray
    values: np.ndarray
    relevant: np.ndarray
    trained: np.ndarray

    def averaged(self, start: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Return averaged weights `(FOLDS + 1, n_values)`, for each fold from the others; those not `free` are 0."""
        others = (self.training_queries.folds != fold for fold in range(FOLDS + 1))
        return np.stack([np.mean(self.fits(rows, start, free, STRENGTHS), axis=0) for rows in others])

    def fits(
        self, rows: np.ndarray, start: np.ndarray, free: np.ndarray, strengths: Sequence[float] = (DEFAULT_STRENGTH,)
    ) -> list[np.ndarray]:
        """Return the weights `(n_values,)` of a fit of each strength to the queries at `rows` `(n_queries,)` bool.

        A model's own training queries fit the other signals only; all signals are then fitted to the remaining queries,
        pulled to those weights.
        """
        is_mixed = np.repeat(start.reshape(-1, VALUES_PER_SIGNAL).any(axis=1), VALUES_PER_SIGNAL)
        pulls = [np.where(is_mixed, strength, EXTRA_STRENGTH * strength) for strength in strengths]
        others = np.where(self.trained, 0.0, start)
        new = self._queries(rows & ~self.training_queries.was_trained_on)
        if not self.trained.any() or not others.any():
            return new.fit(start, free, pulls)
        firsts = self._queries(rows).fit(others, free & ~self.trained, pulls)
        return [new.fit(first, free, [pull])[0] for first, pull in zip(firsts, pulls, strict=True)]

    def ndcg(self, weights: Mapping[int, np.ndarray]) -> float:
        """Return mean nDCG@10 of queries that no model was trained on, ranked by the weights of its fold, else 0."""
        new = np.flatnonzero(~self.training_queries.was_trained_on)
        if not len(new):
            return 0.0
        query_weights = np.stack([weights[fold] for fold in self.training_queries.folds[new].tolist()])
        scores = np.einsum("qcv,qv->qc", self.values[new], query_weights)
        queries = self.training_queries.question_set.with_questions(new)
        return evaluate(rank_candidates(self.indices[new], scores, DEFAULT_CUTOFF), queries, (DEFAULT_CUTOFF,)).means()[
            f"ndcg@{DEFAULT_CUTOFF}"
        ]

    def _queries(self, rows: np.ndarray) -> "_Queries":
        """Return the queries at `rows` that have both relevant and other candidates: the rest teach nothing."""
        others = ~self.relevant & (self.indices != NOT_FOUND)
        rows = rows & self.relevant.any(axis=1) & others.any(axis=1)
        return _Queries(self.values[rows], self.relevant[rows], self.indices[rows] != NOT_FOUND)


class _Queries:
    """Candidates of some queries, `values` `(n_queries, n, n_values)`, and the loss of weights on them."""

    def __init__(self, values: np.ndarray, relevant: np.ndarray, is_candidate: np.ndarray) -> None:
        self._values = values
        self._is_candidate = is_candidate
        self._shape = is_candidate.shape
        self._targets = relevant / np.maximum(relevant.sum(axis=1, keepdims=True), 1)

    def fit(self, start: np.ndarray, free: np.ndarray, pulls: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Minimise the loss for each of the `pulls` `(n_values,)` to the scaled `start`; those not `free` are 0."""
        if not len(self._values):
            return [start] * len(pulls)
        start = np.where(free, start, 0.0)
        scores = self._values @ start
        factor = minimize_scalar(
            lambda scale: self._loss(scale * scores)[0], bounds=(0.0, _MAX_FACTOR), method="bounded"
        ).x
        centre = (factor * start)[free]
        values = self._values[:, :, free].reshape(-1, len(centre))  # a row a candidate: products of matrices
        results = np.zeros((len(pulls), len(start)))
        weights = centre
        for row, pull in enumerate(pulls):
            weights = self._fit_weights(values, centre, pull[free], weights)
            results[row, free] = weights
        return [*results]

    def _fit_weights(self, values: np.ndarray, centre: np.ndarray, pull: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Minimise the penalised loss from `first` on, all `(n_free,)`; `values` are `(n_candidates, n_free)`."""

        def penalized_loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
            loss, likelihoods = self._loss((values @ weights).reshape(self._shape))
            deviation = weights - centre
            gradient = values.T @ (likelihoods - self._targets).ravel()
            return loss + float(pull @ deviation**2), gradient + 2 * pull * deviation

        def curvature(weights: np.ndarray) -> np.ndarray:
            likelihoods = self._loss((values @ weights).reshape(self._shape))[1]
            weighted = values * likelihoods.reshape(-1, 1)
            means = weighted.reshape(*self._shape, -1).sum(axis=1)
            return np.asarray(values.T @ weighted - means.T @ means + 2 * np.diag(pull))

        return np.asarray(minimize(penalized_loss, first, jac=True, hess=curvature, method="trust-exact").x)

    def _loss(self, scores: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss of scores `(n_queries, n)`, summed over queries, and the likelihood of each candidate."""
        logs = log_softmax(np.where(self._is_candidate, scores, -np.inf), axis=1)
        return -float((self._targets * np.where(self._is_candidate, logs, 0.0)).sum()), np.exp(logs)


class _SignalFields(TypedDict):
    weight: FiniteFloat
    gain: FiniteFloat


def read_signal(details: Any) -> Any:
    """Return notes about a signal, see `describe_mix`, under the current names."""
    return current_names(details, {"share": "weight", "brings": "gain"}, "signals of a mix")


SignalDetails = Annotated[_SignalFields, BeforeValidator(read_signal)]


@dataclass(frozen=True)
class FittedMix:
    """The fitted weights `(FOLDS + 1, VALUES * n)`: for each fold from the others, and last from all queries.

    `shares` `(n,)` are the untrained mix, `deviations` `(n,)` the unit of each signal's gaps; `trained` `(n,)` bool
    marks signals of models that were trained on some of the queries.
    """

    weights: np.ndarray
    untrained_weights: np.ndarray
    deviations: np.ndarray
    trained: np.ndarray


@dataclass(eq=False)
class LearnedMix:
    """The first `depth` passages of each retriever, ordered by the mix fitted to the `lessons`; see the module.

    `components` name for each retriever its component of the untrained mix: components count the same, and so do the
    retrievers of one; without one (None) a retriever counts only as far as that is learned. `trained` are the
    retrievers whose models were trained on the lessons' `known` queries; for `depths` see `Hybrid`, for `notes`
    `explained`.
    """

    name: str
    retrievers: Sequence[Retriever]
    training_queries: TrainingQueries
    _: KW_ONLY
    n_passages: int
    components: Sequence[str | None]
    trained: Sequence[bool] = ()
    depth: int = 100
    depths: Sequence[int] = ()
    notes: dict[str, Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if not any(self.components):
            raise ValueError("a mix needs a retriever that counts before anything is learned")
        self.trained = self.trained or [False] * len(self.retrievers)
        self.depths = self.depths or [self.depth] * len(self.retrievers)

    def make_ready(self, questions: Sequence[str]) -> None:
        del questions
        _ = self.learned

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        retrievers_and_depths = zip(self.retrievers, self.depths, strict=True)
        learned = self.learned
        rankings = [retriever.search(questions, self.depth).first(depth) for retriever, depth in retrievers_and_depths]
        folds = np.array(
            [self.training_queries.fold_by_text.get(composed(text), FOLDS) for text in questions], dtype=np.int64
        )
        return rank_by_mix(rankings, learned, folds, self.n_passages, k)

    @cached_property
    def learned(self) -> FittedMix:
        retriever_settings = zip(self.retrievers, self.trained, self.depths, strict=True)
        rankings = [
            self._training_rankings(retriever, is_trained).first(depth)
            for retriever, is_trained, depth in retriever_settings
        ]
        learned = fit_mix(rankings, self.training_queries, self.components, self.n_passages, self.trained)
        if self.training_queries.texts:
            self.notes = describe_mix(
                rankings, learned, self.training_queries, [retriever.name for retriever in self.retrievers]
            )
        return learned

    def _training_rankings(self, retriever: Retriever, is_trained: bool) -> Rankings:
        training_queries = self.training_queries
        if not (is_trained and training_queries.was_trained_on.any()):
            return retriever.search(training_queries.texts, self.depth)
        rankings = Rankings.empty(len(training_queries.texts), min(self.depth, self.n_passages))
        if len(unseen := np.flatnonzero(~training_queries.was_trained_on)):
            hits = retriever.search([training_queries.texts[row] for row in unseen], self.depth)
            rankings.indices[unseen] = hits.indices
            rankings.scores[unseen] = hits.scores
        return rankings


def fit_mix(
    rankings: Sequence[Rankings],
    training_queries: TrainingQueries,
    components: Sequence[str | None],
    n_passages: int,
    trained: Sequence[bool] = (),
) -> FittedMix:
    """Fit a mix to what each signal found for the training queries, without copies of a signal before it."""
    originals = _originals(rankings)
    distinct = originals == np.arange(len(rankings))
    untrained_weights = _untrained_weights(components, originals)
    start = np.zeros((len(rankings), VALUES_PER_SIGNAL))
    start[:, 0] = untrained_weights
    learned = FittedMix(
        np.tile(start.ravel(), (FOLDS + 1, 1)),
        untrained_weights,
        np.array([_score_deviation(signal) for signal in rankings]),
        np.array(trained or [False] * len(rankings)),
    )
    if training_queries.texts and distinct.sum() > 1:
        lists = training_lists(rankings, learned, training_queries, n_passages)
        learned.weights[:] = lists.averaged(start.ravel(), np.repeat(distinct, VALUES_PER_SIGNAL))
    return learned


def _untrained_weights(components: Sequence[str | None], originals: np.ndarray) -> np.ndarray:
    """Return weights of the untrained mix, `(n_signals,)` of sum 1; a copy leaves its own to the original."""
    pairs = [*zip(components, originals.tolist(), strict=True)]
    own_component = [component if original == row else None for row, (component, original) in enumerate(pairs)]
    if not any(own_component):
        for component, original in pairs:
            own_component[original] = own_component[original] or component
    sizes = Counter(component for component in own_component if component)
    return np.array([1.0 / (len(sizes) * sizes[component]) if component else 0.0 for component in own_component])


def rank_by_mix(
    rankings: Sequence[Rankings], learned: FittedMix, folds: np.ndarray, n_passages: int, k: int
) -> Rankings:
    """Order the untrained mix's candidates by the weights of each question's fold, `FOLDS` of a new question."""
    longest = max(k, *(signal.indices.shape[1] for signal in rankings))
    candidates = fuse(rankings, n_passages, Fusion.Z_SCORE, learned.untrained_weights.tolist(), longest).indices
    scores = np.full(candidates.shape, -np.inf)
    for first in range(0, len(candidates), _AT_ONCE):
        block = slice(first, first + _AT_ONCE)
        lists = [Rankings(ranking.indices[block], ranking.scores[block]) for ranking in rankings]
        values = _signal_values(lists, candidates[block], learned.deviations, n_passages)
        scores[block] = np.einsum("qcv,qv->qc", values, learned.weights[folds[block]])
    return rank_candidates(candidates, scores, min(k, n_passages))


def describe_mix(
    rankings: Sequence[Rankings], learned: FittedMix, training_queries: TrainingQueries, names: Sequence[str]
) -> dict[str, Any]:
    """Describe a mix, JSON-able: the number of training `questions`, and of the `signals`, by name, `share`, `brings`.

    `leaks` are queries that share a relevant passage with a query of another fold. A share is the fraction of the
    spread of scores among candidates of queries that no model was trained on. `brings` is by how much nDCG@10 of
    held-out training queries (a sample) falls without the signal.
    """
    sample = np.sort(np.random.default_rng(0).permutation(len(training_queries.texts))[:_EXPLAINED_QUERIES])
    sampled_rankings = [Rankings(signal.indices[sample], signal.scores[sample]) for signal in rankings]
    sampled_queries = training_queries.select_rows(sample)
    lists = training_lists(sampled_rankings, learned, sampled_queries, len(training_queries.question_set.passages))
    start = np.zeros((len(names), VALUES_PER_SIGNAL))
    free = np.repeat(_originals(rankings) == np.arange(len(names)), VALUES_PER_SIGNAL)
    start[:, 0] = learned.untrained_weights
    values = (
        (lists.values * learned.weights[FOLDS])
        .reshape(*lists.values.shape[:2], len(names), VALUES_PER_SIGNAL)
        .sum(axis=3)
    )
    values = values if sampled_queries.was_trained_on.all() else values[~sampled_queries.was_trained_on]
    spread = np.sqrt(((values - values.mean(axis=1, keepdims=True)) ** 2).mean(axis=(0, 1)))
    spread /= spread.sum() or 1.0  # of a single passage no score differs
    full_ndcg = _held_out_ndcg(lists, start.ravel(), free)
    signals: dict[str, SignalDetails] = {}
    for row, name in enumerate(names):
        without = start.copy()
        others = free.copy().reshape(-1, VALUES_PER_SIGNAL)
        without[row] = 0.0
        others[row] = False
        gain = full_ndcg - _held_out_ndcg(lists, without.ravel(), others.ravel())
        signals[name] = {"weight": float(spread[row]), "gain": float(gain)}
    leaks = {"leaking_queries": training_queries.leaks} if training_queries.leaks else {}
    return {"questions": len(training_queries.texts), **leaks, "signals": signals}


def _held_out_ndcg(lists: TrainingLists, start: np.ndarray, free: np.ndarray) -> float:
    """Return nDCG@10, 0 to 1, of a single fit, each fold ranked by weights of the others; 0 if no signal is left."""
    if not free.any():
        return 0.0
    folds = lists.training_queries.folds
    return lists.ndcg({fold: lists.fits(folds != fold, start, free)[0] for fold in range(FOLDS)})


def training_lists(
    rankings: Sequence[Rankings], learned: FittedMix, training_queries: TrainingQueries, n_passages: int
) -> TrainingLists:
    """Return the candidates of the training queries, those that the untrained mix ranks first."""
    indices = fuse(rankings, n_passages, Fusion.Z_SCORE, learned.untrained_weights.tolist(), _CANDIDATES).indices
    values = _signal_values(rankings, indices, learned.deviations, n_passages)
    relevant = relevant_hits(Rankings(indices, np.zeros(indices.shape)), training_queries.question_set)
    return TrainingLists(training_queries, indices, values, relevant, np.repeat(learned.trained, VALUES_PER_SIGNAL))


def _signal_values(
    rankings: Sequence[Rankings], candidates: np.ndarray, deviations: np.ndarray, n_passages: int
) -> np.ndarray:
    """Return each signal's values of candidates, `(n_questions, n, n_values)`; absent ones as the last in its list."""
    values = np.zeros((*candidates.shape, len(rankings), VALUES_PER_SIGNAL))
    rows = np.arange(len(candidates), dtype=np.int64)[:, None] * n_passages
    target_codes = rows + candidates
    for signal, (ranking, deviation) in enumerate(zip(rankings, deviations, strict=True)):
        scores, absent = normalize_scores(ranking, Fusion.Z_SCORE)
        gaps = _gaps(ranking) / deviation
        furthest = np.where(np.isnan(gaps).all(axis=1), 0.0, np.fmin.reduce(gaps, axis=1, initial=0.0))
        is_hit = ranking.indices != NOT_FOUND
        codes = (rows + ranking.indices)[is_hit]
        order = np.argsort(codes)
        positions = np.minimum(np.searchsorted(codes, target_codes, sorter=order), len(codes) - 1)
        is_present = (codes[order[positions]] == target_codes) if len(codes) else np.zeros(candidates.shape, dtype=bool)
        for value, (list_values, absent_values) in enumerate(((scores, absent), (gaps, furthest))):
            values[:, :, signal, value] = absent_values[:, None]
            values[is_present, signal, value] = list_values[is_hit][order[positions[is_present]]]
    return values.reshape(*candidates.shape, -1)


def _gaps(rankings: Rankings) -> np.ndarray:
    scores = np.where(rankings.indices != NOT_FOUND, rankings.scores, np.nan).astype(np.float64)
    return np.asarray(scores - scores[:, :1]) if scores.shape[1] else scores


def _score_deviation(rankings: Rankings) -> float:
    """The standard deviation of scores within a list, the root of the mean of squares over lists; 1 where it is 0."""
    gaps = np.ma.masked_invalid(_gaps(rankings))
    variances = gaps.var(axis=1).compressed() if gaps.size else np.zeros(0)
    return float(np.sqrt(variances.mean())) or 1.0 if len(variances) else 1.0


def _originals(rankings: Sequence[Rankings]) -> np.ndarray:
    """Return for each signal the first that has the same lists and, up to a factor, scores, `(n_signals,)` int64."""
    scores = [normalize_scores(signal, Fusion.Z_SCORE)[0] for signal in rankings]

    def is_same(row: int, other: int) -> bool:
        if row == other:
            return True
        indices = rankings[row].indices
        are_alike = len(indices) > 0 and np.array_equal(indices, rankings[other].indices)
        return are_alike and np.allclose(scores[row], scores[other], atol=1e-4, equal_nan=True)

    return np.array([next(other for other in range(row + 1) if is_same(row, other)) for row in range(len(rankings))])
