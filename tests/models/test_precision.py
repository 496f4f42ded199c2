"""Which numbers a machine computes in: as told, else what it is quicker in."""

from collections.abc import Iterator

import pytest
import torch

from models import precision
from models.precision import Precision, in_bfloat16


@pytest.fixture(autouse=True)
def untried() -> Iterator[None]:
    precision._gains.cache_clear()
    yield
    precision._gains.cache_clear()


def a_processor(monkeypatch: pytest.MonkeyPatch, *, knows: bool, slower: float) -> list[torch.dtype]:
    """Pretend one that knows bfloat16 or not and takes so many times as long for float32; returns what it is asked."""
    asked: list[torch.dtype] = []

    def seconds(dtype: torch.dtype) -> float:
        asked.append(dtype)
        noise = 5.0 if len(asked) < 8 else 1.0
        return noise * (slower if dtype is torch.float32 else 1.0)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: knows)
    monkeypatch.setattr(precision, "_seconds", seconds)
    return asked


def test_as_told() -> None:
    assert in_bfloat16(Precision.BFLOAT16)
    assert not in_bfloat16(Precision.FLOAT32)


@pytest.mark.parametrize(("slower", "expected"), [(4.1, True), (1.3, True), (1.1, False), (0.5, False)])
def test_auto_is_what_the_processor_is_quicker_in(
    slower: float, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = a_processor(monkeypatch, knows=True, slower=slower)
    assert in_bfloat16(Precision.AUTO) == expected
    tried = len(asked)
    assert in_bfloat16(Precision.AUTO) == expected
    assert len(asked) == tried  # once a process


def test_a_processor_that_does_not_know_bfloat16_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = a_processor(monkeypatch, knows=False, slower=4.1)
    assert not in_bfloat16(Precision.AUTO)
    assert not asked


def test_a_product_takes_time() -> None:
    assert precision._seconds(torch.float32) > 0
    assert precision._seconds(torch.bfloat16) > 0
