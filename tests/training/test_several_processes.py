"""The same options under torchrun: two processes on CPU, over gloo."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.hub import build_bi_encoder
from tests.training.worlds import PROJECT, logged
from training.runs import Run, State

pytestmark = pytest.mark.slow


def trained(out: Path, processes: int, *words: str) -> Run:
    """Train by the command line, in one process or under torchrun."""
    module = ["-m", "training"]
    if processes > 1:
        module = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m", "training"]
    done = subprocess.run(
        [sys.executable, *module, "bi-encoder", "--data", "sample", "--out", str(out), *words],
        cwd=PROJECT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "MRC_LOCK": str(out) + ".lock"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    run = Run(out)
    assert done.returncode == 0, done.stderr[-3000:]
    assert run.status().state is State.DONE, run.status().message
    return run


def weights(run: Run) -> dict[str, np.ndarray]:
    return dict(load_file(next(run.model_folder.rglob("model.safetensors"))))


@pytest.mark.parametrize("base", ["starter", "tiny"])
def test_gathered_negatives_give_the_loss_of_one_process(base: str, tmp_path: Path) -> None:
    # no dropout: two processes draw other random numbers than one
    words = ["--base", base, "--objective", "multiple-negatives", "--batch-size", "28", "--logging-steps", "1"]
    words += ["--epochs", "1", "--learning-rate", "0.0005", "--precision", "float32"]
    if base == "tiny":
        words[1] = str(build_bi_encoder(tmp_path / "tiny"))
        config = tmp_path / "tiny" / "config.json"
        plain = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        config.write_text(json.dumps(json.loads(config.read_text()) | plain))
    one, two = (trained(tmp_path / f"{processes}", processes, *words) for processes in (1, 2))
    assert two.status().total_steps == one.status().total_steps == 12  # 336 pairs
    assert len(logged(one, "loss")) == len(logged(two, "loss")) == 12
    np.testing.assert_allclose(logged(two, "loss"), logged(one, "loss"), rtol=1e-3)
    for name, array in weights(one).items():
        np.testing.assert_allclose(weights(two)[name], array, atol=1e-4, err_msg=name)
    assert two.scores()["after"]["ndcg@10"] == pytest.approx(one.scores()["after"]["ndcg@10"], abs=0.01)


def test_negatives_that_are_not_gathered_are_told(tmp_path: Path) -> None:
    run = trained(
        tmp_path / "two", 2, "--base", "starter", "--epochs", "1", "--batch-size", "28", "--logging-steps", "1"
    )
    assert run.provenance()["processes"] == {"count": 2, "negatives": "own"}


def test_a_folder_is_needed() -> None:
    words = ["-m", "training", "bi-encoder", "--data", "sample"]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=PROJECT,
        env=os.environ | {"WORLD_SIZE": "2", "RANK": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "need --out" in done.stderr
