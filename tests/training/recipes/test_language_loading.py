"""Other libraries load finished language models, and a model from the hub is trained, killed and resumed."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
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
from tests.hub import OWNER, hub_environment, hub_server
from tests.tiny_models import build_masked_base
from tests.training.recipes.language_worlds import SHARES, create_language_run, make_documents, make_options, text_file
from tests.training.test_resume import again, assert_alike
from tests.training.worlds import run_python, train_to_end

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
TRAIN = """
import json, os, signal, sys
from pathlib import Path
from tests.training.test_resume import again
from mrc_workbench.workbench.cli import main
from mrc_workbench.training import trainers
from mrc_workbench.training.engine.checkpoints import newest_checkpoint, get_step
from mrc_workbench.training.trainers import RunFolderCallback
from mrc_workbench.training.runs import Run

out, words = sys.argv[1], json.loads(sys.argv[2])
if os.fork():  # only the preloaded process remains
    assert os.waitstatus_to_exitcode(os.wait()[1]) == -signal.SIGKILL
    killed = Run(Path(out, "killed"))
    print(json.dumps([killed.status().state, get_step(newest_checkpoint(killed.folder))]), flush=True)
    again(killed)
    sys.exit(main(["internal", "runs", f"{out}/killed"]))

for length in ("513", "512"):
    status = main(["train", *words, "--max-length", length, "--epochs", "0.01", "--out", f"{out}/{length}"])
    assert status == (1 if length == "513" else 0), length
assert main(["train", *words, "--out", f"{out}/whole"]) == 0

original_step_end = RunFolderCallback.on_step_end

def on_step_end(self, args, state, control, **kwargs):
    if state.global_step == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    original_step_end(self, args, state, control, **kwargs)

RunFolderCallback.on_step_end = on_step_end
main(["train", *words, "--out", f"{out}/killed"])
"""


@dataclass(frozen=True)
class _Trainings:
    base: Path
    whole: Run
    killed: Run
    saved_before: int  # the step of the killed run's checkpoint
    refused: str  # the limit that 513 tokens exceed
    as_long_as_it_reads: State


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> _Trainings:
    folder = tmp_path_factory.mktemp("hub-language")
    base = build_masked_base(folder / "hub" / BASE)
    words = ["language-model", "--data", text_file(60), "--base", BASE, "--precision", "float32", "--batch-size", "8"]
    words += ["--max-length", "128", "--epochs", "2", "--evaluation-steps", "5", "--save-steps", "5"]
    words += ["--logging-steps", "1", "--validation-fraction", "0.2", "--learning-rate", "0.005"]
    words += ["--evaluation-limit", "4"]
    with hub_server(folder / "hub") as url:
        environment = hub_environment(url, folder / "home") | {"MRC_WORKSPACE": str(folder / "workspace")}

        done = run_python("-c", TRAIN, str(folder), json.dumps(words), environment=environment)
    assert done.returncode == 0, done.stderr[-5000:]
    state, saved_before = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("[")))
    assert state == State.INTERRUPTED
    whole = Run(folder / "whole")
    killed = Run(folder / "killed")
    refused = Run(folder / "513").status().message
    longest = Run(folder / "512").status().state
    return _Trainings(base, whole, killed, saved_before, refused, longest)


def test_resumes_identically_after_kill(trainings: _Trainings) -> None:
    whole = trainings.whole
    killed = trainings.killed
    assert trainings.saved_before == 5
    assert whole.status().step > 8
    assert_alike(killed, whole, tolerance=1e-4)


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
    folder = trainings.killed.model_folder
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
    assert trainings.as_long_as_it_reads is State.DONE
    assert "max_length must be 512 or less" in trainings.refused
