"""Tests of progress output in a terminal, as lines and as JSON, and of idle threads."""

import io
import json
import os
import re
import sys
from collections.abc import Callable

import pytest

from mrc_workbench.data import terminal
from mrc_workbench.data.commands import command_group, stop_message
from mrc_workbench.data.terminal import ProgressMode, ProgressReporter
from mrc_workbench.workbench.cli import main
from tests.data.test_commands import run


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def reported(mode: ProgressMode, monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> list[str]:
    """Return the output for 300 seconds of work, reported each second."""
    seconds = iter(range(301))
    monkeypatch.setattr(terminal.time, "monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr(sys, "stderr", stream)
    reporter = ProgressReporter(mode)
    for second in range(1, 301):
        reporter.report("BM25" if second < 150 else "Dense", second / 300)
    return stream.getvalue().splitlines()


def test_plain_progress_prints_a_line_per_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = reported(ProgressMode.AUTO, monkeypatch, io.StringIO())
    assert lines == reported(ProgressMode.PLAIN, monkeypatch, io.StringIO())
    assert lines == [
        " 20%  BM25  (1 min so far, about 4 min left)",
        " 40%  BM25  (2 min so far, about 3 min left)",
        " 60%  Dense  (3 min so far, about 2 min left)",
        " 80%  Dense  (4 min so far, about 1 min left)",
        "100%  Dense  (5 min so far)",
    ]


def test_json_progress_prints_json_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [json.loads(line) for line in reported(ProgressMode.JSON, monkeypatch, io.StringIO())]
    assert len(entries) == 300
    assert entries[0] == {"phase": "BM25", "fraction": 0.0033, "seconds": 1.0}
    assert entries[-1] == {"phase": "Dense", "fraction": 1.0, "seconds": 300.0}


def test_terminal_progress_redraws_a_line_or_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reported(ProgressMode.NONE, monkeypatch, Terminal()) == []
    lines = reported(ProgressMode.AUTO, monkeypatch, Terminal())
    assert len([line for line in lines if line]) == 300
    assert lines[-1] == "100%  Dense\x1b[K"


def test_does_not_estimate_time_from_a_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    seconds = iter((0.0, 60.0))
    monkeypatch.setattr(terminal.time, "monotonic", lambda: next(seconds))
    ProgressReporter().report("training\x1b[2J", 0.5, is_total=False)
    assert stream.getvalue() == " 50%  training\\u001b[2J  (1 min so far)\n"


def test_table_prints_names_without_line_breaks() -> None:
    lines = terminal.format_table(["R@1"], [("BM25\nof words", ["1.00"]), ("LSA", ["2.00"])], 5)
    assert lines == ["                R@1", "BM25 of words  1.00", "LSA            2.00"]


def working() -> int:
    terminal.report_progress("work", 0.5)
    terminal.end_progress_line()
    return 0


def stopped() -> int:
    with stop_message("Half is stored: run it again."):
        raise KeyboardInterrupt


def stopped_early() -> int:
    raise KeyboardInterrupt


def without_memory() -> int:
    raise MemoryError


def refused() -> int:
    raise ConnectionRefusedError(111, "Connection refused")


@pytest.mark.parametrize(
    ("command", "options", "status", "message"),
    [
        (working, ["--progress", "json"], 0, '{"phase": "work", "fraction": 0.5, "seconds": 0}\n'),
        (working, ["--progress=none"], 0, ""),
        (working, ["--progress", "auto"], 0, ""),
        (working, ["--progress", "fast"], 2, "error: --progress takes auto, plain, json, none, not 'fast'\n"),
        (working, ["--progress"], 2, "error: --progress takes auto, plain, json, none, not ''\n"),
        (stopped, [], 130, "Half is stored: run it again.\n"),
        (stopped_early, [], 130, "Stopped.\n"),
        (without_memory, [], 2, "error: not enough memory\n"),
        (refused, [], 2, "error: [Errno 111] Connection refused\n"),
    ],
)
def test_commands_report_their_status(
    command: object, options: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    room = command_group("room", "A room.")
    room.command(command, name="do")
    room.command(lambda: 0, name="other")
    assert run(room, ["do", *options]) == status
    assert re.sub(r'"seconds": [.\d]+', '"seconds": 0', capsys.readouterr().err) == message


@pytest.mark.parametrize("command", [terminal.let_idle_threads_sleep, lambda: main(["runs", "list"])])
@pytest.mark.parametrize(("before", "after"), [("", "passive"), ("active", "active")])
def test_sets_passive_openmp_waiting_unless_configured(
    command: Callable[[], object], before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", before)  # so that it is restored afterwards
    if not before:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    command()
    assert os.environ["OMP_WAIT_POLICY"] == after
