"""Which settings are tried, and how far they go: sums by hand."""

from dataclasses import replace
from typing import Any

import pytest

from mrc_workbench.data.problems import Failure
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.training.halving import (
    Changes,
    Cost,
    changes_of,
    examples_a_question,
    going_on,
    passages_a_question,
    relative_time,
    schedule,
    survivors,
    trial_options,
)
from mrc_workbench.training.jobs import Estimate
from mrc_workbench.training.options import TrainingOptions
from mrc_workbench.training.ranker_options import (
    TAUGHT,
    BiEncoderObjective,
    BiEncoderOptions,
    CrossEncoderObjective,
    CrossEncoderOptions,
    SparseEncoderOptions,
)

BASES = ["starter", "org/base", DEFAULT.reference]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("made", [BiEncoderOptions, CrossEncoderOptions, SparseEncoderOptions])
def test_the_defaults_come_first_and_everything_tried_is_possible_and_different(
    made: type[TrainingOptions], base: str
) -> None:
    options = made.suited_to(base)
    changes = changes_of(options)
    assert changes[0] == {}
    tried = [replace(options, **one) for one in changes]
    assert 3 <= len(tried) == len({repr(one) for one in tried}) <= 6
    assert {one.base for one in tried} == {options.base}


def test_around_a_packaged_base() -> None:
    options = BiEncoderOptions.suited_to(DEFAULT.reference)
    assert changes_of(options) == [
        {},
        {"learning_rate": 3e-4},
        {"temperature": 0.05},
        {"learning_rate": 3e-5},
        {"batches_of": "lengths"},
        {"negatives": 1},
    ]


def test_a_list_is_read_whole_so_a_batch_holds_fewer_of_them() -> None:
    options = CrossEncoderOptions.suited_to("org/base")
    assert (options.batch_size, options.negatives) == (16, 4)
    lists = [one for one in changes_of(options) if "objective" in one]
    assert lists == [{"objective": "lambda", "batch_size": 3}, {"objective": "listnet", "batch_size": 3}]


@pytest.mark.parametrize("objective", list(BiEncoderObjective))
def test_every_objective_has_settings_around_it(objective: BiEncoderObjective) -> None:
    negatives = 2 if objective in (BiEncoderObjective.TRIPLET, *TAUGHT) else 0
    teacher = "org/teacher" if objective in TAUGHT else ""
    options = BiEncoderOptions(base="org/base", objective=objective, negatives=negatives, teacher=teacher)
    assert len(changes_of(options)) >= 4


@pytest.mark.parametrize(
    ("options", "passages", "examples"),
    [
        (BiEncoderOptions(), 1, 1),
        (BiEncoderOptions(objective=BiEncoderObjective.MULTIPLE_NEGATIVES, negatives=3), 4, 1),
        (BiEncoderOptions(objective=BiEncoderObjective.TRIPLET, negatives=3), 6, 3),
        (CrossEncoderOptions(negatives=4), 5, 5),
        (CrossEncoderOptions(objective=CrossEncoderObjective.LISTNET, negatives=4), 5, 1),
        (CrossEncoderOptions(objective=CrossEncoderObjective.MARGIN_MSE, negatives=4, teacher="org/t"), 8, 4),
    ],
)
def test_what_a_question_has_a_model_read(options: TrainingOptions, passages: float, examples: int) -> None:
    assert passages_a_question(options) == passages
    assert examples_a_question(options) == examples


def test_how_much_longer_a_change_takes() -> None:
    options = CrossEncoderOptions(base="org/base", negatives=4)
    assert relative_time(options, {"negatives": 8}) == 9 / 5
    assert relative_time(options, {"learning_rate": 1e-4}) == 1


CHANGES: list[Changes] = [{}, {"learning_rate": 1e-4}, {"learning_rate": 3e-5}, {"weight_decay": 0.1}]
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
