"""The start of jobs on the pages."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.jobs.folder import Job, State, Status
from mrc_workbench.workbench.views.ui.words import catalog
from tests.workbench.views.driving import opened, press, run


def page() -> None:
    from pathlib import Path

    import streamlit as st

    from mrc_workbench.data.jobs.folder import Job
    from mrc_workbench.workbench.views.ui.job import draw_job

    class Counted(Job):
        pass

    job = Counted(Path(st.query_params["folder"]))

    def start() -> None:
        starts = job.folder.parent / "starts"
        starts.write_text((starts.read_text() if starts.exists() else "") + "x")

    draw_job(job, start, lambda _: "at work", "embeddings", "Start", by_itself=True)


def look(job: Job) -> AppTest:
    return run(opened(page, folder=str(job.folder)))


def starts(job: Job) -> int:
    path = job.folder.parent / "starts"
    return len(path.read_text()) if path.exists() else 0


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "job")


def test_starts_unstarted_job_once(job: Job) -> None:
    look(job)
    assert starts(job) == 1


@pytest.mark.parametrize("state", [State.STOPPED, State.FAILED, State.INTERRUPTED])
def test_waits_for_button_after_early_end_in_every_session(job: Job, state: State) -> None:
    job.write_status(Status(state))
    app = look(job)
    look(job)
    assert starts(job) == 0
    press(app, f"start_{job.id}")
    assert starts(job) == 1


def test_keeps_stopped_job_stopped_despite_status(job: Job) -> None:
    job.write_status(Status(State.RUNNING, pid=2**31 - 1))
    job.request_stop()
    look(job)
    assert starts(job) == 0


@pytest.mark.parametrize("language", ["ko", "en"])
def test_shows_how_to_install_a_missing_extra(job: Job, language: str) -> None:
    message = "this needs torch: pip install 'mrc-workbench[models]'"
    job.write_status(Status(State.FAILED, code="missing_extra", message=message))
    app = run(opened(page, folder=str(job.folder), lang=language))
    texts = catalog(language)
    assert [element.value for element in app.error] == [texts["embeddings.failed"].format(reason=texts["extra.job"])]
    assert message in [element.value for element in app.code]
