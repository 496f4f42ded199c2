"""One training at a time on a machine; the others stand in line, in the order they were asked for.

A run stands in line from the moment it is made. Nothing runs while there is nothing to do: whoever makes a run starts a
worker, a process of its own that outlives the page. One worker a workspace carries out the queued runs, each in a
process of its own, and ends. Whatever trains holds the machine's lock meanwhile. Both locks are the operating system's
and fall with their process, however it dies.
"""

import getpass
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from data.workspace import PROJECT, workspace
from jobs.processes import this_process
from training.runs.runs import RESUMABLE, Run, State, queued_runs

_SECONDS_BETWEEN_TRIES = 0.3
_SECONDS_TO_TAKE_OVER = 10.0


def resume(run: Run) -> None:
    """Put a stopped, failed or interrupted run in line again; it goes on from its last complete checkpoint.

    Raises `ValueError` where the run is in no such state.
    """
    status = run.status()
    if status.state not in RESUMABLE:
        raise ValueError(f"a run that is {status.state.value} cannot be resumed")
    (run.folder / "stop").unlink(missing_ok=True)
    waiting = replace(status, state=State.QUEUED, queued=time.time(), pid=0, pid_started=0.0, code="", message="")
    run.write_status(replace(waiting, seconds=status.spent, started=0.0))  # to wait is no work
    start_worker()


def stop(run: Run) -> None:
    """Let a running training end after its step, with a checkpoint; take a queued one out of the line."""
    status = run.status()
    if status.at_work:
        run.ask_to_stop()
    elif status.state is State.QUEUED:
        run.ask_to_stop()  # heard by a process that takes it up in this moment
        run.write_status(replace(status, state=State.STOPPED))


def end(run: Run) -> None:
    """End the run's process at once, whatever it does: for one that was asked to stop and does not get to hear it."""
    run.ask_to_stop()
    status = run.status()
    if status.at_work:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(status.pid).kill()


def start_worker() -> None:
    """Start a detached worker; it ends at once where there is one already, or nothing to do."""
    folder = workspace() / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".worker.log").open("ab") as log:
        _start("work", log.fileno())


def keep_going() -> None:
    """Start a worker where runs wait and none is there: after the machine was switched off, say."""
    if queued_runs() and not _worker_lives():
        start_worker()


def work() -> None:
    """Carry out the queued runs of the workspace, one after the other, until none is left."""
    lock = FileLock(_worker_lock())
    with suppress(Timeout), lock.acquire(timeout=_SECONDS_TO_TAKE_OVER, poll_interval=_SECONDS_BETWEEN_TRIES):
        while (run := _next_run()) is not None:
            sent = run.status().queued
            with (run.folder / "log.txt").open("ab") as log:
                _start("run", log.fileno(), str(run.folder)).wait()
            status = run.status()
            if status.state is State.QUEUED and status.queued == sent:  # its process never got to say anything
                run.write_status(replace(status, state=State.INTERRUPTED))


@contextmanager
def turn(run: Run, *, sent_by_worker: bool = False) -> Iterator[bool]:
    """Wait in line for the machine and hold it; False where the run was asked to stop, or taken up, meanwhile."""
    lock = FileLock(_machine_lock())
    attend(run)
    while not run.asked_to_stop:
        if _is_next(run, sent_by_worker):
            try:
                lock.acquire(timeout=0)
            except Timeout:
                pass
            else:
                try:
                    yield run.status().state is State.QUEUED
                finally:
                    lock.release()
                return
        time.sleep(_SECONDS_BETWEEN_TRIES)
    yield False


def attend(run: Run) -> None:
    """Note this process as the one that carries the run out, once it is its turn."""
    status = run.status()
    if status.state is State.QUEUED:  # one that another process has taken up meanwhile stays that one's
        pid, pid_started = this_process()
        run.write_status(replace(status, pid=pid, pid_started=pid_started))


def _is_next(run: Run, sent_by_worker: bool) -> bool:
    """Whether nobody who is sure to come stands before the run. A worker sends the first of those that need one."""
    before = [other for other in queued_runs() if _since(other) < _since(run)]
    if any(other.status().attended for other in before):
        return False
    return sent_by_worker or not (before and _worker_lives())


def _since(run: Run) -> tuple[float, str]:
    return run.status().queued, run.id


def _next_run() -> Run | None:
    # one with a process is a command's, which waits for its turn by itself
    return next((run for run in queued_runs() if not run.status().pid), None)


def _worker_lives() -> bool:
    lock = FileLock(_worker_lock())
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def _worker_lock() -> Path:
    folder = workspace() / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / ".worker.lock"


def _machine_lock() -> Path:
    """The file that whoever trains holds; a person's workspaces share it, `MRC_LOCK` moves it."""
    return Path(os.environ.get("MRC_LOCK") or Path(tempfile.gettempdir(), f"mrc-training-{getpass.getuser()}.lock"))


def _start(*words: "str | int") -> subprocess.Popen[bytes]:
    command, output, *rest = words
    return subprocess.Popen(  # noqa: S603 - a list of our own words
        [sys.executable, "-m", "training", str(command), *map(str, rest)],
        cwd=PROJECT,
        env={**os.environ, "MRC_WORKSPACE": str(workspace()), "TOKENIZERS_PARALLELISM": "false"},
        stdin=subprocess.DEVNULL,
        stdout=int(output),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
