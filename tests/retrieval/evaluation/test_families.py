"""Tests made together: by hand where every swap can be tried, and what is promised of agreement and coverage."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from retrieval.evaluation.families import LEVEL, FamilyTests, family_tests


def together(sums: np.ndarray, sizes: np.ndarray | None = None) -> FamilyTests:
    sizes = np.ones(len(sums)) if sizes is None else sizes
    return family_tests(sums, sizes, np.zeros(sums.shape[1], dtype=int))


def test_every_swap_by_hand() -> None:
    sums = np.array([[0.5, 0.1], [0.4, -0.3], [0.6, 0.2], [0.2, 0.4], [-0.1, 0.3], [0.3, 0.1]])
    swaps = np.array([*product([1, -1], repeat=6)])
    scale = np.sqrt((sums**2).sum(axis=0))
    seen, tried = np.abs(sums.sum(axis=0) / scale), np.abs(swaps @ sums / scale)
    found = together(sums)
    for column in range(2):
        assert found.p[column] == np.mean(tried[:, column] >= seen[column] - 1e-12)
        assert found.p_family[column] == np.mean(tried.max(axis=1) >= seen[column] - 1e-12)


def test_one_alone_is_a_family_of_one() -> None:
    sums = np.random.default_rng(0).normal(0.1, 0.3, (40, 1))
    found = together(sums)
    assert found.p_family == pytest.approx(found.p)


def test_the_ends_of_an_interval_are_the_differences_that_are_just_not_told_apart() -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 5, 60).astype(float)
    sums = rng.normal(0.05, 0.3, (60, 3)) * sizes[:, None]
    found = together(sums, sizes)

    def t(column: int, difference: float) -> float:
        rest = sums[:, column] - difference * sizes
        return float(abs(rest.sum()) / np.sqrt((rest**2).sum()))

    ends = [t(column, end[column]) for column in range(3) for end in (found.low, found.high)]
    np.testing.assert_allclose(ends, ends[0])
    assert 1.96 < ends[0] < 3.0  # above that of one difference alone
    assert (found.low < sums.sum(axis=0) / sizes.sum()).all()
    assert (found.high > sums.sum(axis=0) / sizes.sum()).all()


@settings(deadline=None, max_examples=60)
@given(arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(1, 4)), elements=st.floats(-1, 1, width=16)))
def test_an_interval_holds_0_exactly_where_p_says_so(sums: np.ndarray) -> None:
    found = together(sums)
    told_apart = (found.low > 0) | (found.high < 0)
    assert told_apart.tolist() == (found.p_family < 1 - LEVEL).tolist()
    assert (found.p_family >= found.p - 1e-12).all()
    mean = sums.mean(axis=0)
    assert ((found.low <= mean + 1e-9) & (mean <= found.high + 1e-9)).all()


def test_a_copy_changes_nothing_of_the_others() -> None:
    sums = np.random.default_rng(3).normal(0.08, 0.3, (70, 3))
    alone, copied = together(sums), together(np.column_stack([sums, sums[:, 1], np.zeros(70)]))
    for name in ("p", "p_family", "low", "high"):
        np.testing.assert_allclose(getattr(copied, name)[:4], getattr(alone, name)[[0, 1, 2, 1]], rtol=1e-12)
    assert (copied.p_family[4], copied.low[4], copied.high[4]) == (1, 0, 0)


def test_families_are_apart() -> None:
    sums = np.random.default_rng(4).normal(0.05, 0.3, (50, 4))
    both = family_tests(sums, np.ones(50), np.array([0, 1, 0, 1]))
    for columns in ([0, 2], [1, 3]):
        alone = together(sums[:, columns])
        np.testing.assert_allclose(both.p_family[columns], alone.p_family, rtol=1e-12)
        np.testing.assert_allclose(both.low[columns], alone.low, rtol=1e-12)


def test_one_group_alone_tells_nothing() -> None:
    found = together(np.array([[0.5]]), np.array([3.0]))
    assert (found.p_family[0], found.low[0], found.high[0]) == (1, -1, 1)


def _drawn(rng: np.random.Generator, truths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Groups of questions whose differences share what is hard about their passage, and the retrievers a baseline."""
    sizes = rng.integers(1, 6, 60)
    groups = np.repeat(np.arange(60), sizes)
    baseline = rng.normal(0, 0.3, len(groups))[:, None]
    of_passage = rng.normal(0, 0.2, (60, len(truths)))[groups]
    differences = truths + of_passage + rng.normal(0, 0.3, (len(groups), len(truths))) - baseline
    return np.stack([np.bincount(groups, column) for column in differences.T], axis=1), sizes.astype(float)


@pytest.mark.slow
def test_all_intervals_of_a_family_cover_the_truth_95_times_of_100() -> None:
    rng, truths = np.random.default_rng(7), np.array([0.0, 0.05, 0.1, -0.1])
    covered = []
    for _ in range(150):
        found = together(*_drawn(rng, truths))
        covered.append(((found.low <= truths) & (truths <= found.high)).all())
    assert 0.90 <= np.mean(covered) <= 0.99


@pytest.mark.slow
def test_where_nothing_differs_5_of_100_families_hold_a_false_alarm() -> None:
    rng = np.random.default_rng(9)
    false = [(together(*_drawn(rng, np.zeros(4))).p_family < 0.05).any() for _ in range(150)]
    assert np.mean(false) <= 0.1
