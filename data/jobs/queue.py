"""One job at a time on a machine; the others wait in a queue, in the order of their requests.

Nothing runs while there is nothing to do: whatever makes a job starts a worker, a process that outlives the page. One
worker per workspace runs the queued jobs, each in a separate process, and ends. A running job holds the machine's
lock. Both locks are the operating system's and end with their process.
"""

import getpass
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError

from mrc_workbench.data.jobs.folder import RESUMABLE, Job, State
from mrc_workbench.data.jobs.processes import PROGRAM, Process, start_detached, this_process
from mrc_workbench.data.workspace import read_json, require_job_slot, require_storage, workspace, write_json

_SECONDS_BETWEEN_TRIES = 0.3
_SECONDS_TO_TAKE_OVER = 10.0
J = TypeVar("J", bound=Job)


@dataclass(frozen=True)
class Holder:
    """Who holds the machine: the name of a job's folder, and since when, in seconds of the epoch."""

    name: str
    since: float
    pid: int
    pid_started: float


_HOLDER = TypeAdapter(Holder)


@dataclass(frozen=True)
class Queue(Generic[J]):
    """The jobs of a workspace that need the machine to themselves."""

    folder_name: (
        str  # folder of the jobs' folders; `mrc internal PLACE-worker` and `mrc internal PLACE FOLDER` run jobs
    )
    jobs: Callable[[], Sequence[J]]  # returns all of them

    def queued(self) -> list[J]:
        """Jobs that wait for their turn, the next one first."""
        waiting = [(job.status(), job) for job in self.jobs()]
        queued = sorted((s.queued, job.id, job) for s, job in waiting if s.state is State.QUEUED)
        return [job for *_, job in queued]

    def running_job(self) -> J | None:
        return next((job for job in self.jobs() if job.status().is_running), None)

    def holder(self) -> Holder | None:
        """Return who holds the machine, of whatever workspace; None where nobody does, or nobody says so."""
        with suppress(TypeError, ValidationError):
            holder = _HOLDER.validate_python(read_json(_holder_file()))
            return holder if Process(holder.pid, holder.pid_started).is_alive else None
        return None

    def admit(self, more: int = 1) -> None:
        """Raise `LimitError` where a user may not put so many more jobs in line, or has no room for what they leave."""
        require_storage()
        states = [job.status() for job in self.jobs()]
        require_job_slot(sum(status.is_running or status.state is State.QUEUED for status in states), more)

    def resume(self, job: Job) -> None:
        """Put a stopped, failed or interrupted job in line again. Raises `ValueError` of another one, `LimitError`."""
        status = job.status()
        if status.state not in RESUMABLE:
            raise ValueError(f"a run that is {status.state.value} cannot be resumed")
        self.admit()
        (job.folder / "stop").unlink(missing_ok=True)
        waiting = replace(status, state=State.QUEUED, queued=time.time(), pid=0, pid_started=0.0, code="", message="")
        job.write_status(replace(waiting, seconds=status.total_seconds, started=0.0))  # to wait is no work
        self.start_worker()

    def start_worker(self) -> None:
        """Start a detached worker; it ends at once where there is one already, or nothing to do."""
        start_detached(
            PROGRAM, "internal", f"{self.folder_name}-worker", log=workspace() / self.folder_name / ".worker.log"
        )

    def ensure_worker(self) -> None:
        """Start a worker where jobs wait and none is there: after the machine was switched off, say."""
        if self.queued() and not self._is_worker_alive():
            self.start_worker()

    def work(self) -> None:
        """Carry out the queued jobs of the workspace, one after the other, until none is left."""
        lock = FileLock(self._worker_lock)
        with suppress(Timeout), lock.acquire(timeout=_SECONDS_TO_TAKE_OVER, poll_interval=_SECONDS_BETWEEN_TRIES):
            # one with a process is a command's, which waits for its turn by itself
            while job := next((job for job in self.queued() if not job.status().pid), None):
                queued_at = job.status().queued
                start_detached(PROGRAM, "internal", self.folder_name, job.folder, log=job.folder / "log.txt").wait()
                status = job.status()
                if status.state is State.QUEUED and status.queued == queued_at:  # its process never got to say anything
                    job.write_status(replace(status, state=State.INTERRUPTED))

    @contextmanager
    def turn(self, job: J, *, sent_by_worker: bool = False) -> Iterator[bool]:
        """Wait in line for the machine and hold it; False where the job was asked to stop, or taken up, meanwhile."""
        lock = FileLock(_machine_lock())
        status = job.status()
        if status.state is State.QUEUED:  # one that another process has taken up meanwhile stays that one's
            pid, pid_started = this_process()
            job.write_status(replace(status, pid=pid, pid_started=pid_started))
        while not job.stop_requested:
            with suppress(Timeout):
                if self._is_next(job, sent_by_worker):
                    lock.acquire(timeout=0)
                    break
            time.sleep(_SECONDS_BETWEEN_TRIES)
        else:
            yield False
            return
        try:
            with suppress(OSError):  # it is for those who wait, and holds nobody up
                write_json(_holder_file(), asdict(Holder(job.folder.name, time.time(), *this_process())))
            yield job.status().state is State.QUEUED
        finally:
            _holder_file().unlink(missing_ok=True)
            lock.release()

    def _is_next(self, job: J, sent_by_worker: bool) -> bool:
        """Whether nobody who is sure to come stands before it. A worker sends the first of those that need one."""

        def queue_position(queued_job: Job) -> tuple[float, str]:
            return queued_job.status().queued, queued_job.id

        earlier_jobs = [other for other in self.queued() if queue_position(other) < queue_position(job)]
        if any(other.status().is_process_alive for other in earlier_jobs):
            return False
        return sent_by_worker or not (earlier_jobs and self._is_worker_alive())

    def _is_worker_alive(self) -> bool:
        try:
            with FileLock(self._worker_lock, timeout=0):
                return False
        except Timeout:
            return True

    @property
    def _worker_lock(self) -> Path:
        folder = workspace() / self.folder_name
        folder.mkdir(parents=True, exist_ok=True)
        return folder / ".worker.lock"


def _holder_file() -> Path:
    return _machine_lock().with_suffix(".json")


def _machine_lock() -> Path:
    """The file that whoever works holds; a person's workspaces share it, `MRC_LOCK` moves it."""
    return Path(os.environ.get("MRC_LOCK") or Path(tempfile.gettempdir(), f"mrc-training-{getpass.getuser()}.lock"))
