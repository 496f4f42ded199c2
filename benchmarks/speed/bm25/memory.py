"""What a process holds at most, and how fast this machine reads its memory."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import perf_counter

import numpy as np

_EVERY = 0.02  # seconds between two looks
_READ, _TIMES = 1 << 29, 5  # bytes, more than any cache holds


@contextmanager
def peak() -> Iterator[list[int]]:
    """Yield a list that holds, at the end, the most bytes that the process held of its own more than before.

    Mapped files do not count: the machine lends them what memory is free, and takes it back.
    """
    before, most, done = _own_bytes(), [0], Event()

    def look() -> None:
        most[0] = max(most[0], _own_bytes() - before)

    def watch() -> None:
        while not done.wait(_EVERY):
            look()

    watcher = Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        done.set()
        watcher.join()
        look()


def bandwidth(threads: int) -> float:
    """Return the bytes a second at which so many threads read memory, one after another, the best of five times."""
    parts = np.array_split(np.ones(_READ // 8), threads)

    def seconds(cores: ThreadPoolExecutor) -> float:
        start = perf_counter()
        list(cores.map(np.max, parts))
        return perf_counter() - start

    with ThreadPoolExecutor(threads) as cores:
        return _READ / min(seconds(cores) for _ in range(_TIMES))


def _own_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024
