"""What the commands share that carry out a job's folder for a page."""

from collections.abc import Callable

from filelock import FileLock, Timeout

from data.failure import Failure
from data.terminal import tell
from jobs.folder import Job, carry_out
from jobs.status import State, Status

_SECONDS_TO_END = 5.0  # for a process that was just killed


def carried_out_alone(job: Job, work: Callable[[Status], None]) -> int:
    """Do a job's work in this process unless another is at it; returns a command's exit status, 0 or 2.

    `work` is that of `jobs.folder.carry_out`.
    """
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
