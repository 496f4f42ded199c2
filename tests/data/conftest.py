"""Fixtures of the data tests: a temporary workspace, and the real KorQuAD file if available."""

import os
from pathlib import Path

import pytest

from mrc_workbench.data.questions.read import QuestionSetReading, read_file


@pytest.fixture
def workspace_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "workspace"
    monkeypatch.setenv("MRC_WORKSPACE", str(folder))
    monkeypatch.delenv("MRC_DATA", raising=False)
    return folder


@pytest.fixture(scope="session")
def korquad_file() -> Path:
    path = Path(os.environ.get("MRC_DATA", "")) / "KorQuAD_v1.0_dev.json"
    if not path.is_file():
        pytest.skip("needs KorQuAD_v1.0_dev.json in the folder that MRC_DATA names")
    return path


@pytest.fixture(scope="session")
def korquad(korquad_file: Path) -> QuestionSetReading:
    return read_file(korquad_file)
