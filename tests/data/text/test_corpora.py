"""Tests of corpora: documents of question sets, files and stored texts."""

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
from mrc_workbench.data.store import save_question_set
from mrc_workbench.data.text import corpora as texts
from mrc_workbench.data.text.corpora import Corpus, LanguageError, PassageCorpus, find_corpus, is_held_out, text_corpus
from mrc_workbench.data.workspace import acting_as, workspace
from mrc_workbench.workbench.cli import main
from tests.doubles import raises_failure


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "words.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("content", "documents"),
    [
        ("배가 고프다\n배를 탔다\n", ["배가 고프다", "배를 탔다"]),
        ("배가 고프다\n배를 탔다\n\n\n  끝  \r\n", ["배가 고프다\n배를 탔다", "끝"]),
        ("\n\n배가 고프다\n배를 탔다\n\n", ["배가 고프다", "배를 탔다"]),  # outer blank lines do not count
        ("\ufeff하나\r\n \t\r\n둘", ["하나", "둘"]),
        ("하나", ["하나"]),
    ],
)
def test_splits_at_empty_lines_else_at_lines(content: str, documents: list[str], tmp_path: Path) -> None:
    corpus = text_corpus(written(tmp_path, content))
    assert [*corpus.documents()] == documents == [*corpus.documents()]  # again from the beginning
    assert corpus.name == "words"
    plain = content.removeprefix("\ufeff")
    assert corpus.fingerprint == hashlib.sha256(plain.encode()).hexdigest()
    assert corpus.characters == len(plain)


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
def test_reports_line_of_invalid_text(content: bytes, code: str, line: int | None, tmp_path: Path) -> None:
    for path in (tmp_path / "none.txt", tmp_path):
        with raises_failure("unreadable_text"):
            text_corpus(path)
    with pytest.raises(LanguageError) as raised:
        text_corpus(written(tmp_path, content))
    assert (raised.value.code, raised.value.details.get("line")) == (code, line)
    assert "words.txt" in str(raised.value)
    with pytest.raises(LanguageError) as raised:
        store_text(content, "bad")
    assert (raised.value.code, raised.value.details["file"]) == (code, "bad")
    assert (texts.stored(), stored_files()) == ([], [])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=st.binary(max_size=60) | st.text("가나 \n\r배\t\u2028a", max_size=60).map(str.encode))
@example(content="가나다라마바사".encode() * 3)
@example(content=b"\xef\xbb\xbf\xef\xbb\xbf\n")
def test_reports_the_first_invalid_line(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_BLOCK", 5)  # characters are split between blocks
    path = written(tmp_path, content)
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    bad = next((number for number, line in enumerate(lines, start=1) if not is_text(line)), None)
    if bad or not b"\n".join(lines).decode().strip():
        with pytest.raises(LanguageError) as raised:
            text_corpus(path)
        assert (raised.value.code, raised.value.details.get("line")) == ("bad_text" if bad else "no_text", bad)
        return
    documents = [*text_corpus(path).documents()]
    assert all(document.strip() for document in documents)
    assert re.sub(r"\s", "", "".join(documents)) == re.sub(r"\s", "", b"\n".join(lines).decode())


def is_text(line: bytes) -> bool:
    try:
        return "\x00" not in line.decode()
    except UnicodeDecodeError:
        return False


def test_splits_long_documents_between_words_without_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "MAX_DOCUMENT_CHARACTERS", 20)
    words = [f"말{number}" for number in range(50)]
    for content in (" ".join(words), "\n".join(words) + "\n\n끝"):
        documents = [*text_corpus(written(tmp_path, content)).documents()]
        assert max(map(len, documents)) <= 20
        assert [word for document in documents for word in document.split()] == content.split()
    monkeypatch.setattr(texts, "_BLOCK", 64)
    documents = [*text_corpus(written(tmp_path, "가" * 1000)).documents()]
    assert max(map(len, documents)) <= 20
    assert "".join(documents) == "가" * 1000, "also a line without spaces"


LINES = "배가 고프다\n배를 탔다\n배를 먹었다\n"


def store_text(content: str | bytes = LINES, name: str = "낱말") -> texts.StoredText:
    return texts.save_text(BytesIO(content if isinstance(content, bytes) else content.encode()), name)


def stored_files() -> list[str]:
    return sorted(path.relative_to(workspace()).as_posix() for path in workspace().rglob("*") if path.is_file())


@pytest.mark.parametrize(("content", "documents"), [(LINES, 3), ("가\n나\n\n다\n", 2), ("\ufeff가\n", 1)])
def test_opens_stored_text_unchanged(content: str, documents: int) -> None:
    stored_text = store_text(content)
    assert texts.stored() == [stored_text]
    plain = content.removeprefix("\ufeff")
    assert (stored_text.fingerprint, stored_text.characters) == (hashlib.sha256(plain.encode()).hexdigest(), len(plain))
    corpus = texts.find(stored_text.key)
    assert corpus == texts.open_stored_text(stored_text)
    assert (corpus.name, corpus.fingerprint) == ("낱말", stored_text.fingerprint)
    assert corpus.characters == stored_text.characters
    assert corpus.path.read_bytes() == content.encode()
    assert len([*corpus.documents()]) == stored_text.documents == documents


