"""A folder of results is replaced as a whole, and what a user keeps in it stays."""

import errno
import json
import os
from pathlib import Path

import pytest

from mrc_workbench.data.workspace import MANIFEST, replacing_folder


def write(folder: Path, **files: str) -> None:
    with replacing_folder(folder, last="scores.json") as new:
        for name, text in files.items():
            path = new / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)


def content(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def test_files_of_the_manifest_are_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write(folder, **{"scores.json": "1", "old.trec": "1", "beir__corpus": "1"})
    write(folder, **{"scores.json": "2", "new.trec": "2"})
    assert content(folder) == {"scores.json": "2", "new.trec": "2"}
    assert json.loads((folder / MANIFEST).read_text()) == {"files": [MANIFEST, "new.trec", "scores.json"]}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_other_files_stay(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write(folder, **{"scores.json": "1", "beir__corpus": "1", "beir__queries": "1"})
    (folder / "notes.txt").write_text("mine")
    (folder / "beir" / "mine.txt").write_text("mine")
    write(folder, **{"scores.json": "2", "new__corpus": "2"})
    assert content(folder) == {
        "scores.json": "2",
        "new/corpus": "2",
        "notes.txt": "mine",
        "beir/mine.txt": "mine",
    }
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_a_shell_in_the_folder_stays_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    monkeypatch.chdir(folder)
    before = folder.stat().st_ino
    write(Path(), **{"scores.json": "1"})
    assert folder.stat().st_ino == before
    assert content(folder) == {"scores.json": "1"}


@pytest.mark.parametrize("others", [{}, {"notes.txt": "mine"}])
def test_an_error_changes_nothing(others: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write(folder, **{"scores.json": "1"})
    for name, text in others.items():
        (folder / name).write_text(text)

    def fail() -> None:
        with replacing_folder(folder, last="scores.json") as new:
            (new / "scores.json").write_text("2")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left") as caught:
        fail()
    assert caught.value.filename == str(folder)
    assert content(folder) == {"scores.json": "1", **others}


def test_a_manifest_removes_nothing_outside_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write(folder, **{"scores.json": "1"})
    (tmp_path / "mine").write_text("mine")
    (folder / "other").write_text("mine")
    for names in (["../mine", str(tmp_path / "mine")], "other", None, [1]):
        (folder / MANIFEST).write_text(json.dumps({"files": names}))
        write(folder, **{"scores.json": "2"})
        assert (tmp_path / "mine").read_text() == "mine"
        assert (folder / "other").read_text() == "mine"
