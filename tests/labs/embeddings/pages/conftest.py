"""What a page would measure is not the subject of its tests, and would outlive them."""

import pytest

from mrc_workbench.data.studies import StudyJob
from mrc_workbench.labs.embeddings.results import Request


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    asked: list[Request] = []
    monkeypatch.setattr(StudyJob, "start", lambda _, request: asked.append(request))
    return asked
