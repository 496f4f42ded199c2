import pytest

from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.workbench.views import choices
from tests.doubles import small_set


@pytest.fixture(autouse=True)
def _four_retrievers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparisons here are made by hand, of four retrievers: BM25 of words is a subject of `test_choices`."""
    monkeypatch.setattr(choices, "_suited_analyzer", lambda *_: Analyzer.WORD)


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[Experiment]:
    """The experiments started, in place of their processes."""
    experiments: list[Experiment] = []
    monkeypatch.setattr(ComparisonJob, "start", lambda _, experiment: experiments.append(experiment))
    return experiments


@pytest.fixture
def data() -> StoredSet:
    return save_question_set(small_set())
