"""Processes of jobs, which outlive the page and the server that start them; memory, hardware and library versions.

A process is identified by its pid and start time, because pids are reused.

`python -m mrc_workbench.data.jobs.processes` is the fork server. It imports the libraries and forks, so that jobs start
without delay: a new process needs several seconds to import torch. Forked processes share the imported modules. The
server ends with the process that started it, or after some time without a request; its jobs continue.

A server cannot answer while it imports. So there are two: after the import of the few libraries that every job needs,
it forks a second server, which is always ready for light jobs, those without a model. The import of heavy libraries
waits for `import_heavy_libraries`, or some seconds, because it slows down other processes.
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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from setproctitle import setproctitle

from mrc_workbench.data.workspace import IMPORT_ROOT, PROJECT, USER, shared_workspace, user


class Process(NamedTuple):
    """A process, identified by its pid and start time (seconds since 1970)."""

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
        """Wait for its end. Raises `psutil.TimeoutExpired`."""
        if self.is_alive:
            psutil.Process(self.pid).wait(seconds)


def this_process() -> Process:
    """Return the current process."""
    return process_of(os.getpid())


def process_of(pid: int) -> Process:
    """Return the process with this pid; its start time is 0 if it has ended."""
    try:
        return Process(pid, float(psutil.Process(pid).create_time()))
    except psutil.NoSuchProcess:
        return Process(pid, 0.0)


_MALLOPT_PARAMETERS = {"trim_threshold": -1, "top_pad": -2, "mmap_threshold": -3, "mmap_max": -4}  # of mallopt(3)


def hold_freed_memory() -> None:
    """Keep freed memory until this process ends. Does nothing if the C library is not glibc."""
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # large pages; torch reads it with its first tensor
    _mallopt(mmap_max=0, trim_threshold=2**31 - 1, top_pad=2**26)  # no separate mappings for large tensors


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection in the block: with a million objects it takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def release_large_blocks() -> None:
    """Return freed blocks of at least 32 MiB to the system, because blocks of varying size could not be reused."""
    _mallopt(mmap_threshold=2**25, mmap_max=2**16)  # the highest threshold that glibc allows


def _mallopt(**values: int) -> None:
    with suppress(OSError, AttributeError):
        for name, value in values.items():
            ctypes.CDLL(None).mallopt(_MALLOPT_PARAMETERS[name], value)


def versions(libraries: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of Python and of the installed ones of the libraries."""
    installed = {"python": platform.python_version()}
    for library in libraries:
        with suppress(PackageNotFoundError):
            installed[library] = version(library)
    return installed


def hardware() -> dict[str, Any]:
    """Return system, processor, memory and GPUs of this machine; no GPUs unless torch has been imported."""
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
    """Return this project's git commit, with `-dirty` for changed files; empty if it is not a checkout."""
    if not (PROJECT / ".git").exists():
        return ""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        run = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return run.stdout.strip()


PROGRAM = "mrc_workbench"  # `python -m mrc_workbench` runs the commands of the project
# forking is not safe with the system libraries of macOS, or after CUDA was used
FORKS = sys.platform == "linux" and not Path("/proc/driver/nvidia").exists()
_SOCKET_VARIABLE = "MRC_FORK_SERVER"  # the server's socket; jobs inherit it and use the same server
_IMPORT_HEAVY = "import"  # the request to import the heavy libraries
_LIGHT = "light"  # the name of the second server's socket, in the same folder
_SECONDS_TO_BE_READY = 1.0  # the server may be importing a library; a page does not wait longer
_SECONDS_TO_BE_LIGHT = 5.0  # for the import of the libraries of light jobs
_SECONDS_TO_FORK = 60.0  # also for the import of all libraries
LIGHT = ("pyarrow.parquet", "pandas", "pydantic", "tomli_w", "scipy.sparse", "kiwipiepy")
HEAVY = (
    *("torch", "scipy.stats", "sklearn.metrics", "transformers.modeling_utils", "sentence_transformers"),
    *("transformers.models.bert.modeling_bert", "faiss", "numba", "transformers.trainer", "datasets", "accelerate"),
)
# libraries read these variables when imported: a process with other values than the server cannot be forked from it
_READ_AT_IMPORT = (
    *("CUDA", "HF_", "KMP_", "LD_", "MALLOC_", "MKL_", "NUMBA_"),
    *("OMP_", "OPENBLAS_", "PYTHON", "TORCH", "TRANSFORMERS"),
)
_ForkRequest = tuple[dict[str, Any], socket.socket]  # a request and its connection
_SECONDS_WITHOUT_WORK = 900.0
_SECONDS_BEFORE_HEAVY = 8.0
_POLL_SECONDS = 0.2
_SECONDS_TO_RECEIVE = 5.0
# higher than the defaults: a job's first million objects are modules, which are no garbage
_GC_THRESHOLDS = (10_000, 20, 20)
_starting = threading.Lock()
_life_lines: list[int] = []  # the system closes them when this process ends; then the servers end


def start_detached(module: str, *words: object, log: Path, light: bool = False) -> Process:
    """Start `python -m MODULE WORDS` as a separate process with its output in `log`. Raises `OSError`: full disk.

    A `light` process starts without delay and with few libraries: it needs no model, or calls `start_preloaded`.
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
    """Start `python -m MODULE WORDS` in the project's folder, with options of `Popen`."""
    command = [sys.executable, "-m", module, *words]
    return subprocess.Popen(command, cwd=IMPORT_ROOT, **{"stdin": subprocess.DEVNULL, **options})  # noqa: S603


