"""The queue: one training at a time, in order, for all users and after kills."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.workspace import workspace
from mrc_workbench.training.jobs import QUEUE
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.training.runs import Run, all_runs, find_run
from mrc_workbench.workbench.cli import main
from tests.programs import run_module, wait_for_fork_server, words_of
from tests.training.worlds import create_planned_run, misleading_set, read_logged, wait_until

ENDED = (State.DONE, State.STOPPED, State.FAILED, State.INTERRUPTED)


def short() -> Run:
    return create_planned_run(BI_ENCODER, misleading_set(), epochs=1.0)


def endless() -> Run:
    return create_planned_run(BI_ENCODER, misleading_set(200), epochs=1000.0, batch_size=4, logging_steps=1)


def start_worker() -> None:
    wait_for_fork_server()
    QUEUE.start_worker()


def states(*runs: Run) -> list[State]:
    return [run.status().state for run in runs]


def workers() -> list[psutil.Process]:
    here = str(workspace())
    processes = []
    for process in psutil.process_iter():
        try:
            words = words_of(process)
            if words[1:5] == ["-m", "mrc_workbench", "internal", "runs-worker"] and any(
                file.path.startswith(here) for file in process.open_files()
            ):
                processes.append(process)
        except psutil.Error:
            continue
    return processes


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    yield
    for process in workers():
        process.kill()
    for run in all_runs():
        run.kill()


def test_queue_is_first_in_first_out() -> None:
    runs = [short() for _ in range(4)]
    for position, run in enumerate(runs):
        run.write_status(replace(run.status(), queued=100.0 - position))
    assert QUEUE.queued() == runs[::-1]


def test_deletes_queued_run() -> None:
    first = short()
    second = short()
    first.stop()
    assert states(first, second) == [State.STOPPED, State.QUEUED]
    assert QUEUE.queued() == [second]
    first.delete()
    second.delete()
    assert all_runs() == []


class Sent:
    def __init__(self, wait: Callable[[], None]) -> None:
        self.wait = wait


def test_resumes_run_while_old_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    run = short()
    times = 0

    def stopped_and_resumed() -> None:
        nonlocal times
        times += 1
        ended = State.QUEUED if times == 1 else State.DONE
        run.write_status(replace(run.status(), state=ended, queued=time.time(), pid=0))

    monkeypatch.setattr("mrc_workbench.data.jobs.queue.start_detached", lambda *_, **__: Sent(stopped_and_resumed))
    QUEUE.work()
    assert (times, run.status().state) == (2, State.DONE)


def test_marks_silent_run_as_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    first = short()
    second = short()
    monkeypatch.setattr("mrc_workbench.data.jobs.queue.start_detached", lambda *_, **__: Sent(lambda: None))
    QUEUE.work()
    assert states(first, second) == [State.INTERRUPTED, State.INTERRUPTED]
    first.stop()
    assert states(first) == [State.INTERRUPTED]


@pytest.mark.slow
def test_runs_jobs_one_at_a_time() -> None:
    runs = [short() for _ in range(2)]
    for _ in runs:
        start_worker()
    seen: set[tuple[State, ...]] = set()

    def all_done() -> bool:
        seen.add(tuple(states(*runs)))
        return all(state in ENDED for state in states(*runs))

    wait_until(all_done, 180)
    assert states(*runs) == [State.DONE] * 2, [run.log()[-2000:] for run in runs]
    assert all(state.count(State.RUNNING) <= 1 for state in seen), seen
    begun = [run.status().started for run in runs]
    ended = [run.status().heartbeat for run in runs]
    assert begun[0] < ended[0] < begun[1]
    wait_until(lambda: not workers(), 30)


@pytest.mark.slow
def test_queue_survives_kills() -> None:
    first = endless()
    second = short()
    start_worker()
    wait_until(lambda: bool(read_logged(first, "loss")))
    assert states(first, second) == [State.RUNNING, State.QUEUED]

    # the training is killed: the worker starts the next one
    os.kill(first.status().pid, signal.SIGKILL)
    wait_until(lambda: first.status().state is State.INTERRUPTED)
    wait_until(lambda: second.status().state in ENDED)
    assert second.status().state is State.DONE, second.log()[-2000:]

    # the worker is killed: the training continues, and the next request starts a new worker
    QUEUE.resume(first)
    wait_until(lambda: first.status().state is State.RUNNING)
    for process in workers():
        process.kill()
    third = short()
    start_worker()
    time.sleep(1)
    assert states(first, third) == [State.RUNNING, State.QUEUED]
    first.stop()
    wait_until(lambda: third.status().state in ENDED)
    assert states(first, third) == [State.STOPPED, State.DONE]


@pytest.mark.slow
def test_queue_restarts_after_power_off() -> None:
    running = short()
    waiting = short()
    # as after a power cut: neither the process nor a worker exists
    running.write_status(replace(running.status(), state=State.RUNNING, pid=2**22 - 1, pid_started=1.0))
    assert states(running, waiting) == [State.INTERRUPTED, State.QUEUED]
    wait_for_fork_server()
    QUEUE.ensure_worker()
    wait_until(lambda: waiting.status().state in ENDED)
    assert states(running, waiting) == [State.INTERRUPTED, State.DONE]
    wait_until(lambda: not workers(), 30)
    QUEUE.ensure_worker()
    assert not workers()  # an empty queue starts no worker


@pytest.mark.slow
def test_command_waits_in_queue() -> None:
    first = endless()
    start_worker()
    wait_until(lambda: first.status().state is State.RUNNING)
    words = ["bi-encoder", "--data", "sample", "--base", "starter", "--epochs", "1", "--name", "mine"]
    with ThreadPoolExecutor(1) as beside:
        command = beside.submit(run_module, "mrc_workbench", "train", *words)
        wait_until(lambda: len(all_runs()) == 2 and bool(all_runs()[0].status().pid))
        mine = next(run for run in all_runs() if run.plan().name == "mine")
        assert states(first, mine) == [State.RUNNING, State.QUEUED]
        assert mine.status().is_process_alive
        later = short()
        start_worker()
        time.sleep(1)
        first.stop()
        wait_until(lambda: later.status().state in ENDED)
        process = command.result(60)
    assert process.returncode == 0, process.stderr
    first_line, *lines, last_line = process.stdout.splitlines()
    after = next(line for line in lines if line.split()[:1] == ["after"])
    metrics = " ".join(f"{name} {value:.4f}" for name, value in mine.scores()["after"].items())
    assert after.split()[1:] == metrics.split()
    assert (first_line, last_line) == (f"run folder: {mine.folder}", f"model: {mine.model_folder}")
    assert states(first, mine, later) == [State.STOPPED, State.DONE, State.DONE]
    assert mine.status().started < later.status().started


@pytest.mark.slow
def test_run_commands(capsys: pytest.CaptureFixture[str]) -> None:
    run = endless()
    start_worker()
    wait_until(lambda: bool(read_logged(run, "loss")))
    assert main(["runs", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    columns = [(row["id"], row["state"], row["kind"], row["data"]) for row in rows]
    assert columns == [(run.id, "running", "bi-encoder", run.plan().data_name)]
    assert main(["runs", "list"]) == 0
    assert run.id in capsys.readouterr().out
    assert main(["runs", "delete", run.id]) == 2
    assert "must be stopped" in capsys.readouterr().err
    assert main(["runs", "stop", run.id]) == 0
    wait_until(lambda: run.status().state is State.STOPPED)
    step = run.status().step
    assert main(["runs", "stop", run.id]) == 2
    assert run_module("mrc_workbench", "runs", "resume", run.id).stdout.strip() == "queued"
    wait_until(lambda: run.status().state is State.RUNNING and run.status().step > step)
    run.stop()
    wait_until(lambda: run.status().state is State.STOPPED)
    assert main(["runs", "delete", run.id]) == 0
    assert find_run(run.id) is None
    capsys.readouterr()
    assert main(["runs", "list", "--json"]) == 0
    assert capsys.readouterr().out.strip() == "[]"
    for words in (("stop", "nobody"), ("resume", "nobody"), ("delete", "../nobody")):
        assert main(["runs", *words]) == 2
        assert "there is no run" in capsys.readouterr().err


def test_reports_lock_holder_while_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_LOCK", str(tmp_path / "machine.lock"))
    assert QUEUE.holder() is None
    run = short()
    with QUEUE.turn(run) as ours:
        assert ours
        holder = QUEUE.holder()
        assert holder is not None
        assert (holder.name, holder.pid) == (run.id, os.getpid())
        assert holder.since <= time.time()
    assert QUEUE.holder() is None


@pytest.mark.parametrize(
    "content", ["", "[]", '{"name": 1}', '{"name": "a", "since": 0, "pid": "x", "pid_started": 0}']
)
def test_ignores_invalid_lock_note(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_LOCK", str(tmp_path / "machine.lock"))
    (tmp_path / "machine.json").write_text(content)
    assert QUEUE.holder() is None


@pytest.mark.slow
def test_workspaces_share_the_machine_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = endless()
    start_worker()
    wait_until(lambda: here.status().state is State.RUNNING)
    with monkeypatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(tmp_path / "another"))
        there = short()
        start_worker()
        wait_until(lambda: there.status().is_process_alive)
        time.sleep(1)
        assert states(here, there) == [State.RUNNING, State.QUEUED]
        holder = QUEUE.holder()
        assert holder is not None
        assert (holder.name, holder.pid) == (here.id, here.status().pid)
    here.stop()
    wait_until(lambda: there.status().state in ENDED)
    assert there.status().state is State.DONE, there.log()[-2000:]
