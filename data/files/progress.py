"""How many files a process has read, told to the process that waits for it through a file in their folder."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

SECONDS_BETWEEN_LOOKS = 0.05
_PROGRESS = "progress.txt"  # in the folder in which both meet

Report = Callable[[int, int], None]  # files read, of how many
_progress_file: list[Path] = []  # of the reading that this process carries out
_reported = [0.0]  # when, by the monotonic clock


def report_into(folder: Path) -> None:
    """Let this process tell in a folder what it has read."""
    _progress_file[:] = [folder / _PROGRESS]


def report_files_read(read: int, total: int) -> None:
    """Tell the process that waits for this one how many files are read; nothing if no process waits."""
    if _progress_file and (read == total or time.monotonic() - _reported[0] >= SECONDS_BETWEEN_LOOKS):
        _reported[0] = time.monotonic()
        with suppress(OSError):
            _progress_file[0].write_text(f"{read} {total}", encoding="ascii")


def report_from(folder: Path, report: Report) -> None:
    """Report what the reading process has written, unless it is writing right now."""
    with suppress(OSError, ValueError):
        read, total = map(int, (folder / _PROGRESS).read_text(encoding="ascii").split())
        report(read, total)
