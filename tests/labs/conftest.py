"""Pages without jobs, which would outlive the tests."""

from typing import Any

import pytest

from mrc_workbench.data.studies import StudyJob


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Records the requests of jobs instead of starting them."""
    requests: list[Any] = []
    monkeypatch.setattr(StudyJob, "start", lambda _, request: requests.append(request))
    return requests
