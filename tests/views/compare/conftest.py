import pytest

from text.analyzers import Analyzer
from views import choices


@pytest.fixture(autouse=True)
def _four_retrievers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparisons here are made by hand, of four retrievers: BM25 of words is a subject of `test_choices`."""
    monkeypatch.setattr(choices, "_suited_analyzer", lambda *_: Analyzer.WORD)
