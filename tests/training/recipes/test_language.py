"""Trainings of language models: learning, resuming, estimates and saved models."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.models.reader_networks import load_masked
from mrc_workbench.training.estimate import estimate
from mrc_workbench.training.recipes.language_data import UNIGRAM
from mrc_workbench.training.recipes.texts import LanguageRecipe
from mrc_workbench.training.runs import Run
from mrc_workbench.training.text_options import LanguageObjective, LanguageOptions
from mrc_workbench.training.train import load_training_data, train
from mrc_workbench.workbench.cli import main
from tests.tiny_models import build_bi_encoder, build_cross_encoder_base
from tests.training.recipes.language_worlds import create_language_run, make_documents, text_file
from tests.training.test_resume import assert_alike, lose_last_checkpoint, newest_step, stopped_at
from tests.training.worlds import in_workspace, make_source, read_logged, train_to_end

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_workspace_of_module")]


@pytest.fixture(scope="module")
def learned(module_workspace: Path) -> Run:
    settings: dict[str, Any] = {"epochs": 7.0, "learning_rate": 2e-3, "logging_steps": 10, "max_snapshots": 0}
    settings["objective"] = LanguageObjective.MLM_NSP
    return in_workspace(module_workspace, lambda: train_to_end(create_language_run(text_file(300), **settings)))


def test_learns_topic_of_text(learned: Run) -> None:
    scores = learned.scores()
    data = load_training_data(learned.plan())
    before, alone, after = (scores[name] for name in ("before", UNIGRAM, "after"))
    assert before["perplexity"] == pytest.approx(len(data.tokenizer), rel=0.25), "a new model knows nothing"
    assert after["perplexity"] < alone["perplexity"] / 3
    assert after["masked_accuracy"] > 2 * alone["masked_accuracy"]
    low, high = scores["intervals"]["after"]["perplexity"]
    assert low < after["perplexity"] < high < alone["perplexity"]
    assert scores["gain"]["interval"][0] > 0.1
    assert scores["training_sample"]["after"]["next_accuracy"] > 0.6
    best = max(read_logged(learned, "eval_validation_log_likelihood"))
    assert after["log_likelihood"] == pytest.approx(best, abs=1e-5)
    assert scores["rows"] == len(data.validation_rows.rows)


def test_provenance_and_card_describe_the_model(learned: Run) -> None:
    data = learned.provenance()["data"]
    training_data = load_training_data(learned.plan())
    assert data["tokens"] == training_data.tokens
    assert data["train_documents"] + data["validation_documents"] + data["test_documents"] == data["documents"] == 300
    card = (learned.model_folder / "README.md").read_text(encoding="utf-8")
    assert "pipeline_tag: fill-mask" in card
    assert LanguageRecipe.summary in card
    assert "| |Masked tokens predicted|Next segments predicted|" in card
    assert "| |Perplexity of masked tokens|" in card
    assert f"|Token frequency|{learned.scores()[UNIGRAM]['perplexity']:.2f} [" in card
    lines = card.split("```python\n")[1].split("```")[0].replace("path/of/this/folder", str(learned.model_folder))
    exec(lines, {})  # noqa: S102 - what the card tells people to run


def test_transformers_loads_model_without_pickles(learned: Run) -> None:
    suffixes = {path.suffix for path in learned.model_folder.rglob("*") if path.is_file()}
    assert suffixes == {".safetensors", ".json", ".md"}
    plain = AutoModelForMaskedLM.from_pretrained(learned.model_folder)
    tokenizer = AutoTokenizer.from_pretrained(learned.model_folder)
    own = load_masked(make_source(learned), pairs=True)
    text = make_documents(1)[0] + tokenizer.mask_token
    given = tokenizer([text], return_tensors="pt")
    with torch.no_grad():
        assert torch.equal(plain(**given).logits, own[0].model(**given).prediction_logits)
    assert own.new_heads == ()
    assert tokenizer.model_max_length == 512


SHORT: dict[str, Any] = {"epochs": 2.0, "evaluation_steps": 3, "save_steps": 3}


def test_resumes_identically_after_stop_and_kill_while_saving() -> None:
    options = SHORT | {"objective": LanguageObjective.MLM_NSP, "whole_words": "spaces", "evaluation_limit": 8}
    whole, run = (create_language_run(text_file(40), **options) for _ in range(2))
    train_to_end(whole)
    stopped_at(run, 4)
    lose_last_checkpoint(run)
    assert newest_step(run) == 3
    train_to_end(run)
    assert_alike(run, whole, "eval_loss", "eval_validation_perplexity", tolerance=1e-4)


def test_continues_from_base_and_from_run(tmp_path: Path) -> None:
    base = str(build_cross_encoder_base(tmp_path / "roberta"))
    first = train_to_end(create_language_run(text_file(40), base=base, evaluation_limit=8))
    assert "new_heads" not in first.provenance()
    options = {"base": first.id, "evaluation_limit": 8, "gradient_checkpointing": True}
    second = train_to_end(create_language_run(text_file(40), **options))
    assert second.scores()["before"] == pytest.approx(first.scores()["after"], rel=1e-5)


def test_adds_and_reports_missing_head(tmp_path: Path) -> None:
    base = str(build_bi_encoder(tmp_path / "bare"))
    run = train_to_end(create_language_run(text_file(40), base=base, evaluation_limit=8))
    assert run.provenance()["new_heads"] == ["guesses"]
    assert "no head for guesses" in (run.model_folder / "README.md").read_text(encoding="utf-8")
    failed = create_language_run(text_file(40), base=base, lora_rank=2, evaluation_limit=8)
    assert train(failed).state is State.FAILED
    assert "lora_rank must be 0" in failed.status().message
    failed = create_language_run(text_file(40), base=base, max_length=512)
    assert train(failed).state is State.FAILED
    assert "max_length must be 128 or less" in failed.status().message


@pytest.mark.parametrize("objective", LanguageObjective)
def test_estimates_time_and_memory(objective: LanguageObjective) -> None:
    run = create_language_run(text_file(40), objective=objective, evaluation_limit=8, epochs=2.0)
    result = estimate(run.plan())
    assert result.fits
    assert (result.seconds_per_step, result.seconds_evaluating, result.seconds_loading) > (0, 0, 0)
    assert train_to_end(run).status().total_steps == result.steps


def test_command_trains_language_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["language-model", "--data", text_file(40), "--out", str(tmp_path / "out"), "--size", "tiny"]
    words += ["--epochs", "1", "--max-length", "32", "--vocabulary", "1000", "--whole-words", "morphemes"]
    assert main(["train", *words, "--tokenizer-kind", "bpe"]) == 0
    output = capsys.readouterr().out
    assert str(tmp_path / "out" / "model") in output
    assert "perplexity" in output
    options = Run(tmp_path / "out").plan().options
    assert isinstance(options, LanguageOptions)
    assert (options.size, options.tokenizer_kind, options.whole_words) == ("tiny", "bpe", "morphemes")
    tokenizer = str(tmp_path / "out" / "model")
    words = [*words[:4], str(tmp_path / "second"), *words[5:], "--tokenizer", tokenizer]
    assert main(["train", *words]) == 0
    saved = [(tmp_path / name / "model" / "tokenizer.json").read_bytes() for name in ("out", "second")]
    assert saved[0] == saved[1], "one's own tokenizer is used"
    assert main(["train", "language-model", "--data", str(tmp_path / "nothing.txt")]) == 2
