"""Models stored during a training: their number, their steps, and how they load."""

import json
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from mrc_workbench.data.cache import SEAL
from mrc_workbench.data.workspace import write_text
from mrc_workbench.models.sources import ModelSource
from mrc_workbench.training.engine import checkpoints
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.training.recipes import ranking_kinds
from mrc_workbench.training.runs import Run
from mrc_workbench.training.train import train
from tests.training.recipes.language_worlds import create_language_run, text_file
from tests.training.worlds import create_planned_run, misleading_set, train_to_end


def checkpoint(run: Run, step: int, *, sealed: bool = True) -> Path:
    folder = run.folder / "checkpoints" / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "weights.safetensors").write_bytes(bytes(100))
    (folder / "trainer_state.json").write_text("{}")
    if sealed:
        checkpoints.seal(folder)
    return folder


@pytest.fixture
def run() -> Run:
    return create_planned_run(BI_ENCODER, misleading_set())


def test_selects_newest_complete_checkpoint(run: Run) -> None:
    assert checkpoints.newest_checkpoint(run.folder) is None
    for step in (9, 100, 20):
        checkpoint(run, step)
    checkpoint(run, 300, sealed=False)
    newest = checkpoints.newest_checkpoint(run.folder)
    assert newest is not None
    assert checkpoints.get_step(newest) == 100


@pytest.mark.parametrize("damage", ["shorter", "longer", "other", "gone", "torn seal", "seal of another"])
def test_ignores_damaged_checkpoints(run: Run, damage: str) -> None:
    whole = checkpoint(run, 1)
    damaged = checkpoint(run, 2)
    weights = damaged / "weights.safetensors"
    sealed = damaged / SEAL
    match damage:
        case "shorter":
            weights.write_bytes(bytes(99))
        case "longer":
            weights.write_bytes(bytes(101))
        case "other":
            weights.write_bytes(bytes(99) + b"x")
        case "gone":
            weights.unlink()
        case "torn seal":
            sealed.write_bytes(sealed.read_bytes()[:20])
        case _:
            sealed.write_text('["not", "sizes"]')
    assert not checkpoints.is_complete(damaged)
    assert checkpoints.newest_checkpoint(run.folder) == whole


def test_leaves_other_files_alone(run: Run) -> None:
    stranger = run.folder / "checkpoints" / "checkpoint-mine"
    stranger.mkdir(parents=True)
    (stranger / "notes.txt").write_text("keep")
    valid = checkpoint(run, 3)
    checkpoints.discard_old(run.folder / "checkpoints", 1, None)
    assert checkpoints.newest_checkpoint(run.folder) == valid
    assert (stranger / "notes.txt").read_text() == "keep"


def test_retains_best_and_newest_checkpoints(run: Run) -> None:
    folders = {step: checkpoint(run, step) for step in (1, 2, 3, 4, 5)}
    half = checkpoint(run, 6, sealed=False)
    checkpoints.discard_old(run.folder / "checkpoints", 2, folders[2])
    assert [step for step, folder in folders.items() if folder.is_dir()] == [2, 4, 5]
    assert not half.exists()


