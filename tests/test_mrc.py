"""The command `mrc` while its libraries are imported."""

import subprocess
import sys

import pytest

from mrc_workbench.data.jobs.processes import FORKS
from mrc_workbench.data.workspace import PROJECT

pytestmark = pytest.mark.slow
INTERRUPTED = """
import os, runpy, signal, sys

class CtrlC:
    def find_spec(self, name, *_):
        if name == "cyclopts":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.{handler})
sys.meta_path.insert(0, CtrlC())
sys.argv = ["-m", "--version"]
sys.path.insert(0, ".")
runpy.run_module("mrc_workbench", run_name="__main__", alter_sys=True)
"""


def interrupted(handler: str) -> tuple[int, str]:
    """Return the exit status and the stderr of `mrc` that gets Ctrl-C during its imports."""
    code = INTERRUPTED.replace("{handler}", handler)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stderr


@pytest.mark.skipif(not FORKS, reason="signals are those of Linux")
def test_ctrl_c_during_imports_ends_without_a_traceback() -> None:
    assert interrupted("default_int_handler") == (130, "Stopped.\n")


@pytest.mark.skipif(not FORKS, reason="signals are those of Linux")
def test_ctrl_c_during_imports_of_a_background_job_is_ignored() -> None:
    assert interrupted("SIG_IGN") == (0, "")


def test_ctrl_c_is_an_exception_again_after_the_imports() -> None:
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    check = "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    command = [sys.executable, "-c", f"{start}; import mrc_workbench.__main__; {check}"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.endswith("True\n")
