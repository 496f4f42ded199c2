"""What an evaluation has chosen for a reader and a retriever counts for a typed question, too."""

import os

import pytest

from data.store import StoredSet, keep
from data.workspace import workspace, write_json
from tests.reading.doubles import SET
from views.reading.evaluation import Weight, kept_weights, latest_reading


@pytest.fixture
def data() -> StoredSet:
    return keep(SET)


def kept(key: str, name: str, weight: float, *, seconds: int, chosen: str | None = "validation") -> None:
    path = workspace() / "reading" / name / "scores.json"
    content = {
        "experiment": {"data": key, "reader": [{"name": "r", "model": "a/reader"}]},
        "weights": {"r": {"BM25": {"weight": weight, "chosen_on": chosen}}},
        "units": {"r": {"BM25": 2.5}},
    }
    write_json(path, content)
    os.utime(path, (seconds, seconds))


def test_the_newest_choice_of_this_reader_on_this_set_counts(data: StoredSet) -> None:
    assert latest_reading(data) is None
    assert kept_weights(data, "a/reader") == {}
    kept(data.key, "old", 4.0, seconds=100)
    kept(data.key, "new", 0.5, seconds=200)
    kept(data.key, "not-chosen", 8.0, seconds=300, chosen=None)
    kept("other", "other", 1.0, seconds=400)
    assert kept_weights(data, "a/reader") == {"BM25": Weight(0.5, 2.5)}
    assert kept_weights(data, "another") == {}
    assert latest_reading(data) == workspace() / "reading" / "not-chosen"


@pytest.mark.parametrize("content", [[], {"experiment": 3}, {"experiment": {"data": "KEY"}}])
def test_what_cannot_be_read_is_passed_over(data: StoredSet, content: object) -> None:
    if isinstance(content, dict) and isinstance(content.get("experiment"), dict):
        content = {"experiment": {"data": data.key}}
    write_json(workspace() / "reading" / "bad" / "scores.json", content)
    kept(data.key, "good", 1.0, seconds=100)
    assert kept_weights(data, "a/reader") == {"BM25": Weight(1.0, 2.5)}
