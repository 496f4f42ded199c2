"""The selected weights, early stopping, and further services for curves."""

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformerTrainer

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.retrieval.measures import Scores
from mrc_workbench.training.options import BestBy, Report
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER, BiEncoderObjective, CrossEncoderObjective
from mrc_workbench.training.recipes import get_recipe, ranking_kinds
from mrc_workbench.training.recipes.training_data import QuestionMeasurement
from mrc_workbench.training.train import load_training_data, train
from mrc_workbench.training.trainers import make_trainer
from tests.training import worlds

pytestmark = pytest.mark.slow

# scores after each epoch: each measure is best after another epoch
SCRIPT = {
    BestBy.RECALL_1: (0.9, 0.1, 0.2, 0.3, 0.1),
    BestBy.RECALL_10: (0.1, 0.9, 0.2, 0.3, 0.1),
    BestBy.MRR_10: (0.1, 0.2, 0.9, 0.3, 0.1),
    BestBy.NDCG_10: (0.1, 0.2, 0.3, 0.9, 0.1),
}


def scripted(script: dict[BestBy, tuple[float, ...]]) -> Callable[[Any], QuestionMeasurement]:
    rows = iter(zip(*script.values(), strict=True))

    def measure(model: Any) -> QuestionMeasurement:
        row = zip(script, next(rows), strict=True)
        scores = Scores((1, 10), {name.value: np.array([value]) for name, value in row})
        return QuestionMeasurement(scores, scores)

    return measure


def trained_by(script: dict[BestBy, tuple[float, ...]], folder: Path, **options: Any) -> tuple[Any, np.ndarray]:
    plan = worlds.create_planned_run(
        BI_ENCODER, worlds.misleading_set(), learning_rate=0.01, save_limit=10, **options
    ).plan()
    task = get_recipe(plan.kind)(plan.options, load_training_data(plan)).build_task(find_model("starter"))
    trainer = make_trainer(replace(task, evaluate=scripted(script)), plan.options, folder, [])
    trainer.train()
    return trainer, task.model[0].embedding.weight.detach().numpy().copy()


def weights_at(folder: Path, step: int) -> np.ndarray:
    (weights,) = load_file(folder / f"checkpoint-{step}" / "weights.safetensors").values()
    return weights


@pytest.mark.parametrize(("best_by", "step"), [(measure, step) for step, measure in enumerate(SCRIPT, start=1)])
def test_loads_best_model_by_selected_metric(best_by: BestBy, step: int, tmp_path: Path) -> None:
    trainer, loaded = trained_by(SCRIPT, tmp_path, epochs=5.0, best_by=best_by)
    assert trainer.state.global_step == 5
    np.testing.assert_array_equal(loaded, weights_at(tmp_path, step))
    others = [weights_at(tmp_path, other) for other in range(1, 6) if other != step]
    assert min(np.abs(loaded - other).max() for other in others) > 1e-5


def script_losses(monkeypatch: pytest.MonkeyPatch, losses: tuple[float, ...]) -> None:
    remaining_losses = iter(losses)
    before = SentenceTransformerTrainer.evaluation_loop

    def with_loss(self: Any, *args: Any, **kwargs: Any) -> Any:
        output = before(self, *args, **kwargs)
        output.metrics["eval_loss"] = next(remaining_losses)
        return output

    monkeypatch.setattr(SentenceTransformerTrainer, "evaluation_loop", with_loss)


