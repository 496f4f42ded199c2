"""A few cases of every area that `make attack` goes through for half an hour."""

import pytest

from tests.hostile.areas import AREAS
from tests.hostile.damages import TIMES

CASES = {"pairs": 10, "experiments": 15, "seals": 15, "index": 4, "models": 6}


@pytest.mark.parametrize(
    "area", [pytest.param(one, marks=pytest.mark.slow) if one == "models" else one for one in AREAS]
)
def test_nothing_is_wrong(area: str) -> None:
    found = {seed: AREAS[area](seed) for seed in range(CASES[area] * TIMES)}
    assert {seed: wrong for seed, (_, wrong) in found.items() if wrong} == {}
