"""The same options under torchrun: two processes on CPU, over gloo."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from data.workspace import PROJECT
from jobs.status import State
from tests.hub import build_bi_encoder
from tests.training.worlds import logged, python
from tests.two_machines import torchrun_on, two_machines
from training.__main__ import main
from training.runs.runs import Run

pytestmark = pytest.mark.slow

ONE_EPOCH = ["--batch-size", "28", "--logging-steps", "1", "--epochs", "1"]
LEARNING_RATE = 0.0005
GATHERING = ["--objective", "multiple-negatives", *ONE_EPOCH]
GATHERING += ["--learning-rate", str(LEARNING_RATE), "--precision", "float32"]

TRAIN_ALL = """
import json, sys
from training.__main__ import main

for words in json.loads(sys.argv[1]):
    assert main(words) == 0, words
"""


def in_two_processes(*program: str) -> None:
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROJECT)}
    done = python(*torchrun, *program, environment=environment)
    assert done.returncode == 0, done.stderr[-3000:]


def trained(folder: Path) -> Run:
    run = Run(folder)
    assert run.status().state is State.DONE, run.status().message
    return run


def weights(run: Run) -> dict[str, np.ndarray]:
    return dict(load_file(next(run.model_folder.rglob("model.safetensors"))))


def without_dropout(model: Path) -> Path:
    """Two processes draw other random numbers than one."""
    config = model / "config.json"
    plain = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config.write_text(json.dumps(json.loads(config.read_text()) | plain))
    return model


@pytest.fixture(scope="module")
def by_one_and_by_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders `one` and `two` with the same trainings, a folder a base: in this process, and in two under torchrun.

    `two` holds `own` besides, the starter trained by the default objective, which gathers no negatives.
    """
    folder = tmp_path_factory.mktemp("processes")
    tiny = without_dropout(build_bi_encoder(folder / "model"))

    def words(out: str, base: str, model: str) -> list[str]:
        return ["bi-encoder", "--data", "sample", "--out", str(folder / out / base), "--base", model, *GATHERING]

    one, two = ([words(out, "starter", "starter"), words(out, "tiny", str(tiny))] for out in ("one", "two"))
    for training in one:
        assert main(training) == 0
    (folder / "train_all.py").write_text(TRAIN_ALL)
    own = ["bi-encoder", "--data", "sample", "--out", str(folder / "two" / "own"), "--base", "starter", *ONE_EPOCH]
    in_two_processes(str(folder / "train_all.py"), json.dumps([*two, own]))
    return folder


@pytest.mark.parametrize("base", ["starter", "tiny"])
def test_gathered_negatives_give_the_loss_of_one_process(base: str, by_one_and_by_two: Path) -> None:
    one, two = (trained(by_one_and_by_two / out / base) for out in ("one", "two"))
    assert_same(one, two)
    assert two.provenance()["processes"] == {"count": 2, "negatives": "gathered"}


def test_two_machines_learn_what_two_processes_of_one_learn(by_one_and_by_two: Path, tmp_path: Path) -> None:
    command = ["training", "bi-encoder", "--data", "sample", "--base", "starter", "--out", str(tmp_path / "far")]
    with two_machines() as machines:
        torchrun_on(machines, [*command, *GATHERING], tmp_path, OMP_NUM_THREADS="1", MRC_LOCK=str(tmp_path / "lock"))
    near, far = trained(by_one_and_by_two / "two" / "starter"), trained(tmp_path / "far")
    assert far.provenance()["processes"] == {"count": 2, "negatives": "gathered"}
    assert_same(near, far)


def assert_same(one: Run, two: Run) -> None:
    """Check that two runs learnt the same: losses, weights, scores."""
    assert two.status().total_steps == one.status().total_steps == 12  # 336 pairs
    assert len(logged(one, "loss")) == 12
    assert_learnt_the_same(one, two)
    assert two.scores()["after"]["ndcg@10"] == pytest.approx(one.scores()["after"]["ndcg@10"], abs=0.01)


def assert_learnt_the_same(one: Run, two: Run) -> None:
    """Check losses and weights."""
    assert len(logged(one, "loss")) == len(logged(two, "loss"))
    np.testing.assert_allclose(logged(two, "loss"), logged(one, "loss"), rtol=1e-3)
    for name, array in weights(one).items():
        # Adam makes a full step of a gradient that is only rounding: few weights may differ, and by few steps
        apart = np.abs(weights(two)[name] - array)
        assert (apart > 1e-4).mean() < 0.01, name
        assert apart.max() < 3 * LEARNING_RATE, name


def test_negatives_that_are_not_gathered_are_told(by_one_and_by_two: Path) -> None:
    assert trained(by_one_and_by_two / "two" / "own").provenance()["processes"] == {"count": 2, "negatives": "own"}


def test_a_folder_is_needed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert main(["bi-encoder", "--data", "sample"]) == 2
    assert "need --out" in capsys.readouterr().err