@pytest.mark.parametrize(("losses", "step"), [((3, 2, 1, 2), 3), ((1, 2, 3, 4), 1), ((2, 2, 2, 2), 1)])
def test_breaks_ties_by_validation_loss(
    losses: tuple[float, ...], step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_losses(monkeypatch, losses)
    trainer, loaded = trained_by(dict.fromkeys(BestBy, (0.5, 0.5, 0.5, 0.5)), tmp_path, epochs=4.0)
    assert trainer.state.best_global_step == step
    np.testing.assert_array_equal(loaded, weights_at(tmp_path, step))


def test_older_measurement_without_loss_stays_best(tmp_path: Path) -> None:
    script = dict.fromkeys(BestBy, (0.5, 0.5))
    trainer, _ = trained_by(script, tmp_path, epochs=2.0)
    first = {"eval_validation_ndcg@10": 0.5, "step": 1}
    trainer.state.log_history = [first]
    trainer.state.best_global_step = 1
    trainer.state.best_metric = 0.5
    assert not trainer._determine_best_metric({"eval_validation_ndcg@10": 0.5, "eval_loss": 0.1}, None)
    assert trainer.state.best_global_step == 1


def test_metric_takes_precedence_over_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script_losses(monkeypatch, (3, 2, 1))
    _, loaded = trained_by(dict.fromkeys(BestBy, (0.6, 0.5, 0.5)), tmp_path, epochs=3.0)
    np.testing.assert_array_equal(loaded, weights_at(tmp_path, 1))


RISES_TWICE = (0.1, 0.5, 0.4, 0.3, 0.45, 0.6, 0.2, 0.3)


@pytest.mark.parametrize(("patience", "steps", "best"), [(1, 3, 2), (2, 4, 2), (3, 5, 2), (4, 8, 6), (0, 8, 6)])
def test_stops_after_patience(patience: int, steps: int, best: int, tmp_path: Path) -> None:
    trainer, loaded = trained_by(dict.fromkeys(BestBy, RISES_TWICE), tmp_path, epochs=8.0, patience=patience)
    assert trainer.state.global_step == steps
    np.testing.assert_array_equal(loaded, weights_at(tmp_path, best))


@pytest.mark.parametrize("kind", ranking_kinds())
def test_ends_early_without_improvement(kind: str) -> None:
    run = worlds.create_planned_run(
        kind, worlds.misleading_set(), learning_rate=1e-9, epochs=50.0, batch_size=64, patience=2
    )
    status = train(run)
    assert (status.state, status.message) == (State.DONE, "")
    measured = worlds.read_logged(run, "eval_validation_ndcg@10")
    assert len(measured) == 3  # the first, and two without improvement
    assert status == replace(run.status(), heartbeat=status.heartbeat)
    assert (status.step, status.seconds_left) == (3 * status.total_steps // 50, None)
    assert run.scores()["after"]["ndcg@10"] == pytest.approx(max(measured), abs=1e-9)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (BI_ENCODER, {"objective": BiEncoderObjective.MULTIPLE_NEGATIVES, "negatives": 1, "mini_batch_size": 4}),
        (BI_ENCODER, {"objective": BiEncoderObjective.GIST, "lora_rank": 2}),
        (CROSS_ENCODER, {"objective": CrossEncoderObjective.LAMBDA}),
        (BI_ENCODER, {"base": STARTER}),
        (CROSS_ENCODER, {"base": STARTER}),
    ],
)
def test_same_options_and_seed_give_same_weights(kind: str, options: dict[str, Any]) -> None:
    common = {"base": worlds.tiny_base(kind), "batch_size": 8, "epochs": 2.0, "learning_rate": 1e-3}
    runs = [
        worlds.create_planned_run(kind, worlds.shuffled(20, 20), seed=seed, **common | options) for seed in (3, 3, 4)
    ]
    first, again, other = (load_file(worlds.train_to_end(run).model_folder / "model.safetensors") for run in runs)
    for name, array in first.items():
        np.testing.assert_array_equal(array, again[name], err_msg=name)
    assert any((array != other[name]).any() for name, array in first.items())


def test_writes_tensorboard_logs_to_run_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if find_spec("tensorboard") is None:
        pytest.skip("tensorboard is not installed")
    monkeypatch.chdir(tmp_path)
    options = {"epochs": 2.0, "logging_steps": 1, "report_to": Report.TENSORBOARD}
    run = worlds.train_new_run(BI_ENCODER, worlds.misleading_set(), **options)
    (events,) = (run.folder / "tensorboard").rglob("events.out.tfevents.*")
    assert b"train/loss" in events.read_bytes()
    assert b"eval/validation_ndcg@10" in events.read_bytes()
    assert not [path for path in tmp_path.iterdir() if path.name != "workspace"]


@pytest.mark.parametrize("report", [Report.TENSORBOARD, Report.WANDB, Report.TRACKIO])
def test_reports_missing_reporter_first(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.training.train.find_spec", lambda _: None)
    run = worlds.create_planned_run(CROSS_ENCODER, worlds.misleading_set(), report_to=report)
    status = train(run)
    assert (status.state, status.code) == (State.FAILED, "no_reporter")
    assert f"`pip install {report.value}`" in status.message
    assert run.progress() == []
