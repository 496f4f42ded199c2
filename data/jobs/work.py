"""What the process of a job does: its work, what it notes meanwhile, and how it ends."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from filelock import FileLock, Timeout

from mrc_workbench.data.jobs.folder import AskedToStop, GoesOn, Job, State, Status
from mrc_workbench.data.jobs.processes import hold_freed_memory, this_process
from mrc_workbench.data.problems import Failure, with_extra
from mrc_workbench.data.terminal import tell

logger = logging.getLogger(__name__)
Progress = Callable[[str, float], None]  # what a job is at, and the share of all its work that is done
_SECONDS_BETWEEN = 0.2  # a page looks no more often
_SECONDS_TO_END = 5.0  # for a process that was just killed


def carry_out(
    job: Job, work: Callable[[Status], None], problem_of: Callable[[BaseException], tuple[str, str]]
) -> Status:
    """Do a job's work in this process, and return how it ended: whatever goes wrong ends up in its status.

    `work` is given the status it began with; it raises `AskedToStop` where it ended because somebody asked.
    `problem_of` tells code and message of what went wrong.
    """
    hold_freed_memory()
    pid, pid_started = this_process()
    before = job.status()
    began = Status(
        State.RUNNING, queued=before.queued, started=time.time(), seconds=before.spent, pid=pid, pid_started=pid_started
    )
    job.write_status(began)
    try:
        work(began)
    except AskedToStop:
        ended = replace(job.status(), state=State.STOPPED)
    except GoesOn:
        return job.status()
    except (Exception, KeyboardInterrupt) as raised:
        error = with_extra(raised) if isinstance(raised, Exception) else raised
        code, message = problem_of(error)
        # no fault of the program, and all there is to know
        if code == "disk" or isinstance(error, Failure | MemoryError | KeyboardInterrupt):
            logger.error("the job failed: %s", message or type(error).__name__)
        else:
            logger.exception("the job failed")
        ended = replace(job.status(), state=State.FAILED, code=code, message=message)
    else:
        ended = replace(job.status(), state=State.DONE)
    ended = replace(ended, seconds_left=None)
    job.write_status(ended)
    return ended


def progress_writer(
    job: Job,
    began: Status,
    seconds_left: Callable[[], float | None] | None = None,
    parts_left: Callable[[], dict[str, float | None]] | None = None,
) -> Progress:
    """Return what notes a job's phase and the share of all its work that is done, 0 to 1.

    Its time left is what `seconds_left` says, asked then, or the sum of `parts_left`, which the status then holds, too;
    without either, it is told from the share. A few times a second at most, but for a change of phase and for
    beginning and end, which are never dropped: a page would go on to tell what ended long ago.
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
            if parts_left:
                status = replace(status, parts_left=tuple(parts_left().items()))
            job.write_status(status)

    return write


def carried_out_alone(job: Job, work: Callable[[Status], None]) -> int:
    """Do a job's work, as `carry_out`, unless another process is at it; returns a command's exit status, 0 or 2."""
    job.folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(job.folder / ".at_work.lock", timeout=_SECONDS_TO_END):
            ended = carry_out(job, work, _problem)
    except Timeout:
        tell("error: another process is at work on this", error=True)
        return 2
    return 0 if ended.state is State.DONE else 2


def _problem(error: BaseException) -> tuple[str, str]:
    return error.code if isinstance(error, Failure) else "unexpected", str(error)
