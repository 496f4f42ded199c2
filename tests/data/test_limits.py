"""Readings at the same time are promised no more memory together than there is."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import psutil
import pytest

from data.apart import Limits

GIB = 2**30


@pytest.fixture(autouse=True)
def _ten_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=10 * GIB))  # eight may be used


def most_at_once(limits: list[Limits]) -> int:
    """Bytes promised at the same time, where each reading waits until no other one can begin."""
    promised, seen, lock, going = 0, [0], threading.Lock(), threading.Event()

    def read(one: Limits) -> None:
        nonlocal promised
        with one.held_free():
            with lock:
                promised += one.memory
                seen.append(promised)
            going.wait(0.05)
            with lock:
                promised -= one.memory

    with ThreadPoolExecutor(len(limits)) as pool:
        list(pool.map(read, limits))
    return max(seen)


def test_large_ones_wait_for_each_other() -> None:
    assert most_at_once([Limits(3 * GIB, 10)] * 6) <= 8 * GIB


def test_small_ones_go_on_beside_a_large_one() -> None:
    assert most_at_once([Limits(6 * GIB, 10), *[Limits(GIB // 2, 10)] * 4]) == 8 * GIB


def test_one_that_is_larger_than_all_memory_is_read_alone() -> None:
    assert most_at_once([Limits(20 * GIB, 10)] * 2) == 20 * GIB


def test_what_failed_gives_its_memory_back() -> None:
    with pytest.raises(OSError, match="full"), Limits(8 * GIB, 10).held_free():
        raise OSError("full")
    with Limits(8 * GIB, 10).held_free():
        pass
