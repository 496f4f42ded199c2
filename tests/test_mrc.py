"""The command `mrc` while its libraries are imported."""

import subprocess
import sys

import pytest

from data.workspace import PROJECT
from jobs.detached import FORKS

pytestmark = pytest.mark.slow
INTERRUPTED = """
import os, signal, sys

class CtrlC:
    def find_spec(self, name, *_):
        if name == "cyclopts":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.{handler})
sys.meta_path.insert(0, CtrlC())
from mrc import main
sys.exit(main(["--version"]))
"""


@pytest.mark.skipif(not FORKS, reason="signals are those of Linux")
@pytest.mark.parametrize(
    ("handler", "status", "told"), [("default_int_handler", 130, "Stopped.\n"), ("SIG_IGN", 0, "")]
)
def test_ctrl_c_during_imports_ends_without_a_traceback(handler: str, status: int, told: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED.replace("{handler}", handler)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (status, told)


def test_ctrl_c_is_an_exception_again_after_the_imports() -> None:
    code = "import signal; import mrc; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = [sys.executable, "-c", f"{start}; {code}"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "True\n"
