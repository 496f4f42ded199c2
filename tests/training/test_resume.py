"""A training continues from its last complete checkpoint after any interruption, with the same result."""

import errno
import gc
import multiprocessing
import multiprocessing.process
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from mrc_workbench.data.cache import SEAL
from mrc_workbench.data.jobs.folder import RESUMABLE, State
from mrc_workbench.data.workspace import workspace
from mrc_workbench.training import trainers
from mrc_workbench.training.engine.checkpoints import get_step, newest_checkpoint
from mrc_workbench.training.jobs import QUEUE
from mrc_workbench.training.ranker_options import BI_ENCODER, LATE_INTERACTION
from mrc_workbench.training.recipes import ranking_kinds
from mrc_workbench.training.runs import Run
from mrc_workbench.training.train import train
from mrc_workbench.training.trainers import RunFolderCallback
from mrc_workbench.workbench.cli import main
from tests.depth import DEEP
from tests.programs import forks
from tests.training.worlds import create_planned_run, misleading_set, read_logged, tiny_base, train_to_end, wait_until

pytestmark = pytest.mark.slow

# also evaluated and saved within epochs
OFTEN: dict[str, Any] = {"batch_size": 16, "evaluation_steps": 10, "save_steps": 10, "logging_steps": 1}


def weights(run: Run) -> dict[str, np.ndarray]:
    """Return the weights with a gradient.

    The bias of attention keys adds a constant, which softmax ignores: its gradient is 0 except for rounding. Adam turns
    even that into steps.
    """
    files = sorted(run.model_folder.rglob("*.safetensors"))
    read = {f"{path.name} {name}": array for path in files for name, array in load_file(path).items()}
    return {name: array for name, array in read.items() if not name.endswith("attention.self.key.bias")}


def steps(run: Run) -> list[int]:
    # at the end, the library logs the duration of each start
    return [entry["step"] for entry in run.progress() if "train_runtime" not in entry]


def assert_alike(run: Run, whole: Run, *names: str, tolerance: float = 1e-6, ignored: tuple[str, ...] = ()) -> None:
    """Check that a run learned the same as an uninterrupted one, except weights with these endings."""
    assert run.status().state is whole.status().state is State.DONE, run.log()[-3000:]
    assert run.status().step == whole.status().step
    ours = weights(run)
    assert ours.keys() == weights(whole).keys()
    for name, array in weights(whole).items():
        if not name.endswith(ignored):
            np.testing.assert_allclose(ours[name], array, rtol=0, atol=1e-6, err_msg=name)
    for name in ("loss", *names):
        np.testing.assert_allclose(read_logged(run, name), read_logged(whole, name), rtol=1e-5)
    assert run.scores()["after"] == pytest.approx(whole.scores()["after"], abs=tolerance)


def assert_came_out_alike(run: Run, whole: Run) -> None:
    assert_alike(run, whole)
    assert whole.status().step == whole.status().total_steps
    assert steps(run) == steps(whole)
    for name in ("before", "bm25"):
        assert run.scores()[name] == pytest.approx(whole.scores()[name], abs=1e-6)


def again(run: Run) -> None:
    assert run.status().state in RESUMABLE
    (run.folder / "stop").unlink(missing_ok=True)
    run.write_status(replace(run.status(), state=State.QUEUED, pid=0, pid_started=0.0))


