"""kill -9 at any moment leaves readable state, and a second run returns the result of an undisturbed one."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.jobs.folder import Job, State
from mrc_workbench.data.jobs.processes import PROGRAM, Process, start_detached
from mrc_workbench.data.store import CATALOG, damaged, load, stored
from mrc_workbench.data.workspace import workspace, write_text
from mrc_workbench.retrieval.comparison.store import damaged_comparisons, list_comparisons
from mrc_workbench.training.runs import Run, all_runs, damaged_runs
from tests.hostile.damages import TIMES
from tests.programs import kill_processes_in

pytestmark = pytest.mark.slow
EXPERIMENT = """
data = "sample"
split = "test"
ks = [1, 10]
[[retriever]]
name = "words"
kind = "bm25"
analyzer = "word"
[[retriever]]
name = "dense"
kind = "dense"
"""
SAMPLE = CATALOG["sample"].path
FOLDER = "00112233aabbccdd"


def kill_after(process: Process, seconds: float) -> bool:
    """Kill the process so many seconds after now; False where it had ended."""
    end = time.monotonic() + seconds
    while process.is_alive and time.monotonic() < end:
        time.sleep(0.002)
    if not process.is_alive:
        return False
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    return True


def start_comparison(folder: Path) -> Process:
    return start_detached(PROGRAM, "internal", "comparisons", folder, log=folder / "log.txt")


def test_repeatedly_killed_comparison_finishes(tmp_path: Path) -> None:
    folder = workspace() / "comparisons" / FOLDER
    alone = tmp_path / "alone"
    for job_folder in (folder, alone):
        write_text(job_folder / "experiment.toml", EXPERIMENT)
    whole = start_comparison(alone)  # beside those that are killed
    rng = np.random.default_rng(5)
    kills = 0
    longest = 1.0
    for _ in range(4 * TIMES):
        kills += kill_after(start_comparison(folder), rng.uniform(0.05, longest))
        kill_processes_in(folder)
        assert Job(folder).running is False
        assert damaged_comparisons() == []
        assert [stored_comparison.key for stored_comparison in list_comparisons()] in ([], [FOLDER])
        longest += 1.0
    assert kills
    start_comparison(folder).wait(120)
    (comparison,) = list_comparisons()
    whole.wait(120)
    assert comparison.metrics
    scores = Job(alone).read("scores.json")["retrievers"]
    assert comparison.metrics == {
        name: {m: v for m, v in metrics.items() if "@" in m} for name, metrics in scores.items()
    }


def test_killed_import_stores_a_whole_set_or_none() -> None:
    rng = np.random.default_rng(6)
    kills = 0
    for _ in range(6 * TIMES):
        log = workspace() / "log.txt"
        kills += kill_after(start_detached(PROGRAM, "data", "import", SAMPLE, log=log), rng.uniform(0.01, 0.6))
        assert damaged() == []
        for stored_set in stored():
            assert len(load(stored_set.key).passages) == stored_set.passages
    assert kills
    start_detached(PROGRAM, "data", "import", SAMPLE, log=workspace() / "log.txt").wait(60)
    (stored_set,) = stored()
    assert load(stored_set.key).fingerprint == stored_set.fingerprint


@pytest.mark.skipif("MRC_ATTACK" not in os.environ, reason="half a minute: make test kills trainings elsewhere")
def test_a_training_killed_is_interrupted_and_resumed_by_its_folder(tmp_path: Path) -> None:
    out = tmp_path / "elsewhere"
    words = ("--data", "sample", "--base", "starter", "--out", out, "--epochs", "1", "--batch-size", "16")
    process = start_detached(PROGRAM, "train", "bi-encoder", *words, "--logging-steps", "1", log=tmp_path / "log")
    run = Run(out)
    end = time.monotonic() + 120
    while not (run.progress() and run.progress()[-1].get("loss")):
        assert process.is_alive, (tmp_path / "log").read_text()
        assert time.monotonic() < end
        time.sleep(0.01)
    assert kill_after(process, 0)
    assert (run.status().state, run.status().code) == (State.INTERRUPTED, "")
    assert (all_runs(), damaged_runs()) == ([], [])  # it is none of the workspace's
    resumed = start_detached(PROGRAM, "runs", "resume", out, log=tmp_path / "log")
    resumed.wait(200)
    assert run.status().state is State.DONE, (tmp_path / "log").read_text()
    assert run.scores()["after"]


def test_job_killed_at_its_start_is_interrupted_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.data.jobs.folder.PROGRAM", "timeit")
    job = Job(tmp_path / "job")
    job.launch("-n1", "-r1", "import time; time.sleep(60)")
    assert job.running
    status = job.status()
    os.kill(status.pid, signal.SIGKILL)
    Process(status.pid, status.pid_started).wait(10)
    assert (job.running, job.failed, job.status().state) == (False, True, State.INTERRUPTED)
