"""Other libraries load finished language models, and a model from the hub is trained, killed and resumed."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copytree, rmtree
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForMaskedLM, AutoTokenizer, pipeline

from mrc_workbench.data.jobs.folder import State, Status, StopRequested
from mrc_workbench.data.text.corpora import Corpus, find_corpus
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.language.tokenizer_training import Sample, gather_documents, train_on
from mrc_workbench.models.language.tokenizers import write_tokens
from mrc_workbench.training.recipes.language_data import LanguageTrainingData
from mrc_workbench.training.runs import Phase, Run
from mrc_workbench.training.train import train
from tests.hub import OWNER, hub_server
from tests.programs import run_module
from tests.tiny_models import build_masked_base
from tests.training.recipes.language_worlds import SHARES, create_language_run, make_documents, make_options, text_file
from tests.training.test_resume import again, assert_alike, lose_last_checkpoint, newest_step
from tests.training.worlds import train_to_end

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {"evaluation_limit": 8}


@pytest.fixture(autouse=True)
def report_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.data.text.corpora._CHARACTERS_BETWEEN_REPORTS", 100)
    monkeypatch.setattr("mrc_workbench.training.train._SECONDS_BETWEEN_WRITES", 0.0)


def test_reports_progress_from_start_to_end() -> None:
    corpus = find_corpus(text_file(300, seed=3))
    shares = list[float]()
    LanguageTrainingData.from_corpus(corpus, SHARES, make_options(), shares.append)
    assert shares == sorted(shares)
    assert shares[0] < 0.01
    assert shares[-1] == 1.0
    cutting = [share for share in shares if share >= 2 / 3]
    assert len(cutting) > 0.9 * 2 * corpus.characters / 200, "in both readings, one for each part"
    assert np.diff(cutting).max() < 0.05
    again = list[float]()
    LanguageTrainingData.from_corpus(corpus, SHARES, make_options(), again.append)
    assert again == [], "it is found"


def test_existing_tokenizer_takes_no_progress(tmp_path: Path) -> None:
    corpus = find_corpus(text_file(300, seed=4))
    shares = list[float]()
    folder = tmp_path / "tokenizer"
    LanguageTrainingData.from_corpus(corpus, SHARES, make_options()).tokenizer.save_pretrained(folder)
    options = make_options(tokenizer=str(folder), whole_words="morphemes")
    LanguageTrainingData.from_corpus(corpus, SHARES, options, shares.append)
    # tokenized documents; two ninths of them are for validation
    expected = [7 / 9 * min(1.0, seen / corpus.characters) for seen in count_characters_read(corpus)] + [7 / 9]
    expected += [7 / 9 + 2 / 9 * min(1.0, seen / corpus.characters) for seen in count_characters_read(corpus)] + [1.0]
    assert shares == pytest.approx(expected)


def count_characters_read(corpus: Corpus) -> Iterator[int]:
    seen = reported = 0
    for document in corpus.documents():
        seen += len(document)
        if seen - reported > 100:
            yield (reported := seen)


def test_status_progress_restarts_with_each_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses = list[Status]()
    write = Run.write_status

    def noted(run: Run, status: Status) -> None:
        statuses.append(status)
        write(run, status)

    monkeypatch.setattr(Run, "write_status", noted)
    train_to_end(create_language_run(text_file(60, seed=5), **OPTIONS))
    shares = {phase: [status.progress for status in statuses if status.phase == phase] for phase in Phase}
    assert shares[Phase.LOADING] == sorted(shares[Phase.LOADING])
    assert len(set(shares[Phase.LOADING])) > 20
    assert shares[Phase.LOADING][-1] == 1.0
    assert shares[Phase.MEASURING_BEFORE] == shares[Phase.PREPARING] == [0.0]
    assert not shares[Phase.MINING], "a language model has no hard negatives to look for"
    assert set(shares[Phase.MEASURING_AFTER]) == {1.0}, "of the steps"


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_stops_while_sampling_for_tokenizer(kind: str) -> None:
    corpus = find_corpus(text_file(60))

    def stop(share: float) -> None:
        raise StopRequested

    options = make_options(tokenizer_kind=kind)
    sample = Sample(held_out=SHARES.test + SHARES.validation)
    with gather_documents(corpus, sample) as sample_texts, pytest.raises(StopRequested):
        train_on(sample_texts, options.tokenizer_kind, options.vocabulary, stop)


def test_stops_while_library_merges(monkeypatch: pytest.MonkeyPatch) -> None:
    run = create_language_run(text_file(60, seed=6), **OPTIONS)
    merged = Event()

    def merging(*_: Any) -> None:
        run.request_stop()
        assert merged.wait(300)

    with monkeypatch.context() as patch:
        patch.setattr("mrc_workbench.training.recipes.language_data.train_on", merging)
        ended = train(run)
    merged.set()
    assert (ended.state, ended.phase) == (State.STOPPED, Phase.LOADING)
    assert make_base("tokenizers") == []
    goes_on(run)


def test_stops_while_tokenizing_text(monkeypatch: pytest.MonkeyPatch) -> None:
    run = create_language_run(text_file(60, seed=7), **OPTIONS)
    parts = list[str]()

    def stopped_in_the_second_part(folder: Path, *arguments: Any) -> None:
        parts.append(folder.name)
        if len(parts) == 2:
            run.request_stop()
        write_tokens(folder, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr("mrc_workbench.training.recipes.language_data.write_tokens", stopped_in_the_second_part)
        ended = train(run)
    assert (ended.state, ended.phase, ended.step) == (State.STOPPED, Phase.LOADING, 0)
    assert 0.9 < ended.progress < 1, "nearly all was cut"
    assert parts == ["train", "validation"]
    assert len(make_base("tokenizers")) == 1, "that was done by then"
    assert make_base("tokens") == []
    goes_on(run)


def test_reports_errors_of_tokenizer_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> None:
        raise MemoryError("nothing left")

    monkeypatch.setattr("mrc_workbench.training.recipes.language_data.train_on", failing)
    ended = train(create_language_run(text_file(60, seed=8), **OPTIONS))
    assert (ended.state, ended.code, ended.message) == (State.FAILED, "memory", "nothing left")


def make_base(kind: str) -> list[Path]:
    """Return the cached folders, without lock files."""
    return [path for path in (workspace() / "cache" / kind).glob("*") if path.is_dir()]


def goes_on(run: Run) -> None:
    again(run)
    train_to_end(run)
    assert len(make_base("tokens")) == 1


BASE = f"{OWNER}/roberta"


@dataclass(frozen=True)
class _Trainings:
    base: Path
    whole: Run
    resumed: Run
    refused: str  # the limit that 513 tokens exceed


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> _Trainings:
    folder = tmp_path_factory.mktemp("hub-language")
    base = build_masked_base(folder / "hub" / BASE)
    words = ["mrc_workbench", "train", "language-model", "--data", text_file(60), "--base", BASE]
    words += ["--precision", "float32", "--batch-size", "8", "--evaluation-steps", "5", "--save-steps", "5"]
    words += ["--save-limit", "9", "--logging-steps", "1", "--validation-fraction", "0.2"]
    words += ["--learning-rate", "0.005", "--evaluation-limit", "4"]
    whole = Run(folder / "whole")
    longest = [*words, "--max-length", "512", "--epochs", "0.01", "--out", str(folder / "512")]
    too_long = [*words, "--max-length", "513", "--epochs", "0.01", "--out", str(folder / "513")]
    with hub_server(folder / "hub") as url:

        def run_commands(*commands: list[str]) -> int:
            hub = (url, folder / "cache")
            environment = {"MRC_WORKSPACE": str(folder / "workspace")}
            return run_module("tests.commands", json.dumps(commands), *hub, environment=environment).returncode

        assert run_commands(longest, [*words, "--max-length", "128", "--epochs", "2", "--out", str(whole.folder)]) == 0
        resumed = killed_after_step_5(whole)
        assert run_commands(["mrc_workbench", "internal", "runs", str(resumed.folder)], too_long) == 1
    return _Trainings(base, whole, resumed, Run(folder / "513").status().message)


def killed_after_step_5(whole: Run) -> Run:
    """Copy a run as if it had been killed before its second checkpoint was complete, and queue it."""
    run = Run(whole.folder.with_name("resumed"))
    copytree(whole.folder, run.folder)
    rmtree(run.model_folder)
    (run.folder / "scores.json").unlink()
    while newest_step(run) > 5:
        lose_last_checkpoint(run)
    run.write_status(replace(run.status(), state=State.INTERRUPTED))
    again(run)
    return run


def test_resumes_identically_after_kill(trainings: _Trainings) -> None:
    assert trainings.whole.status().step > 8
    assert_alike(trainings.resumed, trainings.whole, tolerance=1e-4)


def test_starts_with_hub_head_and_trains_it(trainings: _Trainings) -> None:
    provenance = trainings.whole.provenance()
    scores = trainings.whole.scores()
    assert provenance["base"]["reference"] == BASE
    assert provenance["base"]["revision"]
    assert "new_heads" not in provenance
    assert scores["after"]["perplexity"] < scores["before"]["perplexity"]
    folders = (trainings.base, trainings.whole.model_folder)
    base_weights, saved = (load_file(folder / "model.safetensors") for folder in folders)
    assert saved.keys() == base_weights.keys()
    assert not np.array_equal(saved["lm_head.bias"], base_weights["lm_head.bias"])


def test_transformers_loads_all_weights(trainings: _Trainings) -> None:
    folder = trainings.resumed.model_folder
    plain, loading_info = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert {name: sorted(keys) for name, keys in loading_info.items() if keys} == {}
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert (tokenizer.mask_token, tokenizer.model_max_length) == ("<mask>", 512)
    text = make_documents(1)[0][:20] + tokenizer.mask_token
    given = tokenizer([text], return_tensors="pt")
    assert set(given) == {"input_ids", "attention_mask"}, "there are no segments"
    with torch.no_grad():
        likely = plain(**given).logits[0, -2].softmax(dim=0)
    (best,) = pipeline("fill-mask", model=str(folder), device="cpu", top_k=1)(text)
    assert best["token"] == int(likely.argmax())
    assert best["score"] == pytest.approx(float(likely.max()), rel=1e-4)


def test_max_length_is_limited_by_positions(trainings: _Trainings) -> None:
    assert "max_length must be 512 or less" in trainings.refused
