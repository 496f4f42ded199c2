"""Processes of jobs: they outlive whoever starts them, since the page may be closed and the server may end.

A process is known by its number and start time, since numbers are reused. Also here: the memory that a process holds,
and the machine and the versions that results are computed with.

`python -m mrc_workbench.data.jobs.processes` is the fork server: it has imported the libraries and only forks, so jobs
begin at once: importing torch takes a new process several seconds. The forked processes share what the server imported
while no job ran. A job runs the code on disk. The server ends with the process that started it, or after a while
without work; its jobs live on.

While it imports, it answers no request. So there are two: once the few libraries are imported that every job needs, it
forks a second server, which imports no more and is always ready for light jobs, those that need no model. Importing
takes a core from others, such as a first page: heavy libraries wait for `read_on`, or some seconds.
"""

import ctypes
import gc
import json
import os
import platform
import re
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from setproctitle import setproctitle

from mrc_workbench.data.workspace import IMPORT_ROOT, PROJECT, USER, shared_workspace, user


class Process(NamedTuple):
    """A process by its number and start time (seconds since 1970)."""

    pid: int
    started: float

    @property
    def is_alive(self) -> bool:
        try:
            process = psutil.Process(self.pid)
            return bool(process.create_time() == self.started and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return False

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it has ended. Raises `psutil.TimeoutExpired`."""
        if self.is_alive:
            psutil.Process(self.pid).wait(seconds)


def this_process() -> Process:
    """Return the current process."""
    return process_of(os.getpid())


def process_of(pid: int) -> Process:
    """Return the process that has this number now; one that has ended has no start time."""
    try:
        return Process(pid, float(psutil.Process(pid).create_time()))
    except psutil.NoSuchProcess:
        return Process(pid, 0.0)


# of mallopt(3)
_TRIM_THRESHOLD = -1
_TOP_PAD = -2
_MMAP_THRESHOLD = -3
_MMAP_MAX = -4


def hold_freed_memory() -> None:
    """Keep what is freed until this process ends. Does nothing where the C library is not glibc."""
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch asks for large pages; read with its first tensor
    _mallopt({_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 2**26})  # no block of its own for a large tensor


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Do not look for garbage meanwhile: looking through a million objects or rows takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def release_large_blocks() -> None:
    """Give back each block of 32 MiB and more that is freed from now on, whatever `hold_freed_memory` did.

    For blocks whose size always differs, as the logits of a large vocabulary: they fit no gap, and the memory held
    would grow to several times of what is in use.
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
_SOCKET_VARIABLE = "MRC_FORK_SERVER"  # the server's socket; jobs inherit it and ask the same server
_IMPORT_HEAVY = "read on"  # the request to import what is heavy
_LIGHT = "light"  # the second server's socket, beside the first one's
_SECONDS_TO_BE_READY = 1.0  # it may just be reading a library; a page does not wait for that
_SECONDS_TO_BE_LIGHT = 5.0  # until the few libraries of light jobs are read
_SECONDS_TO_FORK = 60.0
LIGHT = ("pyarrow.parquet", "pandas", "pydantic", "tomli_w", "scipy.sparse", "kiwipiepy")
HEAVY = (
    *("torch", "scipy.stats", "sklearn.metrics", "transformers.modeling_utils", "sentence_transformers"),
    *("transformers.models.bert.modeling_bert", "faiss", "numba", "transformers.trainer", "datasets", "accelerate"),
)
# what libraries look up as they are imported: a process that wants another value than the server's cannot be forked
_READ_AT_IMPORT = (
    *("CUDA", "HF_", "KMP_", "LD_", "MALLOC_", "MKL_", "NUMBA_"),
    *("OMP_", "OPENBLAS_", "PYTHON", "TORCH", "TRANSFORMERS"),
)
_ForkRequest = tuple[dict[str, Any], socket.socket]  # a request, and its connection
_SECONDS_WITHOUT_WORK = 900.0
_SECONDS_BEFORE_HEAVY = 8.0
_POLL_SECONDS = 0.2
_SECONDS_TO_RECEIVE = 5.0
# objects, and rounds of the younger ones: a job's first million are libraries and its own modules, which are no garbage
_GC_THRESHOLDS = (10_000, 20, 20)
_starting = threading.Lock()
_life_lines: list[int] = []  # the system closes them with this process, however that ends, and the servers end, too


def start_detached(module: str, *words: object, log: Path, light: bool = False) -> Process:
    """Start `python -m MODULE WORDS` as a separate process, with its output in `log`. Raises `OSError`: a full disk.

    A `light` one begins at once, with few libraries: it needs no model, or starts what does by `handed_over`.
    """
    request = _request(module, words, log)
    timeout = _SECONDS_TO_BE_LIGHT if light else _SECONDS_TO_BE_READY
    with _starting, suppress(OSError):
        if FORKS and (forked := _fork_process(request, timeout, light=light)):
            return forked
    with log.open("ab") as output:
        options = {"env": request["environment"], "stdout": output, "stderr": subprocess.STDOUT}
        fresh = start_module(module, *request["words"], start_new_session=True, **options)
    return process_of(fresh.pid)


def start_module(module: str, *words: str, **options: Any) -> "subprocess.Popen[Any]":
    """Start `python -m MODULE WORDS` where the project can be imported, with options of `Popen`."""
    command = [sys.executable, "-m", module, *words]
    return subprocess.Popen(command, cwd=IMPORT_ROOT, **{"stdin": subprocess.DEVNULL, **options})  # noqa: S603


def start_preloaded(module: str, *words: object, log: Path, timeout: float = 60.0) -> Process | None:
    """Start it with all libraries read, once they are; None where that cannot be: then they are best read here."""
    if FORKS and os.environ.get(_SOCKET_VARIABLE):
        with suppress(OSError):
            return _request_process(_request(module, words, log), timeout, light=False)
    return None


def _request(module: str, words: tuple[object, ...], log: Path) -> dict[str, Any]:
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    owner = {"MRC_WORKSPACE": str(shared_workspace()), USER: user()}
    environment = {**os.environ, **owner, "TOKENIZERS_PARALLELISM": "false"}
    return {"module": module, "words": [*map(str, words)], "environment": environment, "log": str(log.absolute())}


def prepare_fork_server() -> None:
    """Start the fork server before a job is asked for; heavy libraries follow after seconds, or at `read_on`."""
    if FORKS and not os.environ.get(_SOCKET_VARIABLE):  # asked at every drawing of a page, which waits for no one's job
        with _starting, suppress(OSError):
            if not os.environ.get(_SOCKET_VARIABLE):
                start_fork_server()


def import_heavy_libraries() -> None:
    """Let the heavy libraries be read: a job that needs them is about to be asked for."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_SECONDS_TO_BE_READY)
        connection.connect(os.environ.get(_SOCKET_VARIABLE) or os.devnull)
        _receive(connection)
        _send(connection, _IMPORT_HEAVY)


def start_fork_server() -> None:
    """Start what forks the processes of this one and of its jobs. Raises `OSError` where there cannot be one."""
    socket_path = Path(tempfile.mkdtemp(prefix="mrc-"), "socket")  # a folder that only this user can enter
    life_line, end = os.pipe()
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as light:
        for server_socket, path in ((listener, socket_path), (light, socket_path.with_name(_LIGHT))):
            server_socket.bind(str(path))
            server_socket.listen(64)
        inherited = (listener.fileno(), light.fileno(), life_line)
        options = {"stdout": subprocess.DEVNULL, "pass_fds": inherited, "start_new_session": True}
        start_module("mrc_workbench.data.jobs.processes", *map(str, inherited), **options)
    os.close(life_line)
    _life_lines.append(end)
    os.environ[_SOCKET_VARIABLE] = str(socket_path)


def _fork_process(request: dict[str, Any], timeout: float, *, light: bool) -> Process | None:
    """Start a process by the fork server, or by a new one if it has ended. None or `OSError` if that fails."""
    try:
        return _request_process(request, timeout, light=light)
    except TimeoutError:
        return None
    except OSError:
        start_fork_server()
        request["environment"][_SOCKET_VARIABLE] = os.environ[_SOCKET_VARIABLE]
        return _request_process(request, timeout, light=light)


def _request_process(request: dict[str, Any], timeout: float, *, light: bool) -> Process | None:
    socket_path = Path(os.environ.get(_SOCKET_VARIABLE) or os.devnull)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout)
        connection.connect(str(socket_path.with_name(_LIGHT) if light else socket_path))
        _receive(connection)  # that it is ready
        connection.settimeout(_SECONDS_TO_FORK)  # from here on it starts the process, if late
        _send(connection, request)
        answer = _receive(connection)
    return Process(*answer) if answer else None


def _send(connection: socket.socket, content: object) -> None:
    """Write one message: a line of JSON."""
    connection.sendall(json.dumps(content).encode() + b"\n")


def _receive(connection: socket.socket) -> Any:
    """Read one message. Raises `OSError` where the other side is gone, `ValueError` where it is no JSON."""
    with connection.makefile("rb") as file:
        line = file.readline()
    if not line:
        raise ConnectionError("the other side is gone")
    return json.loads(line)


def main() -> None:
    """Serve until no process needs it. Words of the command: both sockets and the life line, as file numbers."""
    listener, light = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    life_line = int(sys.argv[3])
    setproctitle("python -m mrc_workbench.data.jobs.processes")
    hold_freed_memory()
    gc.disable()  # what is read here stays
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forked ones: the system takes them away
    server_environment = dict(os.environ)  # before libraries add to it
    # the folder holds both sockets
    folder = Path(listener.getsockname()).parent
    first = os.getpid()
    fork_request = _serve(listener, [life_line], server_environment, [*LIGHT], 0.0)
    if not fork_request and not select.select([life_line], [], [], 0)[0]:
        fork_request = _two_servers(listener, light, life_line, server_environment)
    for server_socket in (listener, light):
        server_socket.close()
    os.close(life_line)
    if fork_request:
        request, connection = fork_request
        added = {name: value for name, value in os.environ.items() if name not in server_environment}
        _run_module(request | {"environment": added | request["environment"]}, connection)
    elif os.getpid() == first:
        shutil.rmtree(folder)


def _two_servers(
    listener: socket.socket, light: socket.socket, life_line: int, server_environment: dict[str, str]
) -> _ForkRequest | None:
    """Serve on as two processes, see above."""
    tied, tie = os.pipe()  # the second server sees by it that this one is gone
    is_second = os.fork() == 0
    os.close(tie if is_second else tied)
    if is_second:
        setproctitle("python -m mrc_workbench.data.jobs.processes light")
        listener.close()
        fork_request = _serve(light, [life_line, tied], server_environment, [], None)
    else:
        light.close()
        fork_request = _serve(
            listener, [life_line], server_environment, [*HEAVY], _SECONDS_WITHOUT_WORK, delay=_SECONDS_BEFORE_HEAVY
        )
    os.close(tied if is_second else tie)
    return fork_request


def _serve(
    listener: socket.socket,
    life_lines: list[int],
    server_environment: dict[str, str],
    pending_imports: list[str],
    seconds_idle: float | None,
    *,
    delay: float = 0.0,
) -> _ForkRequest | None:
    """Fork for every request and import what is `unread` meanwhile, but not before `held` seconds have passed.

    Returns the request in the forked process; None in the server, if a life line is cut or it is idle for too long.
    """
    children = list[Process]()
    until = time.monotonic() + delay
    while True:
        children = [child for child in children if child.is_alive]
        delay = max(0.0, until - time.monotonic())
        wait = _POLL_SECONDS if children else delay if pending_imports else seconds_idle
        ready, _, _ = select.select([listener.fileno(), *life_lines], [], [], wait)
        if listener.fileno() in ready:
            connection, _ = listener.accept()
            with suppress(OSError, ValueError):
                connection.settimeout(_SECONDS_TO_RECEIVE)
                _send(connection, "ready")
                request = _receive(connection)
                if request == _IMPORT_HEAVY:
                    until = 0.0
                elif not _environments_match(request["environment"], server_environment):
                    _send(connection, None)
                elif (pid := os.fork()) == 0:
                    return request, connection
                else:
                    children.append(process_of(pid))
            connection.close()
        elif any(line in ready for line in life_lines) or not (children or pending_imports):
            return None
        elif not children and time.monotonic() >= until:
            with suppress(Exception):  # whoever needs it is told why it cannot be read
                import_module(pending_imports.pop(0))
            gc.freeze()  # so that a collection in a forked process touches, and copies, nothing of it


def _environments_match(requested: dict[str, str], server_environment: dict[str, str]) -> bool:
    """Whether libraries read in one environment serve in the other; jobs hand on what these have added to theirs."""
    names = {name for name in (*requested, *server_environment) if name.startswith(_READ_AT_IMPORT)}
    return all(requested.get(name) in (server_environment.get(name), os.environ.get(name)) for name in names)


def _run_module(request: dict[str, Any], connection: socket.socket) -> None:
    """Go on as `python -m MODULE WORDS`, a session of its own."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    os.environ.clear()
    os.environ.update(request["environment"])
    module = request["module"]
    words = request["words"]
    setproctitle(" ".join(["python -m", module, *words]))
    _send(connection, this_process())
    connection.close()
    sys.argv = [module, *words]
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
