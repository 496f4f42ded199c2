"""Programs as a person runs them, without the seconds in which Python reads the libraries anew."""

import multiprocessing
import os
import runpy
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.context import ForkServerContext
from pathlib import Path
from subprocess import CompletedProcess

import psutil
import pytest

from mrc_workbench.data.jobs import processes
from mrc_workbench.data.jobs.processes import FORKS, HEAVY, import_heavy_libraries, start_detached, start_fork_server

_ready: set[str] = set()  # fork servers that have read all there is to read


def run_module(
    *words: object, environment: Mapping[str, str] | None = None, seconds: float = 300
) -> CompletedProcess[str]:
    """Run `python -m ...` from the project's folder."""
    wait_for_fork_server()
    arguments = [*map(str, words)]
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        for variable, value in (environment or {}).items():
            patch.setenv(variable, value)
        process = start_detached("tests.programs", folder, *arguments, log=folder / "log")
        try:
            process.wait(seconds)
        except psutil.TimeoutExpired:
            psutil.Process(process.pid).kill()
            raise
        status, output, errors = (
            path.read_text(encoding="utf-8") if (path := folder / name).exists() else ""
            for name in ("status", "output", "errors")
        )
        log = (folder / "log").read_text(encoding="utf-8")
    return CompletedProcess(arguments, int(status or -1), output, errors + log)


def wait_for_fork_server() -> None:
    """Wait for the fork server of all jobs to read its libraries.

    It reads them while no job works, and here one follows the other: each would read them for itself.
    """
    if not FORKS or os.environ.get("MRC_FORK_SERVER") in _ready:
        return
    if not os.environ.get("MRC_FORK_SERVER"):
        start_fork_server()
    import_heavy_libraries()
    check = f"import sys; print({set(HEAVY)} - sys.modules.keys())"
    with tempfile.TemporaryDirectory() as name:
        log = Path(name, "log")
        end = time.monotonic() + 300
        while not log.exists() or not log.read_text(encoding="utf-8").startswith("set()"):
            assert time.monotonic() < end, "the libraries were not read in time"
            time.sleep(0.3)  # without work
            log.unlink(missing_ok=True)
            if process := processes.start_preloaded("timeit", "-n1", "-r1", check, log=log):
                process.wait(60)
    _ready.add(os.environ["MRC_FORK_SERVER"])


def forks() -> ForkServerContext:
    """The arguments that start a function in a new process with its libraries imported.

    A test process has one fork server for all its files, which imports the libraries of the first request.
    """
    context = multiprocessing.get_context("forkserver")
    files = ("tests.training.test_resume", "tests.workbench.serving.test_command")
    trainers = ("mrc_workbench.training.trainers", "mrc_workbench.training.results")
    context.set_forkserver_preload([*files, "faiss", "sklearn.metrics", *trainers])
    return context


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(address: str) -> None:
    """Wait some minutes for a server to answer. Raises `TimeoutError`."""
    for _ in range(900):
        try:
            urllib.request.urlopen(address, timeout=2).read()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(address)


def kill_processes_in(folder: Path) -> None:
    """Kill all processes that work in a folder: jobs outlive their parents, and one may have handed its work to
    another.
    """
    for _ in range(3):
        for process in psutil.process_iter(["cmdline"]):
            if str(folder) in " ".join(process.info["cmdline"] or []) and process.pid != os.getpid():
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        time.sleep(0.05)  # one that was just asked for begins now


def words_of(process: psutil.Process) -> list[str]:
    """The words of a process in a list of processes; a forked one has written them over those it was started with."""
    return " ".join(process.cmdline()).split()


def _run_recorded(folder: Path, module: str, words: list[str]) -> None:
    """Run the program in this process; its output and exit status are written to the folder."""
    for stream, name in ((1, "output"), (2, "errors")):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, stream)
        os.close(file)
    sys.argv = [module, *words]
    status = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        raise
    finally:
        (folder / "status").write_text(str(status), encoding="utf-8")


if __name__ == "__main__":
    _run_recorded(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
