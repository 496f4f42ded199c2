"""What a job tells of itself while it is at work."""

from pathlib import Path

import pytest

from jobs import folder
from jobs.folder import Job, progress_writer
from jobs.processes import this_process
from jobs.status import State, Status

PID, PID_STARTED = this_process()
BEGAN = Status(State.RUNNING, started=1.0, pid=PID, pid_started=PID_STARTED)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "job").mkdir()
    return Job(tmp_path / "job")


def told(job: Job) -> tuple[str, float]:
    status = job.read("status.json")
    return status["phase"], status["share"]


def test_a_change_of_phase_is_never_dropped_however_soon_it_comes(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder.time, "monotonic", lambda: 100.0)  # no time passes at all
    write = progress_writer(job, BEGAN)
    write("BM25", 0.0)
    write("BM25", 0.1)
    assert told(job) == ("BM25", 0.0)  # a page looks no more often
    write("Dense", 0.2)
    assert told(job) == ("Dense", 0.2)
    write("Dense", 1.0)
    assert told(job) == ("Dense", 1.0)


def test_what_is_said_of_one_phase_is_said_a_few_times_a_second(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(folder.time, "monotonic", lambda: now)
    write = progress_writer(job, BEGAN)
    seen = []
    for step in range(100):
        now += 0.01
        write("Dense", 0.01 + step / 200)
        seen.append(told(job)[1])
    assert 4 <= len(set(seen)) <= 6


def test_the_time_left_is_what_the_process_says_and_none_where_it_knows_none(job: Job) -> None:
    left: float | None = 12.0
    write = progress_writer(job, BEGAN, lambda: left)
    write("Dense", 0.5)
    assert job.status().left == 12.0
    left = None
    write("Hybrid", 0.6)
    status = job.read("status.json")
    assert status["seconds_left"] is None
    assert Status(State.RUNNING, share=0.6, started=1.0, heartbeat=7.0, tells_time=True).left is None
    assert Status(State.RUNNING, share=0.6, started=1.0, heartbeat=7.0).left == pytest.approx(4.0)
