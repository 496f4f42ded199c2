"""kill -9 at any moment leaves what can be read, and what is begun again comes out as if nothing had happened."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.jobs.folder import Job, State
from mrc_workbench.data.jobs.processes import PROGRAM, Process, detached
from mrc_workbench.data.store import CATALOG, damaged, load, stored
from mrc_workbench.data.workspace import workspace, write_text
from mrc_workbench.retrieval.comparison.store import damaged_comparisons, kept_comparisons
from mrc_workbench.training.runs import Run, all_runs, damaged_runs
from tests.hostile.damages import TIMES
from tests.programs import end_all_in

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


def killed(process: Process, seconds: float) -> bool:
    """Kill the process so many seconds after now; False where it had ended."""
    end = time.monotonic() + seconds
    while process.lives and time.monotonic() < end:
        time.sleep(0.002)
    if not process.lives:
        return False
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    return True


def comparing(folder: Path) -> Process:
    return detached(PROGRAM, "internal", "comparisons", folder, log=folder / "log.txt")


def test_a_comparison_killed_again_and_again_is_done_in_the_end(tmp_path: Path) -> None:
    folder, alone = workspace() / "comparisons" / FOLDER, tmp_path / "alone"
    for place in (folder, alone):
        write_text(place / "experiment.toml", EXPERIMENT)
    whole = comparing(alone)  # beside those that are killed
    drawn, kills, longest = np.random.default_rng(5), 0, 1.0
    for _ in range(4 * TIMES):
        kills += killed(comparing(folder), drawn.uniform(0.05, longest))
        end_all_in(folder)
        assert Job(folder).running is False
        assert damaged_comparisons() == []
        assert [one.key for one in kept_comparisons()] in ([], [FOLDER])
        longest += 1.0
    assert kills
    comparing(folder).wait(120)
    (kept,) = kept_comparisons()
    whole.wait(120)
    assert kept.figures
    figures = Job(alone).read("scores.json")["retrievers"]
    assert kept.figures == {name: {m: v for m, v in of.items() if "@" in m} for name, of in figures.items()}


def test_keeping_a_set_leaves_it_whole_or_not_there() -> None:
    drawn, kills = np.random.default_rng(6), 0
    for _ in range(6 * TIMES):
        log = workspace() / "log.txt"
        kills += killed(detached(PROGRAM, "data", "import", SAMPLE, log=log), drawn.uniform(0.01, 0.6))
        assert damaged() == []
        for kept in stored():
            assert len(load(kept.key).passages) == kept.passages
    assert kills
    detached(PROGRAM, "data", "import", SAMPLE, log=workspace() / "log.txt").wait(60)
    (kept,) = stored()
    assert load(kept.key).fingerprint == kept.fingerprint


@pytest.mark.skipif("MRC_ATTACK" not in os.environ, reason="half a minute: make test kills trainings elsewhere")
def test_a_training_killed_is_interrupted_and_resumed_by_its_folder(tmp_path: Path) -> None:
    out = tmp_path / "elsewhere"
    words = ("--data", "sample", "--base", "starter", "--out", out, "--epochs", "1", "--batch-size", "16")
    process = detached(PROGRAM, "train", "bi-encoder", *words, "--logging-steps", "1", log=tmp_path / "log")
    run, end = Run(out), time.monotonic() + 120
    while not (run.progress() and run.progress()[-1].get("loss")):
        assert process.lives, (tmp_path / "log").read_text()
        assert time.monotonic() < end
        time.sleep(0.01)
    assert killed(process, 0)
    assert (run.status().state, run.status().code) == (State.INTERRUPTED, "")
    assert (all_runs(), damaged_runs()) == ([], [])  # it is none of the workspace's
    resumed = detached(PROGRAM, "runs", "resume", out, log=tmp_path / "log")
    resumed.wait(200)
    assert run.status().state is State.DONE, (tmp_path / "log").read_text()
    assert run.scores()["after"]


def test_one_killed_before_its_first_word_is_known_as_dead_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrc_workbench.data.jobs.folder.PROGRAM", "timeit")
    job = Job(tmp_path / "job")
    job.launch("-n1", "-r1", "import time; time.sleep(60)")
    assert job.running
    status = job.status()
    os.kill(status.pid, signal.SIGKILL)
    Process(status.pid, status.pid_started).wait(10)
    assert (job.running, job.failed, job.status().state) == (False, True, State.INTERRUPTED)
