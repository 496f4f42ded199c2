"""Tests of detached processes: the fork server, new processes without it, and reused memory."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from mrc_workbench.data.jobs import processes
from mrc_workbench.data.workspace import PROJECT, workspace
from tests.programs import run_module, wait_for_fork_server, words_of
from tests.training.worlds import wait_until

pytestmark = pytest.mark.slow

ABOUT_ITSELF = """
import json, os, sys
print(json.dumps({"session": os.getsid(0), "folder": os.getcwd(), "workspace": os.environ["MRC_WORKSPACE"],
                  "torch": "torch" in sys.modules, "ours": "mrc_workbench.data.store" in sys.modules}))
"""


@contextmanager
def running_server() -> Iterator[psutil.Process]:
    """Start a fork server; it ends when its life line is closed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_FORK_SERVER", "")
        before = {child.pid for child in psutil.Process().children()}
        processes.start_fork_server()
        socket_path = Path(os.environ["MRC_FORK_SERVER"])
        (started,) = [child for child in psutil.Process().children() if child.pid not in before]
        yield started
        os.close(processes._life_lines.pop())
        started.wait(30)
        assert not socket_path.parent.exists()


@pytest.fixture(scope="module")
def server() -> Iterator[psutil.Process]:
    """The fork server of the tests that do not kill it."""
    with running_server() as started:
        yield started


@pytest.fixture
def fresh_server() -> Iterator[psutil.Process]:
    with running_server() as started:
        yield started


def run(log: Path, code: str) -> processes.Process:
    return processes.start_detached("timeit", "-n1", "-r1", code, log=log)


def asleep(folder: Path) -> processes.Process:
    return run(folder / "log.txt", "import time; time.sleep(60)")


def parent(process: processes.Process) -> int:
    number = psutil.Process(process.pid).ppid()
    psutil.Process(process.pid).kill()
    process.wait(10)
    return number


# The first two tests use the fork server of all files, which imports its libraries once: no other server runs yet
def test_server_imports_libraries_but_never_own_modules(tmp_path: Path) -> None:
    wait_for_fork_server()
    libraries = {library.split(".")[0] for library in (*processes.LIGHT, *processes.HEAVY)}
    check = f"import sys; print(sorted({libraries} - sys.modules.keys()), 'mrc_workbench.data.store' in sys.modules)"
    run(tmp_path / "log.txt", check).wait(60)
    assert (tmp_path / "log.txt").read_text().startswith("[] False")
    log = tmp_path / "of a job.txt"
    code = "from pathlib import Path; from mrc_workbench.data.jobs.processes import start_detached"
    code += f"; start_detached('timeit', '-n1', '-r1', {check!r}, log=Path({str(log)!r})).wait(60)"
    run(tmp_path / "job.txt", code).wait(60)
    assert log.read_text().startswith("[]"), "jobs of a job have the libraries, too"


def test_passes_arguments_and_exit_status() -> None:
    done = run_module("mrc_workbench", "data", "inspect", "no such file")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no such file" in done.stderr
    assert run_module("timeit", "-n1", "-r1", "print('text')").stdout.startswith("text\n")


def test_forked_process_runs_the_requested_program(server: psutil.Process, tmp_path: Path) -> None:
    process = run(tmp_path / "new" / "log.txt", ABOUT_ITSELF)
    process.wait(60)
    about = json.loads((tmp_path / "new" / "log.txt").read_text().splitlines()[0])
    folders = {"folder": str(PROJECT), "workspace": str(workspace())}
    assert about == {"session": process.pid, "torch": False, "ours": False, **folders}
    assert not process.is_alive
    sleeping = asleep(tmp_path)
    assert words_of(psutil.Process(sleeping.pid))[:4] == ["python", "-m", "timeit", "-n1"]
    assert parent(sleeping) == server.pid


def test_light_job_starts_before_libraries_load(fresh_server: psutil.Process, tmp_path: Path) -> None:
    def has_read_torch() -> bool:
        return any("torch" in Path(mapped.path).parts for mapped in fresh_server.memory_maps())

    processes.start_detached("timeit", "-n1", "-r1", ABOUT_ITSELF, log=tmp_path / "light.txt", light=True).wait(60)
    assert json.loads((tmp_path / "light.txt").read_text().splitlines()[0])["torch"] is False
    assert not has_read_torch()
    processes.import_heavy_libraries()
    wait_until(has_read_torch)
    words = ("timeit", "-n1", "-r1", "import time; time.sleep(60)")
    sleeping = processes.start_preloaded(*words, log=tmp_path / "log.txt")
    assert sleeping is not None
    assert parent(sleeping) == fresh_server.pid


def test_returns_none_without_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_FORK_SERVER", "")
    assert processes.start_preloaded("timeit", "1", log=tmp_path / "log.txt") is None
    monkeypatch.setenv("MRC_FORK_SERVER", str(tmp_path / "gone"))
    assert processes.start_preloaded("timeit", "1", log=tmp_path / "log.txt") is None


def test_library_variables_skip_server(server: psutil.Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:10")
    assert parent(asleep(tmp_path)) == os.getpid()
    monkeypatch.undo()


def test_runs_the_same_without_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "FORKS", False)
    process = run(tmp_path / "log.txt", ABOUT_ITSELF)
    process.wait(60)
    assert json.loads((tmp_path / "log.txt").read_text().splitlines()[0])["session"] == process.pid
    assert parent(asleep(tmp_path)) == os.getpid()


def test_does_not_wait_for_a_blocked_server(server: psutil.Process, tmp_path: Path) -> None:
    server.suspend()
    try:
        assert parent(asleep(tmp_path)) == os.getpid()
    finally:
        server.resume()
    assert parent(asleep(tmp_path)) == server.pid  # pending requests are not started later
    assert "timeit" not in " ".join(" ".join(child.cmdline()) for child in server.children())


def test_restarts_a_killed_server_and_jobs_survive(
    fresh_server: psutil.Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_SECONDS_TO_BE_READY", 30.0)  # slow machines
    gone = os.environ["MRC_FORK_SERVER"]
    fresh_server.kill()
    fresh_server.wait(30)
    process = asleep(tmp_path)
    other = psutil.Process(process.pid).parent()
    assert other is not None
    assert other.pid not in (fresh_server.pid, os.getpid())
    assert os.environ["MRC_FORK_SERVER"] != gone
    shutil.rmtree(Path(gone).parent)
    os.close(processes._life_lines.pop())
    other.wait(30)
    assert process.is_alive
    psutil.Process(process.pid).kill()


FAULTS = """
import resource, sys
import numpy as np
from mrc_workbench.data.jobs.processes import release_large_blocks, hold_freed_memory

if sys.argv[1] != "plain":
    hold_freed_memory()
if sys.argv[1] == "released":
    release_large_blocks()

def step():
    return sum(float(np.ones(2**23)[-1]) for _ in range(5))  # 64 MiB each, freed at once

step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="another C library than glibc")
def test_reuses_freed_memory() -> None:
    faults = count_page_faults(FAULTS, "held")
    assert faults * 10 < count_page_faults(FAULTS, "plain")
    assert faults * 10 < count_page_faults(FAULTS, "released")


def count_page_faults(script: str, mode: str) -> int:
    command = [sys.executable, "-c", script, mode]
    return int(subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout)
