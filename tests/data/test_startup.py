"""Threads of numerical libraries sleep while they wait, in the app and in commands."""

import os

import pytest

from mrc_workbench.data.terminal import let_idle_threads_sleep
from mrc_workbench.workbench.cli import main

NAME = "OMP_WAIT_POLICY"


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "")  # so that it is restored afterwards
    monkeypatch.delenv(NAME)


@pytest.mark.usefixtures("unset")
def test_idle_threads_sleep() -> None:
    let_idle_threads_sleep()
    assert os.environ[NAME] == "passive"


def test_what_the_environment_says_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "active")
    let_idle_threads_sleep()
    assert os.environ[NAME] == "active"


@pytest.mark.usefixtures("unset")
def test_commands_let_them_sleep() -> None:
    assert main(["runs", "list"]) == 0
    assert os.environ[NAME] == "passive"
