"""What holds of every kind of kept set: question sets, pairs, dictionaries and texts."""

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
from mrc_workbench.data.store import KeptSet
from mrc_workbench.data.text import corpora as text_store
from mrc_workbench.data.text import dictionary as dictionary_store
from mrc_workbench.data.text.dictionary import read_dictionary
from mrc_workbench.data.workspace import LimitError, acting_as, shared_workspace, user_of, workspace

ALICE, BOB = user_of("https://id.example.org", "alice"), user_of("https://id.example.org", "bob")
NAME = "../이름: 세트/들"
NO_KEYS = ["..", "../datasets", "", "0123456789abcdeg", "0123456789abcdef", "/", "\x00", "x" * 5000]
NO_NOTES = ["", "{", "[]", '{"key": 1}', "\x00", "[" * 100_000]


@dataclass(frozen=True)
class Kind:
    """How a set with some words, which tell it from others, is kept under a name, and what else its store can do."""

    store: Any
    folder: str
    keep: Callable[[str, str], KeptSet]
    loads: bool = True  # by a key


def _questions(words: str, name: str) -> KeptSet:
    return question_store.keep(QuestionSet(name, (Passage("a", words),), ()))


def _pairs(words: str, name: str) -> KeptSet:
    return pair_store.keep(PairSet.of(name, PairKind.SENTENCES, [[words]]))


def _dictionary(words: str, name: str) -> KeptSet:
    return dictionary_store.keep(read_dictionary("\n".join(words.split()).encode()), name)


def _text(words: str, name: str) -> KeptSet:
    return text_store.keep(BytesIO(words.encode()), name)


KINDS = {
    "questions": Kind(question_store, "datasets", _questions),
    "pairs": Kind(pair_store, "pairs", _pairs),
    "dictionary": Kind(dictionary_store, "dictionaries", _dictionary),
    "text": Kind(text_store, "texts", _text, loads=False),
}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


def listed(kind: Kind) -> list[tuple[str, bool]]:
    return [(kept.name, kept.shared) for kept in kind.store.stored()]


def test_what_is_kept_is_listed_once_under_its_newest_name(kind: Kind) -> None:
    first, other = kind.keep("서울", "first"), kind.keep("부산", "other")
    again = kind.keep("서울", NAME)
    assert again.key == first.key == first.fingerprint[:16] != other.key
    assert kind.store.stored() == [again, other]
    assert sorted(path.name for path in (workspace() / kind.folder).iterdir()) == sorted([again.key, other.key])


def test_it_is_found_by_its_name_its_key_and_the_beginning_of_its_fingerprint(kind: Kind) -> None:
    kept = kind.keep("서울", NAME)
    for reference in (NAME, kept.key, kept.fingerprint, kept.fingerprint[:8]):
        assert kind.store.find(reference).fingerprint == kept.fingerprint
    for reference in (*NO_KEYS, kept.fingerprint[:7], f"../{kind.folder}/{kept.key}"):
        with pytest.raises(Failure) as raised:
            kind.store.find(reference)
        assert f"{NAME} ({kept.reference})" in str(raised.value)


def test_it_is_removed_once_and_no_path_is_a_key(kind: Kind) -> None:
    kept = kind.keep("서울", NAME)
    other = workspace() / kind.folder / "other"
    other.mkdir()
    for key in (*NO_KEYS, "other", f"../{kind.folder}/other", kept.key[:8]):
        for act in (kind.store.remove, *([kind.store.load] if kind.loads else [])):
            with pytest.raises(Failure):
                act(key)
    assert kind.store.stored() == [kept]
    kind.store.remove(kept.key)
    assert (kind.store.stored(), [*(workspace() / kind.folder).iterdir()]) == ([], [other])
    with pytest.raises(Failure):
        kind.store.remove(kept.key)


@pytest.mark.parametrize("note", NO_NOTES)
def test_a_note_that_cannot_be_read_is_passed_over_told_and_removed(kind: Kind, note: str) -> None:
    kept, broken = kind.keep("서울", NAME), kind.keep("부산", "broken")
    (workspace() / kind.folder / broken.key / "set.json").write_text(note, encoding="utf-8")
    (workspace() / kind.folder / "notes.txt").write_text("", encoding="utf-8")
    assert (kind.store.stored(), kind.store.damaged()) == ([kept], [broken.key])
    kind.store.remove(broken.key)
    assert (kind.store.damaged(), (workspace() / kind.folder / broken.key).exists()) == ([], False)


def test_the_shelf_is_read_by_all_and_changed_by_nobody(kind: Kind) -> None:
    shared = kind.keep("서울", "shelf")
    with acting_as(ALICE):
        own = kind.keep("부산", "own")
        assert listed(kind) == [("own", False), ("shelf", True)]
        assert kind.store.find("shelf").fingerprint == shared.fingerprint
        with pytest.raises(Failure):
            kind.store.remove(shared.key)
        kind.keep("서울", "my copy")  # hides it, and is removed alone
        assert listed(kind) == [("my copy", False), ("own", False)]
        kind.store.remove(shared.key)
        assert listed(kind) == [("own", False), ("shelf", True)]
    with acting_as(BOB):
        assert listed(kind) == [("shelf", True)]
        for reference in (own.key, "own", f"../../{ALICE}/{kind.folder}/{own.key}"):
            for act in (kind.store.find, kind.store.remove):
                with pytest.raises(Failure):
                    act(reference)
    assert listed(kind) == [("shelf", False)]


def test_no_note_of_a_users_says_that_it_is_shared(kind: Kind) -> None:
    with acting_as(ALICE):
        note = workspace() / kind.folder / kind.keep("서울", NAME).key / "set.json"
        told = json.loads(note.read_text(encoding="utf-8"))
        assert "shared" not in told
        note.write_text(json.dumps(told | {"shared": True}), encoding="utf-8")
        assert listed(kind) == [(NAME, False)]


def test_what_is_damaged_on_the_shelf_is_told_to_the_operator_alone(kind: Kind) -> None:
    shared = kind.keep("서울", "shelf")
    (shared_workspace() / kind.folder / shared.key / "set.json").write_text("{", encoding="utf-8")
    with acting_as(ALICE):
        assert (kind.store.stored(), kind.store.damaged()) == ([], [])
        with pytest.raises(Failure):
            kind.store.find("shelf")
    assert kind.store.damaged() == [shared.key]


def test_what_is_more_than_a_user_may_keep_is_not_kept(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_MEGABYTES", "1")
    with acting_as(ALICE):
        (workspace() / "other").mkdir(parents=True)
        (workspace() / "other" / "file").write_bytes(b"x" * 1_000_001)
        with pytest.raises(LimitError) as raised:
            kind.keep("서울", NAME)
        assert (raised.value.code, kind.store.stored()) == ("megabytes", [])
        assert [*(workspace() / kind.folder).iterdir()] == []
