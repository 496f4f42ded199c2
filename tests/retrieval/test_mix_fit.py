"""Fits of a learned mix against the documented loss."""

import numpy as np
import pytest
from scipy.optimize import minimize

from mrc_workbench.data.split.partition import TrainingQueries
from mrc_workbench.retrieval.combine import Fusion, fuse
from mrc_workbench.retrieval.mix import EXTRA_STRENGTH, STRENGTHS, TrainingLists, fit_mix, training_lists
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings
from tests.retrieval.test_mix import N_PASSAGES, PARTS, labelled, rankings_of, world

START = np.array([0.5, 0.0, 0.5, 0.0, 0.0, 0.0])
FREE = np.ones(6, dtype=bool)


def lists_of(n_questions: int, seed: int = 0) -> tuple[TrainingLists, list[Rankings]]:
    question_set, scores = world(n_questions, seed)
    training_queries = labelled(question_set)
    rankings = rankings_of(scores)
    learned = fit_mix(rankings, training_queries, PARTS, N_PASSAGES)
    return training_lists(rankings, learned, training_queries, N_PASSAGES), rankings


@pytest.mark.parametrize("strength", [3.0, 30.0])
def test_fit_minimizes_documented_loss(strength: float) -> None:
    """The loss as it is written, by a loop over queries, and a minimiser that knows no slope."""
    lists, rankings = lists_of(40)
    variances = [np.mean([np.var(row[np.isfinite(row)]) for row in ranking.scores]) for ranking in rankings]
    deviations = np.sqrt(variances).tolist()
    candidates = fuse(rankings, N_PASSAGES, Fusion.Z_SCORE, [0.5, 0.5, 0.0], 50).indices

    def values(query: int, passage: int) -> list[float]:
        of_signals = []
        for signal, deviation in zip(rankings, deviations, strict=True):
            row = signal.scores[query].astype(float)
            score = dict(zip(signal.indices[query].tolist(), row, strict=True)).get(passage, row.min())
            of_signals += [(score - row.mean()) / row.std(), (score - row.max()) / deviation]
        return of_signals

    queries = []  # with the passage among the candidates: all values, and its position
    for query, question in enumerate(lists.training_queries.question_set.questions):
        listed = [int(passage) for passage in candidates[query] if passage != NOT_FOUND]
        relevant = [position for position, passage in enumerate(listed) if f"p{passage}" in question.relevant]
        if relevant:
            queries.append((np.array([values(query, passage) for passage in listed]), relevant[0]))

    def likelihood(weights: np.ndarray) -> float:
        scores = [(valued @ weights, own) for valued, own in queries]
        return -float(sum(score[own] - np.log(np.exp(score).sum()) for score, own in scores))

    factor = minimize(lambda t: likelihood(t[0] * START), [1.0], method="Nelder-Mead").x[0]
    pull = strength * np.array([1.0, 1.0, 1.0, 1.0, EXTRA_STRENGTH, EXTRA_STRENGTH])

    def loss(weights: np.ndarray) -> float:
        return likelihood(weights) + float((pull * (weights - factor * START) ** 2).sum())

    least = minimize(loss, factor * START, method="Powell", options={"xtol": 1e-6, "ftol": 1e-10})
    (fitted,) = lists.fits(np.ones(40, dtype=bool), START, FREE, [strength])
    assert loss(fitted) == pytest.approx(least.fun, rel=1e-5)
    np.testing.assert_allclose(fitted, least.x, atol=2e-2)


def test_weights_average_fits_of_all_strengths_on_other_folds() -> None:
    lists, rankings = lists_of(60)
    training_queries = lists.training_queries
    for fold, weights in enumerate(fit_mix(rankings, training_queries, PARTS, N_PASSAGES).weights):
        rows = training_queries.folds != fold  # of the last, all
        fits = [lists.fits(rows, START, FREE, [strength])[0] for strength in STRENGTHS]
        np.testing.assert_allclose(weights, np.mean(fits, axis=0), atol=1e-4)


def test_stronger_penalty_keeps_weights_nearer_untrained_mix() -> None:
    lists, _ = lists_of(200)
    rows = np.ones(200, dtype=bool)
    (untrained,) = lists.fits(rows, START, FREE, [1e9])
    np.testing.assert_allclose(untrained / untrained.sum(), START, atol=1e-5)
    distances = [np.linalg.norm(fit - untrained) for fit in lists.fits(rows, START, FREE, STRENGTHS)]
    assert distances == sorted(distances)


def test_models_trained_on_all_queries_get_no_weight() -> None:
    lists, _ = lists_of(60)
    known = TrainingQueries.from_question_set(lists.training_queries.question_set, np.arange(60), np.arange(60))
    trained = np.repeat([False, True, False], 2)
    weights = TrainingLists(known, lists.indices, lists.values, lists.relevant, trained).averaged(START, FREE)
    assert not weights[:, trained].any()
    assert (weights[:, 0] > 0).all()
