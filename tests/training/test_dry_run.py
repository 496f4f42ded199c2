"""The budget of an estimate and what follows from a few timed steps, with a clock of its own."""

import threading
from dataclasses import dataclass

import numpy as np
import pytest

from mrc_workbench.training.base import seconds_for
from mrc_workbench.training.dry_run import BUDGET_SECONDS, Budget, Deadline, Load, Pace, Step, StepTimes, batches_to_try

GIGABYTE = 1e9


@dataclass
class FakeClock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


def pace_through(sizes: list[float], seconds_a_character: float, *, parts: int = 2, loading: float = 0.0) -> Pace:
    """Take steps on a machine of this speed for as long as the pace goes on."""
    clock = FakeClock()
    budget = Budget(clock=clock)
    clock.spend(loading)
    whole = [number >= parts for number in range(len(sizes))]
    pace = Pace(sizes, whole, budget, memory_limit=GIGABYTE)
    for size in sizes:
        seconds = seconds_a_character * size
        clock.spend(seconds)
        if not pace.add(seconds, 0.0, memory=int(1000 * size)):
            break
    assert len(pace.times.steps) == 1 or clock.now - 100 <= BUDGET_SECONDS
    return pace


def test_a_quick_machine_takes_every_step() -> None:
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


def test_the_first_step_is_taken_however_long_it_is() -> None:
    pace = pace_through([100, 800], 1.0, parts=1)
    assert len(pace.times.steps) == 1
    assert pace.times.is_rough
    assert pace.times.seconds(800) == pytest.approx(800.0)


def test_a_whole_batch_that_would_not_fit_into_memory_is_not_tried() -> None:
    pace = Pace([100, 200, 8000], [False, False, True], Budget(clock=FakeClock()), memory_limit=5_000_000)
    assert pace.add(0.1, 0.0, memory=100_000)
    assert not pace.add(0.2, 0.0, memory=200_000)  # 8,000,000 on the line
    assert pace.times.memory(8000) == pytest.approx(8_000_000)


def test_every_step_is_reported() -> None:
    reported: list[int] = []
    pace = Pace(
        [100, 200],
        [False, True],
        Budget(clock=FakeClock()),
        memory_limit=GIGABYTE,
        on_step=lambda times: reported.append(len(times.steps)),
    )
    assert pace.add(0.1, 0.0, memory=1)
    assert not pace.add(0.1, 0.0, memory=1)
    assert reported == [1, 2]


def test_the_warm_up_and_a_disturbed_step_do_not_count() -> None:
    steps = [
        Step(100, 9.0, 0.0, memory=1, whole=False),  # the warm-up
        Step(100, 3.0, 0.0, memory=1, whole=False),  # a part, once whole batches are known
        *(Step(800, seconds, 0.0, memory=1, whole=True) for seconds in (8.0, 8.2, 60.0)),
    ]
    assert StepTimes(steps).seconds(800) == pytest.approx(8.2)


def test_only_what_grows_with_the_text_is_extrapolated() -> None:
    times = StepTimes([Step(100, 9.0, 1.0, 1, whole=False), Step(100, 2.0, 1.0, 1, whole=False)])
    assert times.is_rough
    assert times.seconds(800) == pytest.approx(1.0 + 8.0)  # the optimizer takes as long for any batch


def test_memory_of_equal_batches_is_no_line() -> None:
    times = StepTimes([Step(100, 1.0, 0.0, 500, whole=False), Step(100, 1.0, 0.0, 900, whole=False)])
    assert times.memory_line() == (0.0, 500.0)


def test_after_one_step_everything_it_added_is_taken_to_grow() -> None:
    times = StepTimes([Step(100, 1.0, 0.0, 500, whole=False)], memory_before=300)
    assert times.memory(1000) == pytest.approx(300 + 2 * 1000)


def test_parts_hold_short_and_long_examples() -> None:
    characters = np.arange(1, 65, dtype=float)
    batches = [list(range(start, start + 16)) for start in range(0, 64, 16)]
    tried = batches_to_try(batches, characters)
    assert [len(batch) for batch, _ in tried] == [2, 2, 4, 4, 16, 16, 16]
    assert [whole for _, whole in tried] == [False] * 4 + [True] * 3
    largest_part, largest = tried[2][0], tried[4][0]
    assert largest == batches[-1]
    assert characters[largest_part].mean() == pytest.approx(characters[largest].mean(), rel=0.02)


def test_an_evaluation_is_measured_for_two_seconds_at_most() -> None:
    clock = FakeClock()
    texts = list(range(640))

    def read(some: list[int]) -> None:
        clock.spend(len(some) * 0.1)

    assert seconds_for(read, texts, clock=clock) == pytest.approx(64.0)
    assert clock.now - 100 < 4.0
    clock.now = 100.0

    def read_quickly(some: list[int]) -> None:
        clock.spend(len(some) * 0.001)

    assert seconds_for(read_quickly, texts, clock=clock) == pytest.approx(0.64)
    assert seconds_for(read_quickly, texts[:1], clock=clock) == pytest.approx(0.001)


def test_the_deadline_answers_with_what_is_known() -> None:
    answers: list[str | None] = []
    answered = threading.Event()

    def give_up(known: str | None) -> None:
        answers.append(known)
        answered.set()

    with Deadline(0.05, 10.0, give_up) as deadline:
        deadline.note("after one step")
        assert answered.wait(5.0)
    assert answers == ["after one step"]


def test_the_deadline_waits_for_the_first_step_and_gives_up_in_the_end() -> None:
    answers: list[str | None] = []
    answered = threading.Event()

    def give_up(known: str | None) -> None:
        answers.append(known)
        answered.set()

    with Deadline(0.01, 0.2, give_up):
        assert not answered.wait(0.05)
        assert answered.wait(5.0)
    assert answers == [None]


def test_what_ends_in_time_is_not_given_up() -> None:
    answers: list[str | None] = []
    with Deadline(0.5, 0.5, answers.append) as deadline:
        deadline.note("complete")
    assert not threading.Event().wait(0.7)
    assert answers == []


def test_a_machine_is_busy_when_others_use_a_quarter_of_it() -> None:
    assert Load(others=0.5, own=0.4).is_busy
    assert not Load(others=0.1, own=0.8).is_busy
