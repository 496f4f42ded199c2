"""Precision by machine, and passes of rows with costs that are computed by hand."""

from collections.abc import Iterator
from itertools import chain, combinations, pairwise

import numpy as np
import pytest
import torch

from mrc_workbench.data.cache import without_caching
from mrc_workbench.models import inference
from mrc_workbench.models.inference import Precision, in_bfloat16

pytestmark = pytest.mark.slow
PROCESSORS = [(True, 4.1, True), (True, 1.3, True), (True, 1.1, False), (True, 0.5, False), (False, 4.1, False)]


@pytest.fixture(autouse=True)
def untried() -> Iterator[None]:
    inference._bfloat16_is_faster.cache_clear()
    yield
    inference._bfloat16_is_faster.cache_clear()


def fake_processor(monkeypatch: pytest.MonkeyPatch, *, knows: bool, slower: float) -> list[torch.dtype]:
    """Fake a machine with or without bfloat16 and a speedup; return the measured types."""
    dtypes: list[torch.dtype] = []

    def seconds(dtype: torch.dtype) -> float:
        dtypes.append(dtype)
        noise = 5.0 if len(dtypes) < 8 else 1.0
        return noise * (slower if dtype is torch.float32 else 1.0)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: knows)
    monkeypatch.setattr(inference, "_measure_seconds", seconds)
    return dtypes


def test_auto_is_float32_if_nothing_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_processor(monkeypatch, knows=True, slower=4.0)
    with without_caching():
        assert not in_bfloat16(Precision.AUTO)
        assert in_bfloat16(Precision.BFLOAT16)
    precisions = (Precision.AUTO, Precision.BFLOAT16, Precision.FLOAT32)
    assert [in_bfloat16(precision) for precision in precisions] == [True, True, False]


@pytest.mark.parametrize(("knows", "slower", "expected"), PROCESSORS)
def test_auto_measures_precision(knows: bool, slower: float, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    dtypes = fake_processor(monkeypatch, knows=knows, slower=slower)
    assert in_bfloat16(Precision.AUTO) == expected
    tried = len(dtypes)
    assert (tried > 0) == knows
    assert in_bfloat16(Precision.AUTO) == expected
    assert len(dtypes) == tried  # once a process


def test_measures_positive_seconds() -> None:
    assert inference._measure_seconds(torch.float32) > 0
    assert inference._measure_seconds(torch.bfloat16) > 0


def passes(widths: list[int]) -> list[tuple[int, int]]:
    return inference.passes(widths, 64, 10)


def test_passes_by_hand() -> None:
    assert passes([16]) == [(0, 1)]
    assert passes([32, 8]) == [(0, 1), (1, 2)]  # 32 + 8 places and two passes are 60, together they would be 64 + 10
    assert passes([16, 8]) == [(0, 2)]  # 32 + 10 against 16 + 8 + 20
    assert passes([100, 100, 8]) == [(0, 1), (1, 2), (2, 3)]  # a row longer than a pass is one
    assert passes([16] * 4) == [(0, 4)]
    assert len(passes([16] * 5)) == 2


@pytest.mark.parametrize("seed", range(5))
def test_passes_have_minimal_cost(seed: int) -> None:
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
