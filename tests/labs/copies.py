"""Copies of the program in which a test adds or removes a lab."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from mrc_workbench.data.workspace import PROJECT

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


def run_command(program: Path, *words: str, workspace: Path) -> str:
    """Run `mrc WORDS` in a copy of the program; returns its output."""
    done = run_python(program, "-m", "mrc_workbench", *words, workspace=workspace)
    assert done.returncode == 0, done.stderr
    return done.stdout
