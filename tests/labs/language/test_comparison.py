"""A comparison that grew trains only what is new, opens as it was or is told to be none, and runs by itself."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import Passage, QuestionSet
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.store import keep as keep_set
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.data.text import corpora as texts
from mrc_workbench.data.text.corpora import LanguageError, PassageCorpus, held_out
from mrc_workbench.data.workspace import workspace, write_json
from mrc_workbench.labs.language import comparison, study
from mrc_workbench.labs.language.comparison import Fertility, HeldOut, Measured, Request, compare, fertility
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.language.tokenizer_training import Sample, Split, TokenizerKind, train_on
from mrc_workbench.models.language.tokenizers import PreparedTokenizer, load_tokenizer
from mrc_workbench.workbench.cli import main
from tests.labs.language.doubles import refused
from tests.models.language.test_tokenizer_training import SENTENCES, prepared

TEXTS = [*dict.fromkeys(SENTENCES)][:200]


ONE = Request((TokenizerKind.BPE,), (Split.WORDS,), (1_000,))
ASKED = replace(ONE, splits=tuple(Split))


def set_of(texts: list[str]) -> QuestionSet:
    return QuestionSet("sentences", [Passage(str(row), text) for row, text in enumerate(texts)], ())


SET = set_of(TEXTS)
CORPUS = PassageCorpus(SET)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """What was trained: split, kind and vocabulary."""
    found: list[tuple[str, str, int]] = []

    def noted(material: Any, kind: TokenizerKind, vocabulary: int, *told: Any) -> Any:
        found.append((material.sample.split, kind, vocabulary))
        return train_on(material, kind, vocabulary, *told)

    monkeypatch.setattr(comparison, "train_on", noted)
    return found


def figures(found: list[Measured]) -> list[dict[str, Any]]:
    return [{**one.as_dict(), "seconds": 0, "tokens_per_second": 0, "seconds_to_train": 0} for one in found]


def test_what_was_trained_is_not_trained_again(trained: list[tuple[str, str, int]], tmp_path: Path) -> None:
    first = compare(CORPUS, ONE)
    grown = replace(ONE, vocabularies=(1_000, 1_200), splits=tuple(Split))
    second = compare(CORPUS, grown, out=tmp_path)
    new = [("words", "bpe", 1200), ("morphemes", "bpe", 1000), ("morphemes", "bpe", 1200)]
    assert trained == [("words", "bpe", 1000), *new]
    assert [one.name for one in second] == [f"bpe-{split}-{size}" for split in Split for size in (1000, 1200)]
    assert second[0] == replace(first[0], name="bpe-words-1000")  # the seconds it took, too
    for one in second:
        options = one.trained
        folder = tmp_path / f"{options['kind']}-{options['split']}-{options['vocabulary']}"
        assert sorted(path.name for path in folder.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
        assert load_tokenizer(folder).trained == options


def test_it_comes_out_as_if_it_had_been_trained_at_once(trained: list[tuple[str, str, int]]) -> None:
    compare(CORPUS, ONE)
    both = replace(ONE, vocabularies=(1_000, 1_200))
    grown = figures(compare(CORPUS, both))
    for path in (workspace() / "cache").rglob("figures.json"):
        path.unlink()
    assert figures(compare(CORPUS, both)) == grown
    assert len(trained) == 4


@pytest.mark.parametrize(
    ("texts", "changed"),
    [(TEXTS[1:], {}), (TEXTS, {"lowercase": True}), (TEXTS, {"seed": 1}), (TEXTS, {"held_out": 0.2})],
)
def test_another_text_or_sample_is_trained_anew(
    texts: list[str], changed: dict[str, Any], trained: list[tuple[str, str, int]]
) -> None:
    compare(CORPUS, ONE)
    compare(PassageCorpus(set_of(texts)), replace(ONE, sample=Sample(**changed)))
    assert len(trained) == 2


def test_what_is_damaged_is_trained_anew(trained: list[tuple[str, str, int]]) -> None:
    compare(CORPUS, ONE)
    (path,) = (workspace() / "cache").rglob("tokenizer.json")
    path.write_text("{", encoding="utf-8")
    compare(CORPUS, ONE)
    assert len(trained) == 2


def test_progress_tells_what_is_done_and_ends_at_one(trained: list[tuple[str, str, int]]) -> None:
    told: list[tuple[str, float]] = []
    noted: Callable[[str, float], None] = lambda name, share: told.append((name, share))  # noqa: E731
    compare(CORPUS, ONE)
    compare(CORPUS, replace(ONE, vocabularies=(1_000, 1_200), against=("no/such/model",)), on_progress=noted)
    assert [share for _, share in told] == sorted(share for _, share in told)
    assert told[-2:] == [("bpe-1200", pytest.approx(2 / 3)), ("no/such/model", 1.0)]


@pytest.mark.parametrize(
    ("raised", "kind", "code", "details"),
    [
        (ModelError("hub_unreachable", "no network", model="m"), ModelError, "hub_unreachable", {"model": "m"}),
        (LanguageError("no_tokenizer", "none", name="m"), LanguageError, "no_tokenizer", {"name": "m"}),
        (OSError("it is torn\nhere"), LanguageError, "not_loaded", {"name": "m", "reason": "it is torn"}),
        (ValueError(), LanguageError, "not_loaded", {"name": "m", "reason": "ValueError"}),
    ],
)
def test_why_a_model_has_no_figures_is_a_code_with_its_details(
    raised: Exception, kind: type[Failure], code: str, details: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(reference: str) -> None:
        raise raised

    monkeypatch.setattr(comparison, "find_tokenizer", refuse)
    (one,) = compare(CORPUS, Request((), (), (), ("m",)))
    assert one.figures is None
    assert isinstance(one.error, kind)
    assert (one.error.code, one.error.details) == (code, details)


GONE = ModelError("model_not_found", "there is none", model="../gone")


def measured(tokenizer: PreparedTokenizer, figures: Fertility) -> list[Measured]:
    without_morphemes = Fertility(**{**asdict(figures), "precision": None, "recall": None, "f1": None})
    return [
        Measured("bpe", tokenizer.trained, figures),
        Measured("../gone", {}, None, GONE),
        Measured("some/model", {}, without_morphemes),
    ]


@pytest.fixture(scope="module")
def tokenizer() -> PreparedTokenizer:
    return prepared(TokenizerKind.BPE)


@pytest.fixture
def folder(tokenizer: PreparedTokenizer, tmp_path: Path) -> Path:
    found = measured(tokenizer, fertility(tokenizer, HeldOut.of(SENTENCES[:20])))
    counts = {0: np.array([3, 0, 5]), 2: np.array([1])}
    result = study.TokenizerComparison("documents", 7, found, counts, dict.fromkeys(counts, tokenizer))
    study.save(result, tmp_path)
    return tmp_path


def reopened(folder: Path) -> tuple[study.TokenizerComparison, list[study.StoredTokenizer]]:
    result = study.STUDY.results.load(folder)
    return result, study.stored_tokenizers(result, folder)


def test_it_opens_as_it_was(folder: Path, tokenizer: PreparedTokenizer) -> None:
    expected = measured(tokenizer, fertility(tokenizer, HeldOut.of(SENTENCES[:20])))
    result, (first, last) = reopened(folder)
    assert (result.corpus, result.counted, [*result.errors]) == ("documents", 7, ["../gone"])
    reason = result.errors["../gone"]
    assert isinstance(reason, ModelError)
    assert (reason.code, str(reason)) == ("model_not_found", "there is none")
    assert reason.details == {"model": "../gone"}
    assert (first.is_trained, last.is_trained) == (True, False)
    assert asdict(first.measured) == asdict(expected[0]) | {"figures": asdict(first.figures)}
    changing = {"tokens_per_second": 0.0}
    for ours, theirs in ((first, expected[0]), (last, expected[2])):
        assert theirs.figures is not None
        assert asdict(ours.figures) | changing == asdict(theirs.figures) | changing
    assert [first.occurrences.tolist(), last.occurrences.tolist()] == [[3, 0, 5], [1]]
    assert first.load().pieces(SENTENCES[0]) == tokenizer.pieces(SENTENCES[0])


def test_the_name_of_a_model_is_no_path(folder: Path) -> None:
    _, (first, last) = reopened(folder)
    assert [first.folder, last.folder] == [folder / "tokenizers" / name for name in ("bpe-words-1000", "model-2")]


@pytest.mark.parametrize("name", ["scores.json", "arrays.npz"])
def test_a_damaged_or_half_written_folder_is_told_as_such(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b'{"tokenizers": 3')
    with pytest.raises(ValueError, match=folder.name):
        reopened(folder)
    (folder / name).unlink()
    with pytest.raises(ValueError, match=folder.name):
        reopened(folder)


def test_figures_of_another_version_are_told_as_such(folder: Path) -> None:
    told = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    del told["tokenizers"][0]["figures"]["f1"]
    write_json(folder / "scores.json", told)
    with pytest.raises(ValueError, match="of this version"):
        reopened(folder)


@pytest.fixture
def data() -> StoredSet:
    return keep_set(SET)


def folder_of_a_model(name: str, kind: TokenizerKind = TokenizerKind.WORDPIECE) -> str:
    folder = workspace() / "runs" / name / "model"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}", encoding="utf-8")
    prepared(kind).tokenizer.save(str(folder / "tokenizer.json"))
    return name


def started(monkeypatch: pytest.MonkeyPatch, data: StoredSet, asked: Request) -> StudyJob[Any, Any]:
    """Carry a job out in this process."""
    monkeypatch.setattr(StudyJob, "launch", lambda _, *words: main([*map(str, words)]))
    request = study.TokenizerRequest(data.key, asked)
    job = study.STUDY.job(request, data.fingerprint)
    job.start(request)
    return job


def test_a_job_is_that_of_its_request_its_text_and_its_models(data: StoredSet) -> None:
    request = study.TokenizerRequest(data.key, ASKED)
    one = study.STUDY.job(request, data.fingerprint)
    assert one == study.STUDY.job(study.TokenizerRequest(data.key, ASKED), data.fingerprint)
    others = [
        study.STUDY.job(request, "other"),
        study.STUDY.job(study.TokenizerRequest(data.key), data.fingerprint),
        study.STUDY.job(study.TokenizerRequest("other", ASKED), data.fingerprint),
    ]
    assert len({one, *others}) == 4
    assert one.folder.parent == workspace() / "language"
    request = study.TokenizerRequest(data.key, Request(against=(folder_of_a_model("mine"),)))
    before = study.STUDY.job(request, data.fingerprint)
    folder_of_a_model("mine", TokenizerKind.UNIGRAM)
    assert study.STUDY.job(request, data.fingerprint) != before
    with refused("model_not_found", ModelError):
        study.STUDY.job(study.TokenizerRequest(data.key, Request(against=("no/such/model",))), data.fingerprint)


@pytest.mark.slow
def test_it_is_carried_out_and_kept(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = replace(ASKED, against=(folder_of_a_model("mine"),))
    job = started(monkeypatch, data, asked)
    assert (job.status().state, job.done) == (State.DONE, True)
    assert study.STUDY.job(job.read_spec(), data.fingerprint) == job
    result, stored = reopened(job.folder)
    assert [one.measured.name for one in stored] == ["bpe-words", "bpe-morphemes", "mine"]
    assert (result.corpus, result.counted, result.errors) == ("sentences", len(TEXTS), {})
    documents = sum(held_out(text, 0.1, 0) for text in TEXTS)
    assert {one.figures.documents for one in stored} == {documents}
    assert [one.load().marks_morphemes for one in stored] == [False, True, False]
    for one in stored:
        tokenizer = one.load()
        found = Counter(piece.name for piece in chain.from_iterable(map(tokenizer.pieces, TEXTS)))
        names = {tokenizer.tokenizer.id_to_token(row): int(times) for row, times in enumerate(one.occurrences) if times}
        assert names == found


def test_pieces_of_a_large_corpus_are_counted_in_its_first_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.labs.language.study.COUNTED", len(TEXTS[0]) + 1)
    tokenizer = prepared(TokenizerKind.BPE)
    documents, (counts,) = study.occurrences_of([tokenizer], PassageCorpus(SET))
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
    job = started(monkeypatch, data, replace(ONE, against=(name,)))
    result, stored = reopened(job.folder)
    assert [one.measured.name for one in stored] == ["bpe"]
    reason = result.errors["torn"]
    assert isinstance(reason, LanguageError)
    assert (reason.code, reason.details) == ("no_tokenizer", {"name": "torn"})
    assert "no tokenizer that can be read" in str(reason)


def test_a_kept_text_is_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    text = texts.keep(BytesIO("\n".join(TEXTS).encode()), "문장들")
    monkeypatch.setattr(StudyJob, "launch", lambda _, *words: main([*map(str, words)]))
    request = study.TokenizerRequest(text.reference, ONE)
    job = study.STUDY.job(request, text.fingerprint)
    job.start(request)
    result, stored = reopened(job.folder)
    assert (result.corpus, result.counted) == ("문장들", len(TEXTS))
    assert [one.measured.trained["fingerprint"] for one in stored] == [text.fingerprint]


def test_a_text_that_is_gone_is_told_by_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    text = texts.keep(BytesIO(b"one\ntwo\n"), "gone")
    texts.remove(text.key)
    monkeypatch.setattr(StudyJob, "launch", lambda _, *words: main([*map(str, words)]))
    request = study.TokenizerRequest(text.reference, ASKED)
    job = study.STUDY.job(request, text.fingerprint)
    job.start(request)
    assert (job.status().code, job.failed) == ("unknown_text", True)


def test_what_cannot_be_learned_from_is_told_by_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = keep_set(QuestionSet("alone", [Passage("1", "하나")], ()))
    job = started(monkeypatch, alone, ASKED)
    assert (job.status().state, job.status().code, job.failed) == (State.FAILED, "nothing_held_out", True)


def test_a_request_that_somebody_changed_is_none(data: StoredSet, tmp_path: Path) -> None:
    job = StudyJob(tmp_path, study.STUDY)

    def written(**compared: Any) -> None:
        (tmp_path / "request.json").write_text(json.dumps({"data": data.key, "compared": compared}), encoding="utf-8")

    written(kinds=["bpe"], splits=["morphemes"], vocabularies=[2000])
    found = job.read_spec().compared
    assert [*found.kinds, *found.splits, *found.vocabularies] == [TokenizerKind.BPE, Split.MORPHEMES, 2_000]
    written(kinds=["letters"])
    with pytest.raises(ValueError, match="letters"):
        job.read_spec()
    written(sample={"held_out": 2.0})
    with refused("held_out"):
        job.read_spec()
