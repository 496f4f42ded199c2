"""Test doubles for the queue worker and the hub, and a transformer on disk."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.models.files import HubRevision
from mrc_workbench.training.runs import Run, TrainingPlan, create_rounds
from mrc_workbench.workbench.views.train import base
from mrc_workbench.workbench.views.train import start as train_start
from tests.tiny_models import build_bi_encoder
from tests.workbench.views.train.worlds import page, unopened


@pytest.fixture
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queued runs stay queued."""
    monkeypatch.setattr("mrc_workbench.data.jobs.queue.Queue.start_worker", lambda _: None)


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch, no_worker: None) -> list[Run]:
    """Return the submitted runs, which stay queued."""
    runs: list[Run] = []

    def created(plan: TrainingPlan) -> None:
        runs.extend(create_rounds(plan))

    monkeypatch.setattr(train_start, "create_rounds", created)
    return runs


@pytest.fixture
def at_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub has every model."""
    monkeypatch.setattr(base, "hub_revision", lambda _: HubRevision("a" * 40, online=True, downloaded=False))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a transformer."""
    return build_bi_encoder(tmp_path_factory.mktemp("base") / "model")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Return the query parameters of opened pages."""
    pages: list[dict[str, str]] = []
    monkeypatch.setattr("streamlit.switch_page", lambda _, query_params: pages.append(query_params))
    return pages


@pytest.fixture
def app() -> AppTest:
    """Return the Train page, not run yet, with collapsed groups."""
    return unopened(page, whole=False)
