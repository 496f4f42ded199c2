"""The end of training commands: Ctrl-C, a missing token, empty lists."""

import os
import signal
from pathlib import Path

import pytest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.training import train as training
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.training.run_commands import train_and_report
from mrc_workbench.training.runs import Run
from mrc_workbench.workbench.cli import main
from tests.doubles import small_set
from tests.training.worlds import create_planned_run


class Running(Run):
    def status(self) -> Status:
        return Status(State.RUNNING, phase="training", progress=0.5, step=3, total_steps=6)

    def request_stop(self) -> None:
        self.folder.mkdir(exist_ok=True)


@pytest.mark.parametrize(
    ("number", "ended", "status", "message"),
    [
        (signal.SIGINT, Status(State.STOPPED), 130, "Stopped. The last checkpoint is stored: `mrc runs resume "),
        (signal.SIGTERM, Status(State.STOPPED), 0, "Stopped. The last checkpoint is stored: `mrc runs resume "),
        (None, Status(State.STOPPED), 0, "Stopped. The last checkpoint is stored: `mrc runs resume "),
        (
            signal.SIGINT,
            Status(State.FAILED, code="interrupted"),
            130,
            "Stopped at once. Earlier checkpoints are stored",
        ),
        (None, Status(State.FAILED, code="data", message="it is gone"), 1, "error: it is gone"),
    ],
)
def test_stopped_training_explains_resuming(
    *,
    number: int | None,
    ended: Status,
    status: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def train(run: Run) -> Status:
        if number:
            os.kill(os.getpid(), number)
        return ended

    monkeypatch.setattr(training, "train", train)
    assert train_and_report(Running(tmp_path / "run")) == status
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith(message)
    assert ("Stopping after this step" in lines[0]) == bool(number)


def test_run_stopped_before_start_does_no_work() -> None:
    run = create_planned_run(BI_ENCODER, small_set())
    run.request_stop()
    assert training.train(run).state is State.STOPPED
    assert run.progress() == []


def test_checks_run_before_asking_for_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    assert main(["runs", "push", "none", "me/model"]) == 2
    assert capsys.readouterr().err == "error: there is no run 'none'; `mrc runs list` lists the runs\n"
    monkeypatch.setattr("mrc_workbench.training.results.require_finished", lambda _: None)
    monkeypatch.setattr("mrc_workbench.training.run_commands.require_job", lambda _: Run(tmp_path))
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert main(["runs", "push", "mine", "me/model"]) == 2
    assert capsys.readouterr().err == "error: no token for the hub: set HF_TOKEN\n"


def test_empty_list_explains_how_to_start(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["list"], *([group, "list"] for group in ("runs", "data", "pairs", "dictionaries", "language"))):
        assert main(words) == 0
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("No ")
        assert " yet: `mrc " in captured.err
        assert main([*words, "--json"]) == 0
        assert capsys.readouterr().out == "[]\n"
