"""Models that a person adds to those that are measured."""

import pytest

from data.workspace import workspace, write_text
from embeddings.encoder import add, added, remove
from models.hub import ModelError


def test_a_model_is_added_once_and_removed_again() -> None:
    add("klue/roberta-base")
    add("snunlp/KR-SBERT-V40K-klueNLI-augSTS")
    add("klue/roberta-base")
    assert added() == ["snunlp/KR-SBERT-V40K-klueNLI-augSTS", "klue/roberta-base"]
    remove("klue/roberta-base")
    assert added() == ["snunlp/KR-SBERT-V40K-klueNLI-augSTS"]


def test_what_no_model_can_be_called_is_not_added() -> None:
    with pytest.raises(ModelError):
        add("no such/model of/this name")
    assert added() == []


def test_a_damaged_list_is_an_empty_one() -> None:
    write_text(workspace() / "embeddings" / "models.json", '{"models": "x"}')
    assert added() == []