def do_at_step(monkeypatch: pytest.MonkeyPatch, step: int, do: Any) -> None:
    original_step_end = RunFolderCallback.on_step_end

    def on_step_end(self: RunFolderCallback, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == step:
            do()
        original_step_end(self, args, state, control, **kwargs)

    monkeypatch.setattr(RunFolderCallback, "on_step_end", on_step_end)


def stopped_at(run: Run, step: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        do_at_step(patch, step, run.request_stop)
        assert train(run).state is State.STOPPED
    assert newest_step(run) == run.status().step == step
    assert not run.model_folder.exists()
    again(run)


def train_whole_and_stopped(plan: Callable[[], Run], *steps: int) -> tuple[Run, Run]:
    """Return a training without interruption, and the same one after stops at these steps."""
    whole = train_to_end(plan())
    run = plan()
    for step in steps:
        stopped_at(run, step)
    return whole, train_to_end(run)


def newest_step(run: Run) -> int:
    checkpoint = newest_checkpoint(run.folder)
    assert checkpoint is not None
    return get_step(checkpoint)


def lose_last_checkpoint(run: Run) -> None:
    """Leave the newest checkpoint incomplete, as a kill while it is saved does."""
    (run.folder / "checkpoints" / f"checkpoint-{newest_step(run)}" / SEAL).unlink()


@pytest.mark.parametrize("kind", ranking_kinds())
def test_resumes_identically_after_stop_at_any_step(kind: str) -> None:
    options = OFTEN | {"epochs": 2.0, "batch_size": 4, "evaluation_steps": 3, "save_steps": 3}
    plan = partial(create_planned_run, kind, misleading_set(questions_a_passage=2), **options)
    whole, run = train_whole_and_stopped(plan, 1, 4, 13)
    assert_came_out_alike(run, whole)


@pytest.mark.parametrize(
    ("kind", "more"),
    [(BI_ENCODER, {"mix_loss_weight": 0.0}), (BI_ENCODER, {"mix_loss_weight": 0.5}), (LATE_INTERACTION, {})],
)
def test_resumes_with_cached_layers_and_shared_passages(kind: str, more: dict[str, float]) -> None:
    """Neither stored states nor the order of batches depend on the stopped step."""
    options: dict[str, Any] = {"base": tiny_base(kind), "objective": "multiple-negatives"}
    options |= {"shared_passages": True, "frozen_layers": 1, "precision": "float32"} | more
    options |= OFTEN | {"epochs": 2.0, "batch_size": 4, "evaluation_steps": 2, "save_steps": 2}
    plan = partial(create_planned_run, kind, misleading_set(questions_a_passage=2), **options)
    whole, run = train_whole_and_stopped(plan, 1, 4)
    assert_came_out_alike(run, whole)


def test_measures_same_steps_after_stop_within_epoch() -> None:
    options: dict[str, Any] = {"epochs": 3.0, "batch_size": 4, "logging_steps": 1}
    plan = partial(create_planned_run, BI_ENCODER, misleading_set(questions_a_passage=2), **options)
    whole, run = train_whole_and_stopped(plan, 2, 7, 8)  # the second of them is the last of its epoch
    curves = [measured_run.progress() for measured_run in (run, whole)]
    measured = [[entry["step"] for entry in curve if "eval_validation_ndcg@10" in entry] for curve in curves]
    assert measured[0] == measured[1] == [7, 14, 21]
    assert_came_out_alike(run, whole)


def test_early_stopping_counter_survives_resume() -> None:
    options = OFTEN | {"batch_size": 8, "evaluation_steps": 2, "save_steps": 2}
    options |= {"epochs": 40.0, "patience": 4, "learning_rate": 1e-7}
    whole, run = train_whole_and_stopped(partial(create_planned_run, BI_ENCODER, misleading_set(), **options), 5)
    assert run.status().step == whole.status().step < whole.status().total_steps


def test_full_disk_preserves_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    from mrc_workbench.data import workspace

    run, whole = (create_planned_run(BI_ENCODER, misleading_set(200), **OFTEN, epochs=5.0) for _ in range(2))
    to_disk = workspace.to_disk

    def full(path: Path) -> None:
        if "checkpoint-20" in str(path):
            raise OSError(errno.ENOSPC, "No space left on device")
        to_disk(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workspace, "to_disk", full)
        ended = train(run)
    assert (ended.state, ended.code) == (State.FAILED, "disk")
    assert newest_step(run) == 10
    again(run)
    train(run)
    train(whole)
    assert_came_out_alike(run, whole)


def run_in_subprocess(folder: Path, environment: dict[str, str], *, by_command: bool = False) -> None:
    gc.freeze()  # garbage collection skips the libraries
    os.environ.update(environment)
    with (folder / "log.txt").open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    if by_command:
        sys.exit(main(["internal", "runs", str(folder)]))
    train(Run(folder), sent_by_worker=True)


def run_until_checkpoint_30(folder: Path, environment: dict[str, str]) -> None:
    sealed = trainers.seal

    def killed(checkpoint: Path) -> None:
        if checkpoint.name == "checkpoint-30":
            os.kill(os.getpid(), signal.SIGKILL)
        sealed(checkpoint)

    trainers.seal = killed
    run_in_subprocess(folder, environment)


Begin = Callable[..., multiprocessing.process.BaseProcess]


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Begin:
    # an earlier page test may have replaced the main module of new processes
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    context = forks()

    def begun(
        run: Run, do: Callable[[Path, dict[str, str]], None] = run_in_subprocess
    ) -> multiprocessing.process.BaseProcess:
        here = {"MRC_WORKSPACE": str(workspace()), "MRC_LOCK": str(run.folder / "machine.lock")}
        process = context.Process(target=do, args=(run.folder, here))
        process.start()
        return process

    return begun


def test_survives_random_kills(begin: Begin) -> None:
    def planned_here() -> Run:
        often = OFTEN | {"evaluation_steps": 5, "save_steps": 5}
        return create_planned_run(BI_ENCODER, misleading_set(100), **often, epochs=8.0)

    def seconds_of(run: Run) -> float:
        began = time.monotonic()
        begin(run).join(300)
        return time.monotonic() - began

    seconds_of(create_planned_run(BI_ENCODER, misleading_set(), epochs=1.0))  # the first one loads the libraries
    whole = planned_here()
    seconds = seconds_of(whole)
    assert whole.status().state is State.DONE, whole.log()[-3000:]
    moments = random.Random(0).sample(range(100), 5) if DEEP else [5, 49, 97]
    went_on_from = []
    for moment in moments:
        run = planned_here()
        process = begin(run)
        time.sleep(seconds * moment / 100)
        process.kill()
        process.join()
        state = run.status().state
        checkpoint = newest_checkpoint(run.folder)
        went_on_from.append(get_step(checkpoint) if checkpoint else 0)
        # if killed early, it is still queued; it may also have finished before the kill
        assert state in (State.INTERRUPTED, State.QUEUED, State.DONE), (moment, state, run.log()[-3000:])
        if state is State.INTERRUPTED:
            again(run)
        begin(run).join(300)
        assert_came_out_alike(run, whole)
    assert max(went_on_from) > 0, went_on_from  # not all of them before the first checkpoint


def test_kill_while_saving_resumes_from_previous_checkpoint(begin: Begin) -> None:
    options = OFTEN | {"epochs": 5.0}
    whole, run = (create_planned_run(BI_ENCODER, misleading_set(200), **options) for _ in range(2))
    killed = begin(run, run_until_checkpoint_30)
    killed.join(300)
    assert killed.exitcode == -signal.SIGKILL
    assert run.status().state is State.INTERRUPTED
    assert (run.folder / "checkpoints" / "checkpoint-30" / "weights.safetensors").is_file()
    assert newest_step(run) == 20
    again(run)
    train(run)
    train(whole)
    assert_came_out_alike(run, whole)


def test_rejects_resuming_finished_or_running_runs() -> None:
    run = create_planned_run(BI_ENCODER, misleading_set(), epochs=1.0)
    with pytest.raises(ValueError, match="queued cannot be resumed"):
        QUEUE.resume(run)
    train(run)
    with pytest.raises(ValueError, match="done cannot be resumed"):
        QUEUE.resume(run)


def test_signal_stops_with_checkpoint(begin: Begin) -> None:
    options = OFTEN | {"save_steps": 1000, "evaluation_steps": 1000, "epochs": 900.0}
    run = create_planned_run(BI_ENCODER, misleading_set(200), **options)
    process = begin(run, partial(run_in_subprocess, by_command=True))
    wait_until(lambda: bool(read_logged(run, "loss")) or run.status().state is State.FAILED)
    process.terminate()
    process.join(60)
    assert process.exitcode == 0
    status = run.status()
    checkpoint = newest_checkpoint(run.folder)
    assert status.state is State.STOPPED
    assert checkpoint is not None
    assert get_step(checkpoint) == status.step > 0
