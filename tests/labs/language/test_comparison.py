"""Comparisons train only new tokenizers, are stored, reject damaged folders, and run as jobs."""

import json
from collections import Counter
from dataclasses import replace
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import Passage, QuestionSet
from mrc_workbench.data.store import StoredItem, StoredSet, save_question_set
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.data.text import corpora as texts
from mrc_workbench.data.text.corpora import LanguageError, PassageCorpus, is_held_out
from mrc_workbench.data.workspace import workspace, write_json
from mrc_workbench.labs.language import comparison, study
from mrc_workbench.labs.language.comparison import TokenizerGrid, TokenizerResult, compare
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.language.tokenizer_training import PreTokenization, Sample, TokenizerKind, train_on
from mrc_workbench.models.language.tokenizers import PreparedTokenizer, load_tokenizer
from mrc_workbench.workbench.cli import main
from tests.doubles import raises_failure
from tests.models.language.test_tokenizer_training import SENTENCES, prepared
from tests.models.worlds import write_config

TEXTS = [*dict.fromkeys(SENTENCES)][:200]
OTHER_DATA = [(TEXTS[1:], {}), (TEXTS, {"lowercase": True}), (TEXTS, {"seed": 1}), (TEXTS, {"held_out": 0.2})]
Training = tuple[str, str, int]  # split, kind and vocabulary
SINGLE_TOKENIZER = TokenizerGrid((TokenizerKind.BPE,), (PreTokenization.WORDS,), (1_000,))
TWO_SPLITS = replace(SINGLE_TOKENIZER, splits=tuple(PreTokenization))
GONE = ModelError("model_not_found", "there is none", model="../gone")


def make_question_set(texts: list[str]) -> QuestionSet:
    return QuestionSet("sentences", [Passage(str(row), text) for row, text in enumerate(texts)], ())


SET = make_question_set(TEXTS)
CORPUS = PassageCorpus(SET)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Training]:
    trained_tokenizers: list[Training] = []

    def record_training(training_data: Any, kind: TokenizerKind, vocabulary: int, *options: Any) -> Any:
        trained_tokenizers.append((training_data.sample.split, kind, vocabulary))
        return train_on(training_data, kind, vocabulary, *options)

    monkeypatch.setattr(comparison.tokenizer_training, "train_on", record_training)
    return trained_tokenizers


def comparable_metrics(results: list[TokenizerResult]) -> list[dict[str, Any]]:
    return [{**result.as_dict(), "seconds": 0, "tokens_per_second": 0, "seconds_to_train": 0} for result in results]


