"""A reader trained by the command from the hub id that is the default, served by the stand-in hub."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from data.workspace import PROJECT
from models.readers.reader import SpanOptions, SpanReader, options_of
from models.sources import DEFAULT_READER, find_model
from tests.hub import SENTENCES, build_cross_encoder_base, hub_environment, hub_server
from training.runs.runs import Run

pytestmark = pytest.mark.slow
WORDS = " ".join(SENTENCES).split()


def squad(folder: Path) -> Path:
    """Two questions on each of twelve passages, asking for the word after a word."""
    articles = []
    for number in range(12):
        words = [*WORDS[number:], *WORDS[:number]][:8]
        context = " ".join(words)
        asked = [
            {
                "id": f"q{number}-{place}",
                "question": words[place],
                "answers": [{"text": words[place + 1], "answer_start": context.index(f" {words[place + 1]}") + 1}],
            }
            for place in (0, 3)
        ]
        articles.append({"title": f"t{number}", "paragraphs": [{"context": context, "qas": asked}]})
    path = folder / "set.json"
    path.write_text(json.dumps({"version": "1", "data": articles}, ensure_ascii=False), encoding="utf-8")
    return path


def test_a_hub_base_of_another_kind_becomes_a_reader_that_plain_transformers_loads(tmp_path: Path) -> None:
    build_cross_encoder_base(tmp_path / "hub" / DEFAULT_READER, segment_types=1)
    with hub_server(tmp_path / "hub") as url:
        environment = hub_environment(url, tmp_path / "cache") | {"MRC_WORKSPACE": str(tmp_path / "workspace")}
        command = [sys.executable, "-m", "training", "reader", "--data", str(squad(tmp_path)), "--base", DEFAULT_READER]
        shares = ["--validation-share", "0.2", "--test-share", "0.2", "--epochs", "1", "--batch-size", "4"]
        told = ["--max-length", "32", "--overlap", "8", "--out", str(tmp_path / "run")]
        ended = subprocess.run(
            [*command, *shares, *told], env=environment, cwd=PROJECT, capture_output=True, text=True, check=False
        )
    assert ended.returncode == 0, ended.stderr[-2000:]
    run = Run(tmp_path / "run")
    assert {"em", "f1"} <= run.scores()["after"].keys()
    assert run.provenance()["answers"]["lost"] == 0
    source = find_model(str(run.model_folder))
    assert options_of(source) == SpanOptions(32, 8, 30)
    assert not [path for path in run.model_folder.rglob("*") if path.suffix in (".bin", ".pt", ".pkl")]
    network = AutoModelForQuestionAnswering.from_pretrained(run.model_folder)
    tokenizer = AutoTokenizer.from_pretrained(run.model_folder)
    given = tokenizer(WORDS[0], " ".join(WORDS[:6]), return_tensors="pt")
    reader = SpanReader(source)
    with torch.no_grad():
        assert torch.equal(network.eval()(**given).start_logits, reader.model[0](dict(given))["starts"])
    card = (run.model_folder / "README.md").read_text(encoding="utf-8")
    assert "question-answering" in card
    assert "Exact match" in card
