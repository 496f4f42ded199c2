"""The process that reads: a copy of one that has read the libraries, so that it begins at once, or a fresh one."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from data.apart.exchange import carry_out, limits_of
from data.workspace import PROJECT

_FORKS = sys.platform == "linux"  # beside the system libraries of a Mac forking is not safe
_POLITE = 10  # pages are drawn first
_COMMAND = (sys.executable, "-m", "data.apart")
_asking = threading.Lock()
_server: list["subprocess.Popen[str]"] = []


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
