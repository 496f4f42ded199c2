"""Which trials go on, and what fits into the time: sums by hand."""

from dataclasses import replace
from typing import Any

import pytest

from data.problems import Failure
from training.options.rankers import BiEncoderOptions
from training.runs.rehearsal import Estimate
from training.sweeps.halving import Changes, Cost, going_on, schedule, survivors, trial_options

CHANGES: list[Changes] = [{}, {"learning_rate": 1e-4}, {"learning_rate": 1e-5}, {"weight_decay": 0.1}]
OPTIONS = BiEncoderOptions(base="org/base", epochs=2.0)
# 200 s, measured in 10 s, loaded in 3 s
EPOCH = Estimate(100, 2.0, 30.0, 233.0, 4_000, 100_000, "cpu", fits=True, instead={}, seconds_loading=3.0)


def test_the_better_half_goes_on_and_the_defaults_always() -> None:
    assert [survivors(6, place) for place in range(3)] == [6, 3, 2]
    assert [survivors(3, place) for place in range(3)] == [3, 2, 2]
    assert going_on({1: 0.1, 2: 0.5, 3: 0.7, 4: 0.5, 5: 0.2}, 3) == [1, 3, 2]


def test_the_seconds_of_all_rounds_by_hand() -> None:
    """4 trials of which one takes twice as long: 4 go a quarter of an epoch, 2 another one, the same 2 the rest."""
    cost = Cost(epoch=100.0, measuring=10.0, loading=3.0)
    loads = [1.0, 1.0, 1.0, 2.0]
    first = 4 * 13 + 25 * (1 + 1 + 1 + 2)
    second = 2 * 13 + 25 * (1 + 2)
    third = 2 * 13 + 50 * (1 + 2)
    untrained, finished = 10, 2 * 10
    assert cost.of(loads, 1.0) == untrained + first + second + third + finished


def test_as_long_as_time_allows() -> None:
    made = schedule(OPTIONS, CHANGES, EPOCH, 1000.0)
    assert made.changes == CHANGES
    assert 0.24 <= made.epochs < 2
    assert made.seconds == pytest.approx(0.85 * 1000)  # the rest is for what nobody foresees
    assert made.cost == Cost(epoch=200.0, measuring=10.0, loading=3.0)


def test_never_longer_than_the_training_itself() -> None:
    made = schedule(OPTIONS, CHANGES, EPOCH, 1e6)
    assert made.epochs == 2.0
    assert made.seconds < 1e6


def test_fewer_trials_where_time_is_short() -> None:
    assert schedule(OPTIONS, CHANGES, EPOCH, 500.0).changes == CHANGES
    few = schedule(OPTIONS, CHANGES, EPOCH, 280.0)
    assert few.changes == CHANGES[:3]
    assert few.seconds <= 0.85 * 280


@pytest.mark.parametrize(
    ("changed", "seconds", "code"),
    [
        ({}, 60.0, "settings_minutes"),
        ({"steps": 1}, 1e6, "settings_too_few"),
        ({"fits": False}, 1e6, "memory"),
    ],
)
def test_what_cannot_be_searched_is_told(changed: dict[str, Any], seconds: float, code: str) -> None:
    with pytest.raises(Failure) as raised:
        schedule(OPTIONS, CHANGES, replace(EPOCH, **changed), seconds)
    assert raised.value.code == code
    if code == "settings_minutes":
        again = 60.0 * int(raised.value.details["minutes"])
        assert len(schedule(OPTIONS, CHANGES, EPOCH, again).changes) >= 3
        with pytest.raises(Failure):
            schedule(OPTIONS, CHANGES, EPOCH, again - 60)


def test_what_does_not_fit_into_memory_is_not_tried() -> None:
    options = replace(OPTIONS, objective="multiple-negatives")
    tight = replace(EPOCH, memory=60_000)
    assert schedule(options, [*CHANGES, {"negatives": 1}], tight, 1e6).changes == CHANGES
    assert {"negatives": 1} in schedule(options, [*CHANGES, {"negatives": 1}], EPOCH, 1e6).changes


def test_the_search_says_when_a_trial_is_measured() -> None:
    often = BiEncoderOptions(evaluation_steps=5, save_steps=5, patience=3)
    options = trial_options(often, {"learning_rate": 0.1}, 0.5)
    assert (options.epochs, options.learning_rate) == (0.5, 0.1)
    assert (options.evaluation_steps, options.save_steps, options.patience) == (0, 0, 0)
