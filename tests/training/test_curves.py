"""The curves of a run, and the advice that fits them."""

import math
import zipfile
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from mrc_workbench.models.sources import STARTER
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.training.results import (
    MAX_POINTS,
    Advice,
    Curves,
    Points,
    downsample,
    get_advice,
    read_curves,
    zip_model,
)
from mrc_workbench.training.runs import Run, TrainingPlan
from mrc_workbench.training.text_options import READER
from mrc_workbench.workbench.views.ui.words import catalog
from tests.doubles import small_set
from tests.training.worlds import create_planned_run


@pytest.fixture
def run() -> Run:
    return create_planned_run(BI_ENCODER, small_set())


def test_reads_logged_values_by_step(run: Run) -> None:
    run.add_measures("bm25", {"recall@10": 0.9, "ndcg@10": 0.8})
    run.add_measures("before", {"recall@10": 0.5})
    logged = {"loss": 1.5, "learning_rate": 0.001, "grad_norm": 2.0, "examples_per_second": 40.0}
    run.add_progress({"step": 5, **logged})
    run.add_progress({"step": 7, "eval_validation_recall@10": 0.6, "eval_validation_ndcg@10": 0.1})
    result = read_curves(run, [*logged, "recall@10", "ndcg@10", "mrr@10"])
    assert {name: result.points[name] for name in logged} == {name: [(5, value)] for name, value in logged.items()}
    assert result.points["recall@10"] == [(0, 0.5), (7, 0.6)]
    assert (result.points["ndcg@10"], result.points["mrr@10"]) == ([(7, 0.1)], [])
    assert result.bm25 == {"recall@10": 0.9, "ndcg@10": 0.8}


def test_returns_comparison_points_of_requested_names(run: Run) -> None:
    assert read_curves(run, ["loss", "ndcg@10"]) == Curves({"loss": [], "ndcg@10": []}, {}, {"loss": [], "ndcg@10": []})
    run.add_measures("bm25", {"recall@10": 0.9})
    run.add_progress({"step": 5, "loss": 1.5})
    assert read_curves(run, ["loss"]) == Curves({"loss": [(5, 1.5)]}, {}, {"loss": []})
    run.add_measures("before_training", {"ndcg@10": 0.3})
    run.add_progress({"step": 7, "eval_training_ndcg@10": 0.9, "eval_validation_ndcg@10": 0.4, "eval_loss": 2.5})
    result = read_curves(run, ["loss", "ndcg@10", "grad_norm"])
    assert result.comparison_points == {"loss": [(7, 2.5)], "ndcg@10": [(0, 0.3), (7, 0.9)], "grad_norm": []}
    assert result.points["ndcg@10"] == [(7, 0.4)]


def test_reads_older_runs(run: Run) -> None:
    run.add_measures("before", {"recall@10": 0.5})
    run.add_progress({"step": 7, "eval_validation_cosine_recall@10": 0.6})
    assert read_curves(run, ["recall@10"]).points == {"recall@10": [(0, 0.5), (7, 0.6)]}


def test_replaces_infinite_values_by_nan(run: Run) -> None:
    for step, value in enumerate((math.inf, -math.inf, math.nan, 0.5), start=1):
        run.add_progress({"step": step, "grad_norm": value})
    steps, values = zip(*read_curves(run, ["grad_norm"]).points["grad_norm"], strict=True)
    assert steps == (1, 2, 3, 4)
    np.testing.assert_equal(values, (math.nan, math.nan, math.nan, 0.5))


@pytest.mark.parametrize("count", [0, 1, MAX_POINTS, MAX_POINTS + 1, 12_345])
def test_downsamples_evenly_and_keeps_end_points(count: int) -> None:
    points = [(step, float(step)) for step in range(count)]
    sampled_points = downsample(points)
    assert len(sampled_points) == min(count, MAX_POINTS)
    assert sampled_points[:1] + sampled_points[-1:] == points[:1] + points[-1:]
    gaps = {right[0] - left[0] for left, right in pairwise(sampled_points)}
    assert max(gaps, default=0) - min(gaps, default=0) <= 1


def test_zip_holds_model_and_leaves_no_file(run: Run) -> None:
    (run.model_folder / "1_Part").mkdir(parents=True)
    (run.model_folder / "1_Part" / "model.safetensors").write_bytes(b"weights")
    before = set(run.folder.parent.parent.iterdir())
    with zip_model(run) as file, zipfile.ZipFile(file) as archive:
        assert archive.read(f"{run.id}/1_Part/model.safetensors") == b"weights"
    assert set(run.folder.parent.parent.iterdir()) == before


