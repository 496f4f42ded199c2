"""Progress bars: what they report, and that libraries stay as they were."""

import logging
import os
import sys

import pytest

from mrc_workbench.api.display import progress_bar


def test_no_bar_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("Comparing") as report:
        report("BM25", 0.5)
        report("", 1.0)
    assert capsys.readouterr().err == ""


def test_terminal_shows_what_is_running(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("tqdm.std.tqdm.mininterval", 0, raising=False)
    with progress_bar("Comparing") as report:
        report("BM25", 0.5)
    assert "Comparing" in capsys.readouterr().err


def test_libraries_are_quiet_meanwhile_and_then_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRANSFORMERS_VERBOSITY", raising=False)
    logger = logging.getLogger("transformers")
    before = logger.level
    with progress_bar("Comparing", enabled=False):
        assert os.environ["TRANSFORMERS_VERBOSITY"] == "error"
        assert logger.level == logging.ERROR
    assert "TRANSFORMERS_VERBOSITY" not in os.environ
    assert logger.level == before
