"""Fits of a learned mix against the written formula, and their average against a plain loop."""

import numpy as np
import pytest
from scipy.optimize import minimize

from data.split.folds import FOLDS, Lessons
from retrieval.evaluation.measures import evaluate
from retrieval.hybrid import Fusion, fused
from retrieval.mix import learn, training_lists
from retrieval.mix_fitting import EXTRA, STRENGTHS, TrainingLists
from retrieval.rankings import NOT_FOUND, Rankings, ranked
from tests.retrieval.test_mix import N_PASSAGES, PARTS, rankings_of, world

START = np.array([0.5, 0.0, 0.5, 0.0, 0.0, 0.0])
FREE = np.ones(6, dtype=bool)


def lists_of(n_questions: int, seed: int = 0) -> tuple[TrainingLists, list[Rankings]]:
    question_set, scores = world(n_questions, seed)
    lessons = Lessons.of(question_set, question_set.answerable)
    rankings = rankings_of(scores)
    return training_lists(rankings, learn(rankings, lessons, PARTS, N_PASSAGES), lessons, N_PASSAGES), rankings


@pytest.mark.parametrize("strength", [3.0, 30.0])
def test_a_fit_has_the_least_loss_that_the_module_states(strength: float) -> None:
    """The loss as it is written, by a loop over queries, and a minimiser that knows no slope."""
    lists, rankings = lists_of(40)
    deviations = [float(np.sqrt(np.mean([np.var(row[np.isfinite(row)]) for row in one.scores]))) for one in rankings]
    candidates = fused(rankings, N_PASSAGES, Fusion.Z_SCORE, [0.5, 0.5, 0.0], 50).indices

    def values(query: int, passage: int) -> list[float]:
        of_signals = []
        for signal, deviation in zip(rankings, deviations, strict=True):
            row = signal.scores[query].astype(float)
            score = dict(zip(signal.indices[query].tolist(), row, strict=True)).get(passage, row.min())
            of_signals += [(score - row.mean()) / row.std(), (score - row.max()) / deviation]
        return of_signals

    queries = []  # of each with its passage among the candidates: the values of all, and the position of its own
    for query, question in enumerate(lists.lessons.question_set.questions):
        listed = [int(passage) for passage in candidates[query] if passage != NOT_FOUND]
        relevant = [position for position, passage in enumerate(listed) if f"p{passage}" in question.relevant]
        if relevant:
            queries.append((np.array([values(query, passage) for passage in listed]), relevant[0]))

    def likelihood(weights: np.ndarray) -> float:
        scores = [(valued @ weights, own) for valued, own in queries]
        return -float(sum(score[own] - np.log(np.exp(score).sum()) for score, own in scores))

    factor = minimize(lambda t: likelihood(t[0] * START), [1.0], method="Nelder-Mead").x[0]
    pull = strength * np.array([1.0, 1.0, 1.0, 1.0, EXTRA, EXTRA])

    def loss(weights: np.ndarray) -> float:
        return likelihood(weights) + float((pull * (weights - factor * START) ** 2).sum())

    least = minimize(loss, factor * START, method="Powell", options={"xtol": 1e-6, "ftol": 1e-10})
    (fitted,) = lists.fits(np.ones(40, dtype=bool), START, FREE, [strength])
    assert loss(fitted) == pytest.approx(least.fun, rel=1e-5)
    np.testing.assert_allclose(fitted, least.x, atol=2e-2)


def test_components_count_by_their_ndcg_on_queries_that_they_did_not_see() -> None:
    lists, rankings = lists_of(60)
    lessons = lists.lessons

    def ndcg_sum(weights: np.ndarray, fold: int) -> float:
        rows = np.flatnonzero(lessons.folds == fold)
        scores = (lists.values[rows] * weights).sum(axis=2)
        ranking = ranked(lists.indices[rows], scores, 10)
        return float(evaluate(ranking, lessons.question_set.with_questions(rows), (10,)).per_question["ndcg@10"].sum())

    def averaged(without: set[int]) -> np.ndarray:
        sums = np.zeros(3 + 2 * len(STRENGTHS))  # two retrievers and their mix before the fits
        for fold in {*range(FOLDS)} - without:
            learned = lists.components(frozenset({*without, fold}), START, FREE)
            sums += [ndcg_sum(weights, fold) for weights in learned]
        prior = np.array([0.5 / 3] * 3 + [0.5 / 6] * 6)
        weights = prior * np.exp(sums - sums.max())
        components = lists.components(frozenset(without), START, FREE)
        return np.asarray((weights[:, None] * components).sum(axis=0) / weights.sum())

    expected = [averaged({fold}) for fold in range(FOLDS)] + [averaged(set())]
    np.testing.assert_allclose(lists.averaged(START, FREE), expected, rtol=1e-8)
    np.testing.assert_allclose(learn(rankings, lessons, PARTS, N_PASSAGES).weights, expected, rtol=1e-8)


def test_components_are_each_retriever_alone_their_mix_and_fits_ever_further_from_it() -> None:
    lists, _ = lists_of(200)
    first, second, untrained, *fits = lists.components(frozenset(), START, FREE)
    assert np.flatnonzero(first).tolist() == [0]
    assert np.flatnonzero(second).tolist() == [2]
    np.testing.assert_allclose(untrained / untrained.sum(), START)
    likelihoods = []
    for weights in (first, second, untrained):
        scores = np.where(lists.indices != NOT_FOUND, lists.values @ weights, -np.inf)
        chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        likelihoods.append(np.log(chances[lists.relevant]).sum())
    roots = np.exp(0.5 * (np.array(likelihoods) - max(likelihoods)))
    average = (roots / roots.sum()) @ np.array([first, second, untrained])
    for centre, of_centre in ((untrained, fits[:3]), (average, fits[3:])):
        distances = [np.linalg.norm(weights - centre) for weights in of_centre]
        assert distances == sorted(distances)


def test_of_many_queries_some_weigh_the_components_and_all_are_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    lists, _ = lists_of(120)
    everything = lists.averaged(START, FREE)
    monkeypatch.setattr("retrieval.mix_fitting._MOST_HELD_OUT", 60)
    some = lists.averaged(START, FREE)
    assert not np.allclose(everything, some)
    components = lists.components(frozenset(), START, FREE)
    proportions = np.linalg.lstsq(components.T, some[FOLDS], rcond=None)[0]
    np.testing.assert_allclose(components.T @ proportions, some[FOLDS], atol=1e-6)


def test_models_that_know_all_queries_count_nothing() -> None:
    lists, _ = lists_of(60)
    known = Lessons.of(lists.lessons.question_set, np.arange(60), np.arange(60))
    trained = np.repeat([False, True, False], 2)
    weights = TrainingLists(known, lists.indices, lists.values, lists.relevant, trained).averaged(START, FREE)
    assert not weights[:, trained].any()
    assert (weights[:, 0] > 0).all()
