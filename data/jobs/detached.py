"""A process that outlives whoever starts it: the page may be closed, the server may end."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from mrc_workbench.data.jobs.fork_server import READ_ON, received, send
from mrc_workbench.data.jobs.machine import Process, process_of
from mrc_workbench.data.workspace import IMPORT_ROOT, USER, shared_workspace, user

# Beside the system libraries of a Mac forking is not safe, nor is it once CUDA is in use.
PROGRAM = "mrc_workbench"  # `python -m mrc_workbench` runs the commands of the project
FORKS = sys.platform == "linux" and not Path("/proc/driver/nvidia").exists()
_PLACE = "MRC_FORK_SERVER"  # the server's socket; jobs inherit it and ask the same server
_LIGHT = "light"  # the second server's socket, beside the first one's
_SECONDS_TO_BE_READY = 1.0  # it may just be reading a library; a page does not wait for that
_SECONDS_TO_BE_LIGHT = 5.0  # until the few libraries of light jobs are read
_SECONDS_TO_FORK = 60.0
_starting = threading.Lock()
_life_lines: list[int] = []  # the system closes them with this process, however that ends, and the servers end, too


def detached(module: str, *words: object, log: Path, light: bool = False) -> Process:
    """Start `python -m MODULE WORDS` on its own; what it writes is added to `log`. Raises `OSError`: a full disk.

    A `light` one begins at once, with few libraries read: it needs no model, or asks for what does by `handed_over`.
    """
    request = _request(module, words, log)
    if FORKS and (forked := _forked(request, light=light)):
        return forked
    with log.open("ab") as output:
        fresh = subprocess.Popen(  # noqa: S603 - a list of our own words
            [sys.executable, "-m", module, *request["words"]],
            cwd=IMPORT_ROOT,
            env=request["environment"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return process_of(fresh.pid)


def handed_over(module: str, *words: object, log: Path, patience: float = 60.0) -> Process | None:
    """Start it with all libraries read, once they are; None where that cannot be: then they are best read here."""
    if FORKS and os.environ.get(_PLACE):
        with suppress(OSError):
            return _answer(_request(module, words, log), patience, light=False)
    return None


def _request(module: str, words: tuple[object, ...], log: Path) -> dict[str, Any]:
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    whose = {"MRC_WORKSPACE": str(shared_workspace()), USER: user()}
    environment = {**os.environ, **whose, "TOKENIZERS_PARALLELISM": "false"}
    return {"module": module, "words": [*map(str, words)], "environment": environment, "log": str(log.absolute())}


def make_ready() -> None:
    """Let the libraries be read before anybody asks for a job: the first one then begins as soon as the others.

    The heavy ones are read once `read_on` says so, or after some seconds.
    """
    if not FORKS or os.environ.get(_PLACE):  # asked at every drawing of a page, which waits for no one's job
        return
    with _starting, suppress(OSError):
        if not os.environ.get(_PLACE):
            start_fork_server()


def read_on() -> None:
    """Let the heavy libraries be read: a job that needs them is about to be asked for."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_SECONDS_TO_BE_READY)
        connection.connect(os.environ.get(_PLACE) or os.devnull)
        received(connection)
        send(connection, READ_ON)


def start_fork_server() -> None:
    """Start what forks the processes of this one and of its jobs. Raises `OSError` where there cannot be one."""
    place = Path(tempfile.mkdtemp(prefix="mrc-"), "socket")  # a folder that only this user can enter
    life_line, end = os.pipe()
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as light:
        for one, path in ((listener, place), (light, place.with_name(_LIGHT))):
            one.bind(str(path))
            one.listen(64)
        inherited = (listener.fileno(), light.fileno(), life_line)
        subprocess.Popen(  # noqa: S603 - a list of our own words
            [sys.executable, "-m", "mrc_workbench.data.jobs.fork_server", *map(str, inherited)],
            cwd=IMPORT_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=inherited,
            start_new_session=True,
        )
    os.close(life_line)
    _life_lines.append(end)
    os.environ[_PLACE] = str(place)


def _forked(request: dict[str, Any], *, light: bool) -> Process | None:
    """Start it by the fork server; None where that cannot be."""
    patience = _SECONDS_TO_BE_LIGHT if light else _SECONDS_TO_BE_READY
    with _starting, suppress(OSError):
        try:
            return _answer(request, patience, light=light)
        except TimeoutError:
            return None
        except OSError:  # there is none, or none any more
            start_fork_server()
            request["environment"][_PLACE] = os.environ[_PLACE]
            return _answer(request, patience, light=light)
    return None


def _answer(request: dict[str, Any], patience: float, *, light: bool) -> Process | None:
    place = Path(os.environ.get(_PLACE) or os.devnull)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(patience)
        connection.connect(str(place.with_name(_LIGHT) if light else place))
        received(connection)  # that it is ready
        connection.settimeout(_SECONDS_TO_FORK)  # from here on it starts the process, if late
        send(connection, request)
        answer = received(connection)
    return Process(*answer) if answer else None
