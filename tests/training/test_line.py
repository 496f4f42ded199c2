"""One training at a time, in order, whoever asked, whatever dies."""

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
from tests.programs import have_libraries_read, run_module, words_of
from tests.training.worlds import logged, misleading_set, planned, wait_until

ENDED = (State.DONE, State.STOPPED, State.FAILED, State.INTERRUPTED)


def short() -> Run:
    return planned(BI_ENCODER, misleading_set(), epochs=1.0)


def endless() -> Run:
    return planned(BI_ENCODER, misleading_set(200), epochs=1000.0, batch_size=4, logging_steps=1)


def start_worker() -> None:
    have_libraries_read()
    QUEUE.start_worker()


def states(*runs: Run) -> list[State]:
    return [run.status().state for run in runs]


def workers() -> list[psutil.Process]:
    here = str(workspace())
    found = []
    for process in psutil.process_iter():
        try:
            words = words_of(process)
            if words[1:5] == ["-m", "mrc_workbench", "internal", "runs-worker"] and any(
                file.path.startswith(here) for file in process.open_files()
            ):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    yield
    for process in workers():
        process.kill()
    for run in all_runs():
        run.end()


def test_the_line_is_in_the_order_of_asking() -> None:
    runs = [short() for _ in range(4)]
    for place, run in enumerate(runs):
        run.write_status(replace(run.status(), queued=100.0 - place))
    assert QUEUE.queued() == runs[::-1]


def test_a_queued_run_is_taken_out_of_the_line_and_deleted() -> None:
    first, second = short(), short()
    first.stop()
    assert states(first, second) == [State.STOPPED, State.QUEUED]
    assert QUEUE.queued() == [second]
    first.delete()
    second.delete()
    assert all_runs() == []


class Sent:
    """A process that was started for a run."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self.wait = wait


def test_a_run_resumed_while_its_old_process_goes_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    run, times = short(), 0

    def stopped_and_resumed() -> None:
        nonlocal times
        times += 1
        ended = State.QUEUED if times == 1 else State.DONE
        run.write_status(replace(run.status(), state=ended, queued=time.time(), pid=0))

    monkeypatch.setattr("mrc_workbench.data.jobs.queue.detached", lambda *_, **__: Sent(stopped_and_resumed))
    QUEUE.work()
    assert (times, run.status().state) == (2, State.DONE)


def test_a_run_whose_process_says_nothing_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = short(), short()
    monkeypatch.setattr("mrc_workbench.data.jobs.queue.detached", lambda *_, **__: Sent(lambda: None))
    QUEUE.work()
    assert states(first, second) == [State.INTERRUPTED, State.INTERRUPTED]
    first.stop()
    assert states(first) == [State.INTERRUPTED]


@pytest.mark.slow
def test_one_after_the_other() -> None:
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
def test_whatever_is_killed_the_line_goes_on() -> None:
    first, second = endless(), short()
    start_worker()
    wait_until(lambda: bool(logged(first, "loss")))
    assert states(first, second) == [State.RUNNING, State.QUEUED]

    # the training is killed: the worker sends the next one
    os.kill(first.status().pid, signal.SIGKILL)
    wait_until(lambda: first.status().state is State.INTERRUPTED)
    wait_until(lambda: second.status().state in ENDED)
    assert second.status().state is State.DONE, second.log()[-2000:]

    # the worker is killed: the training goes on, and the next asker brings a new worker, which waits for it
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
def test_a_line_that_a_switched_off_machine_left_goes_on_when_somebody_looks() -> None:
    running, waiting = short(), short()
    # as a power cut leaves them: a process that is no more, and no worker
    running.write_status(replace(running.status(), state=State.RUNNING, pid=2**22 - 1, pid_started=1.0))
    assert states(running, waiting) == [State.INTERRUPTED, State.QUEUED]
    have_libraries_read()
    QUEUE.keep_going()
    wait_until(lambda: waiting.status().state in ENDED)
    assert states(running, waiting) == [State.INTERRUPTED, State.DONE]
    wait_until(lambda: not workers(), 30)
    QUEUE.keep_going()
    assert not workers()  # nothing to do, nobody started


@pytest.mark.slow
def test_a_command_stands_in_the_same_line() -> None:
    first = endless()
    start_worker()
    wait_until(lambda: first.status().state is State.RUNNING)
    words = ["bi-encoder", "--data", "sample", "--base", "starter", "--epochs", "1", "--name", "mine"]
    with ThreadPoolExecutor(1) as beside:
        command = beside.submit(run_module, "mrc_workbench", "train", *words)
        wait_until(lambda: len(all_runs()) == 2 and bool(all_runs()[0].status().pid))
        mine = next(run for run in all_runs() if run.plan().name == "mine")
        assert states(first, mine) == [State.RUNNING, State.QUEUED]
        assert mine.status().attended
        later = short()
        start_worker()
        time.sleep(1)
        first.stop()
        wait_until(lambda: later.status().state in ENDED)
        told = command.result(60)
    assert told.returncode == 0, told.stderr
    first_line, *lines, last_line = told.stdout.splitlines()
    after = next(line for line in lines if line.split()[:1] == ["after"])
    figures = " ".join(f"{name} {value:.4f}" for name, value in mine.scores()["after"].items())
    assert after.split()[1:] == figures.split()
    assert (first_line, last_line) == (f"run folder: {mine.folder}", f"model: {mine.model_folder}")
    assert states(first, mine, later) == [State.STOPPED, State.DONE, State.DONE]
    assert mine.status().started < later.status().started


@pytest.mark.slow
def test_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    run = endless()
    start_worker()
    wait_until(lambda: bool(logged(run, "loss")))
    assert main(["runs", "list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(one["id"], one["state"], one["kind"], one["data"]) for one in told] == [
        (run.id, "running", "bi-encoder", run.plan().data_name)
    ]
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


def test_who_holds_the_machine_is_told_while_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_note_that_says_nothing_is_nobody(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_LOCK", str(tmp_path / "machine.lock"))
    (tmp_path / "machine.json").write_text(content)
    assert QUEUE.holder() is None


@pytest.mark.slow
def test_workspaces_of_one_machine_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = endless()
    start_worker()
    wait_until(lambda: here.status().state is State.RUNNING)
    with monkeypatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(tmp_path / "another"))
        there = short()
        start_worker()
        wait_until(lambda: there.status().attended)
        time.sleep(1)
        assert states(here, there) == [State.RUNNING, State.QUEUED]
        holder = QUEUE.holder()
        assert holder is not None
        assert (holder.name, holder.pid) == (here.id, here.status().pid)
    here.stop()
    wait_until(lambda: there.status().state in ENDED)
    assert there.status().state is State.DONE, there.log()[-2000:]
