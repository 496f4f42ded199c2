"""What the library's trainers are told: how often they tell the loss."""

import pytest

from tests.training.worlds import misleading_set, planned, trained
from training.options.rankers import BI_ENCODER

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("epochs", "fewest", "most"), [(3.0, 3, 100), (40.0, 50, 101)])
def test_the_loss_is_told_from_the_first_step_on_and_about_a_hundred_times(
    epochs: float, fewest: int, most: int
) -> None:
    run = trained(planned(BI_ENCODER, misleading_set(40), epochs=epochs, batch_size=4))
    told = [entry["step"] for entry in run.progress() if "loss" in entry]
    total = run.status().total_steps
    assert told[0] == 1
    assert total - told[-1] < total / 50
    assert fewest <= len(told) <= most
    if total <= 100:
        assert told == list(range(1, total + 1))
