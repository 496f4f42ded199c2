"""Which readers can be picked, and which have seen what they are judged on."""

import pytest

from data.split import Part
from data.store import StoredSet, keep
from tests.doubles import small_set
from tests.reading.doubles import SET
from tests.views.driving import opened
from tests.views.reading.worlds import page, trained
from views.reading.controls import Readers


@pytest.fixture
def data() -> StoredSet:
    return keep(SET)


def options(**address: str) -> list[str]:
    found: list[str] = opened(page, retrievers="BM25", **address).selectbox(key="reader_en").options
    return found


def test_every_training_is_offered_and_any_of_the_hub_can_be_named(data: StoredSet) -> None:
    trained(data, "Old")
    trained(data, "New")
    assert sorted(options()) == ["New", "Old"]
    assert options(reader="somebody/reader")[-1] == "somebody/reader"
    assert opened(page, reader="somebody/reader").query_params["reader"] == "somebody/reader"


def test_what_is_no_name_of_a_model_is_left_out(data: StoredSet) -> None:
    trained(data)
    assert options(reader="<script>") == ["Mine"]


def test_a_training_has_seen_what_it_learned_from(data: StoredSet) -> None:
    run = trained(data)
    readers = Readers({run.id: "Mine", "hub/reader": "hub/reader"}, {run.id: run})
    assert readers.has_seen(run.id, data, Part.ALL)
    assert readers.has_seen(run.id, data, Part.TRAIN)
    assert not readers.has_seen(run.id, data, Part.TEST)
    assert not readers.has_seen(run.id, keep(small_set()), Part.ALL)
    assert not readers.has_seen("hub/reader", data, Part.ALL)
