"""Jobs of signed-in users: each in its user's workspace, and no more of them than one may have."""

import json
from pathlib import Path

import pytest

from data.workspace import LimitError, acting_as, shared_workspace, user_of, workspace
from jobs.detached import detached
from jobs.folder import Job, State, Status
from jobs.machine import this_process
from jobs.queue import Queue

ALICE, BOB = user_of("https://id.example.org", "alice"), user_of("https://id.example.org", "bob")
WHERE = """
import json
from data.store import stored
from data.workspace import are_limited, shared_workspace, user, workspace
print(json.dumps([user(), str(workspace()), str(shared_workspace()), are_limited(), [one.name for one in stored()]]))
"""


def a_job(place: str, name: str, state: State) -> Job:
    job = Job(workspace() / place / name)
    pid, started = this_process()
    job.write_status(Status(state, pid=pid, pid_started=started) if state is State.RUNNING else Status(state))
    return job


def jobs_in(place: str) -> list[Job]:
    return [Job(path.parent) for path in sorted((workspace() / place).glob("*/status.json"))]


@pytest.mark.slow
def test_a_process_works_in_the_workspace_of_who_started_it(tmp_path: Path) -> None:
    from data.store import keep
    from tests.doubles import small_set

    keep(small_set("on the shelf"))
    for name in (ALICE, BOB, ""):
        with acting_as(name):
            log = tmp_path / f"{name}.txt"
            detached("timeit", "-n1", "-r1", WHERE, log=log).wait(120)
            told = json.loads(log.read_text(encoding="utf-8").splitlines()[0])
            assert told == [name, str(workspace()), str(shared_workspace()), False, ["on the shelf"]]


def test_a_user_has_so_many_in_line_and_the_others_places_are_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_JOBS", "2")
    line = Queue("training", "runs", lambda: jobs_in("runs"))
    with acting_as(ALICE):
        a_job("runs", "one", State.QUEUED)
        a_job("runs", "ended", State.DONE)
        line.admit()
        with pytest.raises(LimitError):
            line.admit(2)
        stopped = a_job("runs", "stopped", State.STOPPED)
        a_job("runs", "two", State.RUNNING)
        with pytest.raises(LimitError) as refused:
            line.admit()
        assert (refused.value.code, refused.value.details) == ("jobs", {"jobs": 2, "limit": 2})
        with pytest.raises(LimitError):
            line.resume(stopped)
        assert stopped.status().state is State.STOPPED
    with acting_as(BOB):
        line.admit(2)
    line.admit(50)


def test_a_user_has_so_many_beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_JOBS", "1")
    with acting_as(ALICE):
        running = a_job("comparisons", "one", State.RUNNING)
        other = Job(workspace() / "comparisons" / "two")
        with pytest.raises(LimitError):
            other.admit()
        assert not other.folder.exists()
        running.admit()  # to look at what is at work anyway
        Job(workspace() / "cache" / "rehearsals" / "one").admit()
        running.write_status(Status(State.DONE))
        other.admit()


def test_without_room_no_job_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_MEGABYTES", "1")
    with acting_as(ALICE):
        workspace().mkdir(parents=True)
        (workspace() / "large").write_bytes(b"x" * 1_000_001)
        for admit in (Job(workspace() / "comparisons" / "one").admit, Queue("training", "runs", list).admit):
            with pytest.raises(LimitError) as refused:
                admit()
            assert refused.value.code == "megabytes"
        assert [path.name for path in workspace().iterdir()] == ["large"]
