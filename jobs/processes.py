"""Which process is which: its number alone may be given to another one later."""

import os

import psutil


def this_process() -> tuple[int, float]:
    """Return number and start time (seconds since 1970) of this process."""
    return os.getpid(), float(psutil.Process().create_time())


def lives(pid: int, started: float) -> bool:
    """Whether the process with this number and start time still works."""
    try:
        process = psutil.Process(pid)
        return bool(process.create_time() == started and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
