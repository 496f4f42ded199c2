"""A corpus is a stream of documents: those of a question set, of a file, or of a text that was kept."""

import unicodedata
from io import BytesIO
from pathlib import Path

import pytest

from data.problems import Failure
from data.records import Passage, QuestionSet
from data.store import keep
from data.workspace import acting_as
from language import texts
from language.texts import Corpus, LanguageError, PassageCorpus, find_corpus, held_out


def set_of(texts: list[str], title: str = "") -> QuestionSet:
    passages = [Passage(str(row), text, title) for row, text in enumerate(texts)]
    return QuestionSet("passages", passages, ())  # type: ignore[arg-type]


def test_passages_are_documents_without_their_titles() -> None:
    texts = ["배가 고프다", "배를 탔다"]
    keep(set_of(texts, title="배"))
    found: Corpus = find_corpus("passages")
    assert [*found.documents()] == texts == [*found.documents()]
    assert (found.name, found.characters) == ("passages", 11)
    assert found.fingerprint == PassageCorpus(set_of(texts)).fingerprint
    assert found.fingerprint != PassageCorpus(set_of(texts[::-1])).fingerprint


def test_a_file_is_found_by_its_path_and_a_kept_text_by_its_reference(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("배가 고프다\n배를 탔다\n", encoding="utf-8")
    kept = texts.keep(BytesIO(path.read_bytes()), "낱말")
    for reference, name in ((str(path), "words"), (kept.reference, "낱말"), ("text:낱말", "낱말")):
        found = find_corpus(reference)
        assert (found.name, found.fingerprint) == (name, kept.fingerprint)
        assert [*found.documents()] == ["배가 고프다", "배를 탔다"]


@pytest.mark.parametrize(("reference", "code"), [("nowhere", "unknown_set"), ("text:nowhere", "unknown_text")])
def test_a_reference_that_is_nothing_is_told(reference: str, code: str) -> None:
    with pytest.raises(Failure) as raised:
        find_corpus(reference)
    assert raised.value.code == code


@pytest.mark.parametrize("name", ["words.txt", "questions.csv", "none.txt"])
def test_a_user_names_no_file_of_the_server(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in ("words.txt", "questions.csv"):
        (tmp_path / file).write_text("배\n", encoding="utf-8")
    with acting_as("a" * 32):
        with pytest.raises(LanguageError) as raised:
            find_corpus(str(tmp_path / name))
        assert raised.value.code == "server_path"
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
