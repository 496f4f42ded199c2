"""Correlations and their intervals, against scipy, pair by pair and resample by resample."""

import math

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from data.statistics import RESAMPLES
from embeddings.bootstrap import resamples
from embeddings.judgement import correlate, correlation_draws, cosines, pearson, spearman

GOLD = np.array([0.0, 0.2, 0.2, 0.6, 0.8, 1.0, 0.4, 0.6], dtype=np.float32)
GROUPS = np.array([0, 0, 1, 2, 3, 4, 4, 5])


def judged(n: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    gold = np.round(rng.uniform(0, 1, n), 1)
    return gold, np.clip(gold + rng.normal(0, noise, n), -1, 1).astype(np.float32)


def test_a_cosine_is_that_of_the_written_formula_and_a_vector_of_zeros_has_0() -> None:
    first = np.array([[3, 4], [1, 0], [0, 0], [1, 1]], dtype=np.float32)
    second = np.array([[4, 3], [0, 2], [1, 0], [-2, -2]], dtype=np.float32)
    found = cosines(first, second)
    assert found.dtype == np.float32
    assert found == pytest.approx([24 / 25, 0, 0, -1])


def test_correlations_are_those_of_scipy() -> None:
    gold, found = judged(200, 0.3, seed=1)
    assert spearman(found, gold) == pytest.approx(spearmanr(found, gold).statistic)
    assert pearson(found, gold) == pytest.approx(pearsonr(found, gold).statistic)


def test_a_constant_and_a_single_pair_have_no_correlation() -> None:
    assert math.isnan(spearman(np.ones(8), GOLD))
    assert math.isnan(pearson(GOLD, np.ones(8)))
    assert math.isnan(spearman(np.ones(1), np.ones(1)))


def test_every_resample_has_the_correlations_that_scipy_gives_its_rows_one_by_one() -> None:
    columns = [np.array([0.1, 0.5, 0.5, 0.4, 0.9, 0.7, 0.2, 0.5]), np.array([0.3, 0.3, 0.1, 0.9, 0.8, 0.8, 0.2, 0.4])]
    by_rank, by_value = correlation_draws(columns, GOLD.astype(np.float64), GROUPS)
    weights = np.concatenate([*resamples(GROUPS)], axis=1)
    assert by_rank.shape == by_value.shape == (RESAMPLES, 2)
    for place in range(0, RESAMPLES, 97):
        rows = np.repeat(np.arange(8), weights[:, place].astype(int))
        for column, values in enumerate(columns):
            assert by_rank[place, column] == pytest.approx(spearmanr(values[rows], GOLD[rows]).statistic)
            assert by_value[place, column] == pytest.approx(pearsonr(values[rows], GOLD[rows]).statistic)


def test_an_interval_is_that_of_a_bootstrap_written_out() -> None:
    gold, found = judged(300, 0.4, seed=2)
    rng = np.random.default_rng(7)
    drawn = [rng.integers(300, size=300) for _ in range(1500)]
    wanted = np.quantile([spearmanr(found[rows], gold[rows]).statistic for rows in drawn], [0.025, 0.975])
    figure = correlate({"a": found}, gold, np.arange(300)).spearman["a"]
    assert (figure.low, figure.high) == pytest.approx(wanted, abs=0.01)


def test_pairs_that_share_a_sentence_are_drawn_together_so_the_interval_is_wider() -> None:
    gold, found = judged(40, 0.4, seed=3)
    copies, of_copies = np.tile(gold, 10), np.tile(found, 10)
    alone = correlate({"a": of_copies}, copies, np.arange(400)).spearman["a"]
    together = correlate({"a": of_copies}, copies, np.tile(np.arange(40), 10)).spearman["a"]
    assert alone.value == together.value
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_a_single_group_leaves_the_interval_open() -> None:
    gold, found = judged(30, 0.4, seed=4)
    correlations = correlate({"a": found}, gold, np.zeros(30, dtype=int))
    assert correlations.spearman["a"][1:] == correlations.pearson["a"][1:] == (-1, 1)


def test_models_are_told_apart_where_they_differ_and_a_copy_is_not() -> None:
    gold, good = judged(400, 0.2, seed=5)
    bad = judged(400, 0.2, seed=6)[1]
    found = correlate({"good": good, "copy": good.copy(), "bad": bad}, gold, np.arange(400))
    told = {(one.a, one.b): one for one in found.differences["spearman"]}
    same, apart = told["good", "copy"], told["good", "bad"]
    assert (same.difference, same.low, same.high, same.p, same.sure) == (0, 0, 0, 1, False)
    assert apart.difference == pytest.approx(spearman(good, gold) - spearman(bad, gold))
    assert apart.low < apart.difference < apart.high
    assert apart.p == apart.p_family == pytest.approx(1 / (RESAMPLES + 1))
    assert apart.sure


def test_the_same_pairs_have_the_same_figures_each_time() -> None:
    gold, found = judged(100, 0.3, seed=8)
    assert correlate({"a": found}, gold, np.arange(100)) == correlate({"a": found}, gold, np.arange(100))
