"""One process builds a shared folder; waiting ones react to a stop, and leftovers of a kill are deleted."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from mrc_workbench.data.cache import is_intact
from mrc_workbench.data.jobs.folder import StopRequested
from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.training.recipes.language_data import create_once
from tests.training.worlds import run_python

KILLED_CREATOR = """
import os, signal, sys
from pathlib import Path
from mrc_workbench.training.recipes.language_data import create_once

def make(new):
    new.mkdir()
    (new / "tokens").write_text("by the first")
    os.kill(os.getpid(), signal.SIGKILL)

create_once(Path(sys.argv[1]), make, None)
"""


@contextmanager
def creating(folder: Path) -> Iterator[Event]:
    """Build the folder under a lock, as another process does, until the event is set."""
    begun = Event()
    go_on = Event()

    def make(new: Path) -> None:
        new.mkdir()
        (new / "tokens").write_text("by the first")
        begun.set()
        assert go_on.wait(60)

    thread = Thread(target=create_once, args=(folder, make, None))
    thread.start()
    try:
        assert begun.wait(60)
        yield go_on
    finally:
        go_on.set()
        thread.join()


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
    with creating(folder) as go_on:

        def report_progress(share: float) -> None:
            fractions.append(share)
            if len(fractions) == 2:
                go_on.set()

        create_once(folder, fail_if_called, report_progress)
    assert set(fractions) == {0.0}
    assert (folder / "tokens").read_text() == "by the first"


@pytest.mark.slow
def test_stops_while_waiting(tmp_path: Path) -> None:
    def stop(share: float) -> None:
        raise StopRequested

    with creating(tmp_path / "made"), pytest.raises(StopRequested):
        create_once(tmp_path / "made", fail_if_called, stop)
    assert (tmp_path / "made" / "tokens").read_text() == "by the first"


@pytest.mark.slow
def test_removes_leftovers_of_killed_process(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    killed = run_python("-c", KILLED_CREATOR, str(folder), environment=os.environ | {"PYTHONPATH": str(PROJECT)})
    assert killed.returncode == -signal.SIGKILL
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
