import pytest

from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.workbench.views import choices


@pytest.fixture(autouse=True)
def _four_retrievers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out BM25 of words: the tests write comparisons of four retrievers by hand."""
    monkeypatch.setattr(choices, "_suited_analyzer", lambda *_: Analyzer.WORD)


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[Experiment]:
    """Record the started experiments and run no processes."""
    experiments: list[Experiment] = []
    monkeypatch.setattr(ComparisonJob, "start", lambda _, experiment: experiments.append(experiment))
    return experiments
