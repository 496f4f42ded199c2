"""A learned mix of retrievers, whose weights are fitted in seconds to labelled queries.

A retriever is a signal of two values for each candidate passage: its z-score in the retriever's list (see `combine`),
and the distance of its score below the best of the list, in standard deviations of this retriever's lists. The first
compares passages of a query; the second separates a clear best from a close race. A passage's score is the weighted sum
of all values, higher is better: `n` signals have `VALUES_PER_SIGNAL * n` weights. With few training queries the weights
stay near the untrained mix (Bruch, Gai & Ingber 2023 find that a mix of two needs few). One fit minimises

    sum over queries of the mean over relevant passages p of -log softmax(w . x)[p]  +  sum of s_j * (w_j - t * m_j)^2

with the softmax over a query's candidates (a listwise loss, Cao et al. 2007), m the untrained mix, t the best single
factor for it, and s the strength: one of `STRENGTHS` for the mixed retrievers, `EXTRA_STRENGTH` times as much for
signals outside the untrained mix. The loss is convex. A few queries cannot select the strength, so the weights are the
average of the fits of all strengths (tuned on development sets, with all queries and with samples of 60). Trees over
the same values (LambdaMART, Burges 2010) and fits weighted by their held-out nDCG@10 ranked no better.

A model that was trained on some of these queries looks too good on them. These queries therefore fit the other signals,
and only the remaining queries then fit all signals, in the same way. No query is ranked by weights that were fitted to
it: the queries are in folds by groups of their passages, and each fold uses weights from the other folds.
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

from mrc_workbench.data.files import current_names
from mrc_workbench.data.records import composed
from mrc_workbench.data.split.partition import FOLDS, TrainingQueries
from mrc_workbench.retrieval.combine import Fusion, fuse, normalize_scores
from mrc_workbench.retrieval.measures import DEFAULT_CUTOFF, evaluate, relevant_hits
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, Retriever, rank_candidates

VALUES_PER_SIGNAL = 2
STRENGTHS = (30.0, 10.0, 3.0)  # of the pull to the untrained mix, in queries
DEFAULT_STRENGTH = 10.0  # of a single fit, if several would take long
EXTRA_STRENGTH = 10.0  # times the strength, for signals that are not in the untrained mix
_MAX_FACTOR = 100.0  # of the untrained mix
_CANDIDATES = 50  # training candidates of a query
_AT_ONCE = 1000  # questions that are ranked at a time
_EXPLAINED_QUERIES = 1000  # sample that measures the gain of each signal


@dataclass(frozen=True)
class TrainingLists:
    """Candidates of the training queries, in the order of the untrained mix.

    `indices` are corpus rows, `(n_queries, n)`, -1 for padding; `values` is `(n_queries, n, n_values)`, `relevant`
    `(n_queries, n)` bool. `trained` `(n_values,)` bool marks values of models that were trained on some of the queries.
    """

    training_queries: TrainingQueries
    indices: np.ndarray
    values: np.ndarray
    relevant: np.ndarray
    trained: np.ndarray

    def averaged(self, start: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Return averaged weights `(FOLDS + 1, n_values)`, for each fold from the others; 0 unless `free`."""
        others = (self.training_queries.folds != fold for fold in range(FOLDS + 1))
        return np.stack([np.mean(self.fits(rows, start, free, STRENGTHS), axis=0) for rows in others])

    def fits(
        self, rows: np.ndarray, start: np.ndarray, free: np.ndarray, strengths: Sequence[float] = (DEFAULT_STRENGTH,)
    ) -> list[np.ndarray]:
        """Return the weights `(n_values,)` of a fit of each strength to the queries at `rows` `(n_queries,)` bool."""
        is_mixed = np.repeat(start.reshape(-1, VALUES_PER_SIGNAL).any(axis=1), VALUES_PER_SIGNAL)
        pulls = [np.where(is_mixed, strength, EXTRA_STRENGTH * strength) for strength in strengths]
        others = np.where(self.trained, 0.0, start)
        new = self._queries(rows & ~self.training_queries.was_trained_on)
        if not self.trained.any() or not others.any():
            return new.fit(start, free, pulls)
        firsts = self._queries(rows).fit(others, free & ~self.trained, pulls)
        return [new.fit(first, free, [pull])[0] for first, pull in zip(firsts, pulls, strict=True)]

    def ndcg(self, weights: Mapping[int, np.ndarray]) -> float:
        """Return mean nDCG@10 of queries that no model was trained on, each ranked by the weights of its fold."""
        new = np.flatnonzero(~self.training_queries.was_trained_on)
        if not len(new):
            return 0.0
        query_weights = np.stack([weights[fold] for fold in self.training_queries.folds[new].tolist()])
        scores = np.einsum("qcv,qv->qc", self.values[new], query_weights)
        queries = self.training_queries.question_set.with_questions(new)
        rankings = rank_candidates(self.indices[new], scores, DEFAULT_CUTOFF)
        return evaluate(rankings, queries, (DEFAULT_CUTOFF,)).means()[f"ndcg@{DEFAULT_CUTOFF}"]

    def _queries(self, rows: np.ndarray) -> "_Queries":
        """Return the queries at `rows` that have both relevant and other candidates: only these affect the fit."""
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
        """Minimise the loss for each of the `pulls` `(n_values,)` to the scaled `start`; weights not `free` are 0."""
        if not len(self._values):
            return [start] * len(pulls)
        start = np.where(free, start, 0.0)
        scores = self._values @ start
        bounds = (0.0, _MAX_FACTOR)
        factor = minimize_scalar(lambda scale: self._loss(scale * scores)[0], bounds=bounds, method="bounded").x
        centre = (factor * start)[free]
        values = self._values[:, :, free].reshape(-1, len(centre))  # one row per candidate
        results = np.zeros((len(pulls), len(start)))
        weights = centre
        for row, pull in enumerate(pulls):
            weights = self._fit_weights(values, centre, pull[free], weights)
            results[row, free] = weights
        return [*results]

    def _fit_weights(self, values: np.ndarray, centre: np.ndarray, pull: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Minimise the penalised loss, starting at `first`, all `(n_free,)`; `values` is `(n_candidates, n_free)`."""

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
    if not isinstance(details, Mapping):
        return details
    return current_names(details, {"share": "weight", "brings": "gain"}, "signals of a mix")


SignalDetails = Annotated[_SignalFields, BeforeValidator(read_signal)]


@dataclass(frozen=True)
class FittedMix:
    """The fitted weights `(FOLDS + 1, VALUES_PER_SIGNAL * n)`: for each fold from the others, last from all queries.

    `untrained_weights`, `deviations` (the unit of a signal's gaps) and `trained` are `(n,)`, one value per signal.
    """

    weights: np.ndarray
    untrained_weights: np.ndarray
    deviations: np.ndarray
    trained: np.ndarray


@dataclass(eq=False)
class LearnedMix:
    """Ranks the first `depth` passages of each retriever by the fitted mix; see the module.

    `components` names the component of each retriever in the untrained mix: components have equal weights, and so have
    the retrievers of a component. A retriever without a component (None) has a learned weight only. `trained` marks
    retrievers whose models were trained on some of the queries. For `depths` see `Hybrid`, for `notes` `describe_mix`.
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
            raise ValueError("a mix needs a retriever with a component of the untrained mix")
        self.trained = self.trained or [False] * len(self.retrievers)
        self.depths = self.depths or [self.depth] * len(self.retrievers)

    def make_ready(self, questions: Sequence[str]) -> None:
        del questions
        _ = self.learned

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        searched = zip(self.retrievers, self.depths, strict=True)
        learned = self.learned
        rankings = [retriever.search(questions, self.depth).first(depth) for retriever, depth in searched]
        fold_by_text = self.training_queries.fold_by_text
        folds = np.array([fold_by_text.get(composed(text), FOLDS) for text in questions], dtype=np.int64)
        return rank_by_mix(rankings, learned, folds, self.n_passages, k)

    @cached_property
    def learned(self) -> FittedMix:
        settings = zip(self.retrievers, self.trained, self.depths, strict=True)
        rankings = [self._training_rankings(retriever, trained).first(depth) for retriever, trained, depth in settings]
        learned = fit_mix(rankings, self.training_queries, self.components, self.n_passages, self.trained)
        if self.training_queries.texts:
            names = [retriever.name for retriever in self.retrievers]
            self.notes = describe_mix(rankings, learned, self.training_queries, names)
        return learned

    def _training_rankings(self, retriever: Retriever, is_trained: bool) -> Rankings:
        training_queries = self.training_queries
        if not (is_trained and training_queries.was_trained_on.any()):
            return retriever.search(training_queries.texts, self.depth)
        rankings = Rankings.empty(len(training_queries.texts), min(self.depth, self.n_passages))
        if len(unseen := np.flatnonzero(~training_queries.was_trained_on)):
            rankings.assign(unseen, retriever.search([training_queries.texts[row] for row in unseen], self.depth))
        return rankings


def fit_mix(
    rankings: Sequence[Rankings],
    training_queries: TrainingQueries,
    components: Sequence[str | None],
    n_passages: int,
    trained: Sequence[bool] = (),
) -> FittedMix:
    """Fit a mix to the rankings of the training queries; a signal that copies an earlier one gets weight 0."""
    originals = _originals(rankings)
    distinct = originals == np.arange(len(rankings))
    untrained_weights = _untrained_weights(components, originals)
    start = np.stack([untrained_weights, np.zeros(len(rankings))], axis=1)
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
    """Return the weights of the untrained mix, `(n_signals,)` of sum 1; a copy adds its weight to the original."""
    pairs = [*zip(components, originals.tolist(), strict=True)]
    own_component = [component if original == row else None for row, (component, original) in enumerate(pairs)]
    if not any(own_component):
        for component, original in pairs:
            own_component[original] = own_component[original] or component
    sizes = Counter(component for component in own_component if component)
    return np.array([1.0 / (len(sizes) * sizes[component]) if component else 0.0 for component in own_component])


def rank_by_mix(rankings: Sequence[Rankings], mix: FittedMix, folds: np.ndarray, n_passages: int, k: int) -> Rankings:
    """Order the untrained mix's candidates by the weights of each question's fold; new questions have `FOLDS`."""
    longest = max(k, *(signal.indices.shape[1] for signal in rankings))
    candidates = fuse(rankings, n_passages, Fusion.Z_SCORE, mix.untrained_weights.tolist(), longest).indices
    scores = np.full(candidates.shape, -np.inf)
    for first in range(0, len(candidates), _AT_ONCE):
        block = slice(first, first + _AT_ONCE)
        lists = [ranking.select(block) for ranking in rankings]
        values = _signal_values(lists, candidates[block], mix.deviations, n_passages)
        scores[block] = np.einsum("qcv,qv->qc", values, mix.weights[folds[block]])
    return rank_candidates(candidates, scores, min(k, n_passages))


def describe_mix(
    rankings: Sequence[Rankings], learned: FittedMix, training_queries: TrainingQueries, names: Sequence[str]
) -> dict[str, Any]:
    """Describe a mix for JSON: the number of training `questions`, and the `weight` and `gain` of each of `signals`.

    `leaking_queries` share a relevant passage with a query of another fold. A `weight` is the signal's fraction of the
    spread of scores among candidates of queries that no model was trained on. A `gain` is the drop of nDCG@10 of
    held-out training queries (a sample) without the signal.
    """
    sample = np.sort(np.random.default_rng(0).permutation(len(training_queries.texts))[:_EXPLAINED_QUERIES])
    sampled_rankings = [signal.select(sample) for signal in rankings]
    sampled_queries = training_queries.select_rows(sample)
    lists = training_lists(sampled_rankings, learned, sampled_queries, len(training_queries.question_set.passages))
    start = np.stack([learned.untrained_weights, np.zeros(len(names))], axis=1)
    free = np.repeat(_originals(rankings) == np.arange(len(names)), VALUES_PER_SIGNAL)
    shape = (*lists.values.shape[:2], len(names), VALUES_PER_SIGNAL)
    values = (lists.values * learned.weights[FOLDS]).reshape(shape).sum(axis=3)
    values = values if sampled_queries.was_trained_on.all() else values[~sampled_queries.was_trained_on]
    spread = np.sqrt(((values - values.mean(axis=1, keepdims=True)) ** 2).mean(axis=(0, 1)))
    spread /= spread.sum() or 1.0  # a single passage has no spread
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
    if not free.any():
        return 0.0
    folds = lists.training_queries.folds
    return lists.ndcg({fold: lists.fits(folds != fold, start, free)[0] for fold in range(FOLDS)})


def training_lists(
    rankings: Sequence[Rankings], learned: FittedMix, training_queries: TrainingQueries, n_passages: int
) -> TrainingLists:
    """Return the candidates that the untrained mix ranks first."""
    indices = fuse(rankings, n_passages, Fusion.Z_SCORE, learned.untrained_weights.tolist(), _CANDIDATES).indices
    values = _signal_values(rankings, indices, learned.deviations, n_passages)
    relevant = relevant_hits(Rankings(indices, np.zeros(indices.shape)), training_queries.question_set)
    return TrainingLists(training_queries, indices, values, relevant, np.repeat(learned.trained, VALUES_PER_SIGNAL))


def _signal_values(
    rankings: Sequence[Rankings], candidates: np.ndarray, deviations: np.ndarray, n_passages: int
) -> np.ndarray:
    """Return each signal's values of candidates, `(n_questions, n, n_values)`; absent ones equal the list's last."""
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
    """Return the root mean square over lists of the standard deviation within a list; 1 if it is 0."""
    gaps = np.ma.masked_invalid(_gaps(rankings))
    variances = gaps.var(axis=1).compressed() if gaps.size else np.zeros(0)
    return float(np.sqrt(variances.mean())) or 1.0 if len(variances) else 1.0


def _originals(rankings: Sequence[Rankings]) -> np.ndarray:
    """Return for each signal the first one with the same lists and proportional scores, `(n_signals,)` int64."""
    scores = [normalize_scores(signal, Fusion.Z_SCORE)[0] for signal in rankings]

    def is_same(row: int, other: int) -> bool:
        if row == other:
            return True
        indices = rankings[row].indices
        are_alike = len(indices) > 0 and np.array_equal(indices, rankings[other].indices)
        return are_alike and np.allclose(scores[row], scores[other], atol=1e-4, equal_nan=True)

    return np.array([next(other for other in range(row + 1) if is_same(row, other)) for row in range(len(rankings))])
