"""How a job at work tells what it does, for the page that polls its folder."""

import time
from collections.abc import Callable
from dataclasses import replace

from jobs.folder import Job
from jobs.status import Status

_SECONDS_BETWEEN = 0.2  # a page looks no more often


def progress_writer(
    job: Job, began: Status, seconds_left: Callable[[], float | None] | None = None
) -> Callable[[str, float], None]:
    """Return what notes a job's phase and the share of all its work that is done, 0 to 1.

    Its time left is what `seconds_left` says, asked then; without, it is told from the share. A few times a second at
    most, but for a change of phase and for beginning and end, which are never dropped: a page would go on to tell what
    ended long ago.
    """
    written = 0.0
    phase: str | None = None

    def write(now: str, share: float) -> None:
        nonlocal written, phase
        if now != phase or share in (0, 1) or time.monotonic() - written > _SECONDS_BETWEEN:
            written, phase = time.monotonic(), now
            status = replace(began, phase=now, share=share)
            if seconds_left:
                status = replace(status, seconds_left=seconds_left(), tells_time=True)
            job.write_status(status)

    return write
