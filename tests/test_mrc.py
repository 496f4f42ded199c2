"""The command `mrc`: its own words, messages of libraries on request, and Ctrl-C while libraries are imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mrc_workbench.data.jobs.processes import FORKS
from mrc_workbench.data.terminal import QUIET, VERBOSE
from mrc_workbench.data.workspace import PROJECT
from tests.programs import run_module
from tests.tiny_models import build_bi_encoder

pytestmark = pytest.mark.slow
EXPERIMENT = """
data = "sample"
split = "validation"
ks = [1]

[[retriever]]
kind = "dense"
name = "Dense"
model = {model}
"""
TRAINING = ("mrc_workbench", "train", "cross-encoder", "--data", "sample", "--base", "starter", "--epochs", "0.2")
OF_LIBRARIES = ("Loading weights", "LOAD REPORT", "it/s]", "Warning", "dtype", "'train_runtime'")
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


def run_python(*words: str) -> tuple[int, str, str]:
    """Return the exit status, stdout and stderr of a Python process with the variables of a user's terminal."""
    environment = {name: value for name, value in os.environ.items() if name not in {*QUIET, VERBOSE}}
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("experiment")
    model = folder / "model"
    build_bi_encoder(model)
    path = folder / "experiment.toml"
    path.write_text(EXPERIMENT.format(model=f'"{model}"'), encoding="utf-8")
    return path


def test_commands_print_their_own_words_and_nothing_else(experiment: Path, tmp_path: Path) -> None:
    """A comparison prints its table and split, a training its folder and its model; one process runs both."""
    comparison = ["mrc_workbench", "compare", str(experiment), "--out", str(tmp_path / "out"), "--progress", "none"]
    training = [*TRAINING, "--out", str(tmp_path / "run"), "--progress", "none"]
    status, output, errors = run_python("-m", "tests.commands", json.dumps([comparison, training]))
    assert (status, errors) == (0, "")
    table = output.splitlines()[:5]
    run = output.splitlines()[5:]
    assert [line.split()[0] for line in table] == ["48", "R@1", "Dense", "validation", "stored"]
    assert (run[0].split(":")[0], run[-1].split(":")[0]) == ("run folder", "model")
    assert not [text for text in OF_LIBRARIES if text in output]


def test_verbose_shows_messages_of_libraries(experiment: Path, tmp_path: Path) -> None:
    _, _, errors = run_python("-m", "mrc_workbench", "compare", str(experiment), "--out", str(tmp_path), "--verbose")
    assert "Loading weights" in errors


def test_prints_errors_although_quiet(tmp_path: Path) -> None:
    done = run_module(*TRAINING, "--out", tmp_path / "run", "--base", tmp_path / "none")
    assert done.returncode in (1, 2)
    assert done.stderr.splitlines()[-1].startswith("error: ")


def interrupted(handler: str) -> tuple[int, str]:
    """Return the exit status and the stderr of `mrc` that gets Ctrl-C during its imports."""
    status, _, errors = run_python("-c", INTERRUPTED.replace("{handler}", handler))
    return status, errors


@pytest.mark.skipif(not FORKS, reason="signals are those of Linux")
def test_ctrl_c_during_imports_ends_without_a_traceback() -> None:
    assert interrupted("default_int_handler") == (130, "Stopped.\n")


@pytest.mark.skipif(not FORKS, reason="signals are those of Linux")
def test_ctrl_c_during_imports_of_a_background_job_is_ignored() -> None:
    assert interrupted("SIG_IGN") == (0, "")


def test_ctrl_c_is_an_exception_again_after_the_imports() -> None:
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    check = "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    _, output, _ = run_python("-c", f"{start}; import mrc_workbench.__main__; {check}")
    assert output.endswith("True\n")