def start_preloaded(module: str, *words: object, log: Path) -> Process | None:
    """Start a process with all libraries imported, after waiting for them; None if there is no fork server."""
    if FORKS and os.environ.get(_SOCKET_VARIABLE):
        with suppress(OSError):
            return _request_process(_request(module, words, log), _SECONDS_TO_FORK, light=False)
    return None


def _request(module: str, words: tuple[object, ...], log: Path) -> dict[str, Any]:
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    owner = {"MRC_WORKSPACE": str(shared_workspace()), USER: user()}
    environment = {**os.environ, **owner, "TOKENIZERS_PARALLELISM": "false"}
    return {"module": module, "words": [*map(str, words)], "environment": environment, "log": str(log.absolute())}


def prepare_fork_server() -> None:
    """Start the fork server before the first job."""
    if FORKS and not os.environ.get(_SOCKET_VARIABLE):  # checked before the lock: every run of a page calls this
        with _starting, suppress(OSError):
            if not os.environ.get(_SOCKET_VARIABLE):
                start_fork_server()


def import_heavy_libraries() -> None:
    """Have the server import the heavy libraries, before a job that needs them."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_SECONDS_TO_BE_READY)
        connection.connect(os.environ.get(_SOCKET_VARIABLE) or os.devnull)
        _receive(connection)
        _send(connection, _IMPORT_HEAVY)


def start_fork_server() -> None:
    """Start the server that forks processes for this process and its jobs. Raises `OSError` if that fails."""
    socket_path = Path(tempfile.mkdtemp(prefix="mrc-"), "socket")  # a folder that only this user can access
    life_line, write_end = os.pipe()
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as light:
        for server_socket, path in ((listener, socket_path), (light, socket_path.with_name(_LIGHT))):
            server_socket.bind(str(path))
            server_socket.listen(64)
        inherited = (listener.fileno(), light.fileno(), life_line)
        options = {"stdout": subprocess.DEVNULL, "pass_fds": inherited, "start_new_session": True}
        start_module("mrc_workbench.data.jobs.processes", *map(str, inherited), **options)
    os.close(life_line)
    _life_lines.append(write_end)
    os.environ[_SOCKET_VARIABLE] = str(socket_path)


def _fork_process(request: dict[str, Any], timeout: float, *, light: bool) -> Process | None:
    """Fork a process from the server, or a new server if it has ended. Returns None or raises `OSError` on failure."""
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
        _receive(connection)  # ready
        connection.settimeout(_SECONDS_TO_FORK)  # the server will start the process after this request
        _send(connection, request)
        answer = _receive(connection)
    return Process(*answer) if answer else None


def _send(connection: socket.socket, content: object) -> None:
    connection.sendall(json.dumps(content).encode() + b"\n")


def _receive(connection: socket.socket) -> Any:
    """Read a message, a line of JSON. Raises `OSError` if the connection is closed, `ValueError` if it is no JSON."""
    with connection.makefile("rb") as file:
        line = file.readline()
    if not line:
        raise ConnectionError("the connection is closed")
    return json.loads(line)


def main() -> None:
    """Run the fork server. Arguments: the file descriptors of both sockets and the life line."""
    listener, light = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    life_line = int(sys.argv[3])
    setproctitle("python -m mrc_workbench.data.jobs.processes")
    hold_freed_memory()
    gc.disable()  # imported modules are no garbage
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombie processes
    server_environment = dict(os.environ)  # before libraries add to it
    socket_folder = Path(listener.getsockname()).parent
    first_pid = os.getpid()
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
    elif os.getpid() == first_pid:
        shutil.rmtree(socket_folder)


def _two_servers(
    listener: socket.socket, light: socket.socket, life_line: int, server_environment: dict[str, str]
) -> _ForkRequest | None:
    read_end, write_end = os.pipe()  # closed when the first server ends; then the second one ends
    is_second = os.fork() == 0
    os.close(write_end if is_second else read_end)
    if is_second:
        setproctitle("python -m mrc_workbench.data.jobs.processes light")
        listener.close()
        fork_request = _serve(light, [life_line, read_end], server_environment, [], None)
    else:
        light.close()
        fork_request = _serve(
            listener, [life_line], server_environment, [*HEAVY], _SECONDS_WITHOUT_WORK, delay=_SECONDS_BEFORE_HEAVY
        )
    os.close(read_end if is_second else write_end)
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
    """Fork for every request, and import the pending libraries between requests after `delay` seconds.

    Returns the request in the forked process; None in the server if a life line is closed or it is idle for too long.
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
            with suppress(Exception):  # the job that needs it will report the error
                import_module(pending_imports.pop(0))
            gc.freeze()  # the garbage collector of a fork must not copy memory pages of the server


def _environments_match(requested: dict[str, str], server_environment: dict[str, str]) -> bool:
    """Whether libraries imported in the server's environment, with their additions, are valid in the requested one."""
    names = {name for name in (*requested, *server_environment) if name.startswith(_READ_AT_IMPORT)}
    return all(requested.get(name) in (server_environment.get(name), os.environ.get(name)) for name in names)


def _run_module(request: dict[str, Any], connection: socket.socket) -> None:
    """Continue as `python -m MODULE WORDS` in a new session."""
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
