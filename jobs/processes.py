"""A process: which one is meant, since its number may be given to another one later, and the memory that it holds."""

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import psutil


class Process(NamedTuple):
    """A process by its number and start time (seconds since 1970)."""

    pid: int
    started: float

    @property
    def lives(self) -> bool:
        try:
            process = psutil.Process(self.pid)
            return bool(process.create_time() == self.started and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return False

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it has ended. Raises `psutil.TimeoutExpired`."""
        if self.lives:
            psutil.Process(self.pid).wait(seconds)


def this_process() -> Process:
    """Return the process that asks."""
    return process_of(os.getpid())


def process_of(pid: int) -> Process:
    """Return the process that has this number now; one that has ended has no start time."""
    try:
        return Process(pid, float(psutil.Process(pid).create_time()))
    except psutil.NoSuchProcess:
        return Process(pid, 0.0)


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4  # of mallopt(3)
_LARGE = 2**25  # bytes, the most that glibc lets the threshold be
_MOST_BLOCKS = 2**16
_ALWAYS = 2**31 - 1
_AT_ONCE = 2**26


def hold_freed_memory() -> None:
    """Keep what is freed until this process ends. Does nothing where the C library is not glibc."""
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch asks for large pages; read with its first tensor
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_MAX, 0)  # no block of its own for a large tensor
        mallopt(_TRIM_THRESHOLD, _ALWAYS)
        mallopt(_TOP_PAD, _AT_ONCE)


@contextmanager
def without_collections() -> Iterator[None]:
    """Within the block nobody looks for garbage: libraries and models that are being read are none.

    A million objects come with them, and to look through all of them again and again takes a third of the time.
    """
    looks = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looks:
            gc.enable()


def give_back_large_blocks() -> None:
    """Of what is freed from now on, give back each block of 32 MiB and more, whatever `hold_freed_memory` said.

    For blocks that have another size every time, as the logits of a large vocabulary: the gaps that they leave fit
    nothing, and what is held would grow to several times of what is in use.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGE)
        mallopt(_MMAP_MAX, _MOST_BLOCKS)
