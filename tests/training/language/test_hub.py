"""A masked language model from the hub goes on with one's own text, is killed, resumed, and loaded by transformers."""

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForMaskedLM, AutoTokenizer, pipeline

from data.workspace import PROJECT
from jobs.status import State
from tests.hub import OWNER, build_masked_base, hub_environment, hub_server
from tests.training.language.worlds import of_topics, text_file
from tests.training.test_resume import again, weights
from tests.training.worlds import logged
from training.engine.checkpoints import newest_checkpoint, step_of
from training.runs.runs import Run

pytestmark = pytest.mark.slow

BASE = f"{OWNER}/roberta"
TRAIN = """
import json, os, signal, sys
from jobs.status import State
from training.__main__ import main
from training.runs.progress import RunFolderCallback
from training.runs.runs import Run

out, words = sys.argv[1], json.loads(sys.argv[2])
for length in ("513", "512"):
    status = main([*words, "--max-length", length, "--epochs", "0.01", "--out", f"{out}/{length}"])
    assert status == (1 if length == "513" else 0), length
assert main([*words, "--out", f"{out}/whole"]) == 0

told = RunFolderCallback.on_step_end

def on_step_end(self, args, state, control, **kwargs):
    if state.global_step == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    told(self, args, state, control, **kwargs)

RunFolderCallback.on_step_end = on_step_end
main([*words, "--out", f"{out}/killed"])
"""


@dataclass(frozen=True)
class _Trainings:
    base: Path
    whole: Run
    killed: Run
    saved_before: int  # the step of the checkpoint that the killed one left
    refused: str  # why 513 tokens were
    as_long_as_it_reads: State


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> _Trainings:
    folder = tmp_path_factory.mktemp("hub-language")
    base = build_masked_base(folder / "hub" / BASE)
    words = ["language-model", "--data", text_file(60), "--base", BASE, "--precision", "float32", "--batch-size", "8"]
    words += ["--max-length", "128", "--epochs", "2", "--evaluation-steps", "5", "--save-steps", "5"]
    words += [
        "--logging-steps",
        "1",
        "--validation-share",
        "0.2",
        "--learning-rate",
        "0.005",
        "--evaluation-limit",
        "4",
    ]
    with hub_server(folder / "hub") as url:
        environment = hub_environment(url, folder / "home") | {"MRC_WORKSPACE": str(folder / "workspace")}

        def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
            command = [sys.executable, *arguments]
            return subprocess.run(
                command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False, timeout=600
            )

        done = run("-c", TRAIN, str(folder), json.dumps(words))
        assert done.returncode == -signal.SIGKILL, done.stderr[-5000:]
        whole, killed = Run(folder / "whole"), Run(folder / "killed")
        assert killed.status().state is State.INTERRUPTED
        checkpoint = newest_checkpoint(killed.folder)
        assert checkpoint is not None
        saved_before = step_of(checkpoint)
        again(killed)
        resumed = run("-m", "training", "run", str(killed.folder))
    assert resumed.returncode == 0, resumed.stderr[-5000:]
    refused, longest = Run(folder / "513").status().message, Run(folder / "512").status().state
    return _Trainings(base, whole, killed, saved_before, refused, longest)


def test_what_was_killed_comes_out_as_if_it_had_not_been(trainings: _Trainings) -> None:
    whole, killed = trainings.whole, trainings.killed
    assert trainings.saved_before == 5
    assert whole.status().state is killed.status().state is State.DONE
    assert killed.status().step == whole.status().step > 8
    assert weights(killed).keys() == weights(whole).keys()
    for name, array in weights(whole).items():
        np.testing.assert_allclose(weights(killed)[name], array, rtol=0, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(logged(killed, "loss"), logged(whole, "loss"), rtol=1e-5)
    assert killed.scores()["after"] == pytest.approx(whole.scores()["after"], abs=1e-4)


def test_it_began_with_the_head_of_the_hub_and_learned(trainings: _Trainings) -> None:
    provenance, scores = trainings.whole.provenance(), trainings.whole.scores()
    assert provenance["base"]["reference"] == BASE
    assert provenance["base"]["revision"]
    assert "new_heads" not in provenance
    assert scores["after"]["perplexity"] < scores["before"]["perplexity"]
    kept, saved = (load_file(one / "model.safetensors") for one in (trainings.base, trainings.whole.model_folder))
    assert saved.keys() == kept.keys()
    assert not np.array_equal(saved["lm_head.bias"], kept["lm_head.bias"])


def test_plain_transformers_loads_it_and_misses_nothing(trainings: _Trainings) -> None:
    folder = trainings.killed.model_folder
    plain, told = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert {name: sorted(keys) for name, keys in told.items() if keys} == {}
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert (tokenizer.mask_token, tokenizer.model_max_length) == ("<mask>", 512)
    text = of_topics(1)[0][:20] + tokenizer.mask_token
    given = tokenizer([text], return_tensors="pt")
    assert set(given) == {"input_ids", "attention_mask"}, "there are no segments"
    with torch.no_grad():
        likely = plain(**given).logits[0, -2].softmax(dim=0)
    (best,) = pipeline("fill-mask", model=str(folder), device="cpu", top_k=1)(text)
    assert best["token"] == int(likely.argmax())
    assert best["score"] == pytest.approx(float(likely.max()), rel=1e-4)


def test_as_many_tokens_are_read_as_it_has_positions_for(trainings: _Trainings) -> None:
    assert trainings.as_long_as_it_reads is State.DONE
    assert "max_length must be 512 or less" in trainings.refused
