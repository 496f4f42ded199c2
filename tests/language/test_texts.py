"""Texts are kept by their content, whole or not at all, and found by fingerprint and name."""

import hashlib
from io import BytesIO

import pytest

from data.workspace import workspace
from language import text_file, texts
from language.text_file import LanguageError

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
