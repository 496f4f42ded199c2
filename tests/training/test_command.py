"""The training commands: options, help and errors, and how they end: Ctrl-C, a missing token, empty lists."""

import json
import os
import signal
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.store import CATALOG
from mrc_workbench.training import cli as command
from mrc_workbench.training import dry_run as timing
from mrc_workbench.training import estimate as estimating
from mrc_workbench.training import train as training
from mrc_workbench.training.dry_run import StepScheduler, StepTimes
from mrc_workbench.training.estimate import USABLE_MEMORY_FRACTION
from mrc_workbench.training.jobs import Estimate
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderOptions
from mrc_workbench.training.recipes import get_recipe, ranking_kinds
from mrc_workbench.training.run_commands import PlanOptions, make_plan, train_and_report
from mrc_workbench.training.runs import Run, TrainingPlan
from mrc_workbench.training.text_options import READER
from mrc_workbench.workbench.cli import main
from tests.doubles import small_set
from tests.tiny_models import build_bi_encoder
from tests.training.worlds import create_planned_run

SAMPLE = str(CATALOG["sample"].path)
EXPERIMENT = """
data = "sample"
split = "validation"
ks = [1, 5, 10]

[[retriever]]
kind = "bm25"
name = "BM25"

[[retriever]]
kind = "dense"
name = "trained"
model = "bi"

[[retriever]]
kind = "rerank"
name = "reranked"
first_stage = "BM25"
model = "cross"
title = false
"""


@pytest.mark.slow
def test_trains_from_file_and_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainings = {
        "bi": ("bi-encoder", "--epochs", "1", "--learning-rate", "0.01", "--logging-steps", "1"),
        "cross": ("cross-encoder", "--epochs", "0.5", "--negatives", "2", "--no-title"),
    }
    for folder, (kind, *options) in trainings.items():
        # `test_line.py` starts it as a program
        words = ["train", kind, "--data", SAMPLE, "--base", "starter", "--out", str(tmp_path / folder)]
        assert main([*words, *options]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == f"run folder: {tmp_path / folder}"
        assert lines[-1] == f"model: {tmp_path / folder / 'model'}"
        run = Run(tmp_path / folder)
        assert (run.model_folder / "model.safetensors").is_file()
        assert run.status().state is State.DONE
        after = next(line for line in lines if line.split()[:1] == ["after"])
        assert after.split()[1:] == " ".join(f"{k} {v:.4f}" for k, v in run.scores()["after"].items()).split()
    expected = BiEncoderOptions(batch_size=256, epochs=1.0, learning_rate=0.01, logging_steps=1)
    assert Run(tmp_path / "bi").plan().options == expected
    plan = Run(tmp_path / "cross").plan()
    assert (plan.options.epochs, plan.options.title, plan.data) == (0.5, False, SAMPLE)

    assert main(["train", "bi-encoder", "--data", SAMPLE, "--out", str(tmp_path / "bi")]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path / 'bi'} is not an empty folder; name a new one\n"

    (tmp_path / "experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
    assert main(["compare", str(tmp_path / "experiment.toml"), "--out", str(tmp_path / "result")]) == 0
    cells = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()[2:]}
    for name, run, score_name in (("trained", "bi", "after"), ("BM25", "bi", "bm25")):
        expected = Run(tmp_path / run).scores()[score_name]
        assert [float(cell) for cell in cells[name]] == [round(100 * value, 2) for value in expected.values()]
    assert 0 < float(cells["reranked"][0]) <= 100
    assert "reranked" in json.dumps(json.loads((tmp_path / "result" / "scores.json").read_text()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--batch-size", "1"), "error: batch_size must be between 2 and 65536, not 1"),
        (("--learning-rate", "nan"), "error: learning_rate must be between 1e-09 and 10, not nan"),
        (("--save-steps", "5"), "error: save_steps needs evaluation_steps"),
        (("--test-fraction", "0.95"), "error: validation and test must each be a fraction of 0 or more"),
        (("--mini-batch-size", "5"), "error: mini_batch_size must be 0 for the starter"),
        (("--data", "nobody's"), "error: "),
    ],
)
def test_rejects_invalid_options(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "bi-encoder", "--data", SAMPLE, "--out", str(tmp_path / "out"), *words]) == 2
    assert capsys.readouterr().err.startswith(message)
    assert not (tmp_path / "out").exists()


def test_rejects_file_as_output_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").write_text("mine")
    assert main(["train", "bi-encoder", "--data", SAMPLE, "--out", str(tmp_path / "out")]) == 2
    assert "is not an empty folder" in capsys.readouterr().err
    assert main(["train", "bi-encoder", "--data", SAMPLE, "--out", str(tmp_path / "out" / "below")]) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize("words", [("--batch-size", "many"), ("--depth", "5"), ("--no-such", "1"), ()])
