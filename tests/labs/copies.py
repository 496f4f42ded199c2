"""Copies of the program in which a test adds or removes a lab."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mrc_workbench.data.workspace import PROJECT

COMMANDS = """
import io, json, sys
from contextlib import redirect_stdout
from mrc_workbench.workbench.cli import main
outputs = []
for words in json.loads(sys.argv[1]):
    with redirect_stdout(io.StringIO()) as output:
        status = main(words)
    assert not status, words
    outputs.append(output.getvalue())
print(json.dumps(outputs))
"""
ROOMS = ("mrc_workbench", "data", "models", "retrieval", "training", "labs", "workbench")


def copy_program(folder: Path) -> Path:
    """Copy the program, as a checkout has it, into a folder."""
    for room in ROOMS:
        shutil.copytree(PROJECT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__", "*.nbc", "*.nbi"))
    shutil.copy(PROJECT / "app.py", folder / "app.py")
    shutil.copy(PROJECT / "pyproject.toml", folder / "pyproject.toml")
    return folder


def run_python(program: Path, *words: str, workspace: Path) -> "subprocess.CompletedProcess[str]":
    """Run Python in a copy of the program with a separate workspace."""
    environment = {**os.environ, "MRC_WORKSPACE": str(workspace), "PYTHONPATH": str(program)}
    return subprocess.run(
        [sys.executable, *words], check=False, cwd=program, env=environment, capture_output=True, text=True, timeout=120
    )


def run_commands(program: Path, *commands: Sequence[str], workspace: Path) -> list[str]:
    """Run commands, each the words after `mrc`, in one process of a copy of the program; returns their outputs."""
    done = run_python(program, "-c", COMMANDS, json.dumps(commands), workspace=workspace)
    assert done.returncode == 0, done.stderr
    outputs: list[str] = json.loads(done.stdout)
    return outputs
