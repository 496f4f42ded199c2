"""Finished trainings on the shelf: users search and train with them, and can neither list, resume nor delete them."""

import shutil
from pathlib import Path

import pytest

from data.workspace import acting_as, shared_workspace, user_of, workspace
from models.sources import find_model
from training.runs.runs import all_runs, damaged_runs, find_model_run, find_run, shared_runs
from training.runs.sweeps import all_jobs, find_job
from views.choices import finished_runs, model_place

ALICE, BOB = user_of("https://id.example.org", "alice"), user_of("https://id.example.org", "bob")
BEFORE = Path(__file__).parents[2] / "workspace_before" / "runs"
RUN, INTERRUPTED = "20261122-014317-bi-0b1c", "20261122-022454-interrupted-3471"


@pytest.fixture(autouse=True)
def _trained() -> None:
    """One by the operator, one of the same id by Alice, and one of the operator's that came to no end."""
    for place, run in ((shared_workspace(), RUN), (shared_workspace(), INTERRUPTED)):
        shutil.copytree(BEFORE / run, place / "runs" / run)
    with acting_as(ALICE):
        shutil.copytree(BEFORE / RUN, workspace() / "runs" / f"{RUN}-own")


def test_a_user_may_use_them_by_their_ids() -> None:
    with acting_as(ALICE):
        assert [run.id for run in finished_runs()] == [f"{RUN}-own", RUN]
        assert [model_place(run) for run in finished_runs()] == [f"{RUN}-own", RUN]
        assert find_model(RUN).folder == shared_workspace() / "runs" / RUN / "model"
    with acting_as(BOB):
        assert [run.id for run in finished_runs()] == [RUN]
        assert find_model_run(f"{RUN}-own") is None
    assert shared_runs() == []
    assert [run.id for run in finished_runs()] == [RUN]


def test_no_page_can_change_them() -> None:
    with acting_as(BOB):
        assert find_run(RUN) is None
        assert find_job(RUN) is None
        assert (all_runs(), all_jobs(), damaged_runs()) == ([], [], [])
        for run_id in (f"{RUN}-own", f"../../{ALICE}/runs/{RUN}-own", f"../../../runs/{RUN}", str(BEFORE / RUN), ".."):
            assert find_run(run_id) is None
            assert find_model_run(run_id) is None
