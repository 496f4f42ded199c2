"""The command `mrc sweep`: its table, its JSON, and the training afterwards."""

import json
import sys
from dataclasses import asdict

import pytest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.store import CATALOG
from mrc_workbench.training import run_commands
from mrc_workbench.training.jobs import SettingsSearch, TrialResult
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER, BiEncoderOptions
from mrc_workbench.training.runs import Run, all_runs
from mrc_workbench.workbench.cli import main
from tests.training.worlds import all_searches

pytestmark = pytest.mark.slow  # imports torch
SWEEP = ["sweep", "bi-encoder", "--data", str(CATALOG["sample"].path), "--base", "starter"]
TRIALS = (
    TrialResult(1, {}, 1.0, 0.5, 8, 0.7, 0.6, 0.8, 0.0, 0.0, 0.0, 1.0, 0.5),
    TrialResult(2, {"learning_rate": 0.003}, 1.0, 0.5, 8, 0.8, 0.7, 0.9, 0.1, 0.05, 0.15, 0.004, None),
)
SUMMARY = {"measure": "ndcg@10", "questions": 48, "untrained": 0.65, "best": 2, "selected": 2, "skipped": (3,)}


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[SettingsSearch]:
    searches: list[SettingsSearch] = []

    def find_settings(search: SettingsSearch) -> Status:
        searches.append(search)
        search.write("settings.json", SUMMARY | {"trials": [asdict(trial) for trial in TRIALS]})
        sys.stdout.write("what a trainer prints")
        return Status(State.DONE)

    monkeypatch.setattr("mrc_workbench.training.search.search_settings", find_settings)
    return searches


def test_prints_table_with_selected_trial(searched: list[SettingsSearch], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SWEEP, "--minutes", "3", "--batch-size", "8"]) == 0
    (search,) = searched
    assert (search.plan().minutes, search.plan().kind, search.plan().options.batch_size) == (3.0, BI_ENCODER, 8)
    head, first, second, *rest = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["setting", "epochs", "steps", "nDCG@10"]
    assert first.split() == ["1", "defaults", "0.50", "8", "0.7000", "0.6000", "to", "0.8000", "0.5000"]
    assert second.startswith("*  2 learning_rate 0.003")
    assert second.split()[-5:] == ["+0.1000", "+0.0500", "to", "+0.1500", "0.0040"]
    assert rest == [
        "on 48 validation questions; the untrained base has 0.6500",
        "too little time for settings 3",
        "setting 2 is better than the defaults",
    ]


def test_prints_only_json(searched: list[SettingsSearch], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "cross-encoder", *SWEEP[2:], "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    (search,) = searched
    assert (printed["search"], printed["selected"], printed["options"]["learning_rate"]) == (search.id, 2, 0.003)
    assert (search.plan().kind, search.plan().minutes) == (CROSS_ENCODER, 10.0)


def test_trains_with_selected_settings(searched: list[SettingsSearch], monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[Run] = []
    monkeypatch.setattr(run_commands, "train_rounds", lambda runs: trained.extend(runs) or 0)
    assert main([*SWEEP, "--train"]) == 0
    (run,) = trained
    assert run.plan().options == BiEncoderOptions(batch_size=256, learning_rate=0.003)
    assert (run.plan().minutes, all_runs()) == (0.0, [run])


def test_queues_search(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("mrc_workbench.data.jobs.queue.Queue.start_worker", lambda _: None)
    assert main([*SWEEP, "--queue"]) == 0
    (search,) = all_searches()
    assert capsys.readouterr().out.strip() == search.id
    assert main(["runs", "list", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["id"], row["minutes"], row["state"]) == (search.id, 10.0, "queued")
    assert main(["runs", "stop", search.id]) == 0
    assert main(["runs", "delete", search.id]) == 0
    assert all_searches() == []


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "10000"])
def test_rejects_invalid_minutes(minutes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SWEEP, "--minutes", minutes]) == 2
    assert "error: minutes must be above 0" in capsys.readouterr().err
    assert all_searches() == []
