"""The trials of a search and their lengths, with sums by hand."""

from dataclasses import replace
from typing import Any

import pytest

from mrc_workbench.data.problems import Failure
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.training import halving
from mrc_workbench.training.jobs import Estimate
from mrc_workbench.training.options import TrainingOptions
from mrc_workbench.training.ranker_options import (
    DISTILLATION_OBJECTIVES,
    BiEncoderObjective,
    BiEncoderOptions,
    CrossEncoderObjective,
    CrossEncoderOptions,
    SparseEncoderOptions,
)

BASES = ["starter", "org/base", DEFAULT.reference]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("options_class", [BiEncoderOptions, CrossEncoderOptions, SparseEncoderOptions])
def test_proposes_defaults_first_and_valid_distinct_trials(options_class: type[TrainingOptions], base: str) -> None:
    options = options_class.defaults_for(base)
    changes = halving.propose_changes(options)
    assert changes[0] == {}
    tried = [replace(options, **change) for change in changes]
    assert 3 <= len(tried) == len({repr(change) for change in tried}) <= 6
    assert {change.base for change in tried} == {options.base}


def test_proposes_changes_for_packaged_base() -> None:
    options = BiEncoderOptions.defaults_for(DEFAULT.reference)
    assert halving.propose_changes(options) == [
        {},
        {"learning_rate": 3e-4},
        {"temperature": 0.05},
        {"learning_rate": 3e-5},
        {"group_batches_by": "lengths"},
        {"negatives": 1},
    ]


def test_reduces_batch_size_of_listwise_trials() -> None:
    options = CrossEncoderOptions.defaults_for("org/base")
    assert (options.batch_size, options.negatives) == (16, 4)
    lists = [change for change in halving.propose_changes(options) if "objective" in change]
    assert lists == [{"objective": "lambda", "batch_size": 3}, {"objective": "listnet", "batch_size": 3}]


@pytest.mark.parametrize("objective", list(BiEncoderObjective))
def test_proposes_changes_for_every_objective(objective: BiEncoderObjective) -> None:
    negatives = 2 if objective in (BiEncoderObjective.TRIPLET, *DISTILLATION_OBJECTIVES) else 0
    teacher = "org/teacher" if objective in DISTILLATION_OBJECTIVES else ""
    options = BiEncoderOptions(base="org/base", objective=objective, negatives=negatives, teacher=teacher)
    assert len(halving.propose_changes(options)) >= 4


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
def test_counts_passages_per_question(options: TrainingOptions, passages: float, examples: int) -> None:
    assert halving.passages_per_question(options) == passages
    assert halving.examples_per_question(options) == examples


def test_relative_time_of_changes() -> None:
    options = CrossEncoderOptions(base="org/base", negatives=4)
    assert halving.relative_time(options, {"negatives": 8}) == 9 / 5
    assert halving.relative_time(options, {"learning_rate": 1e-4}) == 1


CHANGES: list[halving.OptionChanges] = [{}, {"learning_rate": 1e-4}, {"learning_rate": 3e-5}, {"weight_decay": 0.1}]
OPTIONS = BiEncoderOptions(base="org/base", epochs=2.0)
# 200 s, measured in 10 s, loaded in 3 s
EPOCH = Estimate(100, 2.0, 30.0, 233.0, 4_000, 100_000, "cpu", fits=True, suggested_options={}, seconds_loading=3.0)


def test_better_half_survives_with_defaults() -> None:
    assert [halving.count_survivors(6, round_number) for round_number in range(3)] == [6, 3, 2]
    assert [halving.count_survivors(3, round_number) for round_number in range(3)] == [3, 2, 2]
    assert halving.select_survivors({1: 0.1, 2: 0.5, 3: 0.7, 4: 0.5, 5: 0.2}, 3) == [1, 3, 2]


def test_total_seconds_of_all_rounds() -> None:
    """4 trials, one twice as slow: 4 take a quarter of an epoch, 2 another quarter, the same 2 the rest."""
    cost = halving.TrialCost(epoch=100.0, evaluation=10.0, loading=3.0)
    loads = [1.0, 1.0, 1.0, 2.0]
    first = 4 * 13 + 25 * (1 + 1 + 1 + 2)
    second = 2 * 13 + 25 * (1 + 2)
    third = 2 * 13 + 50 * (1 + 2)
    untrained = 10
    finished = 2 * 10
    assert cost.total_seconds(loads, 1.0) == untrained + first + second + third + finished


def test_schedules_epochs_by_time() -> None:
    planned = halving.schedule(OPTIONS, CHANGES, EPOCH, 1000.0)
    assert planned.changes == CHANGES
    assert 0.24 <= planned.epochs < 2
    assert planned.seconds == pytest.approx(0.85 * 1000)  # the rest is a reserve
    assert planned.cost == halving.TrialCost(epoch=200.0, evaluation=10.0, loading=3.0)


def test_never_exceeds_planned_epochs() -> None:
    planned = halving.schedule(OPTIONS, CHANGES, EPOCH, 1e6)
    assert planned.epochs == 2.0
    assert planned.seconds < 1e6


def test_schedules_fewer_trials_in_short_time() -> None:
    assert halving.schedule(OPTIONS, CHANGES, EPOCH, 500.0).changes == CHANGES
    few = halving.schedule(OPTIONS, CHANGES, EPOCH, 280.0)
    assert few.changes == CHANGES[:3]
    assert few.seconds <= 0.85 * 280


@pytest.mark.parametrize(
    ("changed", "seconds", "code"),
    [({}, 60.0, "settings_minutes"), ({"steps": 1}, 1e6, "settings_too_few"), ({"fits": False}, 1e6, "memory")],
)
def test_reports_impossible_searches(changed: dict[str, Any], seconds: float, code: str) -> None:
    with pytest.raises(Failure) as raised:
        halving.schedule(OPTIONS, CHANGES, replace(EPOCH, **changed), seconds)
    assert raised.value.code == code
    if code == "settings_minutes":
        again = 60.0 * int(raised.value.details["minutes"])
        assert len(halving.schedule(OPTIONS, CHANGES, EPOCH, again).changes) >= 3
        with pytest.raises(Failure):
            halving.schedule(OPTIONS, CHANGES, EPOCH, again - 60)


def test_skips_trials_beyond_memory() -> None:
    options = replace(OPTIONS, objective="multiple-negatives")
    tight = replace(EPOCH, memory=60_000)
    assert halving.schedule(options, [*CHANGES, {"negatives": 1}], tight, 1e6).changes == CHANGES
    assert {"negatives": 1} in halving.schedule(options, [*CHANGES, {"negatives": 1}], EPOCH, 1e6).changes


def test_trial_options_disable_own_evaluation() -> None:
    often = BiEncoderOptions(evaluation_steps=5, save_steps=5, patience=3)
    options = halving.trial_options(often, {"learning_rate": 0.1}, 0.5)
    assert (options.epochs, options.learning_rate) == (0.5, 0.1)
    assert (options.evaluation_steps, options.save_steps, options.patience) == (0, 0, 0)
