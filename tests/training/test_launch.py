import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from data.processes import lives
from data.records import QuestionSet
from data.store import find
from retrieval.models import ModelSource, load_bi_encoder
from tests.training.worlds import PROJECT, logged, misleading_set, planned, wait_until
from training.options import Kind
from training.runs import Phase, Run, State, all_runs

pytestmark = pytest.mark.slow
LAUNCHER = """
import sys
from pathlib import Path
from training.launch import launch
from training.runs import Run

launch(Run(Path(sys.argv[1])))
"""


@contextmanager
def launched_by_another(run: Run) -> Iterator[None]:
    """Start the run from a process that has ended when this goes on."""
    subprocess.run([sys.executable, "-c", LAUNCHER, str(run.folder)], cwd=PROJECT, check=True, timeout=60)
    status = run.status()
    try:
        yield
    finally:
        if lives(status.pid, status.pid_started):
            os.kill(status.pid, signal.SIGKILL)


def endless(question_set: QuestionSet) -> Run:
    return planned(Kind.BI_ENCODER, question_set, epochs=1000.0, batch_size=16, logging_steps=1)


def told(run: Run) -> str:
    return (run.folder / "log.txt").read_text(encoding="utf-8")[-3000:]


def test_a_training_outlives_its_launcher_and_stops_when_asked() -> None:
    run = endless(find("sample"))
    with launched_by_another(run):
        wait_until(lambda: logged(run, "loss") != [] or run.status().state is State.FAILED)
        status = run.status()
        assert (status.state, status.phase) == (State.RUNNING, Phase.TRAINING), told(run)
        assert 0 < status.step < status.total_steps == 21 * 1000  # 336 questions in batches of 16
        assert status.seconds_left > 0
        assert [found.id for found in all_runs()] == [run.id]

        run.ask_to_stop()
        wait_until(lambda: not lives(status.pid, status.pid_started))
        stopped = run.status()
        assert (stopped.state, stopped.code, stopped.message) == (State.STOPPED, "", ""), told(run)
        assert stopped.step < stopped.total_steps

    checkpoints = {
        int(path.name.rpartition("-")[2]): path for path in (run.folder / "checkpoints").glob("checkpoint-*")
    }
    assert max(checkpoints) >= stopped.step
    assert max(checkpoints) == max(entry["step"] for entry in run.progress() if "train_loss" in entry)
    kept = load_bi_encoder(ModelSource("", folder=checkpoints[max(checkpoints)]), [])
    assert kept.encode(["한강은 어디로 흐르는가?"]).any()
    assert logged(run, "loss")
    assert not run.model_folder.exists()
    assert run.scores() == {}
    run.delete()
    assert all_runs() == []


def test_a_training_killed_at_work_is_interrupted_and_readable() -> None:
    run = endless(misleading_set())
    with launched_by_another(run):
        wait_until(lambda: logged(run, "loss") != [] or run.status().state is State.FAILED)
        assert run.status().state is State.RUNNING, told(run)
        os.kill(run.status().pid, signal.SIGKILL)
        wait_until(lambda: run.status().state is State.INTERRUPTED, 10)
    assert run.status().step > 0
    assert logged(run, "loss")
    assert run.plan().options.epochs == 1000
    assert not run.model_folder.exists()


def test_a_run_asked_to_stop_before_it_begins_stops() -> None:
    run = endless(misleading_set())
    run.ask_to_stop()
    with launched_by_another(run):
        wait_until(lambda: run.status().state not in (State.WAITING, State.RUNNING))
    assert run.status().state is State.STOPPED, told(run)
    assert not run.model_folder.exists()
