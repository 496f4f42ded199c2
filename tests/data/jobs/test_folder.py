"""Tests of job folders: status of running, failed and killed jobs; jobs of signed-in users and their limits."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from filelock import FileLock

from mrc_workbench.data.jobs import folder as module
from mrc_workbench.data.jobs.folder import Job, State, Status, progress_writer, run_job, run_job_exclusively
from mrc_workbench.data.jobs.processes import start_detached, this_process
from mrc_workbench.data.jobs.queue import Queue
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.store import save_question_set
from mrc_workbench.data.workspace import LimitError, acting_as, shared_workspace, user_of, workspace, write_text
from tests.doubles import small_set
from tests.training.worlds import wait_until


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "job")


def describe_error(error: BaseException) -> tuple[str, str]:
    return "reason", str(error)


def running_status(**more: float) -> Status:
    pid, pid_started = this_process()
    return replace(Status(State.RUNNING, pid=pid, pid_started=pid_started), **more)  # type: ignore[arg-type]


def test_successful_job_is_done(job: Job) -> None:
    states = []

    def work(initial_status: Status) -> None:
        states.append(job.status().state)
        job.write_status(replace(initial_status, progress=0.5, seconds_left=3.0))
        job.write("scores.json", {})

    assert (job.done, job.running, job.failed) == (False, False, False)
    final_status = run_job(job, work, describe_error)
    assert states == [State.RUNNING]
    assert (final_status.state, final_status.progress, final_status.seconds_left) == (State.DONE, 0.5, None)
    assert (job.done, job.running, job.failed) == (True, False, False)
    assert job.status().state is State.DONE


MISSING = "this needs onnx: pip install 'mrc-workbench[onnx]'"


@pytest.mark.parametrize(
    ("error", "state", "codes", "message"),
    [
        (module.StopRequested(), State.STOPPED, ("", ""), ""),
        (ValueError("why"), State.FAILED, ("reason", "unexpected"), "why"),
        (KeyboardInterrupt(), State.FAILED, ("reason", "unexpected"), ""),
        (Failure("empty_file", "it is empty"), State.FAILED, ("reason", "empty_file"), "it is empty"),
        (ModuleNotFoundError("no onnx", name="onnx"), State.FAILED, ("reason", "missing_extra"), MISSING),
    ],
)
def test_stores_failure(job: Job, error: BaseException, state: State, codes: tuple[str, str], message: str) -> None:
    def work(_: Status) -> None:
        raise error

    assert run_job(job, work, describe_error).state is state
    status = job.status()
    assert (status.state, status.code, status.message) == (state, codes[0], message)
    assert job.failed is (state is State.FAILED)
    assert run_job_exclusively(job, work) == 2
    status = job.status()
    assert (status.state, status.code, status.message) == (state, codes[1], message)


def test_running_time_continues_after_resume(job: Job) -> None:
    job.write_status(Status(State.STOPPED, started=time.time() - 60, queued=5.0))
    statuses = []
    run_job(job, statuses.append, describe_error)
    assert statuses[0].seconds == pytest.approx(60, abs=1)
    assert statuses[0].queued == 5.0


@pytest.mark.parametrize(
    ("status", "left"),
    [
        (Status(progress=0.25, started=100.0, heartbeat=110.0), 30.0),  # a quarter took 10 s
        (Status(progress=0.05, started=100.0, heartbeat=110.0), None),  # too early to tell
        (Status(progress=1.0, started=100.0, heartbeat=110.0), None),
        (Status(progress=0.5, total_steps=10, seconds_left=7.0), 7.0),  # the process knows
        (Status(progress=0.5, total_steps=10, started=1.0, heartbeat=9.0), None),  # unknown during an evaluation
    ],
)
def test_estimates_time_left(status: Status, left: float | None) -> None:
    assert status.remaining_seconds == left


def test_reads_status_of_earlier_versions(job: Job) -> None:
    numbers = {"step": 3, "total_steps": 9, "queued": 1.0, "started": 2.0, "heartbeat": 5.0, "pid": 1}
    rest = {"seconds_left": None, "seconds": 0.0, "pid_started": 0.0, "code": "", "message": ""}
    old = {"state": "stopped", "phase": "training", **numbers, **rest}
    write_text(job.folder / "status.json", json.dumps(old))
    assert job.status() == Status(State.STOPPED, "training", **numbers)  # type: ignore[arg-type]
    write_text(job.folder / "status.json", json.dumps(old | {"share": 0.5, "tells_time": True}))
    assert (job.status().progress, job.status().reports_remaining) == (0.5, True)


@pytest.mark.parametrize("name", ["stop", "kill"])
def test_stops_a_queued_job(job: Job, name: str) -> None:
    job.write_status(Status(State.QUEUED))
    getattr(job, name)()
    assert job.stop_requested
    assert job.status().state is (State.STOPPED if name == "stop" else State.QUEUED)


def test_requests_a_running_job_to_stop(job: Job) -> None:
    job.write_status(running_status())
    job.stop()
    assert job.status().state is State.STOPPING
    job.write_status(running_status(pid_started=1.0))  # its process is gone
    assert job.status().state is State.STOPPED
    assert not job.failed


@pytest.mark.slow
def test_stopping_ends_a_detached_process(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(job.folder / "stop", "")
    job.launch("data", "inspect", tmp_path / "no such file")
    assert not job.stop_requested  # of an earlier start
    assert job.running
    wait_until(lambda: not job.running)
    assert job.failed
    assert "no such file" in job.log()

    monkeypatch.setattr("mrc_workbench.data.jobs.folder.PROGRAM", "timeit")
    job.launch("-n1", "-r1", "import time; time.sleep(60)")
    assert job.running
    job.kill()
    wait_until(lambda: not job.running)
    assert (job.status().state, job.failed) == (State.STOPPED, False)


@pytest.mark.slow
def test_job_started_concurrently_runs_once(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.data.jobs.folder.PROGRAM", "timeit")
    with ThreadPoolExecutor(6) as pool:
        [*pool.map(lambda _: job.launch("-n1", "-r1", "import time; time.sleep(60)"), range(6))]
    started = [process for process in psutil.process_iter() if str(job.folder) in opened(process)]
    assert [process.pid for process in started] == [job.status().pid]
    job.kill()
    assert not job.running


def opened(process: psutil.Process) -> list[str]:
    """Folders of the files that a process writes to."""
    try:
        return [str(Path(file.path).parent) for file in process.open_files() if file.path.endswith("log.txt")]
    except psutil.Error:
        return []


@pytest.mark.parametrize(
    "damage",
    [
        *({"pid": "abc"}, {"pid": -1}, {"pid": 2**70}, {"pid": None}),
        *({"progress": -1.0}, {"progress": "x"}, {"step": "1"}),
        *({"heartbeat": float("nan")}, {"started": float("inf")}, {"state": 3}, {"phase": None}, {"unknown": 1}),
    ],
)
def test_status_with_wrong_types_is_damaged(damage: dict[str, object], job: Job) -> None:
    job.write("status.json", {"state": "running"} | damage)
    if damage == {"step": "1"}:  # converted
        assert job.status().step == 1
        return
    assert job.status() == Status(State.INTERRUPTED, code=module.DAMAGED)


def test_skips_unreadable_lines_of_log_and_progress(job: Job) -> None:
    assert job.log() == ""
    write_text(job.folder / "log.txt", "one\ntwo\nthree\n")
    assert (job.log(), job.log(lines=2)) == ("one\ntwo\nthree\n", "two\nthree")
    lines = ['{"step": 1}', "[" * 100_000, '"text"', '{"step": "x"}', '{"step": 9}', ""]
    write_text(job.folder / "progress.jsonl", "\n".join(lines))
    assert job.progress() == [{"step": 1}, {"step": "x"}, {"step": 9}]
    job.drop_progress_after(5)
    assert job.progress() == [{"step": 1}, {"step": "x"}]


def test_writes_every_phase_change(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.time, "monotonic", lambda: 100.0)  # no time passes at all
    write = progress_writer(job, running_status(started=1.0))
    write("BM25", 0.0)
    for phase, fraction, expected in (("BM25", 0.1, 0.0), ("Dense", 0.2, 0.2), ("Dense", 1.0, 1.0)):
        write(phase, fraction)  # within a phase, writes are limited
        assert (job.status().phase, job.status().progress) == (phase, expected)


def test_limits_status_writes_within_a_phase(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    write = progress_writer(job, running_status(started=1.0))
    fractions = []
    for step in range(100):
        now += 0.01
        write("Dense", 0.01 + step / 200)
        fractions.append(job.status().progress)
    assert 4 <= len(set(fractions)) <= 6


def test_time_left_is_what_the_process_reports(job: Job) -> None:
    left: float | None = 12.0
    parts: dict[str, float | None] = {"one": 3.0, "two": None}
    write = progress_writer(job, running_status(started=1.0), lambda: left, lambda: parts)
    write("Dense", 0.5)
    assert (job.status().remaining_seconds, dict(job.status().parts_left)) == (12.0, parts)
    left = None
    parts["two"] = 4.5
    write("Hybrid", 0.6)
    assert (job.status().remaining_seconds, dict(job.status().parts_left)) == (None, {"one": 3.0, "two": 4.5})
    running = Status(State.RUNNING, progress=0.6, started=1.0, heartbeat=7.0)
    assert replace(running, reports_remaining=True).remaining_seconds is None
    assert running.remaining_seconds == pytest.approx(4.0)


def test_runs_in_single_process(job: Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(module, "_SECONDS_TO_END", 0.05)
    done: list[Status] = []
    job.folder.mkdir()
    with FileLock(job.folder / ".running.lock"):
        assert run_job_exclusively(job, done.append) == 2
    assert "another process is running" in capsys.readouterr().err
    assert not (job.folder / "status.json").exists()
    assert run_job_exclusively(job, done.append) == 0
    assert (len(done), job.status().state) == (1, State.DONE)


ALICE = user_of("https://id.example.org", "alice")
BOB = user_of("https://id.example.org", "bob")
WHERE = """
import json
from mrc_workbench.data.store import stored
from mrc_workbench.data.workspace import are_limited, shared_workspace, user, workspace
print(json.dumps([user(), str(workspace()), str(shared_workspace()), are_limited(), [one.name for one in stored()]]))
"""


def make_job(folder: str, name: str, state: State) -> Job:
    job = Job(workspace() / folder / name)
    pid, started = this_process()
    job.write_status(Status(state, pid=pid, pid_started=started) if state is State.RUNNING else Status(state))
    return job


def jobs_of(folder: str) -> list[Job]:
    return [Job(path.parent) for path in sorted((workspace() / folder).glob("*/status.json"))]


@pytest.mark.slow
def test_process_uses_the_workspace_of_its_user(tmp_path: Path) -> None:
    save_question_set(small_set("on the shelf"))
    for name in (ALICE, BOB, ""):
        with acting_as(name):
            log = tmp_path / f"{name}.txt"
            start_detached("timeit", "-n1", "-r1", WHERE, log=log).wait(120)
            output = json.loads(log.read_text(encoding="utf-8").splitlines()[0])
            assert output == [name, str(workspace()), str(shared_workspace()), False, ["on the shelf"]]


def test_limits_queued_jobs_per_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_JOBS", "2")
    line = Queue("runs", lambda: jobs_of("runs"))
    with acting_as(ALICE):
        make_job("runs", "one", State.QUEUED)
        make_job("runs", "ended", State.DONE)
        line.admit()
        with pytest.raises(LimitError):
            line.admit(2)
        stopped = make_job("runs", "stopped", State.STOPPED)
        make_job("runs", "two", State.RUNNING)
        with pytest.raises(LimitError) as refused:
            line.admit()
        assert (refused.value.code, refused.value.details) == ("jobs", {"jobs": 2, "limit": 2})
        with pytest.raises(LimitError):
            line.resume(stopped)
        assert stopped.status().state is State.STOPPED
    with acting_as(BOB):
        line.admit(2)
    line.admit(50)


def test_limits_concurrent_jobs_per_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_JOBS", "1")
    with acting_as(ALICE):
        running = make_job("comparisons", "one", State.RUNNING)
        other = Job(workspace() / "comparisons" / "two")
        with pytest.raises(LimitError):
            other.admit()
        assert not other.folder.exists()
        running.admit()  # a running job is always admitted
        Job(workspace() / "cache" / "dry_runs" / "one").admit()
        running.write_status(Status(State.DONE))
        other.admit()


def test_starts_no_job_beyond_the_storage_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_MEGABYTES", "1")
    with acting_as(ALICE):
        workspace().mkdir(parents=True)
        (workspace() / "large").write_bytes(b"x" * 1_000_001)
        for admit in (Job(workspace() / "comparisons" / "one").admit, Queue("runs", list).admit):
            with pytest.raises(LimitError) as refused:
                admit()
            assert refused.value.code == "megabytes"
        assert [path.name for path in workspace().iterdir()] == ["large"]


def test_stopped_job_never_starts_by_itself(job: Job) -> None:
    assert (job.can_autostart, job.is_unfinished, job.is_stopped) == (True, False, False)
    job.write_status(running_status())
    assert (job.can_autostart, job.is_unfinished, job.is_stopped) == (False, False, False)
    job.write_status(running_status(pid_started=1.0))  # its process is gone
    assert (job.can_autostart, job.is_unfinished, job.is_stopped) == (False, True, False)
    job.kill()
    assert (job.can_autostart, job.is_unfinished, job.is_stopped) == (False, True, True)
    write_text(job.folder / "status.json", "{")  # the stop outlives a damaged status
    assert (job.can_autostart, job.is_unfinished, job.is_stopped) == (False, True, True)
    (job.folder / "stop").unlink()
    assert (job.can_autostart, job.is_unfinished, job.is_stopped) == (True, False, False)
    job.write_status(Status(State.DONE))
    job.write("scores.json", {})  # a result that was there before the stop counts
    job.kill()
    assert (job.done, job.is_unfinished, job.is_stopped) == (True, False, False)
