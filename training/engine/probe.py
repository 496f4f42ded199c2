"""How long a model takes for many texts, found out by a few of them."""

import time
from collections.abc import Callable, Sequence
from typing import Any

_PROBED = 64  # texts or pairs


def seconds_for(work: Callable[[list[Any]], object], everything: Sequence[Any]) -> float:
    """Seconds that `work` would take for everything in order of its length, by some of it: short ones and long ones."""
    work(list(everything[:2]))  # what is only done once
    some = list(everything[:: max(1, len(everything) // _PROBED)])
    began = time.perf_counter()
    work(some)
    return (time.perf_counter() - began) / len(some) * len(everything)
