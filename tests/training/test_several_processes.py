"""The same options under torchrun: two processes on CPU, over gloo, on one machine and on two."""

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
from tests.two_machines import torchrun_on, two_machines
from training.runs import Run, State

pytestmark = pytest.mark.slow

# no dropout in what it trains: two processes draw other random numbers than one
GATHERING = ["--objective", "multiple-negatives", "--batch-size", "28", "--logging-steps", "1", "--epochs", "1"]
GATHERING += ["--learning-rate", "0.0005", "--precision", "float32"]


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


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What two processes of this machine make of the starter."""
    return trained(tmp_path_factory.mktemp("near") / "run", 2, "--base", "starter", *GATHERING)


def test_gathered_negatives_give_the_loss_of_one_process(near: Run, tmp_path: Path) -> None:
    assert_same(trained(tmp_path / "one", 1, "--base", "starter", *GATHERING), near)


def test_so_they_do_for_a_transformer(tmp_path: Path) -> None:
    tiny = build_bi_encoder(tmp_path / "tiny")
    config = tiny / "config.json"
    plain = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config.write_text(json.dumps(json.loads(config.read_text()) | plain))
    assert_same(*(trained(tmp_path / f"{count}", count, "--base", str(tiny), *GATHERING) for count in (1, 2)))


def test_two_machines_learn_what_two_processes_of_one_learn(near: Run, tmp_path: Path) -> None:
    far = tmp_path / "far"
    command = ["training", "bi-encoder", "--data", "sample", "--base", "starter", "--out", str(far), *GATHERING]
    with two_machines() as machines:
        torchrun_on(machines, command, tmp_path, OMP_NUM_THREADS="1", MRC_LOCK=str(tmp_path / "lock"))
    assert Run(far).status().state is State.DONE, Run(far).status().message
    assert Run(far).provenance()["processes"] == near.provenance()["processes"] == {"count": 2, "negatives": "gathered"}
    assert_same(near, Run(far))


def assert_same(one: Run, two: Run) -> None:
    """Check that two runs learnt the same: losses, weights, scores."""
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
