"""Models kept on the way: how many, which, and that they are models like any other."""

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
from mrc_workbench.training.engine.checkpoints import (
    MOST_BYTES,
    discard_old,
    is_complete,
    keep_model,
    kept_models,
    newest_checkpoint,
    seal,
    step_of,
)
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.training.recipes import ranking_kinds
from mrc_workbench.training.runs import Run
from mrc_workbench.training.train import train
from tests.training.recipes.language_worlds import created, text_file
from tests.training.worlds import misleading_set, planned, trained


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

    from mrc_workbench.training.engine.checkpoints import SafeCheckpoints

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
    """A network, or a tokenizer, that writes what it is."""

    name: str
    content: str = ""

    def save_pretrained(self, folder: Path) -> None:
        write_text(Path(folder) / self.name, self.content)


@dataclass
class Module:
    auto_model: Saved


@dataclass
class Model:
    """As much of a `TrainedNetwork` as is saved."""

    content: str = "weights"
    numbers: int = 1000
    tokenizer: Saved = field(default_factory=lambda: Saved("tokenizer.json"))

    def __getitem__(self, place: int) -> Module:
        return [Module(Saved("model", self.content))][place]

    def parameters(self) -> list[Weight]:
        return [Weight(self.numbers)]


def kept(run: Path, steps: Any = EVERY_TEN, most: int = 4, **model: Any) -> list[int]:
    for step in steps:
        keep_model(run, Model(**model), step, 100, most)
    return [*kept_models(run)]


def test_of_every_part_of_the_steps_the_last_one_measured_is_kept_besides_the_beginning(tmp_path: Path) -> None:
    assert kept(tmp_path) == [0, 20, 50, 70, 100]
    assert [folder.name for folder in kept_models(tmp_path).values()][:2] == ["step-0", "step-20"]
    assert sorted(one.name for one in kept_models(tmp_path)[20].iterdir()) == ["model", SEAL, "tokenizer.json"]


def test_where_fewer_are_measured_than_there_are_parts_all_are_kept(tmp_path: Path) -> None:
    assert kept(tmp_path, most=50) == [*EVERY_TEN]


@pytest.mark.parametrize(
    ("of_all", "steps"),
    [(1.0, []), (0.51, []), (0.5, [0, 100]), (0.3, [0, 50, 100]), (0.1, [0, 20, 50, 70, 100])],
)
def test_of_large_models_no_more_are_kept_than_fit_together(tmp_path: Path, of_all: float, steps: list[int]) -> None:
    assert kept(tmp_path, numbers=int(of_all * MOST_BYTES / 4)) == steps[: len(steps)]
    assert len(steps) * of_all <= 1


def test_a_step_that_is_measured_again_takes_the_place_of_the_first(tmp_path: Path) -> None:
    kept(tmp_path)
    keep_model(tmp_path, Model("resumed"), 50, 100, 4)
    assert [*kept_models(tmp_path)] == [0, 20, 50, 70, 100]
    contents = [(folder / "model").read_text() for folder in kept_models(tmp_path).values()]
    assert contents == ["weights", "weights", "resumed", "weights", "weights"]


def test_what_a_kill_left_half_written_is_none(tmp_path: Path) -> None:
    for name in (".step-30.x", "step-", "step-4.old", "step-x"):
        (tmp_path / "on_the_way" / name).mkdir(parents=True)
    write_text(tmp_path / "on_the_way" / "step-7", "a file")
    assert kept_models(tmp_path) == {}
    assert kept_models(tmp_path / "nowhere") == {}


def of_the_way(run: Run) -> dict[str, np.ndarray]:
    return load_file(kept_models(run.folder)[run.scores()["kept_step"]] / "model.safetensors")


@pytest.mark.slow
def test_the_model_chosen_is_one_of_them_and_adapters_are_part_of_it() -> None:
    from mrc_workbench.models.reader_networks import load_masked

    options = {"epochs": 1.0, "evaluation_steps": 3, "kept_models": 100}
    first = trained(created(text_file(), **options))
    measured = {entry["step"] for entry in first.progress() if "eval_validation_perplexity" in entry}
    assert {*kept_models(first.folder)} == {0, *measured}
    second = trained(created(text_file(), base=str(first.model_folder), lora_rank=4, learning_rate=1e-2, **options))
    for run in (first, second):
        chosen = load_file(run.model_folder / "model.safetensors")
        found = of_the_way(run)
        assert found.keys() == chosen.keys()
        for name, weights in chosen.items():
            np.testing.assert_allclose(found[name], weights, atol=1e-6, err_msg=name)
        begun = load_file(kept_models(run.folder)[0] / "model.safetensors")
        assert any(not np.allclose(begun[name], weights) for name, weights in chosen.items())
    assert load_masked(ModelSource("kept", folder=kept_models(second.folder)[0])).new_heads == ()


@pytest.mark.slow
def test_none_are_kept_where_none_are_wanted() -> None:
    run = trained(created(text_file(), epochs=0.2, kept_models=0))
    assert not (run.folder / "on_the_way").exists()
