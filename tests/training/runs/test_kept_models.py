"""Models kept on the way: how many, which, and that they are models like any other."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from data.workspace import write_text
from models.sources import ModelSource
from tests.training.language.worlds import created, text_file
from tests.training.worlds import trained
from training.engine.checkpoints import MOST_BYTES, keep_model, kept_models
from training.runs.runs import Run

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
    assert sorted(one.name for one in kept_models(tmp_path)[20].iterdir()) == ["model", "tokenizer.json"]


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
    from models.readers.masked_network import load_masked

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
