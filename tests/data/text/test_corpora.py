"""A corpus is a stream of documents, of a question set, a file or a kept text: in UTF-8, kept whole or not at all."""

import hashlib
import json
import re
import unicodedata
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import Passage, QuestionSet
from mrc_workbench.data.store import keep as keep_set
from mrc_workbench.data.text import corpora as texts
from mrc_workbench.data.text.corpora import Corpus, LanguageError, PassageCorpus, find_corpus, held_out, text_corpus
from mrc_workbench.data.workspace import acting_as, workspace
from mrc_workbench.workbench.cli import main
from tests.labs.language.doubles import refused


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "words.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("content", "documents"),
    [
        ("배가 고프다\n배를 탔다\n", ["배가 고프다", "배를 탔다"]),
        ("배가 고프다\n배를 탔다\n\n\n  끝  \r\n", ["배가 고프다\n배를 탔다", "끝"]),
        ("\n\n배가 고프다\n배를 탔다\n\n", ["배가 고프다", "배를 탔다"]),  # nothing is parted by what stands outside
        ("\ufeff하나\r\n \t\r\n둘", ["하나", "둘"]),
        ("하나", ["하나"]),
    ],
)
def test_empty_lines_part_paragraphs_and_without_any_a_line_is_a_document(
    content: str, documents: list[str], tmp_path: Path
) -> None:
    found = text_corpus(written(tmp_path, content))
    assert [*found.documents()] == documents == [*found.documents()]  # again from the beginning
    assert found.name == "words"
    plain = content.removeprefix("\ufeff")
    assert found.fingerprint == hashlib.sha256(plain.encode()).hexdigest()
    assert found.characters == len(plain)


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        (b"", "no_text", None),
        (b" \n\t\r\n", "no_text", None),
        ("하나\n둘\n".encode() + "셋".encode("cp949"), "bad_text", 3),
        ("하나\n".encode() + "둘".encode()[:2] + b"\n", "bad_text", 2),
        ("하나\n둘".encode()[:-1], "bad_text", 2),
        (b"\xef\xbb", "bad_text", 1),
        ("one\ntwo".encode("utf-16"), "bad_text", 1),
        ("one\ntwo".encode("utf-16-le"), "bad_text", 1),
    ],
)
def test_what_is_no_text_is_told_with_its_line(content: bytes, code: str, line: int | None, tmp_path: Path) -> None:
    for path in (tmp_path / "none.txt", tmp_path):
        with refused("unreadable_text"):
            text_corpus(path)
    with pytest.raises(LanguageError) as raised:
        text_corpus(written(tmp_path, content))
    assert (raised.value.code, raised.value.details.get("line")) == (code, line)
    assert "words.txt" in str(raised.value)
    with pytest.raises(LanguageError) as raised:
        keep(content, "bad")
    assert (raised.value.code, raised.value.details["file"]) == (code, "bad")
    assert (texts.stored(), files_kept()) == ([], [])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=st.binary(max_size=60) | st.text("가나 \n\r배\t\u2028a", max_size=60).map(str.encode))
@example(content="가나다라마바사".encode() * 3)
@example(content=b"\xef\xbb\xbf\xef\xbb\xbf\n")
def test_any_bytes_are_documents_or_told_with_the_first_line_that_is_none(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "_BLOCK", 5)  # so that letters stand across two parts
    path = written(tmp_path, content)
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    bad = next((number for number, line in enumerate(lines, start=1) if not is_text(line)), None)
    if bad or not b"\n".join(lines).decode().strip():
        with pytest.raises(LanguageError) as raised:
            text_corpus(path)
        assert (raised.value.code, raised.value.details.get("line")) == ("bad_text" if bad else "no_text", bad)
        return
    found = [*text_corpus(path).documents()]
    assert all(document.strip() for document in found)
    assert re.sub(r"\s", "", "".join(found)) == re.sub(r"\s", "", b"\n".join(lines).decode())


def is_text(line: bytes) -> bool:
    try:
        return "\x00" not in line.decode()
    except UnicodeDecodeError:
        return False


def test_a_long_line_or_paragraph_is_cut_between_words_and_nothing_of_it_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "LONGEST", 20)
    words = [f"말{number}" for number in range(50)]
    for content in (" ".join(words), "\n".join(words) + "\n\n끝"):
        found = [*text_corpus(written(tmp_path, content)).documents()]
        assert max(map(len, found)) <= 20
        assert [word for document in found for word in document.split()] == content.split()
    monkeypatch.setattr(texts, "_BLOCK", 64)
    found = [*text_corpus(written(tmp_path, "가" * 1000)).documents()]
    assert max(map(len, found)) <= 20
    assert "".join(found) == "가" * 1000, "a line without a space is cut all the same"


