"""One process makes what several want; those that wait hear a wish to stop, and what was left by a kill goes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mrc_workbench.data.cache import is_sound
from mrc_workbench.data.jobs.folder import AskedToStop
from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.training.recipes.language_material import made_once

MAKER = """
import os, signal, sys, time
from pathlib import Path
from mrc_workbench.training.recipes.language_material import made_once

folder, end = Path(sys.argv[1]), sys.argv[2]

def make(new):
    new.mkdir()
    (new / "tokens").write_text("by the first")
    print("making", flush=True)
    sys.stdin.readline()
    if end == "killed":
        os.kill(os.getpid(), signal.SIGKILL)

made_once(folder, make, None)
"""


@contextmanager
def another_maker(folder: Path, end: str = "well") -> Iterator["subprocess.Popen[str]"]:
    """A process that is making the folder, until it is told to go on."""
    words = [sys.executable, "-c", MAKER, str(folder), end]
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


def not_wanted(new: Path) -> None:
    raise AssertionError(f"{new} was there already")


def test_what_is_there_and_sound_is_not_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    made_once(folder, written, None)
    made_once(folder, not_wanted, None)
    (folder / "tokens").write_text("damaged!")
    made_once(folder, written, None)
    assert (folder / "tokens").read_text() == "by the second"
    assert is_sound(folder)


@pytest.mark.slow
def test_what_another_process_makes_is_waited_for(tmp_path: Path) -> None:
    folder, told = tmp_path / "made", list[float]()
    with another_maker(folder) as process:

        def tell(share: float) -> None:
            told.append(share)
            if process.poll() is None and len(told) == 2:
                go_on(process)

        made_once(folder, not_wanted, tell)
    assert set(told) == {0.0}
    assert (folder / "tokens").read_text() == "by the first"


@pytest.mark.slow
def test_who_waits_hears_a_wish_to_stop(tmp_path: Path) -> None:
    def stop(share: float) -> None:
        raise AskedToStop

    with another_maker(tmp_path / "made") as process:
        with pytest.raises(AskedToStop):
            made_once(tmp_path / "made", not_wanted, stop)
        assert go_on(process) == 0
    assert (tmp_path / "made" / "tokens").read_text() == "by the first"


@pytest.mark.slow
def test_what_a_killed_process_left_is_no_result_and_goes(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    with another_maker(folder, "killed") as process:
        assert go_on(process) == -signal.SIGKILL
    assert not folder.exists()
    assert [*tmp_path.glob(".made.*/*/tokens")], "half made"
    made_once(folder, written, None)
    assert (folder / "tokens").read_text() == "by the second"
    assert not [*tmp_path.glob(".made.*")]


def test_who_fails_leaves_nothing(tmp_path: Path) -> None:
    def failing(new: Path) -> None:
        written(new)
        raise AskedToStop

    with pytest.raises(AskedToStop):
        made_once(tmp_path / "made", failing, None)
    assert [path.name for path in tmp_path.iterdir()] == ["made.lock"]
