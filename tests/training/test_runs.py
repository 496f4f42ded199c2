"""Runs and their folders, and shared finished trainings, which users can use, but not list or delete."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.jobs.processes import this_process
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.workspace import PROJECT, acting_as, shared_workspace, user_of, workspace
from mrc_workbench.models.sources import find_model
from mrc_workbench.training import run_commands, runs
from mrc_workbench.training.jobs import QUEUE, all_jobs, find_job
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER
from mrc_workbench.training.recipes import RECIPES, ranking_kinds
from mrc_workbench.workbench.cli import main
from mrc_workbench.workbench.views.choices import finished_runs, model_reference
from tests.training.worlds import wait_until

DATA = ("0123456789abcdef", "세트", "f" * 64)
AT_WORK = """
import sys, time
from pathlib import Path
from mrc_workbench.data.jobs.processes import this_process
from mrc_workbench.data.jobs.folder import Job
from mrc_workbench.data.jobs.folder import State, Status

pid, started = this_process()
Job(Path(sys.argv[1])).write_status(Status(State(sys.argv[2]), pid=pid, pid_started=started))
time.sleep(600)
"""


def plan(name: str = "첫 훈련", kind: str = BI_ENCODER) -> runs.TrainingPlan:
    changed: dict[str, Any] = {"depth": 7} if kind == CROSS_ENCODER else {"epochs": 2.5, "title": False}
    return runs.new_plan(kind, name, DATA, SplitOptions(0.25, 0.5, 3), RECIPES[kind].options(**changed))


def running_here() -> Status:
    pid, started = this_process()
    return Status(State.RUNNING, runs.Phase.TRAINING, step=3, total_steps=9, pid=pid, pid_started=started)


@pytest.mark.parametrize("kind", ranking_kinds())
def test_plan_round_trips(kind: str) -> None:
    original = plan(kind=kind)
    run = runs.create_run(original)
    assert runs.Run(run.folder).plan() == original
    assert (run.plan().name, run.plan().data, run.plan().fingerprint) == ("첫 훈련", DATA[0], DATA[2])
    assert run.status().state is State.QUEUED
    assert abs((datetime.now(UTC) - datetime.fromisoformat(original.created)).total_seconds()) < 60


@pytest.mark.parametrize(
    "name", ["한국어 이름", "../x", "/etc/passwd", "..", "", "a" * 500, "CON\x00\n", "Ünï/../../y"]
)
def test_name_is_no_path(name: str) -> None:
    run = runs.create_run(plan(name))
    assert run.folder.parent == workspace() / "runs"
    assert run.id.isascii()
    assert set(run.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert len(run.id) < 80
    assert run.plan().name == name
    assert [path.name for path in (workspace() / "runs").iterdir()] == [run.id]


def test_simultaneous_runs_get_own_folders() -> None:
    assert len({runs.create_run(plan()).id for _ in range(20)}) == 20
    assert len(runs.all_runs()) == 20


def test_accepts_custom_folder(tmp_path: Path) -> None:
    assert runs.create_run(plan(), tmp_path / "a" / "b").folder == tmp_path / "a" / "b"
    with pytest.raises(ValueError, match="not an empty folder; name a new one"):
        runs.create_run(plan(), tmp_path / "a")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="file is not an empty folder"):
        runs.create_run(plan(), tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
    assert runs.all_runs() == []


def test_reads_runs_with_unknown_options() -> None:
    run = runs.create_run(plan())
    raw = run.read("run.json")
    raw["options"] |= {"option_of_tomorrow": 1}
    del raw["options"]["seed"]
    run.write("run.json", raw)
    assert run.plan() == replace(plan(), created=raw["created"])


@pytest.mark.slow
@pytest.mark.parametrize("state", [State.RUNNING, State.QUEUED])
def test_killed_process_means_interrupted_run(state: State) -> None:
    run = runs.create_run(plan())
    process = subprocess.Popen([sys.executable, "-c", AT_WORK, str(run.folder), state.value], cwd=PROJECT)
    try:
        wait_until(lambda: run.status().pid == process.pid)
        assert run.status().state is state
        with pytest.raises(ValueError, match="must be stopped before it is deleted"):
            run.delete()
        os.kill(process.pid, signal.SIGKILL)
        # before and after the zombie process is reaped
        wait_until(lambda: run.status().state is State.INTERRUPTED, 10)
        process.wait()
        assert run.status().state is State.INTERRUPTED
        assert json.loads((run.folder / "status.json").read_text())["state"] == state.value
    finally:
        process.kill()
        process.wait()
    assert QUEUE.queued() == []
    run.delete()
    assert not run.folder.exists()
    assert runs.all_runs() == []


def test_run_is_stopping_until_process_ends() -> None:
    run = runs.create_run(plan())
    here = running_here()
    run.write_status(here)
    assert not run.stop_requested
    assert QUEUE.running_job() == run
    run.request_stop()
    assert runs.Run(run.folder).stop_requested
    assert run.status().state is State.STOPPING
    assert run.status().is_running
    assert QUEUE.running_job() == run
    run.write_status(replace(here, pid_started=here.pid_started - 60, seconds_left=5.0))
    assert (run.status().state, run.status().seconds_left) == (State.STOPPED, None)
    assert QUEUE.running_job() is None


def test_running_time_sums_all_starts() -> None:
    status = Status(State.STOPPED, started=1000.0, heartbeat=1007.0, seconds=5.0)
    assert status.total_seconds == 12.0
    assert Status(State.QUEUED, heartbeat=1007.0, seconds=5.0).total_seconds == 5.0


def test_forgets_progress_after_checkpoint() -> None:
    run = runs.create_run(plan())
    run.add_measures("before", {"recall@1": 0.25, "mrr@10": 0.5})
    for step in (1, 2, 3):
        run.add_progress({"step": step, "loss": 1.0 / step})
    run.drop_progress_after(2)
    assert run.progress() == [
        {"step": 0, "before_recall@1": 0.25, "before_mrr@10": 0.5},
        {"step": 1, "loss": 1.0},
        {"step": 2, "loss": 0.5},
    ]
    run.drop_progress_after(-1)
    assert run.progress() == []


def test_ignores_reused_process_ids() -> None:
    run = runs.create_run(plan())
    here = running_here()
    run.write_status(here)
    assert replace(run.status(), heartbeat=0.0) == here
    run.write_status(replace(here, pid_started=here.pid_started - 60))
    assert (run.status().state, run.status().step) == (State.INTERRUPTED, 3)


@pytest.mark.parametrize("state", [State.STOPPED, State.FAILED, State.DONE, State.QUEUED])
def test_finished_run_needs_no_process(state: State) -> None:
    run = runs.create_run(plan())
    run.write_status(Status(state))
    assert run.status().state is state
    run.delete()
    assert not run.folder.exists()


@pytest.mark.parametrize("text", ["", '{"state": "runn', "[]", "{}", "null", '{"state": "dancing", "phase": "loading"}',
                                  '{"state": "done", "phase": "loading", "unknown": 1}', "\x00\x00"])  # fmt: skip
def test_damaged_status_means_interrupted_run(text: str) -> None:
    run = runs.create_run(plan())
    (run.folder / "status.json").write_text(text)
    assert run.status().state is State.INTERRUPTED
    assert [listed_run.id for listed_run in runs.all_runs()] == [run.id]
    (run.folder / "status.json").unlink()
    assert run.status().state is State.INTERRUPTED


def test_reads_complete_lines_of_damaged_progress() -> None:
    run = runs.create_run(plan())
    assert run.progress() == []
    run.add_progress({"step": 1, "loss": 0.5})
    with (run.folder / "progress.jsonl").open("ab") as file:
        file.write(b'\xff\xfe\x00\n7\n\n{"step": 2, "lo\n')
    run.add_progress({"step": 3, "loss": float("nan")})
    with (run.folder / "progress.jsonl").open("ab") as file:
        file.write(b'{"step": 4, "loss": 0.2')
    assert [entry["step"] for entry in run.progress()] == [1, 3]
    assert run.progress()[0] == {"step": 1, "loss": 0.5}


def test_ignores_other_folders() -> None:
    assert runs.all_runs() == []
    good = runs.create_run(plan())
    raw = json.loads((good.folder / "run.json").read_text())
    broken = ["", "[]", "{", "null", json.dumps({**raw, "kind": "tri-encoder"}), json.dumps({**raw, "options": []}),
              json.dumps({**raw, "options": {"epochs": -1}}), json.dumps({**raw, "split": {"test": 2}}),
              json.dumps({name: value for name, value in raw.items() if name != "data"})]  # fmt: skip
    for number, text in enumerate(broken):
        folder = workspace() / "runs" / f"broken-{number}"
        folder.mkdir()
        (folder / "run.json").write_text(text)
    (workspace() / "runs" / "empty").mkdir()
    (workspace() / "runs" / "file").write_text("no folder")
    assert [run.id for run in runs.all_runs()] == [good.id]


def test_lists_newest_run_first() -> None:
    old = runs.create_run(plan("old"), workspace() / "runs" / "20250101-000000-old-aaaa")
    new = runs.create_run(plan("new"))
    assert [run.id for run in runs.all_runs()] == [new.id, old.id]
    assert runs.find_run(old.id) == old
    old.delete()
    assert [run.id for run in runs.all_runs()] == [new.id]
    assert runs.find_run(old.id) is None
    for name in (f"../runs/{new.id}", "..", "../x", "", "a/b", "no such run", "x" * 300, "a\0b", str(new.folder)):
        assert runs.find_run(name) is None, name


def test_finds_run_by_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = runs.create_run(plan("here"))
    elsewhere = runs.create_run(plan("elsewhere"), tmp_path / "elsewhere")
    assert runs.find_run(here.id) == runs.find_run_in_folder(here.folder) == here
    assert runs.find_run_in_folder(elsewhere.folder) == elsewhere
    assert runs.find_run(str(here.folder)) is None
    monkeypatch.chdir(tmp_path)
    assert runs.find_run_in_folder(Path("elsewhere")) == elsewhere
    for nothing in ("", ".", "nobody", str(tmp_path), str(here.folder / "run.json"), "a" * 5000, "\0"):
        assert runs.find_run_in_folder(Path(nothing)) is None


def test_commands_accept_run_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained_runs: list[runs.Run] = []
    monkeypatch.setattr(run_commands, "train_and_report", lambda run: trained_runs.append(run) or 0)
    monkeypatch.setattr("mrc_workbench.data.jobs.queue.Queue.start_worker", lambda _: None)
    here = runs.create_run(plan("here"))
    elsewhere = runs.create_run(plan("elsewhere"), tmp_path / "elsewhere")
    for run in (here, elsewhere):
        assert main(["runs", "stop", str(run.folder)]) == 0
        assert run.status().state is State.STOPPED
        assert main(["runs", "resume", str(run.folder)]) == 0
        assert run.status().state is State.QUEUED
    assert trained_runs == [elsewhere]  # no worker of this workspace would execute it
    assert capsys.readouterr().out.split() == ["stopped", "queued", "stopped"]
    for run in (here, elsewhere):
        run.stop()
        assert main(["runs", "delete", str(run.folder)]) == 0
        assert not run.folder.exists()
    (runs.create_run(plan("missing")).folder / "run.json").write_text("[")
    (lost,) = runs.damaged_runs()
    assert main(["runs", "list"]) == 0
    assert f"{lost.id} cannot be read" in capsys.readouterr().err
    assert main(["runs", "delete", lost.id]) == 0
    assert runs.damaged_runs() == []


@pytest.mark.parametrize(
    "damage",
    [
        *({"name": 3}, {"created": "yesterday"}, {"created": None}, {"options": []}, {"split": {"seed": "x", "a": 1}}),
        *({"kind": "unknown"}, {"data": ["x"]}, {"marked_negatives": [1]}, {"options": {"epochs": "three"}}),
    ],
)
def test_plan_with_wrong_types_is_damaged(damage: dict[str, object]) -> None:
    run = runs.create_run(plan())
    run.write("run.json", run.read("run.json") | damage)
    with pytest.raises(ValueError):  # noqa: PT011 - the message depends on the field
        run.plan()
    assert (runs.all_runs(), runs.damaged_runs()) == ([], [run])


def test_damaged_scores_are_empty(caplog: pytest.LogCaptureFixture) -> None:
    run = runs.create_run(plan())
    assert run.scores() == {}
    (run.folder / "scores.json").write_text('{"before": {')
    assert run.scores() == {}
    whole = {"before": {"ndcg@10": 0.5}, "after": {"ndcg@10": 0.6}, "questions": 3, "weight": 0.5}
    run.write("scores.json", whole)
    assert run.scores() == whole
    wrong = {"after": {"ndcg@10": "x"}}, {"intervals": {"after": {"ndcg@10": [1]}}}
    for damage in ({"before": 3}, *wrong, {"gain": []}):
        run.write("scores.json", whole | damage)
        assert run.scores() == {}
        assert "scores.json is damaged" in caplog.text


ALICE = user_of("https://id.example.org", "alice")
BOB = user_of("https://id.example.org", "bob")
BEFORE = Path(__file__).parents[1] / "workspace_before" / "runs"
RUN = "20261122-014317-bi-0b1c"
INTERRUPTED = "20261122-022454-interrupted-3471"


@pytest.fixture
def trained_by_others() -> None:
    """A run of the operator, one of the same id by Alice, and an unfinished one of the operator."""
    for workspace_folder, run in ((shared_workspace(), RUN), (shared_workspace(), INTERRUPTED)):
        shutil.copytree(BEFORE / run, workspace_folder / "runs" / run)
    with acting_as(ALICE):
        shutil.copytree(BEFORE / RUN, workspace() / "runs" / f"{RUN}-own")


@pytest.mark.usefixtures("trained_by_others")
def test_user_can_use_shared_runs_by_id() -> None:
    with acting_as(ALICE):
        assert [run.id for run in finished_runs()] == [f"{RUN}-own", RUN]
        assert [model_reference(run) for run in finished_runs()] == [f"{RUN}-own", RUN]
        assert find_model(RUN).folder == shared_workspace() / "runs" / RUN / "model"
    with acting_as(BOB):
        assert [run.id for run in finished_runs()] == [RUN]
        assert runs.find_model_run(f"{RUN}-own") is None
    assert runs.shared_runs() == {}
    assert [run.id for run in finished_runs()] == [RUN]


@pytest.mark.usefixtures("trained_by_others")
def test_user_cannot_reach_runs_of_others() -> None:
    with acting_as(BOB):
        assert runs.find_run(RUN) is None
        assert find_job(RUN) is None
        assert (runs.all_runs(), all_jobs(), runs.damaged_runs()) == ([], [], [])
        for run_id in (f"{RUN}-own", f"../../{ALICE}/runs/{RUN}-own", f"../../../runs/{RUN}", str(BEFORE / RUN), ".."):
            assert runs.find_run(run_id) is None
            assert runs.find_model_run(run_id) is None
