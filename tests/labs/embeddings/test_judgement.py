"""Vectors against people: correlations, densities and wrong pairs against scipy, the probe against scikit-learn."""

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


def judged(n: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    gold = np.round(rng.uniform(0, 1, n), 1)
    return gold, np.clip(gold + rng.normal(0, noise, n), -1, 1).astype(np.float32)


def test_a_cosine_is_that_of_the_written_formula_and_a_vector_of_zeros_has_0() -> None:
    first = np.array([[3, 4], [1, 0], [0, 0], [1, 1]], dtype=np.float32)
    second = np.array([[4, 3], [0, 2], [1, 0], [-2, -2]], dtype=np.float32)
    found = judgement.cosines(first, second)
    assert found.dtype == np.float32
    assert found == pytest.approx([24 / 25, 0, 0, -1])


def test_correlations_are_those_of_scipy_or_not_defined() -> None:
    gold, found = judged(200, 0.3, seed=1)
    assert judgement.spearman(found, gold) == pytest.approx(spearmanr(found, gold).statistic)
    assert judgement.pearson(found, gold) == pytest.approx(pearsonr(found, gold).statistic)
    assert math.isnan(judgement.spearman(np.ones(8), GOLD))
    assert math.isnan(judgement.pearson(GOLD, np.ones(8)))
    assert math.isnan(judgement.spearman(np.ones(1), np.ones(1)))


def test_every_resample_has_the_correlations_that_scipy_gives_its_rows_one_by_one() -> None:
    columns = [np.array([0.1, 0.5, 0.5, 0.4, 0.9, 0.7, 0.2, 0.5]), np.array([0.3, 0.3, 0.1, 0.9, 0.8, 0.8, 0.2, 0.4])]
    by_rank, by_value = judgement.correlation_draws(columns, GOLD.astype(np.float64), GROUPS)
    weights = np.concatenate([*judgement.resamples(GROUPS)], axis=1)
    assert by_rank.shape == by_value.shape == (RESAMPLES, 2)
    for place in range(0, RESAMPLES, 97):
        rows = np.repeat(np.arange(8), weights[:, place].astype(int))
        for column, values in enumerate(columns):
            assert by_rank[place, column] == pytest.approx(spearmanr(values[rows], GOLD[rows]).statistic)
            assert by_value[place, column] == pytest.approx(pearsonr(values[rows], GOLD[rows]).statistic)


@pytest.mark.slow
def test_an_interval_is_that_of_a_bootstrap_written_out() -> None:
    gold, found = judged(300, 0.4, seed=2)
    rng = np.random.default_rng(7)
    drawn = [rng.integers(300, size=300) for _ in range(1500)]
    wanted = np.quantile([spearmanr(found[rows], gold[rows]).statistic for rows in drawn], [0.025, 0.975])
    interval = judgement.correlate({"a": found}, gold, np.arange(300)).spearman["a"]
    assert (interval.low, interval.high) == pytest.approx(wanted, abs=0.01)


def test_pairs_that_share_a_sentence_are_drawn_together_so_the_interval_is_wider() -> None:
    gold, found = judged(40, 0.4, seed=3)
    copies, of_copies = np.tile(gold, 10), np.tile(found, 10)
    alone = judgement.correlate({"a": of_copies}, copies, np.arange(400)).spearman["a"]
    together = judgement.correlate({"a": of_copies}, copies, np.tile(np.arange(40), 10)).spearman["a"]
    assert alone.value == together.value
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_a_single_group_leaves_the_interval_open() -> None:
    gold, found = judged(30, 0.4, seed=4)
    correlations = judgement.correlate({"a": found}, gold, np.zeros(30, dtype=int))
    assert correlations.spearman["a"][1:] == correlations.pearson["a"][1:] == (-1, 1)


def test_models_are_told_apart_where_they_differ_and_a_copy_is_not() -> None:
    gold, good = judged(400, 0.2, seed=5)
    bad = judged(400, 0.2, seed=6)[1]
    found = judgement.correlate({"good": good, "copy": good.copy(), "bad": bad}, gold, np.arange(400))
    told = {(one.a, one.b): one for one in found.differences["spearman"]}
    same, apart = told["good", "copy"], told["good", "bad"]
    assert (same.difference, same.low, same.high, same.p, same.sure) == (0, 0, 0, 1, False)
    assert apart.difference == pytest.approx(judgement.spearman(good, gold) - judgement.spearman(bad, gold))
    assert apart.low < apart.difference < apart.high
    assert apart.p == apart.p_family == pytest.approx(1 / (RESAMPLES + 1))
    assert apart.sure


def test_the_same_pairs_have_the_same_figures_each_time() -> None:
    gold, found = judged(100, 0.3, seed=8)
    assert judgement.correlate({"a": found}, gold, np.arange(100)) == judgement.correlate(
        {"a": found}, gold, np.arange(100)
    )


def test_bands_begin_at_their_border_and_need_two_different_cosines_for_a_density() -> None:
    scores = np.array([0, 0.99, 1, 1.8, 2, 3, 3.2, 4, 4.99, 5], dtype=np.float32)
    assert judgement.bands(scores / np.float32(5)).tolist() == [0, 0, 1, 1, 2, 3, 3, 4, 4, 4]
    found = judgement.densities({"a": np.array([0.5, 0.5, 0.1, 0.9], dtype=np.float32)}, np.array([0.1, 0.1, 0.5, 0.9]))
    assert found.counts.tolist() == [2, 0, 1, 0, 1]
    assert not found.values["a"].any()


def test_densities_are_those_of_scipy_on_one_grid_for_all_models() -> None:
    rng = np.random.default_rng(0)
    gold = rng.uniform(0, 1, 400)
    measured = {"a": gold * 0.5 + rng.normal(0, 0.1, 400), "b": rng.normal(0, 0.3, 400)}
    found = judgement.densities({name: column.astype(np.float32) for name, column in measured.items()}, gold)
    assert found.grid[0] == pytest.approx(measured["b"].min(), abs=1e-6)
    assert found.grid[-1] == pytest.approx(max(column.max() for column in measured.values()), abs=1e-6)
    assert found.counts.sum() == 400
    for band in range(5):
        inside = (gold >= band / 5) & (gold < (band + 1) / 5)
        assert found.counts[band] == inside.sum()
        for name, column in measured.items():
            wanted = gaussian_kde(column[inside].astype(np.float32).astype(float))(found.grid)
            assert found.values[name][band] == pytest.approx(wanted)


def test_the_worst_pairs_are_those_whose_ranks_differ_most() -> None:
    gold = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    measured = {"a": np.array([0.9, 0.2, 0.5, 0.6, 0.1]), "b": np.array([0.1, 0.2, 0.3, 0.4, 0.5])}
    found = judgement.wrong_pairs(measured, gold, "a", most=3)
    assert found.rows.tolist() == [0, 4, 1]  # ranks of cosine 5 2 3 4 1, of gold 1 2 3 4 5
    assert found.misplaced.tolist() == [0.8, -0.8, 0.0]
    assert found.cosines["a"].tolist() == [0.9, 0.1, 0.2]
    assert found.cosines["b"].tolist() == [0.1, 0.5, 0.2]
    assert judgement.wrong_pairs(measured, gold, "b").misplaced.tolist() == [0] * 5
    ties = judgement.wrong_pairs({"a": np.array([0.5, 0.5])}, np.array([0.0, 1.0]), "a")
    assert ties.misplaced.tolist() == [0.25, -0.25]  # they share their middle rank


def labelled(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels that stand in one dimension, not quite without error."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 6)).astype(np.float32)
    noise = rng.normal(0, 0.4, n)
    return rows, np.digitize(rows[:, 0] + noise, [-0.5, 0.5])


def test_features_are_both_vectors_and_how_far_apart_they_are() -> None:
    found = judgement.features(np.array([[1.0, -2.0]]), np.array([[3.0, 1.0]]))
    assert found.tolist() == [[1, -2, 3, 1, 2, 3]]


def test_a_probe_is_the_classifier_of_scikit_learn_judged_by_counting() -> None:
    train, judged = labelled(300, 0), labelled(100, 1)
    found = judgement.probe(train, np.arange(300), judged)
    assert found is not None
    scaler = StandardScaler().fit(train[0])
    by_hand = LogisticRegression(C=found.strength, max_iter=1000).fit(scaler.transform(train[0]), train[1])
    said = by_hand.predict(scaler.transform(judged[0]))
    assert found.correct.tolist() == (said == judged[1]).tolist()
    assert 0.6 < found.correct.mean() < 1
    assert found.confusion.sum(axis=1).tolist() == np.bincount(judged[1]).tolist()
    assert found.confusion.trace() == found.correct.sum()
    assert found.trained_on.tolist() == np.bincount(train[1]).tolist()
    assert found.chance == np.bincount(judged[1]).max() / 100


def test_labels_that_stand_in_no_vector_are_guessed() -> None:
    rows, _ = labelled(300, 0)
    labels = np.arange(300) % 3
    found = judgement.probe((rows[:200], labels[:200]), np.arange(200), (rows[200:], labels[200:]))
    assert found is not None
    assert found.correct.mean() < 0.5


def test_there_is_no_probe_without_two_labels_or_anything_to_judge() -> None:
    rows, labels = labelled(30, 0)
    same, nothing = np.zeros(30, dtype=int), (rows[:0], labels[:0])
    assert judgement.probe((rows, same), np.arange(30), (rows, labels)) is None
    assert judgement.probe((rows, labels), np.arange(30), nothing) is None
    assert judgement.probe((rows, labels), np.zeros(30, dtype=int), (rows, labels)) is None


def test_of_many_training_rows_some_are_drawn_the_same_each_time() -> None:
    rows = np.arange(100, 200)
    assert judgement.training_rows(rows, 1000) is rows
    drawn = judgement.training_rows(rows, 30)
    assert len(set(drawn.tolist())) == 30
    assert set(drawn.tolist()) < set(rows.tolist())
    assert drawn.tolist() == sorted(judgement.training_rows(rows, 30).tolist())


def test_as_many_groups_are_drawn_as_there_are_each_with_all_its_rows() -> None:
    groups = np.array([0, 1, 1, 2])
    weights = np.concatenate([*judgement.resamples(groups, 500)], axis=1)
    assert weights.shape == (4, 500)
    assert (weights[1] == weights[2]).all()
    assert (weights[[0, 1, 3]].sum(axis=0) == 3).all()
    assert weights.mean(axis=1) == pytest.approx([1, 1, 1, 1], abs=0.15)


def test_blocks_are_no_fewer_resamples_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.labs.embeddings.judgement._CELLS", 30)
    blocks = [*judgement.resamples(np.arange(10), 8)]
    assert [block.shape for block in blocks] == [(10, 3), (10, 3), (10, 2)]


def test_means_are_over_the_rows_drawn() -> None:
    values, groups = np.array([[1.0, 0.0], [2.0, 1.0], [6.0, 5.0]]), np.array([0, 0, 1])
    (weights,) = judgement.resamples(groups, 20)
    wanted = [np.repeat(values, of.astype(int), axis=0).mean(axis=0) for of in weights.T]
    assert judgement.mean_draws(values, groups, 20) == pytest.approx(np.array(wanted))


def test_p_and_interval_are_the_formula_by_hand() -> None:
    draws = np.array([[0.5, 0.4], [0.6, 0.4], [0.3, 0.4], [0.7, 0.5]])
    (told,) = judgement.differences([0.6, 0.4], draws, ["a", "b"])
    drawn = np.array([0.1, 0.2, -0.1, 0.2])
    assert told.difference == pytest.approx(0.2)
    assert told.p == told.p_family == pytest.approx((1 + (np.abs(drawn - 0.2) >= 0.2).sum()) / (4 + 1))
    assert (told.low, told.high) == (-math.inf, math.inf)  # so few resamples tell nothing


def correlated(n: int = 400, seed: int = 0) -> tuple[list[float], np.ndarray]:
    """Figures of four models, the first two alike but for noise, and their resamples by the normal distribution."""
    values, rng = [0.80, 0.79, 0.70, 0.75], np.random.default_rng(seed)
    return values, np.array(values) + rng.normal(0, 0.01, (n, 1)) + rng.normal(0, 0.02, (n, 4))


@pytest.mark.parametrize("seed", range(20))
def test_intervals_hold_0_exactly_where_the_verdict_is_open(seed: int) -> None:
    told = judgement.differences(*correlated(seed=seed), ["a", "b", "c", "d"])
    assert len(told) == 6
    for one in told:
        assert one.sure == (one.p_family < 0.05) == (not one.low <= 0 <= one.high)
        assert one.p <= one.p_family
        assert (one.low + one.high) / 2 == pytest.approx(one.difference)
    assert {one.sure for one in told} == {True, False}


def test_a_family_is_that_of_the_largest_t_by_hand() -> None:
    values, draws = correlated(n=99)
    told = judgement.differences(values, draws, ["a", "b", "c", "d"])
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    columns = np.stack([draws[:, a] - draws[:, b] for a, b in pairs], axis=1)
    seen = np.array([values[a] - values[b] for a, b in pairs])
    scale = columns.std(axis=0)
    largest = (np.abs(columns - seen) / scale).max(axis=1)
    reached = [(1 + (largest >= abs(one) / of).sum()) / 100 for one, of in zip(seen, scale, strict=True)]
    assert [one.p_family for one in told] == pytest.approx(reached)
    critical = np.sort(largest)[-4]  # four of a hundred may reach it, the figures themselves being one
    assert [one.high - one.difference for one in told] == pytest.approx((critical * scale).tolist())


def test_a_copy_changes_no_verdict_and_is_told_apart_from_nothing() -> None:
    values, draws = correlated()
    before = judgement.differences(values, draws, ["a", "b", "c", "d"])
    copied = judgement.differences(
        [*values, values[0]], np.column_stack([draws, draws[:, 0]]), ["a", "b", "c", "d", "copy"]
    )
    told = {(one.a, one.b): one for one in copied}
    assert [told[one.a, one.b] for one in before] == before
    same = told["a", "copy"]
    assert (same.difference, same.low, same.high, same.p_family, same.sure) == (0, 0, 0, 1, False)


def test_single_groups_and_undefined_metrics_have_no_interval_and_no_verdict() -> None:
    (told,) = judgement.differences([0.6, 0.4], np.tile([0.6, 0.4], (20, 1)), ["a", "b"])
    assert (told.low, told.high, told.p_family, told.sure) == (-math.inf, math.inf, 1, False)
    assert np.isnan(judgement.figure(float("nan"), np.zeros(3), (0, 1))).all()
    assert judgement.figure(0.5, np.full(3, 0.5), (0, 1)) == Interval(0.5, 0, 1)
    assert judgement.differences([0.5, float("nan")], np.zeros((3, 2)), ["a", "b"]) == []


def test_means_leave_out_what_is_not_known_and_tell_models_apart() -> None:
    values = {"a": np.array([1.0, 3.0, np.nan, 2.0]), "b": np.array([0.0, 1.0, 0.5, 0.5])}
    figures, (told,) = judgement.mean_figures(values, np.arange(4), (0, 4))
    assert (figures["a"].value, figures["b"].value) == (2, 0.5)
    assert told.difference == 1.5
    assert figures["a"].low < 2 < figures["a"].high
