import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from data.cache import SEAL
from tests.training.worlds import misleading_set, planned
from training.engine.checkpoints import discard_old, is_complete, newest_checkpoint, seal, step_of
from training.options.rankers import BI_ENCODER
from training.recipe import ranking_kinds
from training.runs.runs import Run
from training.train import train


def checkpoint(run: Run, step: int, *, sealed: bool = True) -> Path:
    folder = run.folder / "checkpoints" / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "weights.safetensors").write_bytes(bytes(100))
    (folder / "trainer_state.json").write_text("{}")
    if sealed:
        seal(folder)
    return folder


@pytest.fixture
def run() -> Run:
    return planned(BI_ENCODER, misleading_set())


def test_the_newest_complete_one_is_picked(run: Run) -> None:
    assert newest_checkpoint(run.folder) is None
    for step in (9, 100, 20):
        checkpoint(run, step)
    checkpoint(run, 300, sealed=False)
    found = newest_checkpoint(run.folder)
    assert found is not None
    assert step_of(found) == 100


@pytest.mark.parametrize("damage", ["shorter", "longer", "other", "gone", "torn seal", "seal of another"])
def test_a_damaged_one_is_never_picked(run: Run, damage: str) -> None:
    whole, damaged = checkpoint(run, 1), checkpoint(run, 2)
    weights, sealed = damaged / "weights.safetensors", damaged / SEAL
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
    assert not is_complete(damaged)
    assert newest_checkpoint(run.folder) == whole


def test_what_is_no_checkpoint_is_left_alone(run: Run) -> None:
    stranger = run.folder / "checkpoints" / "checkpoint-mine"
    stranger.mkdir(parents=True)
    (stranger / "notes.txt").write_text("keep")
    kept = checkpoint(run, 3)
    discard_old(run.folder / "checkpoints", 1, None)
    assert newest_checkpoint(run.folder) == kept
    assert (stranger / "notes.txt").read_text() == "keep"


def test_the_best_and_the_newest_stay(run: Run) -> None:
    folders = {step: checkpoint(run, step) for step in (1, 2, 3, 4, 5)}
    half = checkpoint(run, 6, sealed=False)
    discard_old(run.folder / "checkpoints", 2, folders[2])
    assert [step for step, folder in folders.items() if folder.is_dir()] == [2, 4, 5]
    assert not half.exists()


def test_a_kill_while_old_ones_go_leaves_none_that_looks_whole(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = checkpoint(run, 1), checkpoint(run, 2)

    def killed(path: Path) -> None:
        (path / "trainer_state.json").unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        discard_old(run.folder / "checkpoints", 1, None)
    assert (old / "weights.safetensors").exists()
    assert not is_complete(old)
    assert newest_checkpoint(run.folder) == new


@pytest.mark.slow
def test_a_checkpoint_restores_optimizer_schedule_and_generators(run: Run, tmp_path: Path) -> None:
    import torch
    from torch.optim.lr_scheduler import LambdaLR

    from training.engine.checkpoints import SafeCheckpoints

    class Arguments:
        should_save, process_index, output_dir, device = True, 0, str(tmp_path), "cpu"

    def trainer(seed: int) -> SafeCheckpoints:
        torch.manual_seed(seed)
        made = SafeCheckpoints()
        made.args, made.model = Arguments(), torch.nn.Linear(3, 2)
        made.optimizer = torch.optim.AdamW(made.model.parameters(), lr=0.1)
        made.lr_scheduler = LambdaLR(made.optimizer, lambda step: 1 / (1 + step))
        return made

    def step(made: SafeCheckpoints) -> None:
        made.optimizer.zero_grad()
        made.model(torch.randn(4, 3)).square().sum().backward()
        made.optimizer.step()
        made.lr_scheduler.step()

    first, second = trainer(0), trainer(1)
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
def test_checkpoints_of_a_training_hold_no_pickle(kind: str) -> None:
    run = planned(kind, misleading_set(), epochs=3.0, batch_size=8, save_limit=1)
    train(run)
    folders = sorted((run.folder / "checkpoints").glob("checkpoint-*"), key=step_of)
    assert 1 <= len(folders) <= 2  # the newest, and the best where it is another
    assert step_of(folders[-1]) == run.status().total_steps
    for folder in folders:
        assert is_complete(folder)
        files = {path.name: path for path in folder.rglob("*") if path.is_file()}
        assert {path.suffix for path in files.values()} == {".json", ".safetensors"}
        told = json.loads(files[SEAL].read_text())["weights.safetensors"]
        assert told[0] == files["weights.safetensors"].stat().st_size
