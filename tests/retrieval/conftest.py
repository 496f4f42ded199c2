"""What the tests of this room share."""

import pytest

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import CATALOG, read_entry
from tests.tiny_models import build_bi_encoder


@pytest.fixture(scope="session")
def sample() -> QuestionSet:
    return read_entry(CATALOG["sample"]).question_set


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build_bi_encoder(tmp_path_factory.mktemp("model") / "tiny"))


@pytest.fixture
def stored_work(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workspace of the session with stored tokens, vectors and rankings."""
    monkeypatch.setenv("MRC_WORKSPACE", str(tmp_path_factory.getbasetemp() / "kept work"))