def test_kill_during_cleanup_leaves_no_complete_looking_checkpoint(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    old = checkpoint(run, 1)
    new = checkpoint(run, 2)

    def killed(path: Path) -> None:
        (path / "trainer_state.json").unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.discard_old(run.folder / "checkpoints", 1, None)
    assert (old / "weights.safetensors").exists()
    assert not checkpoints.is_complete(old)
    assert checkpoints.newest_checkpoint(run.folder) == new


@pytest.mark.slow
def test_a_checkpoint_restores_optimizer_schedule_and_generators(run: Run, tmp_path: Path) -> None:
    import torch
    from torch.optim.lr_scheduler import LambdaLR

    class Arguments:
        should_save = True
        process_index = 0
        output_dir = str(tmp_path)
        device = "cpu"

    def make_trainer(seed: int) -> checkpoints.SafeCheckpoints:
        torch.manual_seed(seed)
        trainer = checkpoints.SafeCheckpoints()
        trainer.args = Arguments()
        trainer.model = torch.nn.Linear(3, 2)
        trainer.optimizer = torch.optim.AdamW(trainer.model.parameters(), lr=0.1)
        trainer.lr_scheduler = LambdaLR(trainer.optimizer, lambda step: 1 / (1 + step))
        return trainer

    def step(trainer: checkpoints.SafeCheckpoints) -> None:
        trainer.optimizer.zero_grad()
        trainer.model(torch.randn(4, 3)).square().sum().backward()
        trainer.optimizer.step()
        trainer.lr_scheduler.step()

    first = make_trainer(0)
    second = make_trainer(1)
    for _ in range(3):
        step(first)
    random.seed(4)
    np.random.seed(5)
    random.random(), np.random.normal()
    for save in (first._save, first._save_optimizer_and_scheduler, first._save_rng_state):
        save(str(tmp_path))
    expected = (random.random(), np.random.normal(), np.random.normal())
    step(first)

    second._load_from_checkpoint(str(tmp_path))
    second._load_optimizer_and_scheduler(str(tmp_path))
    second._load_rng_state(str(tmp_path))
    assert (random.random(), np.random.normal(), np.random.normal()) == expected
    step(second)
    assert second.lr_scheduler.get_last_lr() == first.lr_scheduler.get_last_lr()
    for ours, theirs in zip(second.model.parameters(), first.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ranking_kinds())
def test_models_and_checkpoints_hold_no_pickle(kind: str) -> None:
    run = create_planned_run(kind, misleading_set(), epochs=3.0, batch_size=8, save_limit=1)
    train(run)
    assert {path.suffix for path in run.model_folder.rglob("*.*")} == {".json", ".safetensors", ".md"}
    folders = sorted((run.folder / "checkpoints").glob("checkpoint-*"), key=checkpoints.get_step)
    assert 1 <= len(folders) <= 2  # the newest and the best one
    assert checkpoints.get_step(folders[-1]) == run.status().total_steps
    for folder in folders:
        assert checkpoints.is_complete(folder)
        files = {path.name: path for path in folder.rglob("*") if path.is_file()}
        assert {path.suffix for path in files.values()} == {".json", ".safetensors"}
        sealed = json.loads(files[SEAL].read_text())["weights.safetensors"]
        assert sealed[0] == files["weights.safetensors"].stat().st_size


EVERY_TEN = range(0, 101, 10)


@dataclass
class Weight:
    count: int

    def numel(self) -> int:
        return self.count

    def element_size(self) -> int:
        return 4


@dataclass
class Saved:
    """A network or tokenizer that writes its content."""

    name: str
    content: str = ""

    def save_pretrained(self, folder: Path) -> None:
        write_text(Path(folder) / self.name, self.content)


@dataclass
class Module:
    auto_model: Saved


@dataclass
class Model:
    content: str = "weights"
    numbers: int = 1000
    tokenizer: Saved = field(default_factory=lambda: Saved("tokenizer.json"))

    def __getitem__(self, index: int) -> Module:
        return [Module(Saved("model", self.content))][index]

    def parameters(self) -> list[Weight]:
        return [Weight(self.numbers)]


def save_snapshots(run: Path, steps: Any = EVERY_TEN, most: int = 4, **model: Any) -> list[int]:
    for step in steps:
        checkpoints.save_snapshot(run, Model(**model), step, 100, most)
    return [*checkpoints.model_snapshots(run)]


def test_saves_last_snapshot_of_each_part_and_the_first(tmp_path: Path) -> None:
    assert save_snapshots(tmp_path) == [0, 20, 50, 70, 100]
    assert [folder.name for folder in checkpoints.model_snapshots(tmp_path).values()][:2] == ["step-0", "step-20"]
    assert sorted(path.name for path in checkpoints.model_snapshots(tmp_path)[20].iterdir()) == [
        "model",
        SEAL,
        "tokenizer.json",
    ]


def test_saves_all_snapshots_if_fewer_than_parts(tmp_path: Path) -> None:
    assert save_snapshots(tmp_path, most=50) == [*EVERY_TEN]


@pytest.mark.parametrize(
    ("of_all", "steps"),
    [(1.0, []), (0.51, []), (0.5, [0, 100]), (0.3, [0, 50, 100]), (0.1, [0, 20, 50, 70, 100])],
)
def test_limits_snapshots_of_large_models_by_size(tmp_path: Path, of_all: float, steps: list[int]) -> None:
    assert save_snapshots(tmp_path, numbers=int(of_all * checkpoints.MAX_SNAPSHOT_BYTES / 4)) == steps[: len(steps)]
    assert len(steps) * of_all <= 1


def test_repeated_step_overwrites_its_snapshot(tmp_path: Path) -> None:
    save_snapshots(tmp_path)
    checkpoints.save_snapshot(tmp_path, Model("resumed"), 50, 100, 4)
    assert [*checkpoints.model_snapshots(tmp_path)] == [0, 20, 50, 70, 100]
    contents = [(folder / "model").read_text() for folder in checkpoints.model_snapshots(tmp_path).values()]
    assert contents == ["weights", "weights", "resumed", "weights", "weights"]


def test_ignores_half_written_snapshots(tmp_path: Path) -> None:
    for name in (".step-30.x", "step-", "step-4.old", "step-x"):
        (tmp_path / "snapshots" / name).mkdir(parents=True)
    write_text(tmp_path / "snapshots" / "step-7", "a file")
    assert checkpoints.model_snapshots(tmp_path) == {}
    assert checkpoints.model_snapshots(tmp_path / "nowhere") == {}


def of_the_way(run: Run) -> dict[str, np.ndarray]:
    return load_file(checkpoints.model_snapshots(run.folder)[run.scores()["best_step"]] / "model.safetensors")


@pytest.mark.slow
def test_best_model_is_a_snapshot_with_merged_adapters() -> None:
    from mrc_workbench.models.reader_networks import load_masked

    options = {"epochs": 1.0, "evaluation_steps": 3, "max_snapshots": 100}
    first = train_to_end(create_language_run(text_file(), **options))
    measured = {entry["step"] for entry in first.progress() if "eval_validation_perplexity" in entry}
    assert {*checkpoints.model_snapshots(first.folder)} == {0, *measured}
    options |= {"lora_rank": 4, "learning_rate": 1e-2}
    second = train_to_end(create_language_run(text_file(), base=str(first.model_folder), **options))
    for run in (first, second):
        best_weights = load_file(run.model_folder / "model.safetensors")
        snapshot_weights = of_the_way(run)
        assert snapshot_weights.keys() == best_weights.keys()
        for name, weights in best_weights.items():
            np.testing.assert_allclose(snapshot_weights[name], weights, atol=1e-6, err_msg=name)
        begun = load_file(checkpoints.model_snapshots(run.folder)[0] / "model.safetensors")
        assert any(not np.allclose(begun[name], weights) for name, weights in best_weights.items())
    assert load_masked(ModelSource("kept", folder=checkpoints.model_snapshots(second.folder)[0])).new_heads == ()


@pytest.mark.slow
def test_saves_no_snapshots_if_limit_is_zero() -> None:
    run = train_to_end(create_language_run(text_file(), epochs=0.2, max_snapshots=0))
    assert not (run.folder / "snapshots").exists()
