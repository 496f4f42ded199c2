"""Trainings of readers among the others: their figures and curves, what is advised, and the way to the answers."""

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from jobs.status import State
from tests.views.train.test_page import EN, app, kept_set, made_run, run, texts
from training.options.questions import READER
from training.runs.runs import Run
from views.choices import choices_for
from views.runs.charts import best_by, measure_names
from views.ui.words import catalog

__all__ = ["app"]  # a fixture
BEFORE, AFTER = {"em": 0.01, "f1": 0.12}, {"em": 0.5525, "f1": 0.7}
SCORES: dict[str, Any] = {
    "before": BEFORE,
    "after": AFTER,
    "intervals": {"after": {"em": [0.5, 0.6], "f1": [0.65, 0.75]}},
    "gain": {"measure": "f1", "difference": 0.58, "interval": [0.5, 0.66]},
    "training_sample": {"before": BEFORE, "after": {"em": 0.9, "f1": 0.95}, "questions": 100}
    | {"gain": {"measure": "f1", "difference": 0.83, "interval": [0.7, 0.9]}},
    "measured_on": "validation",
    "questions": 300,
    "rules": "klue",
    "kept_step": 20,
}


def done(**changed: Any) -> Run:
    made = made_run(State.DONE, READER, "reads", seconds=9.2, total_steps=20)
    (made.folder / "scores.json").write_text(json.dumps(SCORES | changed), encoding="utf-8")
    made.model_folder.mkdir()
    (made.model_folder / "config.json").write_text("{}", encoding="utf-8")
    made.add_measures("before", BEFORE)
    for step, reached in ((10, 0.4), (20, 0.7)):
        made.add_progress({"step": step, "eval_validation_f1": reached, "eval_validation_em": reached - 0.1})
    return made


def test_figures_are_told_as_those_of_answers(app: AppTest) -> None:
    done()
    shown = texts(run(app))
    assert "F1 **rose by 58.0 points**, from 12.0% to 70.0%." in shown
    assert "On questions it learned from (a sample of 100) it rose from 12.0% to 95.0%." in shown
    assert EN["train.measured_on_passages"].format(questions="300", rules="KLUE\\-MRC") in shown
    assert EN["train.kept_step"].format(step="20", total="20", measure="F1") in shown
    assert EN["advice.still_rising"] in shown
    assert "have no answer" not in shown
    (table,) = (one.value for one in app.dataframe if "em" in one.value)
    assert table[["em", "f1"]].to_numpy().ravel() == pytest.approx([1, 12, 55.25, 70])
    assert "BM25" not in table["row"].tolist()


def test_questions_that_nobody_can_answer_are_counted(app: AppTest) -> None:
    done(unanswerable=150)
    assert EN["train.measured_on_unanswerable"].format(count="150") in texts(run(app))


def test_where_nearly_all_was_right_other_questions_are_advised(app: AppTest) -> None:
    right = {"em": 0.99, "f1": 0.995}
    done(before=right, after=right, gain={"measure": "f1", "difference": 0.0, "interval": [-0.01, 0.01]})
    assert EN["advice.read_at_the_top"] in texts(run(app))


def test_curves_are_those_of_its_measures(app: AppTest) -> None:
    made = done()
    run(app).button(key=f"details_{made.id}").click()
    run(app)
    assert not app.exception
    assert best_by(made, made.plan()) == "f1"
    assert list(measure_names(READER)) == ["em", "f1"]
    app.segmented_control(key=f"details_measure_{made.id}").set_value("em")
    tables = [table.value for table in run(app).dataframe if "Exact match (EM)" in table.value]
    assert tables[-1].to_dict("list") == {"Step": [0, 10, 20], "Exact match (EM)": pytest.approx([0.01, 0.3, 0.6])}
    assert catalog("ko")["measure.em"] == "정확 일치 (EM)"


def test_its_way_on_is_to_the_answers(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    made = done()
    opened: list[dict[str, str]] = []
    monkeypatch.setattr("streamlit.switch_page", lambda _, query_params: opened.append(query_params))
    assert f"use_{made.id}" not in {button.key for button in run(app).button}
    app.button(key=f"use_reader_{made.id}").click()
    run(app)
    assert opened == [{"data": kept_set().key, "reader": made.id, "lang": "en"}]


def test_it_is_no_way_to_search() -> None:
    made = done()
    choices = choices_for(kept_set())
    assert made.plan() not in choices.trained.values()
