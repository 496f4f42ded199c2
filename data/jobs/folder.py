"""A job runs in a separate process, and its folder is the only source of truth about it.

Comparisons, trainings, labs and preparations of trainings are jobs. The folder holds the request, `status.json` (with a
heartbeat), `progress.jsonl` (a line of metrics per logged step), `log.txt` (the output of the process), a file `stop`
to stop it, and the results. It stays readable if the process is killed at any time.
"""

import json
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import psutil
from filelock import FileLock, Timeout
from pydantic import ConfigDict, Field, TypeAdapter

from mrc_workbench.data import workspace
from mrc_workbench.data.files import accept_earlier_names
from mrc_workbench.data.jobs.processes import PROGRAM, Process, hold_freed_memory, start_detached, this_process
from mrc_workbench.data.problems import Failure, as_missing_extra
from mrc_workbench.data.terminal import print_line

logger = logging.getLogger(__name__)
R = TypeVar("R")
_MIN_FRACTION_TO_ESTIMATE = 0.1  # completed fraction of the work after which the time left is estimated


class StopRequested(Exception):  # noqa: N818 - no error
    """The work ended early because a user requested a stop."""


class JobHandedOver(Exception):  # noqa: N818 - no error
    """Another process continues the job."""


class State(StrEnum):
    """The state of a job. `STOPPING` is never stored: it is a running job with a requested stop."""

    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    DONE = "done"
    INTERRUPTED = "interrupted"  # its process died without a final status


DAMAGED = "damaged"  # the code of an unreadable status
RESUMABLE = frozenset({State.STOPPED, State.FAILED, State.INTERRUPTED})