def test_trains_only_missing_tokenizers(trained: list[Training], tmp_path: Path) -> None:
    first = compare(CORPUS, SINGLE_TOKENIZER)
    grown = replace(SINGLE_TOKENIZER, vocabularies=(1_000, 1_200), splits=tuple(PreTokenization))
    second = compare(CORPUS, grown, out=tmp_path)
    expected = [("words", "bpe", 1200), ("morphemes", "bpe", 1000), ("morphemes", "bpe", 1200)]
    assert trained == [("words", "bpe", 1000), *expected]
    names = [f"bpe-{split}-{size}" for split in PreTokenization for size in (1000, 1200)]
    assert [result.name for result in second] == names
    assert second[0] == replace(first[0], name="bpe-words-1000")  # with its seconds
    for result in second:
        options = result.training_options
        folder = tmp_path / f"{options['kind']}-{options['split']}-{options['vocabulary']}"
        assert sorted(path.name for path in folder.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
        assert load_tokenizer(folder).trained == options


def test_incremental_training_matches_training_at_once(trained: list[Training]) -> None:
    compare(CORPUS, SINGLE_TOKENIZER)
    both = replace(SINGLE_TOKENIZER, vocabularies=(1_000, 1_200))
    grown = comparable_metrics(compare(CORPUS, both))
    for path in (workspace() / "cache").rglob("metrics.json"):
        path.unlink()
    assert comparable_metrics(compare(CORPUS, both)) == grown
    assert len(trained) == 4


@pytest.mark.parametrize(("texts", "changed"), OTHER_DATA)
def test_trains_again_for_other_data(texts: list[str], changed: dict[str, Any], trained: list[Training]) -> None:
    compare(CORPUS, SINGLE_TOKENIZER)
    compare(PassageCorpus(make_question_set(texts)), replace(SINGLE_TOKENIZER, sample=Sample(**changed)))
    assert len(trained) == 2


def test_trains_again_if_cache_is_damaged(trained: list[Training]) -> None:
    compare(CORPUS, SINGLE_TOKENIZER)
    (path,) = (workspace() / "cache").rglob("tokenizer.json")
    path.write_text("{", encoding="utf-8")
    compare(CORPUS, SINGLE_TOKENIZER)
    assert len(trained) == 2


def test_progress_ends_at_1(trained: list[Training]) -> None:
    progress: list[tuple[str, float]] = []
    compare(CORPUS, SINGLE_TOKENIZER)
    grid = replace(SINGLE_TOKENIZER, vocabularies=(1_000, 1_200), against=("no/such/model",))
    compare(CORPUS, grid, on_progress=lambda name, fraction: progress.append((name, fraction)))
    assert [fraction for _, fraction in progress] == sorted(fraction for _, fraction in progress)
    assert progress[-2:] == [("bpe-1200", pytest.approx(2 / 3)), ("no/such/model", 1.0)]


@pytest.mark.parametrize(
    ("raised", "kind", "code", "details"),
    [
        (ModelError("hub_unreachable", "no network", model="m"), ModelError, "hub_unreachable", {"model": "m"}),
        (LanguageError("no_tokenizer", "none", name="m"), LanguageError, "no_tokenizer", {"name": "m"}),
        (OSError("it is torn\nhere"), LanguageError, "not_loaded", {"name": "m", "reason": "it is torn"}),
        (ValueError(), LanguageError, "not_loaded", {"name": "m", "reason": "ValueError"}),
    ],
)
def test_failed_model_has_error_code_and_details(
    raised: Exception, kind: type[Failure], code: str, details: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(reference: str) -> None:
        raise raised

    monkeypatch.setattr(comparison, "find_tokenizer", refuse)
    (result,) = compare(CORPUS, TokenizerGrid((), (), (), ("m",)))
    assert result.metrics is None
    assert isinstance(result.error, kind)
    assert (result.error.code, result.error.details) == (code, details)


@pytest.fixture(scope="module")
def tokenizer() -> PreparedTokenizer:
    return prepared(TokenizerKind.BPE)


@pytest.fixture(scope="module")
def results(tokenizer: PreparedTokenizer) -> list[TokenizerResult]:
    metrics = comparison.measure_fertility(tokenizer, comparison.HeldOutDocuments.from_texts(SENTENCES[:20]))
    without_morphemes = replace(metrics, precision=None, recall=None, f1=None)
    models = [TokenizerResult("../gone", {}, None, GONE), TokenizerResult("some/model", {}, without_morphemes)]
    return [TokenizerResult("bpe", tokenizer.trained, metrics), *models]


@pytest.fixture
def folder(tokenizer: PreparedTokenizer, results: list[TokenizerResult], tmp_path: Path) -> Path:
    counts = {0: np.array([3, 0, 5]), 2: np.array([1])}
    result = study.TokenizerComparison("documents", 7, results, counts, dict.fromkeys(counts, tokenizer))
    study.save(result, tmp_path)
    return tmp_path


def load_comparison(folder: Path) -> tuple[study.TokenizerComparison, list[study.StoredTokenizer]]:
    result = study.STUDY.results.load(folder)
    return result, study.stored_tokenizers(result, folder)


def test_comparison_round_trip(folder: Path, tokenizer: PreparedTokenizer, results: list[TokenizerResult]) -> None:
    result, (first, last) = load_comparison(folder)
    assert (result.corpus, result.n_counted_documents, [*result.errors]) == ("documents", 7, ["../gone"])
    reason = result.errors["../gone"]
    assert isinstance(reason, ModelError)
    assert (reason.code, str(reason)) == ("model_not_found", "there is none")
    assert reason.details == {"model": "../gone"}
    assert (first.is_trained, last.is_trained) == (True, False)
    assert [first.result, last.result] == [results[0], results[2]]
    assert [first.metrics, last.metrics] == [results[0].metrics, results[2].metrics]
    assert [first.occurrences.tolist(), last.occurrences.tolist()] == [[3, 0, 5], [1]]
    assert first.load().pieces(SENTENCES[0]) == tokenizer.pieces(SENTENCES[0])
    # no folder is named after a model
    assert [first.folder, last.folder] == [folder / "tokenizers" / name for name in ("bpe-words-1000", "model-2")]


@pytest.mark.parametrize("name", ["scores.json", "arrays.npz"])
def test_rejects_damaged_folder(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b'{"tokenizers": 3')
    with pytest.raises(ValueError, match=folder.name):
        load_comparison(folder)
    (folder / name).unlink()
    with pytest.raises(ValueError, match=folder.name):
        load_comparison(folder)


def test_rejects_metrics_of_another_version(folder: Path) -> None:
    content = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    del content["tokenizers"][0]["metrics"]["f1"]
    write_json(folder / "scores.json", content)
    with pytest.raises(ValueError, match="of this version"):
        load_comparison(folder)


@pytest.fixture
def data() -> StoredSet:
    return save_question_set(SET)


def create_model_folder(name: str, kind: TokenizerKind = TokenizerKind.WORDPIECE) -> str:
    folder = write_config(workspace() / "runs" / name / "model")
    prepared(kind).tokenizer.save(str(folder / "tokenizer.json"))
    return name


def run_job(monkeypatch: pytest.MonkeyPatch, data: StoredItem, grid: TokenizerGrid) -> StudyJob[Any, Any]:
    """Run the job in this process."""
    monkeypatch.setattr(StudyJob, "launch", lambda _, *words: main([*map(str, words)]))
    request = study.TokenizerRequest(data.reference, grid)
    job = study.STUDY.job(request, data.fingerprint)
    job.start(request)
    return job


def test_job_depends_on_request_text_and_models(data: StoredSet) -> None:
    request = study.TokenizerRequest(data.key, TWO_SPLITS)
    job = study.STUDY.job(request, data.fingerprint)
    assert job == study.STUDY.job(study.TokenizerRequest(data.key, TWO_SPLITS), data.fingerprint)
    others = [
        study.STUDY.job(request, "other"),
        study.STUDY.job(study.TokenizerRequest(data.key), data.fingerprint),
        study.STUDY.job(study.TokenizerRequest("other", TWO_SPLITS), data.fingerprint),
    ]
    assert len({job, *others}) == 4
    assert job.folder.parent == workspace() / "language"
    request = study.TokenizerRequest(data.key, TokenizerGrid(against=(create_model_folder("mine"),)))
    before = study.STUDY.job(request, data.fingerprint)
    create_model_folder("mine", TokenizerKind.UNIGRAM)
    assert study.STUDY.job(request, data.fingerprint) != before
    with raises_failure("model_not_found", ModelError):
        study.STUDY.job(study.TokenizerRequest(data.key, TokenizerGrid(against=("no/such/model",))), data.fingerprint)


@pytest.mark.slow
def test_job_runs_and_stores_result(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = replace(TWO_SPLITS, against=(create_model_folder("mine"),))
    job = run_job(monkeypatch, data, grid)
    assert (job.status().state, job.done) == (State.DONE, True)
    assert study.STUDY.job(job.read_spec(), data.fingerprint) == job
    result, stored = load_comparison(job.folder)
    assert [item.result.name for item in stored] == ["bpe-words", "bpe-morphemes", "mine"]
    assert (result.corpus, result.n_counted_documents, result.errors) == ("sentences", len(TEXTS), {})
    documents = sum(is_held_out(text, 0.1, 0) for text in TEXTS)
    assert {item.metrics.documents for item in stored} == {documents}
    assert [item.load().marks_morphemes for item in stored] == [False, True, False]
    for item in stored:
        tokenizer = item.load()
        expected = Counter(piece.name for piece in chain.from_iterable(map(tokenizer.pieces, TEXTS)))
        counts = enumerate(item.occurrences.tolist())
        assert {tokenizer.tokenizer.id_to_token(row): count for row, count in counts if count} == expected


def test_counts_tokens_in_first_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.labs.language.study.MAX_COUNTED_CHARACTERS", len(TEXTS[0]) + 1)
    tokenizer = prepared(TokenizerKind.BPE)
    documents, (counts,) = study.count_tokens([tokenizer], PassageCorpus(SET))
    assert documents == 2
    expected = np.zeros(len(counts), dtype=np.int64)
    for piece in chain.from_iterable(map(tokenizer.pieces, TEXTS[:2])):
        expected[tokenizer.tokenizer.token_to_id(piece.name)] += 1
    np.testing.assert_array_equal(counts, expected)


def test_stores_error_of_unreadable_tokenizer(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    name = create_model_folder("torn")
    (workspace() / "runs" / name / "model" / "tokenizer.json").write_text("{", encoding="utf-8")
    job = run_job(monkeypatch, data, replace(SINGLE_TOKENIZER, against=(name,)))
    result, stored = load_comparison(job.folder)
    assert [item.result.name for item in stored] == ["bpe"]
    reason = result.errors["torn"]
    assert isinstance(reason, LanguageError)
    assert (reason.code, reason.details) == ("no_tokenizer", {"name": "torn"})
    assert "no readable tokenizer" in str(reason)


def test_trains_on_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    text = texts.save_text(BytesIO("\n".join(TEXTS).encode()), "문장들")
    result, stored = load_comparison(run_job(monkeypatch, text, SINGLE_TOKENIZER).folder)
    assert (result.corpus, result.n_counted_documents) == ("문장들", len(TEXTS))
    assert [item.result.training_options["fingerprint"] for item in stored] == [text.fingerprint]


def test_unusable_text_fails_with_code(monkeypatch: pytest.MonkeyPatch) -> None:
    text = texts.save_text(BytesIO(b"one\ntwo\n"), "gone")
    texts.remove(text.key)
    job = run_job(monkeypatch, text, TWO_SPLITS)
    assert (job.status().code, job.failed) == ("unknown_text", True)
    single = save_question_set(QuestionSet("single", [Passage("1", "하나")], ()))
    job = run_job(monkeypatch, single, TWO_SPLITS)
    assert (job.status().state, job.status().code, job.failed) == (State.FAILED, "nothing_held_out", True)


def test_rejects_invalid_request_file(data: StoredSet, tmp_path: Path) -> None:
    job = StudyJob(tmp_path, study.STUDY)

    def write_request(**compared: Any) -> None:
        (tmp_path / "request.json").write_text(json.dumps({"data": data.key, "compared": compared}), encoding="utf-8")

    write_request(kinds=["bpe"], splits=["morphemes"], vocabularies=[2000])
    grid = job.read_spec().compared
    assert [*grid.kinds, *grid.splits, *grid.vocabularies] == [TokenizerKind.BPE, PreTokenization.MORPHEMES, 2_000]
    write_request(kinds=["letters"])
    with pytest.raises(ValueError, match="letters"):
        job.read_spec()
    write_request(sample={"held_out": 2.0})
    with raises_failure("held_out"):
        job.read_spec()
