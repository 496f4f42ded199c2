"""One process builds a shared folder; waiting processes react to a stop, and leftovers of a kill are deleted."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mrc_workbench.data.cache import is_intact
from mrc_workbench.data.jobs.folder import StopRequested
from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.training.recipes.language_data import create_once

CREATOR = """
import os, signal, sys, time
from pathlib import Path
from mrc_workbench.training.recipes.language_data import create_once

folder, end = Path(sys.argv[1]), sys.argv[2]

def make(new):
    new.mkdir()
    (new / "tokens").write_text("by the first")
    print("making", flush=True)
    sys.stdin.readline()
    if end == "killed":
        os.kill(os.getpid(), signal.SIGKILL)

create_once(folder, make, None)
"""


@contextmanager
def start_creator_process(folder: Path, end: str = "well") -> Iterator["subprocess.Popen[str]"]:
    """Start a process that builds the folder and waits for a signal to continue."""
    words = [sys.executable, "-c", CREATOR, str(folder), end]
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT, env=environment
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "making\n"
            yield process
        finally:
            process.kill()


def go_on(process: "subprocess.Popen[str]") -> int:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.close()
    return process.wait(60)


def written(new: Path) -> None:
    new.mkdir()
    (new / "tokens").write_text("by the second")


def fail_if_called(new: Path) -> None:
    raise AssertionError(f"{new} was there already")


def test_reuses_complete_folder(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    create_once(folder, written, None)
    create_once(folder, fail_if_called, None)
    (folder / "tokens").write_text("damaged!")
    create_once(folder, written, None)
    assert (folder / "tokens").read_text() == "by the second"
    assert is_intact(folder)


@pytest.mark.slow
def test_waits_for_another_process(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    fractions = list[float]()
    with start_creator_process(folder) as process:

        def report_progress(share: float) -> None:
            fractions.append(share)
            if process.poll() is None and len(fractions) == 2:
                go_on(process)

        create_once(folder, fail_if_called, report_progress)
    assert set(fractions) == {0.0}
    assert (folder / "tokens").read_text() == "by the first"


@pytest.mark.slow
def test_stops_while_waiting(tmp_path: Path) -> None:
    def stop(share: float) -> None:
        raise StopRequested

    with start_creator_process(tmp_path / "made") as process:
        with pytest.raises(StopRequested):
            create_once(tmp_path / "made", fail_if_called, stop)
        assert go_on(process) == 0
    assert (tmp_path / "made" / "tokens").read_text() == "by the first"


@pytest.mark.slow
def test_removes_leftovers_of_killed_process(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    with start_creator_process(folder, "killed") as process:
        assert go_on(process) == -signal.SIGKILL
    assert not folder.exists()
    assert [*tmp_path.glob(".made.*/*/tokens")], "half made"
    create_once(folder, written, None)
    assert (folder / "tokens").read_text() == "by the second"
    assert not [*tmp_path.glob(".made.*")]


def test_failure_leaves_no_folder(tmp_path: Path) -> None:
    def failing(new: Path) -> None:
        written(new)
        raise StopRequested

    with pytest.raises(StopRequested):
        create_once(tmp_path / "made", failing, None)
    assert [path.name for path in tmp_path.iterdir()] == ["made.lock"]
