"""A queue of jobs, of which a machine runs one at a time.

One worker per workspace, a process that outlives the page, runs the queued jobs in order, each in a separate process,
and ends. A running job holds the machine's lock. The operating system releases the locks when their process ends.
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
    """The job that holds the machine: the name of its folder, and the start in seconds since 1970."""

    name: str
    since: float
    pid: int
    pid_started: float


_HOLDER = TypeAdapter(Holder)


@dataclass(frozen=True)
class Queue(Generic[J]):
    """The jobs of a workspace that need the machine exclusively."""

    folder_name: str  # `mrc internal NAME-worker` runs the worker, `mrc internal NAME FOLDER` runs a job
    jobs: Callable[[], Sequence[J]]  # returns all jobs

    def queued(self) -> list[J]:
        waiting = [(job.status(), job) for job in self.jobs()]
        queued = sorted((status.queued, job.id, job) for status, job in waiting if status.state is State.QUEUED)
        return [job for *_, job in queued]

    def running_job(self) -> J | None:
        return next((job for job in self.jobs() if job.status().is_running), None)

    def holder(self) -> Holder | None:
        """Return the job that holds the machine, in any workspace; None if there is none or it is unknown."""
        with suppress(TypeError, ValidationError):
            holder = _HOLDER.validate_python(read_json(_holder_file()))
            return holder if Process(holder.pid, holder.pid_started).is_alive else None
        return None

    def admit(self, more: int = 1) -> None:
        """Raise `LimitError` if the user may not queue `more` jobs, or has no storage left."""
        require_storage()
        states = [job.status() for job in self.jobs()]
        require_job_slot(sum(status.is_running or status.state is State.QUEUED for status in states), more)

    def resume(self, job: Job) -> None:
        """Queue a stopped, failed or interrupted job again. Raises `ValueError` for other states, and `LimitError`."""
        status = job.status()
        if status.state not in RESUMABLE:
            raise ValueError(f"a run that is {status.state.value} cannot be resumed")
        self.admit()
        (job.folder / "stop").unlink(missing_ok=True)
        waiting = replace(status, state=State.QUEUED, queued=time.time(), pid=0, pid_started=0.0, code="", message="")
        job.write_status(replace(waiting, seconds=status.total_seconds, started=0.0))  # waiting does not count
        self.start_worker()

    def start_worker(self) -> None:
        """Start a detached worker; it ends at once if another one is running or no job is queued."""
        start_detached(
            PROGRAM, "internal", f"{self.folder_name}-worker", log=workspace() / self.folder_name / ".worker.log"
        )

    def ensure_worker(self) -> None:
        """Start a worker if jobs wait without one, for example after the machine was switched off."""
        if self.queued() and not self._is_worker_alive():
            self.start_worker()

    def work(self) -> None:
        lock = FileLock(self._worker_lock)
        with suppress(Timeout), lock.acquire(timeout=_SECONDS_TO_TAKE_OVER, poll_interval=_SECONDS_BETWEEN_TRIES):
            # a queued job with a process belongs to a command, which waits for its turn itself
            while job := next((job for job in self.queued() if not job.status().pid), None):
                queued_at = job.status().queued
                start_detached(PROGRAM, "internal", self.folder_name, job.folder, log=job.folder / "log.txt").wait()
                status = job.status()
                if status.state is State.QUEUED and status.queued == queued_at:  # its process died
                    job.write_status(replace(status, state=State.INTERRUPTED))

    @contextmanager
    def turn(self, job: J, *, sent_by_worker: bool = False) -> Iterator[bool]:
        """Wait for the machine and hold it; yields False if the job was stopped or started elsewhere meanwhile."""
        lock = FileLock(_machine_lock())
        status = job.status()
        if status.state is State.QUEUED:  # else another process has started it
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
            with suppress(OSError):  # only displayed to waiting users
                write_json(_holder_file(), asdict(Holder(job.folder.name, time.time(), *this_process())))
            yield job.status().state is State.QUEUED
        finally:
            _holder_file().unlink(missing_ok=True)
            lock.release()

    def _is_next(self, job: J, sent_by_worker: bool) -> bool:
        """Whether no earlier job has a process or a worker that will run it."""

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
    """Return the lock of the machine, which all workspaces of a system user share; `MRC_LOCK` sets another path."""
    return Path(os.environ.get("MRC_LOCK") or Path(tempfile.gettempdir(), f"mrc-training-{getpass.getuser()}.lock"))
