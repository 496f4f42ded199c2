"""Files read in a process of its own: a copy of one that has read the libraries, so that it begins at once, or a fresh
one; and what ends it where it takes too much."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn, TypeVar

import psutil

from data.apart.exchange import (
    TIMES_AS_LONG,
    File,
    Limits,
    UnusableFileError,
    Work,
    ask,
    carry_out,
    limits_of,
    outcome,
)
from data.formats.opening import Proposal
from data.problems import DataError, ProblemCode
from data.workspace import PROJECT, workspace

_FORKS = sys.platform == "linux"  # beside the system libraries of a Mac forking is not safe
_POLITE = 10  # pages are drawn first
_COMMAND = (sys.executable, "-m", "data.apart")
_asking = threading.Lock()
_server: list["subprocess.Popen[str]"] = []
_SECONDS_BETWEEN_LOOKS = 0.05

R = TypeVar("R")


def carried_out(work: Work[R], files: Sequence[File], options: Mapping[str, Any]) -> R:
    """Have one kind of reading done in a process of its own.

    Raises `UnusableFileError`, also where it takes more than its `Limits` or the process ends, and `OSError` where the
    disk is full.
    """
    limits, place = Limits.of(*(file.content for file in files)), workspace()
    place.mkdir(parents=True, exist_ok=True)
    # not one of the system's temporary folders, which may be memory; what is mapped stays until it is not needed
    with limits.held_free(), TemporaryDirectory(prefix=".reading.", dir=place, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        ask(folder, work, files, options, limits)
        pid = started(folder)
        if pid is not None:
            try:
                _watch(pid, limits)
            except DataError as error:
                raise UnusableFileError(error, Proposal(work.columns())) from error
        return outcome(folder, work, limits)


def _watch(pid: int, limits: Limits) -> None:
    """Wait until the process has ended, and end it where it takes too much."""
    end = time.monotonic() + limits.seconds * TIMES_AS_LONG
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        at_first, seconds_at_first = process.memory_info().rss, _seconds(process)
        while True:
            with suppress(psutil.TimeoutExpired):
                process.wait(_SECONDS_BETWEEN_LOOKS)
                return
            if _seconds(process) - seconds_at_first > limits.seconds or time.monotonic() > end:
                _end(process, limits.exceeded(ProblemCode.NEEDS_TIME))
            if process.memory_info().rss - at_first > limits.memory:
                _end(process, limits.exceeded(ProblemCode.NEEDS_MEMORY))
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)  # it ended before it was looked at


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _end(process: psutil.Process, why: DataError) -> NoReturn:
    process.kill()
    process.wait()
    raise why


def started(folder: Path) -> int | None:
    """Start a process that carries out what a folder asks; its number, None where all is done already.

    Raises `OSError` where there can be none.
    """
    if not _FORKS:
        return fresh(folder)
    return forked(folder) if threading.active_count() == 1 else served(folder)


def make_ready() -> None:
    """Let the libraries be read before a file is given: its reading then begins at once."""
    if _FORKS and not _server and _asking.acquire(blocking=False):
        try:
            _start_server()
        finally:
            _asking.release()


def forked(folder: Path) -> int:
    """Carry it out in a copy of this process, which must do nothing else in another thread."""
    pid = os.fork()
    if pid:
        return pid
    try:
        log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT, 0o600)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.nice(_POLITE)
        limits_of(folder).hold()
        carry_out(folder)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # into the log
    finally:
        os._exit(0)  # what happened stands in the folder; nothing of the other process may be done twice


def served(folder: Path) -> int:
    """Let the server carry it out in a copy of itself."""
    with _asking:
        if not _server:
            _start_server()
        try:
            return _ask(folder)
        except (OSError, ValueError):  # it is gone
            _server.pop().kill()
            _start_server()
            return _ask(folder)


def fresh(folder: Path) -> int:
    """Carry it out in a process that reads the libraries anew."""
    with (folder / "log.txt").open("wb") as log:
        command = [*_COMMAND, str(folder)]
        return subprocess.Popen(  # noqa: S603 - a list of our own words
            command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        ).pid


def _start_server() -> None:
    """Start what copies itself for every file. It ends with this process, which holds its input."""
    server = subprocess.Popen(  # noqa: S603 - a list of our own words
        [*_COMMAND, "--serve"],
        cwd=PROJECT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    _server.append(server)


def _ask(folder: Path) -> int:
    server = _server[0]
    if server.stdin is None or server.stdout is None:
        raise ValueError("the server of readings has no pipes")
    server.stdin.write(json.dumps(str(folder)) + "\n")
    server.stdin.flush()
    return int(server.stdout.readline())


def serve() -> None:
    """Be the server: copy this process for every folder of the input, and tell the copy's number."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system takes the copies away when they end
    for line in sys.stdin:
        sys.stdout.write(f"{forked(Path(json.loads(line)))}\n")
        sys.stdout.flush()
