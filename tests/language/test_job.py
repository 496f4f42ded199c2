"""A comparison of tokenizers asked by a page: its folder by content, and carried out by itself."""

import json
from collections import Counter
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.passages import Passage
from data.records import QuestionSet
from data.store import StoredSet
from data.store import keep as keep_set
from data.workspace import workspace
from jobs.folder import State
from language import comparison, texts
from language.__main__ import main
from language.comparison import Request, TokenizerJob, TokenizerRequest
from language.morphemes import Split, TokenizerKind
from language.texts import LanguageError, PassageCorpus, held_out
from models.hub import ModelError
from tests.language.test_train import SENTENCES, prepared

TEXTS = [*dict.fromkeys(SENTENCES)][:300]
SET = QuestionSet("sentences", [Passage(str(row), text) for row, text in enumerate(TEXTS)], ())
ASKED = Request(kinds=(TokenizerKind.BPE,), splits=tuple(Split), vocabularies=(1_000,))


@pytest.fixture
def data() -> StoredSet:
    return keep_set(SET)


def folder_of_a_model(name: str, kind: TokenizerKind = TokenizerKind.WORDPIECE) -> str:
    folder = workspace() / "runs" / name / "model"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}", encoding="utf-8")
    prepared(kind).tokenizer.save(str(folder / "tokenizer.json"))
    return name


def started(monkeypatch: pytest.MonkeyPatch, data: StoredSet, asked: Request) -> TokenizerJob:
    """Carry a job out in this process."""
    monkeypatch.setattr(TokenizerJob, "launch", lambda _, __, *words: main([*map(str, words)]))
    request = TokenizerRequest(data.key, asked)
    job = TokenizerJob.of(request, data.fingerprint)
    job.start(request)
    return job


def test_the_folder_is_that_of_what_was_asked_and_of_nothing_else(data: StoredSet) -> None:
    request = TokenizerRequest(data.key, ASKED)
    one = TokenizerJob.of(request, data.fingerprint)
    assert one == TokenizerJob.of(TokenizerRequest(data.key, ASKED), data.fingerprint)
    others = [
        TokenizerJob.of(request, "other"),
        TokenizerJob.of(TokenizerRequest(data.key), data.fingerprint),
        TokenizerJob.of(TokenizerRequest("other", ASKED), data.fingerprint),
    ]
    assert len({one, *others}) == 4
    assert one.folder.parent == workspace() / "language"


def test_a_model_that_took_the_place_of_another_is_another(data: StoredSet) -> None:
    request = TokenizerRequest(data.key, Request(against=(folder_of_a_model("mine"),)))
    before = TokenizerJob.of(request, data.fingerprint)
    folder_of_a_model("mine", TokenizerKind.UNIGRAM)
    assert TokenizerJob.of(request, data.fingerprint) != before
    with pytest.raises(ModelError) as raised:
        TokenizerJob.of(TokenizerRequest(data.key, Request(against=("no/such/model",))), data.fingerprint)
    assert raised.value.code == "model_not_found"


@pytest.mark.slow
def test_it_is_carried_out_and_kept(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Request(ASKED.kinds, ASKED.splits, ASKED.vocabularies, against=(folder_of_a_model("mine"),))
    job = started(monkeypatch, data, asked)
    assert (job.status().state, job.done) == (State.DONE, True)
    assert TokenizerJob.of(job.request(), data.fingerprint) == job
    kept = comparison.load_comparison(job.folder)
    assert [one.measured.name for one in kept.tokenizers] == ["bpe-words", "bpe-morphemes", "mine"]
    assert (kept.corpus, kept.counted, kept.failed) == ("sentences", len(TEXTS), {})
    documents = sum(held_out(text, 0.1, 0) for text in TEXTS)
    assert {one.figures.documents for one in kept.tokenizers} == {documents}
    assert [one.load().marks_morphemes for one in kept.tokenizers] == [False, True, False]
    for one in kept.tokenizers:
        tokenizer = one.load()
        found = Counter(piece.name for piece in chain.from_iterable(map(tokenizer.pieces, TEXTS)))
        names = {tokenizer.tokenizer.id_to_token(row): int(times) for row, times in enumerate(one.occurrences) if times}
        assert names == found


def test_pieces_of_a_large_corpus_are_counted_in_its_first_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "COUNTED", len(TEXTS[0]) + 1)
    tokenizer = prepared(TokenizerKind.BPE)
    documents, (counts,) = comparison.occurrences_of([tokenizer], PassageCorpus(SET))
    assert documents == 2
    expected = np.zeros(len(counts), dtype=np.int64)
    for piece in chain.from_iterable(map(tokenizer.pieces, TEXTS[:2])):
        expected[tokenizer.tokenizer.token_to_id(piece.name)] += 1
    np.testing.assert_array_equal(counts, expected)


