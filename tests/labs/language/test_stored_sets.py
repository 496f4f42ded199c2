"""Behaviour of all kinds of stored sets: question sets, pairs, dictionaries and texts."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import pytest

from mrc_workbench.data import store as question_store
from mrc_workbench.data.pairs import PairKind, PairSet
from mrc_workbench.data.pairs import store as pair_store
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import Passage, QuestionSet
from mrc_workbench.data.store import StoredItem
from mrc_workbench.data.text import corpora as text_store
from mrc_workbench.data.text import dictionary as dictionary_store
from mrc_workbench.data.text.dictionary import read_dictionary
from mrc_workbench.data.workspace import LimitError, acting_as, shared_workspace, user_of, workspace

ALICE = user_of("https://id.example.org", "alice")
BOB = user_of("https://id.example.org", "bob")
NAME = "../이름: 세트/들"
NO_KEYS = ["..", "../datasets", "", "0123456789abcdeg", "0123456789abcdef", "/", "\x00", "x" * 5000]
NO_NOTES = ["", "{", "[]", '{"key": 1}', "\x00", "[" * 100_000]


@dataclass(frozen=True)
class Kind:
    """A kind of stored set: its store, and a function that stores a set of these words under a name."""

    store: Any
    folder: str
    store_set: Callable[[str, str], StoredItem]
    loads: bool = True  # whether the store has `load`


def _questions(words: str, name: str) -> StoredItem:
    return question_store.save_question_set(QuestionSet(name, (Passage("a", words),), ()))


def _pairs(words: str, name: str) -> StoredItem:
    return pair_store.save_pairs(PairSet.from_columns(name, PairKind.SENTENCES, [[words]]))


def _dictionary(words: str, name: str) -> StoredItem:
    return dictionary_store.save(read_dictionary("\n".join(words.split()).encode()), name)


def _text(words: str, name: str) -> StoredItem:
    return text_store.save_text(BytesIO(words.encode()), name)


KINDS = {
    "questions": Kind(question_store, "datasets", _questions),
    "pairs": Kind(pair_store, "pairs", _pairs),
    "dictionary": Kind(dictionary_store, "dictionaries", _dictionary),
    "text": Kind(text_store, "texts", _text, loads=False),
}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    selected: Kind = request.param
    return selected


def list_sets(kind: Kind) -> list[tuple[str, bool]]:
    return [(stored_set.name, stored_set.shared) for stored_set in kind.store.stored()]


def test_lists_set_once_under_newest_name(kind: Kind) -> None:
    first = kind.store_set("서울", "first")
    other = kind.store_set("부산", "other")
    again = kind.store_set("서울", NAME)
    assert again.key == first.key == first.fingerprint[:16] != other.key
    assert kind.store.stored() == [again, other]
    assert sorted(path.name for path in (workspace() / kind.folder).iterdir()) == sorted([again.key, other.key])


def test_finds_set_by_name_key_and_fingerprint_prefix(kind: Kind) -> None:
    stored_set = kind.store_set("서울", NAME)
    for reference in (NAME, stored_set.key, stored_set.fingerprint, stored_set.fingerprint[:8]):
        assert kind.store.find(reference).fingerprint == stored_set.fingerprint
    for reference in (*NO_KEYS, stored_set.fingerprint[:7], f"../{kind.folder}/{stored_set.key}"):
        with pytest.raises(Failure) as raised:
            kind.store.find(reference)
        assert f"{NAME} ({stored_set.reference})" in str(raised.value)


def test_removes_set_once_and_rejects_paths(kind: Kind) -> None:
    stored_set = kind.store_set("서울", NAME)
    other = workspace() / kind.folder / "other"
    other.mkdir()
    for key in (*NO_KEYS, "other", f"../{kind.folder}/other", stored_set.key[:8]):
        for operation in (kind.store.remove, *([kind.store.load] if kind.loads else [])):
            with pytest.raises(Failure):
                operation(key)
    assert kind.store.stored() == [stored_set]
    kind.store.remove(stored_set.key)
    assert (kind.store.stored(), [*(workspace() / kind.folder).iterdir()]) == ([], [other])
    with pytest.raises(Failure):
        kind.store.remove(stored_set.key)


@pytest.mark.parametrize("note", NO_NOTES)
def test_skips_reports_and_removes_damaged_set(kind: Kind, note: str) -> None:
    stored_set = kind.store_set("서울", NAME)
    broken = kind.store_set("부산", "broken")
    (workspace() / kind.folder / broken.key / "set.json").write_text(note, encoding="utf-8")
    (workspace() / kind.folder / "notes.txt").write_text("", encoding="utf-8")
    assert (kind.store.stored(), kind.store.damaged()) == ([stored_set], [broken.key])
    kind.store.remove(broken.key)
    assert (kind.store.damaged(), (workspace() / kind.folder / broken.key).exists()) == ([], False)


def test_shared_sets_are_read_only(kind: Kind) -> None:
    shared = kind.store_set("서울", "shelf")
    with acting_as(ALICE):
        own_set = kind.store_set("부산", "own")
        assert list_sets(kind) == [("own", False), ("shelf", True)]
        assert kind.store.find("shelf").fingerprint == shared.fingerprint
        with pytest.raises(Failure):
            kind.store.remove(shared.key)
        kind.store_set("서울", "my copy")  # hides the shared set
        assert list_sets(kind) == [("my copy", False), ("own", False)]
        kind.store.remove(shared.key)
        assert list_sets(kind) == [("own", False), ("shelf", True)]
    with acting_as(BOB):
        assert list_sets(kind) == [("shelf", True)]
        for reference in (own_set.key, "own", f"../../{ALICE}/{kind.folder}/{own_set.key}"):
            for operation in (kind.store.find, kind.store.remove):
                with pytest.raises(Failure):
                    operation(reference)
    assert list_sets(kind) == [("shelf", False)]


def test_user_set_cannot_claim_to_be_shared(kind: Kind) -> None:
    with acting_as(ALICE):
        note = workspace() / kind.folder / kind.store_set("서울", NAME).key / "set.json"
        content = json.loads(note.read_text(encoding="utf-8"))
        assert "shared" not in content
        note.write_text(json.dumps(content | {"shared": True}), encoding="utf-8")
        assert list_sets(kind) == [(NAME, False)]


def test_reports_damaged_shared_set_to_operator_only(kind: Kind) -> None:
    shared = kind.store_set("서울", "shelf")
    (shared_workspace() / kind.folder / shared.key / "set.json").write_text("{", encoding="utf-8")
    with acting_as(ALICE):
        assert (kind.store.stored(), kind.store.damaged()) == ([], [])
        with pytest.raises(Failure):
            kind.store.find("shelf")
    assert kind.store.damaged() == [shared.key]


def test_rejects_set_above_user_limit(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_MEGABYTES", "1")
    with acting_as(ALICE):
        (workspace() / "other").mkdir(parents=True)
        (workspace() / "other" / "file").write_bytes(b"x" * 1_000_001)
        with pytest.raises(LimitError) as raised:
            kind.store_set("서울", NAME)
        assert (raised.value.code, kind.store.stored()) == ("megabytes", [])
        assert [*(workspace() / kind.folder).iterdir()] == []
