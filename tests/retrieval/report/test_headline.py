"""Intervals in a sentence that names the direction of a difference."""

import pytest

from mrc_workbench.retrieval.report.words import interval_of_lead


@pytest.mark.parametrize(
    ("difference", "ends", "expected"),
    [
        (0.232, (0.177, 0.286), ("17.7", "28.6")),  # 23.2 points ahead
        (-0.02, (-0.03, -0.01), ("1.0", "3.0")),  # 2 points behind
        (0.01, (-0.005, 0.025), ("−0.5", "2.5")),
        (-0.01, (-0.025, 0.005), ("−0.5", "2.5")),
        (0.0, (-0.0001, 0.0001), ("0.0", "0.0")),
    ],
)
def test_interval_follows_the_direction_of_the_sentence(
    difference: float, ends: tuple[float, float], expected: tuple[str, str]
) -> None:
    assert tuple(interval_of_lead(difference, *ends).values()) == expected
