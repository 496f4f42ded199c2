"""What came out of a search for settings: sums by hand, and no winner by chance."""

import numpy as np
import pytest

from retrieval.evaluation.measures import Scores
from training.runs.sweeps import Findings
from training.sweeps.search import Measured, findings

pytestmark = pytest.mark.slow  # what searches reads torch

N = 200
GROUPS = np.repeat(np.arange(N // 2), 2)
RNG = np.random.default_rng(0)
DEFAULTS = RNG.random(N) * 0.5


def scored(values: np.ndarray) -> Scores:
    return Scores((1,), {"ndcg@10": values})


def found(measured: dict[int, Measured], count: int) -> Findings:
    changes = [{}, *({"learning_rate": float(number)} for number in range(2, count + 1))]
    return findings("ndcg@10", changes, measured, {1: 0.5}, GROUPS, epochs=2.0, untrained=0.2)


def test_one_that_is_surely_better_is_chosen() -> None:
    better = DEFAULTS + 0.2 + 0.1 * RNG.standard_normal(N)
    told = found(
        {
            1: {0.25: (5, scored(DEFAULTS - 0.1)), 1.0: (20, scored(DEFAULTS))},
            2: {0.25: (5, scored(better - 0.1)), 1.0: (20, scored(better))},
            3: {0.25: (5, scored(DEFAULTS - 0.2))},
        },
        4,
    )
    first, second, third = told.tried
    assert (told.best, told.chosen, told.changes) == (2, 2, {"learning_rate": 2.0})
    assert (first.value, first.difference, first.loss) == (pytest.approx(DEFAULTS.mean()), 0.0, 0.5)
    assert second.difference == pytest.approx((better - DEFAULTS).mean())
    assert second.difference_low < second.difference < second.difference_high
    assert (second.steps, second.epochs) == (20, 2.0)
    # compared with the defaults after as many of their steps
    assert (third.difference, third.share, third.epochs) == (pytest.approx(-0.1), 0.25, 0.5)
    assert told.untried == (4,)


def test_equal_ones_leave_the_defaults() -> None:
    told = found({number: {1.0: (20, scored(DEFAULTS))} for number in (1, 2, 3)}, 3)
    assert (told.best, told.chosen, told.changes) == (1, 1, {})
    assert [one.p_family for one in told.tried] == [1.0, 1.0, 1.0]


def test_one_that_is_better_on_a_few_questions_is_not_chosen() -> None:
    lucky = DEFAULTS.copy()
    lucky[:4] += 0.3
    told = found({1: {1.0: (20, scored(DEFAULTS))}, 2: {1.0: (20, scored(lucky))}}, 2)
    assert (told.best, told.chosen) == (2, 1)
    assert told.tried[1].p_family > 0.05


def test_all_trials_are_tested_together() -> None:
    """By hand, over all 64 swaps of 6 groups: the largest t of any trial, as Westfall & Young have it."""
    groups, zero = np.arange(6), np.zeros(6)
    apart = {
        2: np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.2]),
        3: np.array([1, -1] * 3) / 10,
        4: np.array([1, 1, -1] * 2) / 9,
    }
    changes = [{}, {"seed": 2}, {"seed": 3}, {"seed": 4}]
    signs = 1 - 2 * ((np.arange(64)[:, None] >> np.arange(6)) & 1)

    def told(numbers: tuple[int, ...]) -> Findings:
        some: dict[int, Measured] = {1: {share: (4, scored(zero)) for share in (0.25, 1.0)}}
        some |= {number: {1.0 if number == 2 else 0.25: (4, scored(apart[number]))} for number in numbers}
        return findings("ndcg@10", changes, some, {}, groups, epochs=1.0, untrained=0.0)

    def by_hand(numbers: tuple[int, ...]) -> float:
        t = np.stack([np.abs(signs @ apart[number]) / np.linalg.norm(apart[number]) for number in numbers])
        return float((t.max(axis=0) >= t[0, 0] - 1e-9).mean())

    for numbers in ((2,), (2, 3, 4)):
        found = told(numbers)
        assert found.tried[1].p_family == pytest.approx(by_hand(numbers))
        assert found.chosen == (2 if by_hand(numbers) < 0.05 else 1)
    assert (by_hand((2,)), by_hand((2, 3, 4))) == (2 / 64, 6 / 64)


def test_where_time_was_up_the_last_round_that_two_had_counts() -> None:
    """The defaults had gone on; what is compared is where the other one was left."""
    told = found(
        {1: {0.25: (5, scored(DEFAULTS)), 0.5: (10, scored(DEFAULTS + 0.3))}, 2: {0.25: (5, scored(DEFAULTS + 0.2))}}, 2
    )
    assert (told.best, told.chosen) == (2, 2)
    assert told.tried[1].difference == pytest.approx(0.2)
