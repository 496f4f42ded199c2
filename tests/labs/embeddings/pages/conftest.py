"""Pages start no process: jobs would outlive the tests."""

import pytest

from mrc_workbench.data.studies import StudyJob
from mrc_workbench.labs.embeddings.results import EmbeddingRequest


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[EmbeddingRequest]:
    requests: list[EmbeddingRequest] = []
    monkeypatch.setattr(StudyJob, "start", lambda _, request: requests.append(request))
    return requests
