"""Processes of jobs: they outlive whoever starts them, since the page may be closed and the server may end.

A process is known by its number and start time, since the number may be given to another one later. Also here: the
memory that a process holds, and with what machine and which versions something was computed."""

import ctypes
import gc
import json
import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from mrc_workbench.data.workspace import IMPORT_ROOT, PROJECT, USER, shared_workspace, user


class Process(NamedTuple):
    """A process by its number and start time (seconds since 1970)."""

    pid: int
    started: float

    @property
    def lives(self) -> bool:
        try:
            process = psutil.Process(self.pid)
            return bool(process.create_time() == self.started and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return False

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it has ended. Raises `psutil.TimeoutExpired`."""
        if self.lives:
            psutil.Process(self.pid).wait(seconds)


def this_process() -> Process:
    """Return the process that asks."""
    return process_of(os.getpid())


def process_of(pid: int) -> Process:
    """Return the process that has this number now; one that has ended has no start time."""
    try:
        return Process(pid, float(psutil.Process(pid).create_time()))
    except psutil.NoSuchProcess:
        return Process(pid, 0.0)


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4  # of mallopt(3)


def hold_freed_memory() -> None:
    """Keep what is freed until this process ends. Does nothing where the C library is not glibc."""
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch asks for large pages; read with its first tensor
    # no block of its own for a large tensor
    _mallopt({_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 2**26})


@contextmanager
def without_collections() -> Iterator[None]:
    """Do not look for garbage meanwhile: looking through a million objects or rows takes a third of the time."""
    looks = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looks:
            gc.enable()


def give_back_large_blocks() -> None:
    """Of what is freed from now on, give back each block of 32 MiB and more, whatever `hold_freed_memory` said.

    For blocks that have another size every time, as the logits of a large vocabulary: the gaps that they leave fit
    nothing, and what is held would grow to several times of what is in use.
    """
    _mallopt({_MMAP_THRESHOLD: 2**25, _MMAP_MAX: 2**16})  # the highest threshold that glibc allows


def _mallopt(values: Mapping[int, int]) -> None:
    with suppress(OSError, AttributeError):
        for parameter, value in values.items():
            ctypes.CDLL(None).mallopt(parameter, value)


def versions(libraries: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of Python and of those of the libraries that are installed."""
    installed = {"python": platform.python_version()}
    for library in libraries:
        with suppress(PackageNotFoundError):
            installed[library] = version(library)
    return installed


def hardware() -> dict[str, Any]:
    """Return what this machine computes with. GPUs are those torch sees, none where nothing needed torch."""
    torch = sys.modules.get("torch")
    model = None
    with suppress(OSError):  # not Linux
        cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        model = re.search(r"^model name\s*:\s*(.+)$", cpu, re.MULTILINE)
    return {
        "system": platform.platform(),
        "processor": model[1].strip() if model else platform.processor() or platform.machine(),
        "physical_cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(),
        "memory": psutil.virtual_memory().total,  # bytes
        "gpus": [torch.cuda.get_device_name(gpu) for gpu in range(torch.cuda.device_count())] if torch else [],
    }


def commit() -> str:
    """Return this project's git commit, with `-dirty` where files differ from it; empty where it is no checkout."""
    if not (PROJECT / ".git").exists():
        return ""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        run = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return run.stdout.strip()


# Beside the system libraries of a Mac forking is not safe, nor is it once CUDA is in use.
PROGRAM = "mrc_workbench"  # `python -m mrc_workbench` runs the commands of the project
FORKS = sys.platform == "linux" and not Path("/proc/driver/nvidia").exists()
_PLACE = "MRC_FORK_SERVER"  # the server's socket; jobs inherit it and ask the same server
READ_ON = "read on"  # what a server is told that waits with what is heavy
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
        options = {"env": request["environment"], "stdout": output, "stderr": subprocess.STDOUT}
        fresh = start_module(module, *request["words"], start_new_session=True, **options)
    return process_of(fresh.pid)


def start_module(module: str, *words: str, **options: Any) -> "subprocess.Popen[Any]":
    """Start `python -m MODULE WORDS` where the project can be imported, with options of `Popen`."""
    command = [sys.executable, "-m", module, *words]
    return subprocess.Popen(command, cwd=IMPORT_ROOT, **{"stdin": subprocess.DEVNULL, **options})  # noqa: S603


def handed_over(module: str, *words: object, log: Path, patience: float = 60.0) -> Process | None:
    """Start it with all libraries read, once they are; None where that cannot be: then they are best read here."""
    if FORKS and os.environ.get(_PLACE):
        with suppress(OSError):
            return _answer(_request(module, words, log), patience, light=False)
    return None


def _request(module: str, words: tuple[object, ...], log: Path) -> dict[str, Any]:
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    owner = {"MRC_WORKSPACE": str(shared_workspace()), USER: user()}
    environment = {**os.environ, **owner, "TOKENIZERS_PARALLELISM": "false"}
    return {"module": module, "words": [*map(str, words)], "environment": environment, "log": str(log.absolute())}


def make_ready() -> None:
    """Start the fork server before a job is asked for; heavy libraries follow after seconds, or at `read_on`."""
    if FORKS and not os.environ.get(_PLACE):  # asked at every drawing of a page, which waits for no one's job
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
        options = {"stdout": subprocess.DEVNULL, "pass_fds": inherited, "start_new_session": True}
        start_module("mrc_workbench.data.jobs.fork_server", *map(str, inherited), **options)
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


def send(connection: socket.socket, content: object) -> None:
    """Write one message: a line of JSON."""
    connection.sendall(json.dumps(content).encode() + b"\n")


def received(connection: socket.socket) -> Any:
    """Read one message. Raises `OSError` where the other side is gone, `ValueError` where it is no JSON."""
    with connection.makefile("rb") as file:
        line = file.readline()
    if not line:
        raise ConnectionError("the other side is gone")
    return json.loads(line)
