"""Tests of temporary folders, whose leftovers are removed after a kill, and of renamed fields."""

import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from mrc_workbench.data.files import accept_earlier_names, current_names, remove_leftovers, temporary_folder
from mrc_workbench.data.questions.read import read_paths_in_subprocess
from mrc_workbench.data.workspace import PROJECT, replacing, workspace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the system has no such locks")

_HOLDS = """
import sys, time
from pathlib import Path
from mrc_workbench.data.files import temporary_folder
from mrc_workbench.data.workspace import replacing

with temporary_folder(".reading.", Path(sys.argv[1])) as folder, replacing(Path(sys.argv[1], "a.json")) as new:
    (folder / "request.json").write_text("{}")
    new.write_text("half")
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def living(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that reads and writes files."""
    command = [sys.executable, "-c", _HOLDS, str(tmp_path)]
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait()


def kinds_in(folder: Path) -> list[str]:
    return sorted(path.name.rpartition(".")[0] for path in folder.iterdir())


@pytest.mark.slow
def test_removes_temporary_folders_of_killed_processes_only(living: "subprocess.Popen[str]", tmp_path: Path) -> None:
    assert remove_leftovers(tmp_path) == 0
    assert kinds_in(tmp_path) == [".a.json", ".reading"]
    living.send_signal(signal.SIGKILL)
    living.wait()
    assert remove_leftovers(tmp_path) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_reading_removes_leftovers_of_a_killed_reading(
    living: "subprocess.Popen[str]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MRC_WORKSPACE", str(tmp_path))
    file = tmp_path / "a.csv"
    file.write_text("질문,지문\n수도는?,서울은 수도이다.\n", encoding="utf-8")
    read_paths_in_subprocess([file])
    assert kinds_in(tmp_path) == [".a.json", ".reading", "a"]
    living.send_signal(signal.SIGKILL)
    living.wait()
    read_paths_in_subprocess([file])
    assert kinds_in(tmp_path) == [".a.json", "a"]


def test_removes_leftovers_in_user_folders_but_not_own_folder(tmp_path: Path) -> None:
    left = tmp_path / "users" / "u" / "judgements" / ".f.json.abcd1234"
    with temporary_folder(".text.", tmp_path) as folder:
        shutil.copytree(folder, left)
        assert remove_leftovers(tmp_path) == 1
        assert (folder.is_dir(), left.exists()) == (True, False)
    assert not folder.exists()


def test_removes_unlocked_folders_after_a_week(tmp_path: Path) -> None:
    young = tmp_path / ".reading.abcd1234"
    old = tmp_path / ".x.json.abcd5678"
    for folder in (young, old):
        folder.mkdir()
    long_ago = time.time() - 8 * 24 * 3600
    os.utime(old, (long_ago, long_ago))
    assert remove_leftovers(tmp_path) == 1
    assert (young.exists(), old.exists()) == (True, False)


def test_keeps_other_folders(tmp_path: Path) -> None:
    names = [".cache", "datasets", ".git.config", "..abcd1234", ".a.ABCD1234", "a.abcd1234"]
    for name in names:
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / ".link.abcd1234").symlink_to(tmp_path / "datasets", target_is_directory=True)
    assert remove_leftovers(tmp_path) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names, ".link.abcd1234"])


def test_successful_write_leaves_no_temporary_files() -> None:
    path = workspace() / "a.json"
    with replacing(path) as new:
        new.write_text("{}")
    assert [path_left.name for path_left in workspace().iterdir()] == ["a.json"]


def test_writes_without_file_locks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refused)
    with replacing(tmp_path / "a.json") as new:
        new.write_text("{}")
        assert remove_leftovers(tmp_path) == 0, "it cannot be known whether the process lives"
    assert (tmp_path / "a.json").read_text() == "{}"


@dataclass(frozen=True)
class Scores:
    metrics: int
    _earlier = accept_earlier_names({"figures": "metrics"})


class Spec(BaseModel):
    model_config = ConfigDict(extra="forbid")
    top_k: int
    _earlier = accept_earlier_names({"keep": "top_k"})


def test_dataclasses_and_models_read_earlier_names() -> None:
    assert TypeAdapter(Scores).validate_json('{"figures": 3}') == Scores(metrics=3)
    assert TypeAdapter(Scores).dump_python(Scores(3)) == {"metrics": 3}
    assert Spec.model_validate({"keep": 5}) == Spec(top_k=5)


def test_other_names_are_refused_as_before() -> None:
    with pytest.raises(ValidationError, match="depth"):
        Spec.model_validate({"keep": 5, "depth": 3})
    with pytest.raises(ValidationError):
        TypeAdapter(Scores).validate_python([3])


def test_the_current_name_applies_if_both_occur() -> None:
    values = {"figures": 1, "metrics": 2, "k": 3}
    assert current_names(values, {"figures": "metrics"}, "scores") == {"metrics": 2, "k": 3}


def test_logs_a_deprecation_line_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            current_names({"width": 1}, {"width": "max_width"}, "experiment.toml")
    message = "experiment.toml: 'width' is now 'max_width'; the earlier name is accepted until version 2.0"
    assert caplog.messages == [message]