def test_a_model_whose_tokenizer_cannot_be_read_is_kept_with_its_reason(
    data: StoredSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = folder_of_a_model("torn")
    (workspace() / "runs" / name / "model" / "tokenizer.json").write_text("{", encoding="utf-8")
    job = started(monkeypatch, data, Request(ASKED.kinds, (Split.WORDS,), ASKED.vocabularies, against=(name,)))
    kept = comparison.load_comparison(job.folder)
    assert [one.measured.name for one in kept.tokenizers] == ["bpe"]
    reason = kept.failed["torn"]
    assert (type(reason), reason.code, reason.details) == (LanguageError, "no_tokenizer", {"name": "torn"})
    assert "no tokenizer that can be read" in str(reason)


def test_a_kept_text_is_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    text = texts.keep(BytesIO("\n".join(TEXTS).encode()), "문장들")
    monkeypatch.setattr(TokenizerJob, "launch", lambda _, __, *words: main([*map(str, words)]))
    request = TokenizerRequest(text.reference, Request(ASKED.kinds, (Split.WORDS,), ASKED.vocabularies))
    job = TokenizerJob.of(request, text.fingerprint)
    job.start(request)
    kept = comparison.load_comparison(job.folder)
    assert (kept.corpus, kept.counted) == ("문장들", len(TEXTS))
    assert [one.measured.trained["fingerprint"] for one in kept.tokenizers] == [text.fingerprint]


def test_a_text_that_is_gone_is_told_by_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    text = texts.keep(BytesIO(b"one\ntwo\n"), "gone")
    texts.remove(text.key)
    monkeypatch.setattr(TokenizerJob, "launch", lambda _, __, *words: main([*map(str, words)]))
    request = TokenizerRequest(text.reference, ASKED)
    job = TokenizerJob.of(request, text.fingerprint)
    job.start(request)
    assert (job.status().code, job.failed) == ("unknown_text", True)


def test_what_cannot_be_learned_from_is_told_by_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = keep_set(QuestionSet("alone", [Passage("1", "하나")], ()))
    job = started(monkeypatch, alone, ASKED)
    assert (job.status().state, job.status().code, job.failed) == (State.FAILED, "nothing_held_out", True)


def test_a_request_that_somebody_changed_is_none(data: StoredSet, tmp_path: Path) -> None:
    job = TokenizerJob(tmp_path)

    def written(**compared: Any) -> None:
        (tmp_path / "request.json").write_text(json.dumps({"data": data.key, "compared": compared}), encoding="utf-8")

    written(kinds=["bpe"], splits=["morphemes"], vocabularies=[2000])
    found = job.request().compared
    assert [*found.kinds, *found.splits, *found.vocabularies] == [TokenizerKind.BPE, Split.MORPHEMES, 2_000]
    written(kinds=["letters"])
    with pytest.raises(ValueError, match="letters"):
        job.request()
    written(sample={"held_out": 2.0})
    with pytest.raises(LanguageError) as raised:
        job.request()
    assert raised.value.code == "held_out"
