"""Tests of the workspaces of users, their limits, and atomic replacement of files and folders."""

import errno
import json
import os
import threading
from pathlib import Path

import pytest
from pydantic import ValidationError

from mrc_workbench.data import workspace as workspaces
from mrc_workbench.data.records import Passage, QuestionSet
from mrc_workbench.data.store import save_question_set, stored
from mrc_workbench.data.workspace import LimitError, acting_as, replacing_folder, shared_workspace, user_of, workspace

ALICE = user_of("https://id.example.org", "alice")
BOB = user_of("https://id.example.org", "bob")


@pytest.fixture(autouse=True)
def _without_user_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspaces, "_user_providers", [])


def test_uses_shared_workspace_without_sign_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert workspace() == shared_workspace() == tmp_path / "workspace"
    assert (workspaces.user(), workspaces.read_only_workspace()) == ("", None)
    monkeypatch.delenv("MRC_WORKSPACE")
    assert workspace() == workspaces.PROJECT / "workspace"
    monkeypatch.setattr(workspaces, "IMPORT_ROOT", workspaces.PROJECT.parent)  # as in an installed package
    monkeypatch.chdir(tmp_path)
    assert workspace() == tmp_path / "workspace"


def test_each_user_has_a_folder_in_the_shared_workspace() -> None:
    with acting_as(ALICE):
        assert workspace() == shared_workspace() / "users" / ALICE
        assert workspaces.read_only_workspace() == shared_workspace()
        with acting_as(BOB):
            assert workspace().name == BOB
        assert workspace().name == ALICE
    assert workspace() == shared_workspace()


def test_user_is_a_hash_of_issuer_and_subject() -> None:
    # printf '["https://id.example.org", "alice"]' | sha256sum | cut -c1-32
    assert ALICE == "47990e407e0d5dd8ab39a2b1010ca626"
    assert ALICE != BOB
    assert user_of("https://id.example.org/a", "lice") != user_of("https://id.example.org/", "alice")
    assert user_of('a", "b', "c") != user_of("a", 'b", "c')
    for name in ("../bob", "/etc", "", "..", "나", "x" * 5000):
        assert set(user_of("https://id.example.org", name)) <= set("0123456789abcdef")


@pytest.mark.parametrize("name", ["../" + BOB, "..", BOB.upper(), BOB + "0", "/" + BOB[1:], BOB[:-1] + "\n"])
def test_rejects_invalid_user_names(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER", name)
    with pytest.raises(ValueError, match="is no user"):
        workspace()
    monkeypatch.delenv("MRC_USER")
    with acting_as(name), pytest.raises(ValueError, match="is no user"):
        workspace()


def test_user_provider_precedes_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER", BOB)
    assert workspace() == shared_workspace() / "users" / BOB
    users: list[str | None] = [ALICE, None, BOB, ""]
    workspaces.set_user_provider(lambda: users.pop(0))
    assert [workspaces.user() for _ in range(4)] == [ALICE, BOB, BOB, ""]


def test_has_no_workspace_while_signed_out() -> None:
    def fail() -> str:
        raise workspaces.NotSignedInError

    workspaces.set_user_provider(fail)
    for ask in (workspace, workspaces.user, workspaces.read_only_workspace):
        with pytest.raises(workspaces.NotSignedInError):
            ask()


def test_thread_runs_as_the_user_only_if_bound() -> None:
    folders: list[Path] = []

    def look() -> None:
        folders.append(workspace())

    with acting_as(ALICE):
        for work in (look, workspaces.run_as_current_user(look)):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    assert folders == [shared_workspace(), shared_workspace() / "users" / ALICE]
    assert "MRC_USER" not in os.environ


def make_set(passages: int, characters: int = 1) -> QuestionSet:
    return QuestionSet("set", tuple(Passage(str(row), "가" * characters + str(row)) for row in range(passages)), ())


def test_environment_sets_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert workspaces.limits() == workspaces.UserLimits()
    assert (workspaces.limits().paths, workspaces.limits().addresses) == (False, False)
    for name, value in (("MEGABYTES", "7"), ("JOBS", " 2 "), ("PASSAGES", "10"), ("PATHS", "1"), ("EMAILS", "")):
        monkeypatch.setenv(f"MRC_USER_{name}", value)
    assert workspaces.limits() == workspaces.UserLimits(megabytes=7, jobs=2, passages=10, paths=True)
    for name, value in (("MEGABYTES", "0"), ("JOBS", "many"), ("PASSAGES", "-1"), ("PATHS", "x")):
        with monkeypatch.context() as patch:
            patch.setenv(f"MRC_USER_{name}", value)
            with pytest.raises(ValidationError):
                workspaces.limits()


def test_allows_listed_emails() -> None:
    assert workspaces.UserLimits().allows_email("")
    some = workspaces.UserLimits(emails="Kim@example.org, @school.kr")
    assert [some.allows_email(email) for email in ("kim@example.org", "KIM@EXAMPLE.ORG", "lee@school.kr")] == [True] * 3
    refused = ("", "lee@example.org", "lee@sub.school.kr", "lee@school.kr.example.org", "school.kr", "kim")
    assert [some.allows_email(email) for email in refused] == [False] * 6


def test_local_users_and_jobs_have_no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_PASSAGES", "1")
    monkeypatch.setenv("MRC_USER_JOBS", "1")
    save_question_set(make_set(2))
    workspaces.require_job_slot(5)
    monkeypatch.setenv("MRC_USER", ALICE)
    save_question_set(make_set(3))
    workspaces.require_job_slot(5)
    workspaces.require_set_size("passages", 5)


def test_rejects_set_beyond_passage_or_byte_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_PASSAGES", "2")
    monkeypatch.setenv("MRC_USER_MEGABYTES", "1")
    with acting_as(ALICE):
        save_question_set(make_set(2))
        with pytest.raises(LimitError) as refused:
            save_question_set(make_set(3))
        assert (refused.value.code, refused.value.details) == ("passages", {"passages": "3", "limit": "2"})
        assert [stored_set.passages for stored_set in stored()] == [2]
        before = workspaces.used_bytes()
        files = sorted(workspace().rglob("*"))
        with pytest.raises(LimitError) as refused:
            save_question_set(make_set(2, characters=250_000))  # three bytes per character
        assert (refused.value.code, refused.value.details["limit"]) == ("megabytes", "1")
        assert float(str(refused.value.details["used"])) >= 1
        assert (workspaces.used_bytes(), sorted(workspace().rglob("*"))) == (before, files)


def test_counts_bytes_of_the_users_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with acting_as(ALICE):
        assert workspaces.used_bytes() == 0
        (workspace() / "runs" / "one").mkdir(parents=True)
        (workspace() / "runs" / "one" / "model").write_bytes(b"x" * 1234)
        (workspace() / "note").write_bytes(b"y" * 66)
        large = tmp_path / "large"
        large.write_bytes(b"z" * 10_000)
        (workspace() / "link").symlink_to(large)
        assert 1300 <= workspaces.used_bytes() < 1300 + 4096  # the link counts, not its target
    (shared_workspace() / "datasets").mkdir()
    (shared_workspace() / "datasets" / "shared").write_bytes(b"x" * 9999)
    with acting_as(ALICE):
        assert workspaces.used_bytes() < 1300 + 4096
        workspaces.require_storage()


def test_rejects_jobs_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_JOBS", "3")
    with acting_as(ALICE):
        workspaces.require_job_slot(2)
        workspaces.require_job_slot(0, 3)
        for others, more in ((3, 1), (1, 3)):
            with pytest.raises(LimitError) as refused:
                workspaces.require_job_slot(others, more)
            assert (refused.value.code, refused.value.details) == ("jobs", {"jobs": others, "limit": 3})


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "not enough memory"),
        (MemoryError("12 GiB"), "not enough memory: 12 GiB"),
        (OSError(errno.ENOSPC, "No space", "/out"), "the disk is full: cannot write /out"),
        (OSError(errno.EFBIG, "File too large"), "the disk is full"),
        (OSError(errno.EROFS, "Read-only file system", "/out"), "no permission to use /out (Read-only file system)"),
        (ValueError("text"), "text"),
        (ValueError(), "ValueError"),
        (OSError("only text"), "only text"),
    ],
)
def test_explains_system_errors(error: Exception, message: str) -> None:
    assert workspaces.error_message(error) == message


