"""Resamples, p-values and the correction for families, by hand."""

import numpy as np
import pytest

from embeddings.bootstrap import Figure, differences, figure, holm, mean_draws, resamples


def test_as_many_groups_are_drawn_as_there_are_each_with_all_its_rows() -> None:
    groups = np.array([0, 1, 1, 2])
    weights = np.concatenate([*resamples(groups, 500)], axis=1)
    assert weights.shape == (4, 500)
    assert (weights[1] == weights[2]).all()
    assert (weights[[0, 1, 3]].sum(axis=0) == 3).all()
    assert weights.mean(axis=1) == pytest.approx([1, 1, 1, 1], abs=0.15)


def test_blocks_are_no_fewer_resamples_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embeddings.bootstrap._CELLS", 30)
    blocks = [*resamples(np.arange(10), 8)]
    assert [block.shape for block in blocks] == [(10, 3), (10, 3), (10, 2)]


def test_means_are_over_the_rows_drawn() -> None:
    values, groups = np.array([[1.0, 0.0], [2.0, 1.0], [6.0, 5.0]]), np.array([0, 0, 1])
    (weights,) = resamples(groups, 20)
    wanted = [np.repeat(values, of.astype(int), axis=0).mean(axis=0) for of in weights.T]
    assert mean_draws(values, groups, 20) == pytest.approx(np.array(wanted))


def test_p_is_the_formula_by_hand() -> None:
    draws = np.array([[0.5, 0.4], [0.6, 0.4], [0.3, 0.4], [0.7, 0.5]])
    (told,) = differences([0.6, 0.4], draws, ["a", "b"])
    assert told.p == pytest.approx(2 * (1 + 1) / (4 + 1))
    assert told.difference == pytest.approx(0.2)
    assert (told.low, told.high) == pytest.approx(tuple(np.quantile([0.1, 0.2, -0.1, 0.2], [0.025, 0.975])))


def test_holm_by_hand() -> None:
    assert holm(np.array([0.04, 0.01, 0.03])) == pytest.approx([0.06, 0.03, 0.06])
    assert holm(np.array([0.5, 0.9])) == pytest.approx([1.0, 1.0])


def test_what_is_not_defined_has_no_interval_and_is_in_no_test() -> None:
    assert np.isnan(figure(float("nan"), np.zeros(3), (0, 1))).all()
    assert figure(0.5, np.full(3, 0.5), (0, 1)) == Figure(0.5, 0, 1)
    assert differences([0.5, float("nan")], np.zeros((3, 2)), ["a", "b"]) == []
