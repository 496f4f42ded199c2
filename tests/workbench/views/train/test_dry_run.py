"""Dry runs of a training that is about to start: estimates and hard negatives."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pandas as pd
import psutil
import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.split import Part, split
from mrc_workbench.data.workspace import write_text
from mrc_workbench.models.sources import DEFAULT_BI_ENCODER, STARTER
from mrc_workbench.training.jobs import DryRunJob, DryRunTask, Estimate
from mrc_workbench.training.ranker_options import BiEncoderObjective, BiEncoderOptions
from mrc_workbench.training.runs import Run, TrainingPlan, all_runs
from mrc_workbench.workbench.views.resources import sets
from mrc_workbench.workbench.views.train import start
from tests.training.worlds import COLUMNS
from tests.workbench.views.driving import run
from tests.workbench.views.train import worlds
from tests.workbench.views.train.worlds import EN, button, click, enter, field, labels, press, texts, with_base

MAY_START_WITHOUT_REQUEST = start.may_start_without_request  # the fixture of all pages replaces it
TRIPLET = BiEncoderObjective.TRIPLET
FITS = Estimate(312, 0.8, 12.0, 260.0, 2_100_000_000, 18_000_000_000, "cpu", fits=True, suggested_options={})


@pytest.fixture
def app() -> AppTest:
    return worlds.unopened(worlds.form_page)


@pytest.fixture
def dry_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[DryRunJob]]:
    """Return the started dry runs, each with a sleeping process."""
    started: list[DryRunJob] = []
    processes: list[subprocess.Popen[bytes]] = []

    def start(self: DryRunJob, plan: TrainingPlan) -> None:
        processes.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        pid = processes[-1].pid
        self.write_status(Status(State.RUNNING, pid=pid, pid_started=psutil.Process(pid).create_time()))
        started.append(self)

    monkeypatch.setattr(DryRunJob, "start", start)
    yield started
    for process in processes:
        process.kill()
        process.wait()


def ask(app: AppTest, dry_runs: list[DryRunJob], task: DryRunTask = DryRunTask.ESTIMATE) -> DryRunJob:
    button(app, f"ask_{task.value}").click()
    run(app)
    assert dry_runs[-1].task is task
    return dry_runs[-1]


def with_estimate(app: AppTest, dry_runs: list[DryRunJob], **changed: Any) -> AppTest:
    """Write the result of an estimate, which is started if necessary."""
    dry_run = dry_runs[-1] if dry_runs else ask(run(app), dry_runs)
    write_text(dry_run.folder / "estimate.json", json.dumps(asdict(replace(FITS, **changed))))
    return run(app)


def test_displays_estimate_without_starting_training(app: AppTest, dry_runs: list[DryRunJob]) -> None:
    dry_run = ask(enter(run(app), epochs=5.0), dry_runs)
    assert "Running a few steps" in texts(app)
    button(app, "ask_estimate").click()
    assert button(run(app), "ask_estimate").disabled
    assert dry_runs == [dry_run]
    write_text(dry_run.folder / "estimate.json", json.dumps(asdict(FITS)))
    assert not button(run(app), "ask_estimate").disabled  # its process is about to end
    assert [info.value for info in app.info] == ["About **4 min 20 s** for 312 steps, **2.1 of 18.0 GB** memory."]
    assert "One step takes 0.8 s, all evaluations 12 s, loading under a second. Measured on: CPU." in texts(app)
    assert not app.error
    assert field(app, "epochs").value == 5.0
    assert all_runs() == []


def test_estimates_teacher_time_on_loaded_machine_and_small_data(app: AppTest, dry_runs: list[DryRunJob]) -> None:
    with_estimate(app, dry_runs, seconds_labelling=75.0)
    assert EN["train.estimate_teaching"].format(teaching="1 min 15 s") in texts(app)
    (message,) = (info.value for info in with_estimate(app, dry_runs, other_load=0.6, seconds_alone=87.0).info)
    assert message.startswith("About **4 min 20 s** on this busy machine, about **1 min 27 s** when nothing else runs")
    (rough,) = (info.value for info in with_estimate(app, dry_runs, is_rough=True).info)
    assert rough.startswith("Roughly **4 min 20 s**")


def test_reports_insufficient_memory_with_alternative(app: AppTest, dry_runs: list[DryRunJob]) -> None:
    with_estimate(app, dry_runs, fits=False)
    assert [error.value for error in app.error] == [EN["train.too_large"]]
    assert EN["train.use_instead"] not in labels(app), "no alternative fits"
    with_estimate(app, dry_runs, fits=False, suggested_options={"batch_size": 32})
    message = EN["train.too_large_instead"].format(options="Batch size 32")
    assert [error.value for error in app.error] == [message]
    press(app, "use_instead")
    assert field(app, "batch_size").value == 32
    assert not app.error  # another plan
    assert not app.info


@pytest.mark.usefixtures("at_the_hub")
def test_applies_suggested_settings_of_every_kind(app: AppTest, dry_runs: list[DryRunJob]) -> None:
    with_base(app, DEFAULT_BI_ENCODER)
    instead = {"embedding_table": "frozen", "gradient_checkpointing": True, "max_length": 256}
    with_estimate(app, dry_runs, fits=False, suggested_options=instead)
    message = "Token embeddings: Frozen, Gradient checkpointing (saves memory), Max length (tokens) 256"
    assert [error.value for error in app.error] == [EN["train.too_large_instead"].format(options=message)]
    press(app, "use_instead")
    assert {name: field(app, name).value for name in instead} == instead


def test_dry_run_can_be_stopped_and_ends_if_plan_changes(app: AppTest, dry_runs: list[DryRunJob]) -> None:
    dry_run = ask(run(app), dry_runs)
    click(app, f"stop_{dry_run.id}")
    assert not dry_run.running
    assert "Running a few steps" not in texts(run(app))
    assert not button(app, "ask_estimate").disabled
    dry_run = ask(app, dry_runs)
    enter(app, epochs=5.0)
    assert not dry_run.running
    assert "Running a few steps" not in texts(app)


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [("memory", "9 GB", "failure.memory"), ("unexpected", "ValueError: *no*", "train.not_answered")],
)
def test_reports_failure(app: AppTest, dry_runs: list[DryRunJob], code: str, message: str, expected: str) -> None:
    dry_run = ask(run(app), dry_runs)
    dry_run.write_status(Status(State.FAILED, code=code, message=message))
    run(app)
    assert [error.value for error in app.error] == [EN[expected]]
    assert [code.value for code in app.code] == [message]
    assert not button(app, "ask_estimate").disabled


def test_reports_full_disk(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DryRunJob, "start", Mock(side_effect=OSError("no space")))
    button(run(app), "ask_estimate").click()
    assert [error.value for error in run(app).error] == [EN["train.not_started"].format(reason="no space")]


@pytest.fixture
def automatic_dry_runs(dry_runs: list[DryRunJob], monkeypatch: pytest.MonkeyPatch) -> list[DryRunJob]:
    """Enable automatic estimates."""
    monkeypatch.setattr(start, "may_start_without_request", MAY_START_WITHOUT_REQUEST)
    return dry_runs


def test_estimates_default_settings_once(app: AppTest, automatic_dry_runs: list[DryRunJob]) -> None:
    run(app)
    (dry_run,) = automatic_dry_runs
    assert dry_run.task is DryRunTask.ESTIMATE
    assert "Running a few steps" in texts(app)
    click(app, f"stop_{dry_run.id}")
    assert "Running a few steps" not in texts(run(app))
    assert len(automatic_dry_runs) == 1  # it does not start again
    write_text(dry_run.folder / "estimate.json", json.dumps(asdict(FITS)))
    assert [info.value for info in run(app).info] == ["About **4 min 20 s** for 312 steps, **2.1 of 18.0 GB** memory."]


def test_ends_estimate_on_changed_settings_or_training(
    app: AppTest, automatic_dry_runs: list[DryRunJob], submitted: list[Run], folder: Path
) -> None:
    with_base(app, STARTER)
    with_base(app, str(folder))
    first, second = automatic_dry_runs
    assert (first.running, second.running) == (False, True)
    enter(app, epochs=5.0)  # changed settings are estimated only on request
    assert [dry_run.running for dry_run in automatic_dry_runs] == [False, False]
    third = ask(app, automatic_dry_runs)
    click(app, "train_start_")
    assert len(submitted) == 1
    assert not third.running


@pytest.mark.usefixtures("no_worker", "at_the_hub")
@pytest.mark.parametrize(("state", "base"), [(State.RUNNING, ""), (State.QUEUED, ""), (None, DEFAULT_BI_ENCODER)])
def test_neither_estimates_during_training_nor_downloads_by_itself(
    app: AppTest, automatic_dry_runs: list[DryRunJob], state: State | None, base: str
) -> None:
    if state:
        worlds.create_test_run(state)
    run(with_base(app, base) if base else app)
    assert automatic_dry_runs == []


def rows(count: int, text: str = "passage") -> pd.DataFrame:
    values: dict[str, list[Any]] = {
        "question_id": [f"q{row // 4}" for row in range(count)],
        "question": [f"question {row // 4}" for row in range(count)],
        "positive": [f"right {text} {row // 4}" for row in range(count)],
        "positive_score": [9.5] * count,
        "passage_id": [f"p{row}" for row in range(count)],
        "title": ["<b>title</b>"] * count,
        "passage": [f"wrong {text} {row}" for row in range(count)],
        "rank": [1 + row % 4 for row in range(count)],
        "score": [9.0 - row % 4 for row in range(count)],
        "marked": [row == 0 for row in range(count)],
    }
    return pd.DataFrame(values)[list(COLUMNS)]


def with_negatives(app: AppTest, dry_runs: list[DryRunJob], table: pd.DataFrame) -> AppTest:
    """Write the result of a search for negatives, which is started if necessary."""
    dry_run = dry_runs[-1] if dry_runs else ask(with_base(app, STARTER, TRIPLET), dry_runs, DryRunTask.NEGATIVES)
    table.to_parquet(dry_run.folder / "negatives.parquet", index=False)
    return run(app)


def test_displays_and_counts_negatives(app: AppTest, dry_runs: list[DryRunJob]) -> None:
    ask(with_base(app, STARTER, TRIPLET), dry_runs, DryRunTask.NEGATIVES)
    assert "Finding hard negatives" in texts(app)
    with_negatives(app, dry_runs, rows(10))
    training = len(split(sets.question_set(sets.stored_sets()[0].key)).rows[Part.TRAIN])
    assert f"**10 negatives** for 3 of {training} questions" in texts(app)
    table = app.dataframe[0].value
    assert table["passage"].tolist() == [f"wrong passage {row}" for row in range(10)]
    assert all_runs() == []
    with_negatives(app, dry_runs, rows(0))
    assert EN["train.negatives_none"] in [warning.value for warning in app.warning]
    assert not app.dataframe


def test_limits_displayed_rows_and_searches_questions(app: AppTest, dry_runs: list[DryRunJob]) -> None:
    with_negatives(app, dry_runs, rows(2000, "long " * 1000))
    displayed = app.dataframe[0].value
    assert len(displayed) == 500
    assert displayed["passage"].str.len().max() == 200
    assert "Showing 500 of 2,000" in texts(app)
    with_negatives(app, dry_runs, rows(40))
    app.text_input(key="train_negatives_search").set_value("QUESTION 7")
    run(app)
    assert app.dataframe[0].value["passage_id"].tolist() == ["p28", "p29", "p30", "p31"]
    app.text_input(key="train_negatives_search").set_value("(")
    assert run(app).dataframe[0].value.empty


def test_downloads_have_every_row(app: AppTest, dry_runs: list[DryRunJob], monkeypatch: pytest.MonkeyPatch) -> None:
    downloads: dict[str, Any] = {}

    def download(label: str, data: Any, file_name: str, *args: Any, **kwargs: Any) -> bool:
        downloads[file_name] = data()
        return False

    monkeypatch.setattr("streamlit.download_button", download)
    table = rows(600, '한글, "지문"')
    with_negatives(app, dry_runs, table)
    assert downloads["hard-negatives.csv"].startswith(b"\xef\xbb\xbfquestion_id,")
    (Path(dry_runs[0].folder) / "copy.csv").write_bytes(downloads["hard-negatives.csv"])
    pd.testing.assert_frame_equal(pd.read_csv(dry_runs[0].folder / "copy.csv", encoding="utf-8-sig"), table)
    lines = downloads["hard-negatives.jsonl"].decode().splitlines()
    assert "한글" in lines[0]
    assert [json.loads(line) for line in lines] == table.to_dict("records")


def test_warns_if_no_negatives_exist(app: AppTest) -> None:
    assert EN["train.ask_negatives"] not in labels(run(app))  # mega-batch margin has none
    assert BiEncoderOptions.defaults_for().negatives == 0
    assert EN["train.ask_negatives"] not in labels(with_base(app, STARTER, "multiple-negatives"))