@cache
def plan_from(base: str) -> TrainingPlan:
    return create_planned_run(BI_ENCODER, small_set(), base=base).plan()


RISING = [(0, 0.5), (5, 0.6), (10, 0.7)]
UP = (0.01, 0.2)
UNSURE = (-0.1, 0.1)
DOWN = (-0.2, -0.01)
NO_GAIN = {"measure": "ndcg@10", "interval": UNSURE}


def scores(gain: tuple[float, float], learned: tuple[float, float], *, before: float = 0.5, best_step: int = 10) -> Any:
    return {
        "before": {"ndcg@10": before},
        "gain": {"measure": "ndcg@10", "interval": gain},
        "training_sample": {"gain": {"measure": "ndcg@10", "interval": learned}},
        "best_step": best_step,
    }


@pytest.mark.parametrize(
    ("run_scores", "measured", "expected"),
    [
        (scores(DOWN, UP), RISING, Advice.WORSE_THAN_BASE),
        (scores(UNSURE, UP, before=0.995), RISING, Advice.SATURATED),
        (scores(UNSURE, UNSURE), RISING, Advice.STARTER_NOTHING_LEARNED),  # the run starts from a starter
        (scores(UNSURE, DOWN), RISING, Advice.STARTER_NOTHING_LEARNED),
        (scores(UP, UP), RISING, Advice.STILL_RISING),
        (scores(UP, UNSURE), RISING, Advice.STILL_RISING),
        (scores(UP, UP, best_step=5), [(0, 0.5), (5, 0.7), (10, 0.6)], Advice.OVERFITTING),
        (scores(UP, UP, best_step=5), [(0, 0.5), (5, 0.7), (10, 0.7)], None),  # equal scores: no trend
        (scores(UP, UP, best_step=5), [(0, 0.5), (5, 0.7)], None),  # measured once
        (scores(UP, UP, best_step=0), RISING, None),
        (scores(UP, UP) | {"interpolated_gain": NO_GAIN}, RISING, Advice.STARTER_MIXED_UNSURE),
        (scores(UP, UP) | {"interpolated_gain": {"measure": "ndcg@10", "interval": UP}}, RISING, Advice.STILL_RISING),
        (scores(DOWN, UP) | {"interpolated_gain": NO_GAIN}, RISING, Advice.WORSE_THAN_BASE),
        ({"before": {"ndcg@10": 0.5}, "gain": NO_GAIN}, RISING, None),
        ({}, [], None),
    ],
)
def test_advice_by_scores(run_scores: dict[str, Any], measured: Points, expected: Advice | None) -> None:
    assert get_advice(plan_from(STARTER), run_scores, measured) == expected


def test_advice_for_saturated_reader() -> None:
    plan = create_planned_run(READER, small_set(), base="klue/roberta-base").plan()
    reader_scores = {"before": {"f1": 0.995}, "gain": {"measure": "f1", "interval": UNSURE}, "best_step": 10}
    reader_scores |= {"training_sample": {"gain": {"measure": "f1", "interval": UP}}}
    assert get_advice(plan, reader_scores, RISING) is Advice.READER_SATURATED
    assert get_advice(plan, reader_scores | {"before": {"f1": 0.5}}, RISING) is Advice.NOT_GENERALIZED
    assert get_advice(plan, reader_scores | {"gain": {"measure": "f1", "interval": UP}}, RISING) is Advice.STILL_RISING


@pytest.mark.parametrize(
    ("base", "learned", "generalized", "mixed"),
    [
        (STARTER, *(Advice[f"STARTER_{name}"] for name in ("NOTHING_LEARNED", "NOT_GENERALIZED", "MIXED_UNSURE"))),
        ("klue/roberta-base", Advice.NOTHING_LEARNED, Advice.NOT_GENERALIZED, Advice.MIXED_UNSURE),
    ],
)
def test_advises_pretrained_base_for_starter(base: str, learned: Advice, generalized: Advice, mixed: Advice) -> None:
    plan = plan_from(base)
    assert get_advice(plan, scores(UNSURE, UP), RISING) is generalized
    assert get_advice(plan, scores(UNSURE, UNSURE), RISING) is learned
    assert get_advice(plan, scores(UP, UP) | {"interpolated_gain": NO_GAIN}, RISING) is mixed
    advice_text = catalog("en")[f"advice.{learned}"]
    assert ("pretrained" in advice_text) is (base == STARTER)