@dataclass(frozen=True)
class Status:
    """The status of a job. Times are seconds since 1970 in UTC; `code` is a key of errors in the locale files."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)
    _earlier = accept_earlier_names({"share": "progress", "tells_time": "reports_remaining"})

    state: State = State.QUEUED
    phase: str = ""  # a phase of a training, the current retriever of a comparison
    progress: Annotated[float, Field(ge=0)] = 0.0  # completed fraction of the work, 0 to 1
    step: int = 0
    total_steps: int = 0
    seconds_left: float | None = None
    reports_remaining: bool = False  # the job sets `seconds_left`, which is None if unknown
    parts_left: tuple[tuple[str, float | None], ...] = ()  # seconds left per part, None if unknown
    queued: float = 0.0
    started: float = 0.0
    heartbeat: float = 0.0
    seconds: float = 0.0  # run time before it was resumed
    pid: Annotated[int, Field(ge=0, lt=2**31)] = 0
    pid_started: float = 0.0
    code: str = ""
    message: str = ""

    @property
    def is_running(self) -> bool:
        return self.state in (State.RUNNING, State.STOPPING)

    @property
    def total_seconds(self) -> float:
        return self.seconds + max(0.0, self.heartbeat - self.started if self.started else 0.0)

    @property
    def remaining_seconds(self) -> float | None:
        """Seconds left, set by the process or estimated from the progress of a job without steps; None if unknown."""
        if self.reports_remaining or self.total_steps or not _MIN_FRACTION_TO_ESTIMATE < self.progress < 1:
            return self.seconds_left
        return (self.heartbeat - self.started) * (1 - self.progress) / self.progress

    @property
    def is_process_alive(self) -> bool:
        return self.pid > 0 and Process(self.pid, self.pid_started).is_alive


_STATUS = TypeAdapter(Status)


@dataclass(frozen=True, order=True)
class Job:
    """One job's folder."""

    folder: Path
    can_save: ClassVar[bool] = False  # whether it stops after its current step and keeps the result

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def result(self) -> Path:
        return self.folder / "scores.json"

    @property
    def done(self) -> bool:
        return self.result.is_file()

    @property
    def running(self) -> bool:
        """Whether a process is running and the result is missing."""
        return not self.done and self.status().is_running

    @property
    def is_stopped(self) -> bool:
        """Whether a user stopped it; True in every session until it is started again."""
        return not self.done and self.stop_requested and not self.running

    @property
    def is_unfinished(self) -> bool:
        """Whether it ended without a result: a user stopped it, it failed, or its process died."""
        has_ended = not self.done and not self.running
        return has_ended and (self.stop_requested or (self.has_status and self.status().code != DAMAGED))

    @property
    def can_autostart(self) -> bool:
        """Whether a page may start it without a user: it was never started, or its status is unreadable."""
        return not self.done and not self.running and not self.is_unfinished

    @property
    def has_status(self) -> bool:
        return (self.folder / "status.json").is_file()

    @property
    def failed(self) -> bool:
        has_started = not self.done and self.has_status
        return has_started and self.status().state in (State.FAILED, State.INTERRUPTED)

    def status(self) -> Status:
        """Read the status; the state depends on whether the process is alive and a stop is requested."""
        try:
            status = _STATUS.validate_python({"state": None, **self.read("status.json")})  # the state is required
        except ValueError:
            return Status(State.INTERRUPTED, code=DAMAGED if (self.folder / "status.json").exists() else "")
        if status.state is State.QUEUED and status.pid and not status.is_process_alive:
            return replace(status, state=State.INTERRUPTED)  # its process died while it waited
        if not status.is_running:
            return status
        if status.is_process_alive:
            return replace(status, state=State.STOPPING) if self.stop_requested else status
        return replace(status, state=State.STOPPED if self.stop_requested else State.INTERRUPTED, seconds_left=None)

    def write_status(self, status: Status) -> None:
        self.write("status.json", {**asdict(status), "heartbeat": time.time()})

    def write(self, name: str, content: object) -> None:
        workspace.write_json(self.folder / name, content)

    def read(self, name: str) -> dict[str, Any]:
        """Read a JSON file of the folder; empty if it is missing or damaged."""
        return workspace.read_json(self.folder / name)

    def add_progress(self, entry: dict[str, Any]) -> None:
        with (self.folder / "progress.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def progress(self) -> list[dict[str, Any]]:
        try:
            lines = (self.folder / "progress.jsonl").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        entries = []
        for line in lines:
            with suppress(ValueError, RecursionError):
                entries.append(json.loads(line))
        return [entry for entry in entries if isinstance(entry, dict)]

    def drop_progress_after(self, step: int) -> None:
        """Drop the lines after a step: the resumed job logs them again."""
        lines = [json.dumps(entry) + "\n" for entry in self.progress() if workspace.read_number(entry, "step") <= step]
        workspace.write_text(self.folder / "progress.jsonl", "".join(lines))

    def log(self, lines: int = 0) -> str:
        try:
            text = (self.folder / "log.txt").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:]) if lines else text

    def admit(self) -> None:
        """Raise `LimitError` if too many other jobs of the user are running, or no storage is left."""
        if workspace.are_limited() and not self.running:
            workspace.require_storage()
            other_jobs = [Job(path.parent) for path in self.folder.parent.glob("*/status.json")]
            workspace.require_job_slot(sum(job.status().is_running for job in other_jobs))

    def launch(self, *words: object, light: bool = False) -> None:
        """Remove an earlier result and start `python -m mrc_workbench WORDS`, unless it is running."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / ".starting.lock"):
            if self.running:
                return
            self.result.unlink(missing_ok=True)
            for name in ("stop", "log.txt", "status.json", "progress.jsonl"):
                (self.folder / name).unlink(missing_ok=True)
            pid, pid_started = start_detached(PROGRAM, *words, log=self.folder / "log.txt", light=light)
            if not (self.folder / "status.json").exists():  # the process may have written it already
                self.write_status(Status(State.RUNNING, started=time.time(), pid=pid, pid_started=pid_started))

    def request_stop(self) -> None:
        (self.folder / "stop").touch()

    @property
    def stop_requested(self) -> bool:
        return (self.folder / "stop").exists()

    def stop(self) -> None:
        """Stop a running job after its current step; remove a queued one from the queue."""
        status = self.status()
        if status.is_running:
            self.request_stop()
        elif status.state is State.QUEUED:
            self.request_stop()  # a process may be starting it right now
            self.write_status(replace(status, state=State.STOPPED))

    def kill(self) -> None:
        """Kill its process: for jobs that do not react or have nothing to save."""
        self.request_stop()
        status = self.status()
        if status.is_running:
            with suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
                process = psutil.Process(status.pid)
                process.kill()
                process.wait(timeout=2)  # the next `status()` is correct


Progress = Callable[[str, float], None]  # the phase, and the completed fraction of all work
_SECONDS_BETWEEN_WRITES = 0.2  # pages read it less often
_SECONDS_TO_END = 5.0  # of a killed process


def run_job(
    job: Job, work: Callable[[Status], None], describe_error: Callable[[BaseException], tuple[str, str]]
) -> Status:
    """Run a job's work in this process and return its final status, which contains any error.

    `work` gets the first status. `describe_error` returns the code and the message of an error.
    """
    hold_freed_memory()
    pid, pid_started = this_process()
    before = job.status()
    initial_status = Status(
        State.RUNNING,
        queued=before.queued,
        started=time.time(),
        seconds=before.total_seconds,
        pid=pid,
        pid_started=pid_started,
    )
    job.write_status(initial_status)
    try:
        work(initial_status)
    except StopRequested:
        final_status = replace(job.status(), state=State.STOPPED)
    except JobHandedOver:
        return job.status()
    except (Exception, KeyboardInterrupt) as raised:
        error = as_missing_extra(raised) if isinstance(raised, Exception) else raised
        code, message = describe_error(error)
        # these errors are no bugs, so the log needs no traceback
        if code == "disk" or isinstance(error, Failure | MemoryError | KeyboardInterrupt):
            logger.error("the job failed: %s", message or type(error).__name__)
        else:
            logger.exception("the job failed")
        final_status = replace(job.status(), state=State.FAILED, code=code, message=message)
    else:
        final_status = replace(job.status(), state=State.DONE)
    final_status = replace(final_status, seconds_left=None)
    job.write_status(final_status)
    return final_status


def progress_writer(
    job: Job,
    initial_status: Status,
    seconds_left: Callable[[], float | None] | None = None,
    parts_left: Callable[[], dict[str, float | None]] | None = None,
) -> Progress:
    """Return a function that writes the phase and the completed fraction, 0 to 1, into a job's status.

    It writes a few times a second at most, but always a new phase, the beginning and the end. It calls `seconds_left`
    and `parts_left` for the time left; without `seconds_left`, the time is estimated from the fraction.
    """
    written = 0.0
    phase: str | None = None

    def write(new_phase: str, fraction: float) -> None:
        nonlocal written, phase
        if new_phase != phase or fraction in (0, 1) or time.monotonic() - written > _SECONDS_BETWEEN_WRITES:
            written = time.monotonic()
            phase = new_phase
            status = replace(initial_status, phase=new_phase, progress=fraction)
            if seconds_left:
                status = replace(status, seconds_left=seconds_left(), reports_remaining=True)
            if parts_left:
                status = replace(status, parts_left=tuple(parts_left().items()))
            job.write_status(status)

    return write


def run_job_exclusively(job: Job, work: Callable[[Status], None]) -> int:
    """Call `run_job` unless another process is running the job; returns a command's exit status, 0 or 2."""
    job.folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(job.folder / ".running.lock", timeout=_SECONDS_TO_END):
            final_status = run_job(job, work, lambda e: (e.code if isinstance(e, Failure) else "unexpected", str(e)))
    except Timeout:
        print_line("error: another process is running this job", error=True)
        return 2
    return 0 if final_status.state is State.DONE else 2