def test_rejects_unknown_options(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    data = ("--data", SAMPLE) if words else ()
    assert main(["train", "bi-encoder", *data, *words]) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize("kind", [*ranking_kinds(), READER])
def test_help_lists_every_option(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", kind, "--help"]) == 0
    help_text = " ".join(capsys.readouterr().out.split())
    for known in fields(get_recipe(kind).options):
        assert f"--{known.name.replace('_', '-')}" in help_text, known.name
        assert known.metadata["help"][:20] in help_text, known.name


@pytest.mark.slow
def test_reports_failed_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "bi-encoder", "--data", SAMPLE, "--base", "/no/such", "--out", str(tmp_path / "out")]) == 1
    assert "error: '/no/such' is no folder, no finished run and no hub id" in capsys.readouterr().err
    assert Run(tmp_path / "out").status().code == "model_not_found"


def test_changes_options_to_fit_and_reports_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    suggested = {"batch_size": 64}
    too_large = Estimate(12, 0.5, 2.0, 8.0, 9 * 10**9, 8 * 10**9, "cpu", fits=False, suggested_options=suggested)
    answers = {256: too_large, 64: replace(too_large, memory=4 * 10**9, fits=True, suggested_options={})}
    planned: list[TrainingPlan] = []

    def create(plan: TrainingPlan, out: Path | None, *, attended: bool) -> list[Run]:
        del out, attended
        planned.append(plan)
        raise ValueError("that is all")

    monkeypatch.setattr(command, "_estimate_in_subprocess", lambda plan: answers[plan.options.batch_size])
    monkeypatch.setattr(command, "create_rounds", create)
    words = [BI_ENCODER, "--data", SAMPLE, "--base", "starter", "--out", str(tmp_path / "out")]
    assert main(["train", *words, "--fit"]) == 2
    output = capsys.readouterr().out
    assert "does not fit: 9.0 of 8.0 GB" in output
    assert "batch_size: 256 -> 64: fewer texts are stored at a time" in output
    assert "about 0 minutes, 4.0 of 8.0 GB" in output
    assert planned[-1].options.batch_size == 64
    answers[256] = replace(too_large, suggested_options={})
    assert main(["train", *words, "--fit"]) == 2
    assert "no change of options makes it fit" in capsys.readouterr().err
    assert len(planned) == 1
    assert main(["train", *words]) == 2  # without the flag, there is no estimate
    assert planned[-1].options.batch_size == 256


@pytest.mark.slow
def test_trains_in_little_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With memory only for a frozen table, `--fit` freezes it, estimates again, and trains."""

    def take(task: Any, options: Any, batches: Any, pace: StepScheduler) -> StepTimes:
        weights = [weight for weight in task.model.parameters() if weight.requires_grad]
        fixed = 12 * sum(weight.numel() for weight in weights)
        for size in pace.sizes:
            pace.add(size, 60.0, memory=int(fixed + 10 * size))
        return pace.times

    monkeypatch.setattr(timing, "time_steps", take)
    monkeypatch.setattr(command, "_estimate_in_subprocess", estimating.estimate)
    base = str(build_bi_encoder(tmp_path / "base"))
    words = [BI_ENCODER, "--data", SAMPLE, "--base", base, "--out", str(tmp_path / "out"), "--epochs", "0.1"]
    plan = PlanOptions(data=SAMPLE)
    needed = [
        estimating.estimate(make_plan(BI_ENCODER, plan, {"base": base, "epochs": 0.1, **more})).memory
        for more in ({}, {"embedding_table": "frozen"})
    ]
    assert needed[1] < needed[0]
    monkeypatch.setattr(timing, "memory_available", lambda: int(needed[1] / USABLE_MEMORY_FRACTION) + 2)
    assert main(["train", *words, "--fit"]) == 0
    assert Run(tmp_path / "out").plan().options.embedding_table == "frozen"
    assert Run(tmp_path / "out").status().state is State.DONE


INTERRUPTED = Status(State.FAILED, code="interrupted")
RESUMABLE = "Stopped. The last checkpoint is stored: `mrc runs resume "


class Running(Run):
    def status(self) -> Status:
        return Status(State.RUNNING, phase="training", progress=0.5, step=3, total_steps=6)

    def request_stop(self) -> None:
        self.folder.mkdir(exist_ok=True)


@pytest.mark.parametrize(
    ("number", "ended", "status", "message"),
    [
        (signal.SIGINT, Status(State.STOPPED), 130, RESUMABLE),
        (signal.SIGTERM, Status(State.STOPPED), 0, RESUMABLE),
        (None, Status(State.STOPPED), 0, RESUMABLE),
        (signal.SIGINT, INTERRUPTED, 130, "Stopped at once. Earlier checkpoints are stored"),
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
