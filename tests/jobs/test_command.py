"""What a page's process does with a job's folder, and what its exit status says."""

from pathlib import Path

import pytest
from filelock import FileLock

from data.problems import Failure
from jobs import folder
from jobs.folder import AskedToStop, Job, carried_out_alone
from jobs.status import State, Status


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "job")


def test_work_that_is_done_and_work_that_fails(job: Job) -> None:
    assert carried_out_alone(job, lambda _: job.write("scores.json", {})) == 0
    assert (job.done, job.status().state) == (True, State.DONE)
    for error, state, code in (
        (Failure("empty_file", "there is nothing in it"), State.FAILED, "empty_file"),
        (ValueError("bad"), State.FAILED, "unexpected"),
        (AskedToStop(), State.STOPPED, ""),
    ):

        def work(_: Status, error: Exception = error) -> None:
            raise error

        assert carried_out_alone(job, work) == 2
        assert (job.status().state, job.status().code) == (state, code)


def test_one_process_at_a_time(job: Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(folder, "_SECONDS_TO_END", 0.05)
    done: list[Status] = []
    job.folder.mkdir()
    with FileLock(job.folder / ".at_work.lock"):
        assert carried_out_alone(job, done.append) == 2
    assert "another process is at work" in capsys.readouterr().err
    assert not (job.folder / "status.json").exists()
    assert carried_out_alone(job, done.append) == 0
    assert len(done) == 1
