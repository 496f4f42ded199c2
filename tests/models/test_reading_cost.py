"""What texts cost beside each other."""

import numpy as np
import pytest

from models.encoders.vector_blocks import reading_costs

# milliseconds a text of so many Korean characters took multilingual-e5-small in bfloat16, 8 to 256 of them together
MEASURED = {15: 1.34, 30: 2.0, 60: 3.4, 120: 6.31, 250: 14.55, 500: 32.42, 800: 63.96}


def test_costs_are_in_the_ratio_of_what_was_measured() -> None:
    costs = dict(zip(MEASURED, reading_costs(np.array([*MEASURED])).tolist(), strict=True))
    a_character = MEASURED[250] / costs[250]
    for length, milliseconds in MEASURED.items():
        assert costs[length] * a_character == pytest.approx(milliseconds, rel=0.12)


def test_what_is_longer_than_a_model_reads_costs_no_more() -> None:
    assert reading_costs(np.array([2000, 2001, 100_000])).tolist() == [2012 + 2000**2 / 1200] * 3
    assert reading_costs(np.zeros(0, dtype=np.int64)).sum() == 0
