"""Texts are kept by their content, whole or not at all, and found by fingerprint and name."""

import hashlib
from io import BytesIO
from pathlib import Path

import pytest

from data.workspace import LimitError, acting_as, workspace
from language import text_file, texts
from language.problems import LanguageError

ALICE, BOB = "a" * 32, "b" * 32
LINES = "배가 고프다\n배를 탔다\n배를 먹었다\n"


def keep(content: str | bytes = LINES, name: str = "낱말") -> texts.StoredText:
    return texts.keep(BytesIO(content if isinstance(content, bytes) else content.encode()), name)


def files() -> list[str]:
    return sorted(path.relative_to(workspace()).as_posix() for path in workspace().rglob("*") if path.is_file())


@pytest.mark.parametrize(("content", "documents"), [(LINES, 3), ("가\n나\n\n다\n", 2), ("\ufeff가\n", 1)])
def test_what_is_kept_opens_as_it_was_given(content: str, documents: int) -> None:
    kept = keep(content)
    assert texts.stored() == [kept]
    plain = content.removeprefix("\ufeff")
    assert (kept.fingerprint, kept.characters) == (hashlib.sha256(plain.encode()).hexdigest(), len(plain))
    found = texts.find(kept.key)
    assert found == texts.opened(kept)
    assert (found.name, found.fingerprint, found.characters) == ("낱말", kept.fingerprint, kept.characters)
    assert found.path.read_bytes() == content.encode()
    assert len([*found.documents()]) == kept.documents == documents


def test_it_is_found_by_its_name_and_by_the_beginning_of_its_fingerprint() -> None:
    kept = keep()
    assert kept.reference == f"text:{kept.fingerprint[:16]}"
    for wanted in ("낱말", kept.fingerprint[:8], kept.key, kept.fingerprint):
        assert texts.find(wanted).fingerprint == kept.fingerprint
    for wanted in ("", kept.fingerprint[:7], "0" * 16, "../" + kept.key, str(workspace())):
        with pytest.raises(LanguageError, match="낱말") as raised:
            texts.find(wanted)
        assert raised.value.code == "unknown_text"


def test_the_same_content_is_kept_once_under_its_newest_name() -> None:
    keep(name="first")
    kept = keep(name="second")
    assert [one.name for one in texts.stored()] == [kept.name] == ["second"]


@pytest.mark.parametrize(
    ("content", "code"), [(b"", "no_text"), (" \n", "no_text"), ("가".encode("cp949"), "bad_text")]
)
def test_what_is_no_text_leaves_nothing_behind(content: bytes | str, code: str) -> None:
    kept = keep()
    before = files()
    with pytest.raises(LanguageError) as raised:
        keep(content, "bad")
    assert (raised.value.code, raised.value.details["file"]) == (code, "bad")
    assert (texts.stored(), files()) == ([kept], before)


def test_what_ends_on_the_way_leaves_nothing_behind() -> None:
    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        texts.keep(BytesIO(LINES.encode()), "낱말", on_progress=stop)
    assert files() == []


def test_progress_goes_up_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_file, "_BLOCK", 1000)
    told: list[float] = []
    texts.keep(BytesIO(LINES.encode() * 1000), "낱말", on_progress=told.append)
    assert told == sorted(told)
    assert 0 < told[0] < 0.1
    assert 0.9 < told[-1] <= 1


def test_content_that_somebody_changed_is_told() -> None:
    kept = keep()
    path = texts.opened(kept).path
    path.write_bytes(path.read_bytes().replace("배".encode(), "말".encode()))
    with pytest.raises(LanguageError) as raised:
        texts.find(kept.key)
    assert (raised.value.code, raised.value.details) == ("broken_text", {"name": "낱말"})


def test_it_is_removed_and_a_path_is_none() -> None:
    kept = keep()
    other = workspace() / "texts" / "other"
    other.mkdir()
    for key in ("../texts/other", "other", kept.key[:8]):
        with pytest.raises(LanguageError):
            texts.remove(key)
    texts.remove(kept.key)
    assert (texts.stored(), other.is_dir()) == ([], True)


def test_a_note_that_cannot_be_read_is_told_and_can_be_removed() -> None:
    kept = keep()
    (workspace() / "texts" / kept.key / "set.json").write_text("{", encoding="utf-8")
    assert (texts.stored(), texts.damaged()) == ([], [kept.key])
    texts.remove(kept.key)
    assert texts.damaged() == []


def test_users_have_texts_of_their_own_and_read_those_of_the_shelf() -> None:
    shared = keep("모두의 글\n", "shelf")
    with acting_as(ALICE):
        keep()
        assert [(one.name, one.shared) for one in texts.stored()] == [("낱말", False), ("shelf", True)]
        assert texts.find(shared.key).name == "shelf"
        with pytest.raises(LanguageError):
            texts.remove(shared.key)
    with acting_as(BOB):
        assert [one.name for one in texts.stored()] == ["shelf"]


def test_what_is_more_than_a_user_may_keep_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MRC_USER_MEGABYTES", "1")
    with acting_as(ALICE):
        with pytest.raises(LimitError) as raised:
            keep("가나다라마바사 " * 100_000)
        assert (raised.value.code, texts.stored(), files()) == ("megabytes", [], [])
