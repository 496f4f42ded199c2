"""Correlations, densities and wrong pairs compared with scipy, and the probe with scikit-learn."""

import math

import numpy as np
import pytest
from scipy.stats import gaussian_kde, pearsonr, spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from mrc_workbench.labs.embeddings import judgement
from mrc_workbench.retrieval.significance import RESAMPLES, Interval

GOLD = np.array([0.0, 0.2, 0.2, 0.6, 0.8, 1.0, 0.4, 0.6], dtype=np.float32)
GROUPS = np.array([0, 0, 1, 2, 3, 4, 4, 5])


def random_judgements(n: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    gold = np.round(rng.uniform(0, 1, n), 1)
    return gold, np.clip(gold + rng.normal(0, noise, n), -1, 1).astype(np.float32)


def test_cosines_match_formula() -> None:
    first = np.array([[3, 4], [1, 0], [0, 0], [1, 1]], dtype=np.float32)
    second = np.array([[4, 3], [0, 2], [1, 0], [-2, -2]], dtype=np.float32)
    cosines = judgement.cosines(first, second)
    assert cosines.dtype == np.float32
    assert cosines == pytest.approx([24 / 25, 0, 0, -1])


def test_correlations_match_scipy() -> None:
    gold, cosines = random_judgements(200, 0.3, seed=1)
    assert judgement.spearman(cosines, gold) == pytest.approx(spearmanr(cosines, gold).statistic)
    assert judgement.pearson(cosines, gold) == pytest.approx(pearsonr(cosines, gold).statistic)
    assert math.isnan(judgement.spearman(np.ones(8), GOLD))
    assert math.isnan(judgement.pearson(GOLD, np.ones(8)))
    assert math.isnan(judgement.spearman(np.ones(1), np.ones(1)))


def test_resampled_correlations_match_scipy() -> None:
    columns = [np.array([0.1, 0.5, 0.5, 0.4, 0.9, 0.7, 0.2, 0.5]), np.array([0.3, 0.3, 0.1, 0.9, 0.8, 0.8, 0.2, 0.4])]
    by_rank, by_value = judgement.resampled_correlations(columns, GOLD.astype(np.float64), GROUPS)
    weights = np.concatenate([*judgement.resample_weights(GROUPS)], axis=1)
    assert by_rank.shape == by_value.shape == (RESAMPLES, 2)
    for resample in range(0, RESAMPLES, 97):
        rows = np.repeat(np.arange(8), weights[:, resample].astype(int))
        for column, values in enumerate(columns):
            assert by_rank[resample, column] == pytest.approx(spearmanr(values[rows], GOLD[rows]).statistic)
            assert by_value[resample, column] == pytest.approx(pearsonr(values[rows], GOLD[rows]).statistic)


@pytest.mark.slow
def test_interval_matches_plain_bootstrap() -> None:
    gold, cosines = random_judgements(300, 0.4, seed=2)
    rng = np.random.default_rng(7)
    samples = [rng.integers(300, size=300) for _ in range(1500)]
    expected = np.quantile([spearmanr(cosines[rows], gold[rows]).statistic for rows in samples], [0.025, 0.975])
    interval = judgement.correlate({"a": cosines}, gold, np.arange(300)).spearman["a"]
    assert (interval.low, interval.high) == pytest.approx(expected, abs=0.01)


def test_grouped_pairs_have_wider_interval_and_single_group_full_range() -> None:
    gold, cosines = random_judgements(40, 0.4, seed=3)
    copied_gold = np.tile(gold, 10)
    copied_cosines = np.tile(cosines, 10)
    ungrouped = judgement.correlate({"a": copied_cosines}, copied_gold, np.arange(400)).spearman["a"]
    grouped = judgement.correlate({"a": copied_cosines}, copied_gold, np.tile(np.arange(40), 10)).spearman["a"]
    assert ungrouped.value == grouped.value
    assert grouped.high - grouped.low > 2 * (ungrouped.high - ungrouped.low)
    gold, cosines = random_judgements(30, 0.4, seed=4)
    correlations = judgement.correlate({"a": cosines}, gold, np.zeros(30, dtype=int))
    assert correlations.spearman["a"][1:] == correlations.pearson["a"][1:] == (-1, 1)


def test_detects_different_model_but_not_copy() -> None:
    gold, good = random_judgements(400, 0.2, seed=5)
    bad = random_judgements(400, 0.2, seed=6)[1]
    models = {"good": good, "copy": good.copy(), "bad": bad}
    correlations = judgement.correlate(models, gold, np.arange(400))
    assert judgement.correlate(models, gold, np.arange(400)) == correlations
    tests = {(test.a, test.b): test for test in correlations.differences["spearman"]}
    copy_test = tests["good", "copy"]
    bad_test = tests["good", "bad"]
    assert (copy_test.difference, copy_test.low, copy_test.high, copy_test.p) == (0, 0, 0, 1)
    assert not copy_test.is_significant
    assert bad_test.difference == pytest.approx(judgement.spearman(good, gold) - judgement.spearman(bad, gold))
    assert bad_test.low < bad_test.difference < bad_test.high
    assert bad_test.p == bad_test.p_family == pytest.approx(1 / (RESAMPLES + 1))
    assert bad_test.is_significant


def test_bands_include_lower_border_and_density_needs_two_cosines() -> None:
    scores = np.array([0, 0.99, 1, 1.8, 2, 3, 3.2, 4, 4.99, 5], dtype=np.float32)
    assert judgement.assign_bands(scores / np.float32(5)).tolist() == [0, 0, 1, 1, 2, 3, 3, 4, 4, 4]
    cosines = np.array([0.5, 0.5, 0.1, 0.9], dtype=np.float32)
    densities = judgement.estimate_densities({"a": cosines}, np.array([0.1, 0.1, 0.5, 0.9]))
    assert densities.counts.tolist() == [2, 0, 1, 0, 1]
    assert not densities.values["a"].any()


def test_densities_match_scipy() -> None:
    rng = np.random.default_rng(0)
    gold = rng.uniform(0, 1, 400)
    cosines_by_model = {"a": gold * 0.5 + rng.normal(0, 0.1, 400), "b": rng.normal(0, 0.3, 400)}
    columns = {name: column.astype(np.float32) for name, column in cosines_by_model.items()}
    densities = judgement.estimate_densities(columns, gold)
    assert densities.grid[0] == pytest.approx(cosines_by_model["b"].min(), abs=1e-6)
    assert densities.grid[-1] == pytest.approx(max(column.max() for column in cosines_by_model.values()), abs=1e-6)
    assert densities.counts.sum() == 400
    for band in range(5):
        inside = (gold >= band / 5) & (gold < (band + 1) / 5)
        assert densities.counts[band] == inside.sum()
        for name, column in cosines_by_model.items():
            expected = gaussian_kde(column[inside].astype(np.float32).astype(float))(densities.grid)
            assert densities.values[name][band] == pytest.approx(expected)


def test_wrong_pairs_have_largest_rank_difference() -> None:
    gold = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    cosines_by_model = {"a": np.array([0.9, 0.2, 0.5, 0.6, 0.1]), "b": np.array([0.1, 0.2, 0.3, 0.4, 0.5])}
    pairs = judgement.find_wrong_pairs(cosines_by_model, gold, "a", limit=3)
    assert pairs.rows.tolist() == [0, 4, 1]  # ranks of cosine 5 2 3 4 1, of gold 1 2 3 4 5
    assert pairs.misplaced.tolist() == [0.8, -0.8, 0.0]
    assert pairs.cosines["a"].tolist() == [0.9, 0.1, 0.2]
    assert pairs.cosines["b"].tolist() == [0.1, 0.5, 0.2]
    assert judgement.find_wrong_pairs(cosines_by_model, gold, "b").misplaced.tolist() == [0] * 5
    ties = judgement.find_wrong_pairs({"a": np.array([0.5, 0.5])}, np.array([0.0, 1.0]), "a")
    assert ties.misplaced.tolist() == [0.25, -0.25]  # ties share their mid-rank


def labelled(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels that depend on the first dimension, with noise."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 6)).astype(np.float32)
    noise = rng.normal(0, 0.4, n)
    return rows, np.digitize(rows[:, 0] + noise, [-0.5, 0.5])


def test_probe_and_pair_features_match_scikit_learn_and_hand() -> None:
    train = labelled(300, 0)
    test_data = labelled(100, 1)
    probe = judgement.train_probe(train, np.arange(300), test_data)
    assert probe is not None
    scaler = StandardScaler().fit(train[0])
    by_hand = LogisticRegression(C=probe.strength, max_iter=1000).fit(scaler.transform(train[0]), train[1])
    predicted = by_hand.predict(scaler.transform(test_data[0]))
    assert probe.correct.tolist() == (predicted == test_data[1]).tolist()
    assert 0.6 < probe.correct.mean() < 1
    assert probe.confusion.sum(axis=1).tolist() == np.bincount(test_data[1]).tolist()
    assert probe.confusion.trace() == probe.correct.sum()
    assert probe.trained_on.tolist() == np.bincount(train[1]).tolist()
    assert probe.chance == np.bincount(test_data[1]).max() / 100
    features = judgement.pair_features(np.array([[1.0, -2.0]]), np.array([[3.0, 1.0]]))
    assert features.tolist() == [[1, -2, 3, 1, 2, 3]]


def test_random_labels_are_not_learned() -> None:
    rows, _ = labelled(300, 0)
    labels = np.arange(300) % 3
    probe = judgement.train_probe((rows[:200], labels[:200]), np.arange(200), (rows[200:], labels[200:]))
    assert probe is not None
    assert probe.correct.mean() < 0.5


def test_no_probe_without_labels_or_test_data() -> None:
    rows, labels = labelled(30, 0)
    constant_labels = np.zeros(30, dtype=int)
    no_data = (rows[:0], labels[:0])
    assert judgement.train_probe((rows, constant_labels), np.arange(30), (rows, labels)) is None
    assert judgement.train_probe((rows, labels), np.arange(30), no_data) is None
    assert judgement.train_probe((rows, labels), np.zeros(30, dtype=int), (rows, labels)) is None


def test_samples_training_rows_deterministically() -> None:
    rows = np.arange(100, 200)
    assert judgement.training_rows(rows, 1000) is rows
    sampled = judgement.training_rows(rows, 30)
    assert len(set(sampled.tolist())) == 30
    assert set(sampled.tolist()) < set(rows.tolist())
    assert sampled.tolist() == sorted(judgement.training_rows(rows, 30).tolist())


def test_resamples_whole_groups() -> None:
    groups = np.array([0, 1, 1, 2])
    weights = np.concatenate([*judgement.resample_weights(groups, 500)], axis=1)
    assert weights.shape == (4, 500)
    assert (weights[1] == weights[2]).all()
    assert (weights[[0, 1, 3]].sum(axis=0) == 3).all()
    assert weights.mean(axis=1) == pytest.approx([1, 1, 1, 1], abs=0.15)


def test_resample_blocks_are_never_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.labs.embeddings.judgement._CELLS", 30)
    blocks = [*judgement.resample_weights(np.arange(10), 8)]
    assert [block.shape for block in blocks] == [(10, 3), (10, 3), (10, 2)]


def test_means_match_resampled_rows() -> None:
    values = np.array([[1.0, 0.0], [2.0, 1.0], [6.0, 5.0]])
    groups = np.array([0, 0, 1])
    (weights,) = judgement.resample_weights(groups, 20)
    expected = [np.repeat(values, counts.astype(int), axis=0).mean(axis=0) for counts in weights.T]
    assert judgement.resampled_means(values, groups, 20) == pytest.approx(np.array(expected))


def test_p_and_interval_match_formula() -> None:
    draws = np.array([[0.5, 0.4], [0.6, 0.4], [0.3, 0.4], [0.7, 0.5]])
    (test,) = judgement.paired_bootstrap_tests([0.6, 0.4], draws, ["a", "b"])
    resampled = np.array([0.1, 0.2, -0.1, 0.2])
    assert test.difference == pytest.approx(0.2)
    assert test.p == test.p_family == pytest.approx((1 + (np.abs(resampled - 0.2) >= 0.2).sum()) / (4 + 1))
    assert (test.low, test.high) == (-math.inf, math.inf)  # too few resamples


def correlated(n: int = 400, seed: int = 0) -> tuple[list[float], np.ndarray]:
    """Metrics of four models, the first two nearly equal, and their normal resamples."""
    values = [0.80, 0.79, 0.70, 0.75]
    rng = np.random.default_rng(seed)
    return values, np.array(values) + rng.normal(0, 0.01, (n, 1)) + rng.normal(0, 0.02, (n, 4))


@pytest.mark.parametrize("seed", range(20))
def test_interval_contains_0_if_not_significant(seed: int) -> None:
    tests = judgement.paired_bootstrap_tests(*correlated(seed=seed), ["a", "b", "c", "d"])
    assert len(tests) == 6
    for test in tests:
        assert test.is_significant == (test.p_family < 0.05) == (not test.low <= 0 <= test.high)
        assert test.p <= test.p_family
        assert (test.low + test.high) / 2 == pytest.approx(test.difference)
    assert {test.is_significant for test in tests} == {True, False}


def test_family_p_matches_max_t() -> None:
    values, draws = correlated(n=99)
    tests = judgement.paired_bootstrap_tests(values, draws, ["a", "b", "c", "d"])
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    columns = np.stack([draws[:, a] - draws[:, b] for a, b in pairs], axis=1)
    observed = np.array([values[a] - values[b] for a, b in pairs])
    scale = columns.std(axis=0)
    largest = (np.abs(columns - observed) / scale).max(axis=1)
    expected = [(1 + (largest >= t).sum()) / 100 for t in np.abs(observed) / scale]
    assert [item.p_family for item in tests] == pytest.approx(expected)
    critical = np.sort(largest)[-4]  # 5 of 100 with the observed metrics
    assert [item.high - item.difference for item in tests] == pytest.approx((critical * scale).tolist())


def test_copy_changes_no_test() -> None:
    values, draws = correlated()
    before = judgement.paired_bootstrap_tests(values, draws, ["a", "b", "c", "d"])
    draws_with_copy = np.column_stack([draws, draws[:, 0]])
    copied = judgement.paired_bootstrap_tests([*values, values[0]], draws_with_copy, ["a", "b", "c", "d", "copy"])
    tests = {(test.a, test.b): test for test in copied}
    assert [tests[test.a, test.b] for test in before] == before
    assert tests["a", "copy"].p_family == 1


def test_no_interval_for_single_group_or_undefined_metric() -> None:
    (test,) = judgement.paired_bootstrap_tests([0.6, 0.4], np.tile([0.6, 0.4], (20, 1)), ["a", "b"])
    assert (test.low, test.high, test.p_family, test.is_significant) == (-math.inf, math.inf, 1, False)
    assert np.isnan(judgement.bootstrap_interval(float("nan"), np.zeros(3), (0, 1))).all()
    assert judgement.bootstrap_interval(0.5, np.full(3, 0.5), (0, 1)) == Interval(0.5, 0, 1)
    assert judgement.paired_bootstrap_tests([0.5, float("nan")], np.zeros((3, 2)), ["a", "b"]) == []


def test_means_ignore_nan_and_compare_models() -> None:
    values = {"a": np.array([1.0, 3.0, np.nan, 2.0]), "b": np.array([0.0, 1.0, 0.5, 0.5])}
    intervals, (test,) = judgement.compare_means(values, np.arange(4), (0, 4))
    assert (intervals["a"].value, intervals["b"].value) == (2, 0.5)
    assert test.difference == 1.5
    assert intervals["a"].low < 2 < intervals["a"].high
