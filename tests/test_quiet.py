"""Commands print their own words; what the libraries say is shown to who asks for it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def run_command(*words: str) -> tuple[int, str, str]:
    """The exit status of a command, and its stdout and stderr on a terminal."""
    environment = {name: value for name, value in os.environ.items() if name not in {*QUIET, VERBOSE}}
    command = [sys.executable, "-m", *words]
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
    status, output, errors = run_command("tests.commands", json.dumps([comparison, training]))
    assert (status, errors) == (0, "")
    table = output.splitlines()[:5]
    run = output.splitlines()[5:]
    assert [line.split()[0] for line in table] == ["48", "R@1", "Dense", "validation", "stored"]
    assert (run[0].split(":")[0], run[-1].split(":")[0]) == ("run folder", "model")
    assert not [text for text in OF_LIBRARIES if text in output]


def test_verbose_shows_messages_of_libraries(experiment: Path, tmp_path: Path) -> None:
    _, _, errors = run_command("mrc_workbench", "compare", str(experiment), "--out", str(tmp_path), "--verbose")
    assert "Loading weights" in errors


def test_prints_errors_although_quiet(tmp_path: Path) -> None:
    done = run_module(*TRAINING, "--out", tmp_path / "run", "--base", tmp_path / "none")
    assert done.returncode in (1, 2)
    assert done.stderr.splitlines()[-1].startswith("error: ")
