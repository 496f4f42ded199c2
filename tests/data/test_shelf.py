"""The shelf: sets of the operator's that every user reads beside their own, and cannot change."""

import json
from pathlib import Path

import pytest

from data.__main__ import main
from data.cache import cached_arrays
from data.problems import DataError
from data.records import Passage, Question, QuestionSet
from data.remarks import mark_negative, remarks_of
from data.store import damaged, find, keep, load, passages_of, remove, stored
from data.workspace import acting_as, shared_workspace, user_of, workspace
from tests.doubles import small_set

ALICE, BOB = user_of("https://id.example.org", "alice"), user_of("https://id.example.org", "bob")
OWN = QuestionSet("own", (Passage("a", "서울은 수도이다"),), (Question("1", "수도는?", ("서울",), ("a",)),))


@pytest.fixture
def shared(tmp_path: Path) -> str:
    """The key of a set that the operator keeps by a command."""
    file = tmp_path / "everybody.json"
    passages = {passage.id: passage for passage in small_set().passages}
    rows = [{"question": one.text, "context": passages[one.relevant[0]].text} for one in small_set().questions]
    file.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    assert main(["keep", str(file)]) == 0
    (kept,) = stored()
    return kept.key


def files(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


def test_everybody_sees_it_after_their_own(shared: str) -> None:
    for name in (ALICE, BOB):
        with acting_as(name):
            own = keep(OWN)
            assert [(kept.key, kept.shared) for kept in stored()] == [(own.key, False), (shared, True)]
            assert load(shared).fingerprint[:16] == shared
            assert len(passages_of(shared)) == 5
            assert find("everybody").fingerprint[:16] == shared
    assert [(kept.key, kept.shared) for kept in stored()] == [(shared, False)]


def test_nobody_but_the_operator_removes_or_changes_it(shared: str) -> None:
    before = files(shared_workspace() / "datasets")
    with acting_as(ALICE):
        with pytest.raises(DataError):
            remove(shared)
        mark_negative(load(shared).fingerprint, "1", "2")
        assert len(remarks_of(load(shared).fingerprint)) == 1
    with acting_as(BOB):
        assert len(remarks_of(load(shared).fingerprint)) == 0
    assert files(shared_workspace() / "datasets") == before
    assert not (shared_workspace() / "remarks").exists()
    remove(shared)
    assert stored() == []


def test_what_is_made_of_it_is_the_users(shared: str) -> None:
    import numpy as np

    with acting_as(ALICE):
        cached_arrays("rankings", "key", lambda: {"one": np.zeros(1)})
        assert (workspace() / "cache" / "rankings" / "key.npz").is_file()
    assert not (shared_workspace() / "cache").exists()


def test_ones_own_of_the_same_content_hides_it_and_is_removed_alone(shared: str) -> None:
    with acting_as(ALICE):
        again = keep(QuestionSet("my copy", load(shared).passages, load(shared).questions))
        assert [(kept.key, kept.name, kept.shared) for kept in stored()] == [(shared, "my copy", False)]
        assert load(shared).name == "my copy"
        remove(again.key)
        assert [(kept.key, kept.name, kept.shared) for kept in stored()] == [(shared, "everybody", True)]


def test_a_set_of_another_user_is_nowhere(shared: str) -> None:
    with acting_as(ALICE):
        own = keep(OWN).key
        before = files(workspace())
    with acting_as(BOB):
        assert [kept.key for kept in stored()] == [shared]
        for reference in (own, "own", f"../../{ALICE}/datasets/{own}", f"../users/{ALICE}/datasets/{own}"):
            for attempt in (load, passages_of, remove, find):
                with pytest.raises(DataError):
                    attempt(reference)
    with acting_as(ALICE):
        assert files(workspace()) == before
        assert load(own) == OWN


def test_no_note_of_a_users_says_that_it_is_shared(shared: str) -> None:
    with acting_as(ALICE):
        own = keep(OWN)
        note = workspace() / "datasets" / own.key / "set.json"
        assert "shared" not in json.loads(note.read_text(encoding="utf-8"))
        note.write_text(json.dumps(json.loads(note.read_text(encoding="utf-8")) | {"shared": True}), encoding="utf-8")
        assert not stored()[0].shared


def test_what_is_damaged_on_it_is_told_to_the_operator_alone(shared: str) -> None:
    (shared_workspace() / "datasets" / shared / "set.json").write_text("{", encoding="utf-8")
    with acting_as(ALICE):
        assert (stored(), damaged()) == ([], [])
        with pytest.raises(DataError):
            load(shared)
    assert damaged() == [shared]