def test_progress_increases_and_stopping_leaves_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(fraction: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        texts.save_text(BytesIO(LINES.encode()), "낱말", on_progress=stop)
    assert stored_files() == []
    monkeypatch.setattr(texts, "_BLOCK", 1000)
    reported: list[float] = []
    texts.save_text(BytesIO(LINES.encode() * 1000), "낱말", on_progress=reported.append)
    assert reported == sorted(reported)
    assert 0 < reported[0] < 0.1
    assert 0.9 < reported[-1] <= 1


def test_reports_changed_content() -> None:
    stored_text = store_text()
    path = texts.open_stored_text(stored_text).path
    path.write_bytes(path.read_bytes().replace("배".encode(), "말".encode()))
    with pytest.raises(LanguageError) as raised:
        texts.find(stored_text.key)
    assert (raised.value.code, raised.value.details) == ("broken_text", {"name": "낱말"})


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, content in (("one.txt", "배가 고프다\n"), ("two.txt", "배를 탔다\n배를 샀다\n")):
        (tmp_path / name).write_text(content, encoding="utf-8")
    return [str(tmp_path / name) for name in ("one.txt", "two.txt")]


def test_imports_and_lists_text_files(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["language", "import", *files]) == 0
    output = capsys.readouterr().out
    assert main(["language", "list"]) == 0
    listed = capsys.readouterr().out
    assert sorted(output.splitlines()) == sorted(listed.splitlines())
    second, first = texts.stored()
    assert [first.name, second.name] == ["one", "two"]
    assert f"{second.reference}               12 characters             2 documents  two" in listed
    assert main(["language", "list", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    listed = [(entry["key"], entry["documents"], entry["source"]) for entry in entries]
    assert listed == [(second.key, 2, files[1]), (first.key, 1, files[0])]
    (tmp_path / "bad.txt").write_bytes("배".encode("cp949"))
    for name, message in (("bad.txt", "is not UTF-8"), ("none.txt", "none.txt is not a readable file")):
        assert main(["language", "import", str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err
    assert len(texts.stored()) == 2


def set_of(passages: list[str], title: str = "") -> QuestionSet:
    passage_list = [Passage(str(row), text, title) for row, text in enumerate(passages)]
    return QuestionSet("passages", passage_list, ())  # type: ignore[arg-type]


def test_passages_become_documents_without_titles() -> None:
    passages = ["배가 고프다", "배를 탔다"]
    save_question_set(set_of(passages, title="배"))
    corpus: Corpus = find_corpus("passages")
    assert [*corpus.documents()] == passages == [*corpus.documents()]
    assert (corpus.name, corpus.characters) == ("passages", 11)
    assert corpus.fingerprint == PassageCorpus(set_of(passages)).fingerprint
    assert corpus.fingerprint != PassageCorpus(set_of(passages[::-1])).fingerprint


def test_finds_file_by_path_and_stored_text_by_reference(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("배가 고프다\n배를 탔다\n", encoding="utf-8")
    stored_text = texts.save_text(BytesIO(path.read_bytes()), "낱말")
    for reference, name in ((str(path), "words"), (stored_text.reference, "낱말"), ("text:낱말", "낱말")):
        corpus = find_corpus(reference)
        assert (corpus.name, corpus.fingerprint) == (name, stored_text.fingerprint)
        assert [*corpus.documents()] == ["배가 고프다", "배를 탔다"]
    for reference, code in (("nowhere", "unknown_set"), ("text:nowhere", "unknown_text")):
        with raises_failure(code, Failure):
            find_corpus(reference)


@pytest.mark.parametrize("name", ["words.txt", "questions.csv", "none.txt"])
def test_rejects_server_paths_of_users(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in ("words.txt", "questions.csv"):
        (tmp_path / file).write_text("배\n", encoding="utf-8")
    with acting_as("a" * 32):
        with raises_failure("server_path") as raised:
            find_corpus(str(tmp_path / name))
        assert str(tmp_path) not in str(raised.value)
        monkeypatch.setenv("MRC_USER_PATHS", "true")
        assert find_corpus(str(tmp_path / "words.txt")).name == "words"


def test_holds_out_documents_by_content_hash() -> None:
    documents = [f"{number}번째 글" for number in range(10_000)]
    held = [is_held_out(document, 0.1, 0) for document in documents]
    assert sum(held) == pytest.approx(1000, abs=4 * (10_000 * 0.1 * 0.9) ** 0.5)
    copies = [f" {unicodedata.normalize('NFD', document)}\n".replace(" ", "  ") for document in documents]
    assert [is_held_out(document, 0.1, 0) for document in copies] == held
    assert [is_held_out(document, 0.1, 1) for document in documents] != held
    assert all(is_held_out(document, 0.2, 0) for document, was in zip(documents, held, strict=True) if was)
    assert not any(is_held_out(document, 0.0, 0) for document in documents)
    assert all(is_held_out(document, 1.0, 0) for document in documents)