LINES = "배가 고프다\n배를 탔다\n배를 먹었다\n"


def keep(content: str | bytes = LINES, name: str = "낱말") -> texts.StoredText:
    return texts.keep(BytesIO(content if isinstance(content, bytes) else content.encode()), name)


def files_kept() -> list[str]:
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


def test_progress_goes_up_to_the_end_and_a_stop_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        texts.keep(BytesIO(LINES.encode()), "낱말", on_progress=stop)
    assert files_kept() == []
    monkeypatch.setattr(texts, "_BLOCK", 1000)
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


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, content in (("one.txt", "배가 고프다\n"), ("two.txt", "배를 탔다\n배를 샀다\n")):
        (tmp_path / name).write_text(content, encoding="utf-8")
    return [str(tmp_path / name) for name in ("one.txt", "two.txt")]


def test_files_are_kept_and_listed_unless_they_are_no_text(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["language", "import", *files]) == 0
    kept = capsys.readouterr().out
    assert main(["language", "list"]) == 0
    listed = capsys.readouterr().out
    assert sorted(kept.splitlines()) == sorted(listed.splitlines())
    two, one = texts.stored()
    assert [one.name, two.name] == ["one", "two"]
    assert f"{two.reference}               12 characters             2 documents  two" in listed
    assert main(["language", "list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["key"], each["documents"], each["source"]) for each in told] == [
        (two.key, 2, files[1]),
        (one.key, 1, files[0]),
    ]
    (tmp_path / "bad.txt").write_bytes("배".encode("cp949"))
    for name, said in (("bad.txt", "is no UTF-8"), ("none.txt", "none.txt is no file")):
        assert main(["language", "import", str(tmp_path / name)]) == 2
        assert said in capsys.readouterr().err
    assert len(texts.stored()) == 2


def set_of(passages: list[str], title: str = "") -> QuestionSet:
    given = [Passage(str(row), text, title) for row, text in enumerate(passages)]
    return QuestionSet("passages", given, ())  # type: ignore[arg-type]


def test_passages_are_documents_without_their_titles() -> None:
    passages = ["배가 고프다", "배를 탔다"]
    keep_set(set_of(passages, title="배"))
    found: Corpus = find_corpus("passages")
    assert [*found.documents()] == passages == [*found.documents()]
    assert (found.name, found.characters) == ("passages", 11)
    assert found.fingerprint == PassageCorpus(set_of(passages)).fingerprint
    assert found.fingerprint != PassageCorpus(set_of(passages[::-1])).fingerprint


def test_a_file_is_found_by_its_path_and_a_kept_text_by_its_reference(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("배가 고프다\n배를 탔다\n", encoding="utf-8")
    kept = texts.keep(BytesIO(path.read_bytes()), "낱말")
    for reference, name in ((str(path), "words"), (kept.reference, "낱말"), ("text:낱말", "낱말")):
        found = find_corpus(reference)
        assert (found.name, found.fingerprint) == (name, kept.fingerprint)
        assert [*found.documents()] == ["배가 고프다", "배를 탔다"]
    for reference, code in (("nowhere", "unknown_set"), ("text:nowhere", "unknown_text")):
        with refused(code, Failure):
            find_corpus(reference)


@pytest.mark.parametrize("name", ["words.txt", "questions.csv", "none.txt"])
def test_a_user_names_no_file_of_the_server(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in ("words.txt", "questions.csv"):
        (tmp_path / file).write_text("배\n", encoding="utf-8")
    with acting_as("a" * 32):
        with refused("server_path") as raised:
            find_corpus(str(tmp_path / name))
        assert str(tmp_path) not in str(raised.value)
        monkeypatch.setenv("MRC_USER_PATHS", "true")
        assert find_corpus(str(tmp_path / "words.txt")).name == "words"


def test_a_share_of_documents_is_held_out_by_content_alone() -> None:
    documents = [f"{number}번째 글" for number in range(10_000)]
    kept = [held_out(document, 0.1, 0) for document in documents]
    assert sum(kept) == pytest.approx(1000, abs=4 * (10_000 * 0.1 * 0.9) ** 0.5)
    copies = [f" {unicodedata.normalize('NFD', document)}\n".replace(" ", "  ") for document in documents]
    assert [held_out(document, 0.1, 0) for document in copies] == kept
    assert [held_out(document, 0.1, 1) for document in documents] != kept
    assert all(held_out(document, 0.2, 0) for document, was in zip(documents, kept, strict=True) if was)
    assert not any(held_out(document, 0.0, 0) for document in documents)
    assert all(held_out(document, 1.0, 0) for document in documents)
