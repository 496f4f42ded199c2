"""Trainings on sentence pairs among the others: their figures, their curves, and their models as bases."""

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from jobs.status import State
from tests.views.train.test_page import EN, app, made_run, run, texts
from training.options.rankers import BI_ENCODER
from training.options.sentences import SENTENCES
from training.recipe import RECIPES, ranking_kinds
from training.runs.runs import Run
from views.runs.charts import best_by, measure_names
from views.train.base import base_choices

__all__ = ["app"]  # a fixture
BEFORE = {"spearman": 0.7684, "pearson": 0.777, "alignment": 0.0745, "uniformity": -0.71}
AFTER = {"spearman": 0.8139, "pearson": 0.81, "alignment": 0.1085, "uniformity": -1.08}
SCORES: dict[str, Any] = {
    "before": BEFORE,
    "after": AFTER,
    "intervals": {"after": {"spearman": [0.79, 0.83]}},
    "gain": {"measure": "spearman", "difference": 0.0455, "interval": [0.03, 0.06]},
    "training_sample": {"before": BEFORE, "after": AFTER, "gain": {"measure": "spearman", "interval": [0, 1]}}
    | {"questions": 500},
    "measured_on": "validation",
    "pairs": 1500,
    "judged_by": "spearman",
    "kept_step": 10,
}


def done(**changed: Any) -> Run:
    made = made_run(State.DONE, SENTENCES, "similar", seconds=9.2, total_steps=20)
    (made.folder / "scores.json").write_text(json.dumps(SCORES | changed), encoding="utf-8")
    made.write("provenance.json", {"settled": {"best_by": SCORES["judged_by"]}})
    made.model_folder.mkdir()
    (made.model_folder / "config.json").write_text("{}", encoding="utf-8")
    for step, figures in ((0, {f"before_{n}": v for n, v in BEFORE.items()}), (10, {"eval_validation_spearman": 0.8})):
        made.add_progress({"step": step, **figures})
    return made


def test_figures_of_pairs_are_told_as_such(app: AppTest) -> None:
    done()
    shown = texts(run(app))
    assert "Spearman **rose by 4.6 points**, from 76.8% to 81.4%." in shown
    assert EN["train.measured_on_pairs"].format(pairs="1,500") in shown
    assert EN["train.kept_step_pairs"].format(step="10", total="20", measure="Spearman") in shown
    assert "questions it learned from" not in shown
    (table,) = (one.value for one in app.dataframe if "spearman" in one.value)
    assert table[["spearman", "pearson"]].to_numpy().ravel() == pytest.approx([76.84, 77.7, 81.39, 81.0])
    assert "alignment" not in table


def test_without_scores_the_loss_is_named(app: AppTest) -> None:
    spaces = {name: {"alignment": 0.1, "uniformity": -1.0} for name in ("before", "after")}
    left = {"intervals": {}, "gain": None, "training_sample": None, "judged_by": "loss"}
    done(**spaces, **left)
    shown = texts(run(app))
    assert EN["train.kept_step_loss"].format(step="10", total="20") in shown
    assert not app.exception


def test_details_draw_its_measures(app: AppTest) -> None:
    made = done()
    run(app).button(key=f"details_{made.id}").click()
    run(app)
    assert best_by(made, made.plan()) == "spearman"
    assert list(measure_names(SENTENCES)) == ["spearman", "pearson", "accuracy", "alignment", "uniformity"]
    tables = [table.value.to_dict("list") for table in app.dataframe]
    assert {"Step": [0, 10], "Spearman": [0.7684, 0.8]} in tables


def test_its_model_is_a_base_of_search_models_and_the_page_offers_no_form_of_its_own(app: AppTest) -> None:
    made = done()
    assert made.id in base_choices(BI_ENCODER)
    assert made.id in base_choices(SENTENCES)
    assert SENTENCES in RECIPES
    assert SENTENCES not in ranking_kinds()
    app.query_params.update({"base": made.id})
    assert not run(app).exception
