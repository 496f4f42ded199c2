"""How far the reader process is: it writes a small file, which the process that waits for it polls."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

ReadingProgress = Callable[[int, int], None]  # files done, of how many
_SECONDS_BETWEEN_WRITES = 0.2

_reports: list["_Report"] = []  # of this process, at most one


class _Report:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = 0.0

    def write(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._written < _SECONDS_BETWEEN_WRITES and done < total:
            return
        self._written = now
        temporary = self._path.with_suffix(".new")
        with suppress(OSError):  # a full disk must not end the reading
            temporary.write_text(f"{done} {total}", encoding="ascii")
            temporary.replace(self._path)


def write_progress_to(path: Path) -> None:
    """Let `report_files_read` of this process write to a file."""
    _reports[:] = [_Report(path)]


def report_files_read(done: int, total: int) -> None:
    """Report that so many of `total` files are read; cheap enough to be called for every file."""
    for report in _reports:
        report.write(done, total)


def read_progress(path: Path) -> tuple[int, int] | None:
    """Return the files done and their number; None if nothing was reported."""
    with suppress(OSError, ValueError):
        done, total = path.read_text(encoding="ascii").split()
        return int(done), int(total)
    return None
