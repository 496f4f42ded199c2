"""Resamples, p-values and the correction for families, by hand."""

import math

import numpy as np
import pytest

from mrc_workbench.labs.embeddings.judgement import Figure, differences, figure, mean_draws, mean_figures, resamples


def test_as_many_groups_are_drawn_as_there_are_each_with_all_its_rows() -> None:
    groups = np.array([0, 1, 1, 2])
    weights = np.concatenate([*resamples(groups, 500)], axis=1)
    assert weights.shape == (4, 500)
    assert (weights[1] == weights[2]).all()
    assert (weights[[0, 1, 3]].sum(axis=0) == 3).all()
    assert weights.mean(axis=1) == pytest.approx([1, 1, 1, 1], abs=0.15)


def test_blocks_are_no_fewer_resamples_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.labs.embeddings.judgement._CELLS", 30)
    blocks = [*resamples(np.arange(10), 8)]
    assert [block.shape for block in blocks] == [(10, 3), (10, 3), (10, 2)]


def test_means_are_over_the_rows_drawn() -> None:
    values, groups = np.array([[1.0, 0.0], [2.0, 1.0], [6.0, 5.0]]), np.array([0, 0, 1])
    (weights,) = resamples(groups, 20)
    wanted = [np.repeat(values, of.astype(int), axis=0).mean(axis=0) for of in weights.T]
    assert mean_draws(values, groups, 20) == pytest.approx(np.array(wanted))


def test_p_and_interval_are_the_formula_by_hand() -> None:
    draws = np.array([[0.5, 0.4], [0.6, 0.4], [0.3, 0.4], [0.7, 0.5]])
    (told,) = differences([0.6, 0.4], draws, ["a", "b"])
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
    told = differences(*correlated(seed=seed), ["a", "b", "c", "d"])
    assert len(told) == 6
    for one in told:
        assert one.sure == (one.p_family < 0.05) == (not one.low <= 0 <= one.high)
        assert one.p <= one.p_family
        assert (one.low + one.high) / 2 == pytest.approx(one.difference)
    assert {one.sure for one in told} == {True, False}


def test_a_family_is_that_of_the_largest_t_by_hand() -> None:
    values, draws = correlated(n=99)
    told = differences(values, draws, ["a", "b", "c", "d"])
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
    before = differences(values, draws, ["a", "b", "c", "d"])
    copied = differences([*values, values[0]], np.column_stack([draws, draws[:, 0]]), ["a", "b", "c", "d", "copy"])
    told = {(one.a, one.b): one for one in copied}
    assert [told[one.a, one.b] for one in before] == before
    same = told["a", "copy"]
    assert (same.difference, same.low, same.high, same.p_family, same.sure) == (0, 0, 0, 1, False)


def test_a_single_group_tells_nothing_apart() -> None:
    (told,) = differences([0.6, 0.4], np.tile([0.6, 0.4], (20, 1)), ["a", "b"])
    assert (told.low, told.high, told.p_family, told.sure) == (-math.inf, math.inf, 1, False)


def test_means_leave_out_what_is_not_known_and_tell_models_apart() -> None:
    values = {"a": np.array([1.0, 3.0, np.nan, 2.0]), "b": np.array([0.0, 1.0, 0.5, 0.5])}
    figures, (told,) = mean_figures(values, np.arange(4), (0, 4))
    assert (figures["a"].value, figures["b"].value) == (2, 0.5)
    assert told.difference == 1.5
    assert figures["a"].low < 2 < figures["a"].high


def test_what_is_not_defined_has_no_interval_and_is_in_no_test() -> None:
    assert np.isnan(figure(float("nan"), np.zeros(3), (0, 1))).all()
    assert figure(0.5, np.full(3, 0.5), (0, 1)) == Interval(0.5, 0, 1)
    assert differences([0.5, float("nan")], np.zeros((3, 2)), ["a", "b"]) == []
