"""Which process is which: its number alone may be given to another one later."""

import os
from typing import NamedTuple

import psutil


class Process(NamedTuple):
    """A process by its number and start time (seconds since 1970)."""

    pid: int
    started: float

    @property
    def lives(self) -> bool:
        """Whether it still works."""
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
