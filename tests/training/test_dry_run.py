"""The budget of an estimate and the results of a few timed steps, with a simulated clock."""

from dataclasses import dataclass
from queue import Empty, Queue

import numpy as np
import pytest

from mrc_workbench.training.base import estimate_seconds
from mrc_workbench.training.dry_run import (
    BUDGET_SECONDS,
    Deadline,
    ProcessorLoad,
    StepScheduler,
    StepTimes,
    StepTiming,
    TimeBudget,
    select_trial_batches,
)

GIGABYTE = 1e9


@dataclass
class FakeClock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


def pace_through(
    sizes: list[float], seconds_a_character: float, *, parts: int = 2, loading: float = 0.0
) -> StepScheduler:
    """Take steps on a machine of this speed until the scheduler stops."""
    clock = FakeClock()
    budget = TimeBudget(clock=clock)
    clock.spend(loading)
    whole = [number >= parts for number in range(len(sizes))]
    pace = StepScheduler(sizes, whole, budget, memory_limit=GIGABYTE)
    for size in sizes:
        seconds = seconds_a_character * size
        clock.spend(seconds)
        if not pace.add(seconds, 0.0, memory=int(1000 * size)):
            break
    assert len(pace.times.steps) == 1 or clock.now - 100 <= BUDGET_SECONDS
    return pace


def test_takes_every_step_on_fast_machine() -> None:
    pace = pace_through([100, 200, 800, 800, 800], 0.001)
    assert len(pace.times.steps) == 5
    assert not pace.times.is_rough
    assert pace.times.seconds(800) == pytest.approx(0.8)


@pytest.mark.parametrize("seconds_a_character", [0.005, 0.01, 0.02, 0.05, 0.5])
@pytest.mark.parametrize("loading", [0.0, 5.0, 14.0])
def test_steps_stop_before_the_budget_is_spent(seconds_a_character: float, loading: float) -> None:
    pace = pace_through([100, 200, 400, 800, 800, 800], seconds_a_character, parts=3, loading=loading)
    assert 1 <= len(pace.times.steps) <= 5
    assert pace.times.seconds(800) == pytest.approx(800 * seconds_a_character)


def test_always_takes_first_step() -> None:
    pace = pace_through([100, 800], 1.0, parts=1)
    assert len(pace.times.steps) == 1
    assert pace.times.is_rough
    assert pace.times.seconds(800) == pytest.approx(800.0)


def test_skips_whole_batches_beyond_memory() -> None:
    pace = StepScheduler([100, 200, 8000], [False, False, True], TimeBudget(clock=FakeClock()), memory_limit=5_000_000)
    assert pace.add(0.1, 0.0, memory=100_000)
    assert not pace.add(0.2, 0.0, memory=200_000)  # 8,000,000 by the linear fit
    assert pace.times.memory(8000) == pytest.approx(8_000_000)


def test_reports_every_step() -> None:
    reported: list[int] = []
    planned = ([100, 200], [False, True], TimeBudget(clock=FakeClock()))
    pace = StepScheduler(*planned, memory_limit=GIGABYTE, on_step=lambda times: reported.append(len(times.steps)))
    assert pace.add(0.1, 0.0, memory=1)
    assert not pace.add(0.1, 0.0, memory=1)
    assert reported == [1, 2]


def test_ignores_warm_up_and_outliers() -> None:
    steps = [
        StepTiming(100, 9.0, 0.0, memory=1, is_whole=False),  # the warm-up
        StepTiming(100, 3.0, 0.0, memory=1, is_whole=False),  # a part, once whole batches are known
        *(StepTiming(800, seconds, 0.0, memory=1, is_whole=True) for seconds in (8.0, 8.2, 60.0)),
    ]
    assert StepTimes(steps).seconds(800) == pytest.approx(8.2)


def test_extrapolates_only_text_dependent_part() -> None:
    times = StepTimes([StepTiming(100, 9.0, 1.0, 1, is_whole=False), StepTiming(100, 2.0, 1.0, 1, is_whole=False)])
    assert times.is_rough
    assert times.seconds(800) == pytest.approx(1.0 + 8.0)  # the optimizer's time does not depend on the batch


def test_equal_batches_give_no_memory_slope() -> None:
    times = StepTimes([StepTiming(100, 1.0, 0.0, 500, is_whole=False), StepTiming(100, 1.0, 0.0, 900, is_whole=False)])
    assert times.memory_line() == (0.0, 500.0)


def test_assumes_growth_after_one_step() -> None:
    times = StepTimes([StepTiming(100, 1.0, 0.0, 500, is_whole=False)], memory_before=300)
    assert times.memory(1000) == pytest.approx(300 + 2 * 1000)


def test_partial_batches_mix_lengths() -> None:
    characters = np.arange(1, 65, dtype=float)
    batches = [list(range(start, start + 16)) for start in range(0, 64, 16)]
    tried = select_trial_batches(batches, characters)
    assert [len(batch) for batch, _ in tried] == [2, 2, 4, 4, 16, 16, 16]
    assert [whole for _, whole in tried] == [False] * 4 + [True] * 3
    largest_part = tried[2][0]
    largest = tried[4][0]
    assert largest == batches[-1]
    assert characters[largest_part].mean() == pytest.approx(characters[largest].mean(), rel=0.02)


def test_limits_evaluation_timing_to_two_seconds() -> None:
    clock = FakeClock()
    texts = list(range(640))

    def read(some: list[int]) -> None:
        clock.spend(len(some) * 0.1)

    assert estimate_seconds(read, texts, clock=clock) == pytest.approx(64.0)
    assert clock.now - 100 < 4.0
    clock.now = 100.0

    def read_quickly(some: list[int]) -> None:
        clock.spend(len(some) * 0.001)

    assert estimate_seconds(read_quickly, texts, clock=clock) == pytest.approx(0.64)
    assert estimate_seconds(read_quickly, texts[:1], clock=clock) == pytest.approx(0.001)


def test_deadline_returns_last_outcome() -> None:
    answers = Queue[str | None]()
    with Deadline(0.05, 10.0, answers.put) as deadline:
        deadline.record("after one step")
        assert answers.get(timeout=5.0) == "after one step"
    assert answers.empty()


def test_deadline_waits_for_first_outcome_then_gives_up() -> None:
    answers = Queue[str | None]()
    with Deadline(0.01, 0.2, answers.put):
        with pytest.raises(Empty):
            answers.get(timeout=0.05)
        assert answers.get(timeout=5.0) is None
    assert answers.empty()


def test_deadline_ignores_blocks_that_end_in_time() -> None:
    answers = Queue[str | None]()
    with Deadline(0.5, 0.5, answers.put) as deadline:
        deadline.record("complete")
    with pytest.raises(Empty):
        answers.get(timeout=0.7)


def test_detects_contended_machine() -> None:
    assert ProcessorLoad(others_fraction=0.5, own_fraction=0.4).is_contended
    assert not ProcessorLoad(others_fraction=0.1, own_fraction=0.8).is_contended