def test_full_disk_error_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space") as caught, workspaces.replacing(tmp_path / "file"):
        raise OSError(errno.ENOSPC, "No space")
    assert caught.value.filename == str(tmp_path / "file")
    with pytest.raises(OSError, match="refused") as caught, workspaces.replacing(tmp_path / "file"):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
    assert caught.value.filename is None


def write(folder: Path, **files: str) -> None:
    with replacing_folder(folder, last="scores.json") as new:
        for name, text in files.items():
            path = new / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)


def content(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != workspaces.MANIFEST]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def test_replaces_files_of_the_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write(folder, **{"scores.json": "1", "old.trec": "1", "beir__corpus": "1"})
    write(folder, **{"scores.json": "2", "new.trec": "2"})
    assert content(folder) == {"scores.json": "2", "new.trec": "2"}
    listed = json.loads((folder / workspaces.MANIFEST).read_text())["files"]
    assert listed == [workspaces.MANIFEST, "new.trec", "scores.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_keeps_files_outside_the_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write(folder, **{"scores.json": "1", "beir__corpus": "1", "beir__queries": "1"})
    (folder / "notes.txt").write_text("mine")
    (folder / "beir" / "mine.txt").write_text("mine")
    write(folder, **{"scores.json": "2", "new__corpus": "2"})
    assert content(folder) == {"scores.json": "2", "new/corpus": "2", "notes.txt": "mine", "beir/mine.txt": "mine"}
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_replaces_files_in_a_folder_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    monkeypatch.chdir(folder)
    before = folder.stat().st_ino
    write(Path(), **{"scores.json": "1"})
    assert folder.stat().st_ino == before
    assert content(folder) == {"scores.json": "1"}


@pytest.mark.parametrize("others", [{}, {"notes.txt": "mine"}])
def test_failed_replacement_changes_nothing(others: dict[str, str], tmp_path: Path) -> None:
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


def test_manifest_never_removes_files_outside_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write(folder, **{"scores.json": "1"})
    (tmp_path / "mine").write_text("mine")
    (folder / "other").write_text("mine")
    for names in (["../mine", str(tmp_path / "mine")], "other", None, [1]):
        (folder / workspaces.MANIFEST).write_text(json.dumps({"files": names}))
        write(folder, **{"scores.json": "2"})
        assert (tmp_path / "mine").read_text() == "mine"
        assert (folder / "other").read_text() == "mine"
