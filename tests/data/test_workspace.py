"""Whose workspace it is: the shared one where nobody signs in, else each user's own."""

import os
import threading
from pathlib import Path

import pytest

from data import workspace as module
from data.workspace import (
    PROJECT,
    NobodySignedInError,
    acting_as,
    for_this_user,
    shared_workspace,
    shelf,
    user,
    user_of,
    users_told_by,
    workspace,
)

ALICE, BOB = user_of("https://id.example.org", "alice"), user_of("https://id.example.org", "bob")


@pytest.fixture(autouse=True)
def _nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_told_by", [])


def test_where_nobody_signs_in_it_is_the_shared_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert workspace() == shared_workspace() == tmp_path / "workspace"
    assert (user(), shelf()) == ("", None)
    monkeypatch.delenv("MRC_WORKSPACE")
    assert workspace() == PROJECT / "workspace"


def test_each_user_has_a_folder_of_the_shared_one() -> None:
    with acting_as(ALICE):
        assert workspace() == shared_workspace() / "users" / ALICE
        assert shelf() == shared_workspace()
        with acting_as(BOB):
            assert workspace().name == BOB
        assert workspace().name == ALICE
    assert workspace() == shared_workspace()


def test_a_user_is_who_a_provider_says_and_no_path() -> None:
    # printf '["https://id.example.org", "alice"]' | sha256sum | cut -c1-32
    assert ALICE == "47990e407e0d5dd8ab39a2b1010ca626"
    assert ALICE != BOB
    assert user_of("https://id.example.org/a", "lice") != user_of("https://id.example.org/", "alice")
    assert user_of('a", "b', "c") != user_of("a", 'b", "c')
    for name in ("../bob", "/etc", "", "..", "나", "x" * 5000):
        assert set(user_of("https://id.example.org", name)) <= set("0123456789abcdef")


@pytest.mark.parametrize("name", ["../" + BOB, "..", BOB.upper(), BOB + "0", "/" + BOB[1:], BOB[:-1] + "\n"])
def test_nothing_else_is_taken_for_a_user(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER", name)
    with pytest.raises(ValueError, match="is no user"):
        workspace()
    monkeypatch.delenv("MRC_USER")
    with acting_as(name), pytest.raises(ValueError, match="is no user"):
        workspace()


def test_a_process_of_a_users_knows_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER", ALICE)
    assert workspace() == shared_workspace() / "users" / ALICE


def test_who_signs_in_is_asked_every_time_and_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER", BOB)
    at_work: list[str | None] = [ALICE, None, BOB, ""]
    users_told_by(lambda: at_work.pop(0))
    assert [user() for _ in range(4)] == [ALICE, BOB, BOB, ""]


def test_where_nobody_is_signed_in_there_is_no_workspace_at_all() -> None:
    def nobody() -> str:
        raise NobodySignedInError

    users_told_by(nobody)
    for ask in (workspace, user, shelf):
        with pytest.raises(NobodySignedInError):
            ask()


def test_another_thread_knows_no_user_unless_it_is_told() -> None:
    found: list[Path] = []

    def look() -> None:
        found.append(workspace())

    with acting_as(ALICE):
        for work in (look, for_this_user(look)):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    assert found == [shared_workspace(), shared_workspace() / "users" / ALICE]
    assert "MRC_USER" not in os.environ
