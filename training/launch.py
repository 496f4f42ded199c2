"""Starts a training in a process of its own, which outlives the page that started it."""

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil

from data.workspace import workspace
from training.runs import Run

_PROJECT = Path(__file__).parent.parent


def launch(run: Run) -> None:
    """Start `python -m training run` detached, its output in the run's `log.txt`.

    Its process is noted at once: one that dies while it still loads libraries is seen to be gone.
    """
    with (run.folder / "log.txt").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 - a list of our own words
            [sys.executable, "-m", "training", "run", str(run.folder)],
            cwd=_PROJECT,
            env={**os.environ, "MRC_WORKSPACE": str(workspace()), "TOKENIZERS_PARALLELISM": "false"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    started = psutil.Process(process.pid).create_time()
    run.write_status(replace(run.status(), pid=process.pid, pid_started=started))


def end(run: Run) -> None:
    """End the run's process at once, whatever it does: for one that was asked to stop and does not get to hear it."""
    run.ask_to_stop()
    status = run.status()
    if status.at_work:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(status.pid).kill()
