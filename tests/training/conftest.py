"""Trainings that many tests share."""

from pathlib import Path

import pytest

from mrc_workbench.data.store import find
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER
from tests.training.worlds import Trained, create_planned_run, train_in


@pytest.fixture(scope="module")
def module_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("module")


@pytest.fixture
def shared_workspace_of_module(module_workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Share a workspace among the tests of a module: texts are tokenized, and starters built, once."""
    monkeypatch.setenv("MRC_WORKSPACE", str(module_workspace))


@pytest.fixture(scope="session")
def training_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trainings")


@pytest.fixture(scope="session")
def _bi_encoder(training_workspace: Path) -> Trained:
    options = {"batch_size": 64, "learning_rate": 0.02, "logging_steps": 1, "save_limit": 5}
    return train_in(training_workspace, lambda: create_planned_run(BI_ENCODER, find("sample"), **options))


@pytest.fixture(scope="session")
def _cross_encoder(training_workspace: Path) -> Trained:
    options = {"negatives": 3, "learning_rate": 0.05, "logging_steps": 1, "save_limit": 5}
    return train_in(training_workspace, lambda: create_planned_run(CROSS_ENCODER, find("sample"), **options))


@pytest.fixture
def bi_encoder(_bi_encoder: Trained, training_workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Trained:
    """A starter bi-encoder trained on the sample; the test uses the workspace of the training."""
    monkeypatch.setenv("MRC_WORKSPACE", str(training_workspace))
    return _bi_encoder


@pytest.fixture
def cross_encoder(_cross_encoder: Trained, training_workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Trained:
    """A starter cross-encoder trained on the sample; the test uses the workspace of the training."""
    monkeypatch.setenv("MRC_WORKSPACE", str(training_workspace))
    return _cross_encoder
