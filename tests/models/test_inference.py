"""How rows are cut into passes: the sums can be done by hand."""

from itertools import chain, combinations, pairwise

import numpy as np
import pytest

from models import inference


def passes(widths: list[int]) -> list[tuple[int, int]]:
    return inference.passes(widths, 64, 10)


def test_by_hand() -> None:
    assert passes([16]) == [(0, 1)]
    assert passes([32, 8]) == [(0, 1), (1, 2)]  # 32 + 8 places and two passes are 60, together they would be 64 + 10
    assert passes([16, 8]) == [(0, 2)]  # 32 + 10 against 16 + 8 + 20
    assert passes([100, 100, 8]) == [(0, 1), (1, 2), (2, 3)]  # a row longer than a pass is one
    assert passes([16] * 4) == [(0, 4)]
    assert len(passes([16] * 5)) == 2


@pytest.mark.parametrize("seed", range(5))
def test_no_other_way_costs_less(seed: int) -> None:
    widths = sorted((np.random.default_rng(seed).integers(1, 8, 9) * 8).tolist(), reverse=True)

    def cost(cut: list[tuple[int, int]]) -> int:
        return sum((end - start) * widths[start] + 10 for start, end in cut)

    ways = []
    for cuts in chain.from_iterable(combinations(range(1, 9), count) for count in range(9)):
        way = list(pairwise([0, *cuts, 9]))
        if all(end - start == 1 or (end - start) * widths[start] <= 64 for start, end in way):
            ways.append(way)
    assert passes(widths) in ways
    assert cost(passes(widths)) == min(map(cost, ways))
