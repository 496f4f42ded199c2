"""Trainings of language models among the others: their figures, how their checkpoint was chosen, the way inside."""

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from jobs.status import State
from tests.views.train.test_page import EN, app, made_run, run, texts
from training.options.language_model import LANGUAGE_MODEL, LanguageBestBy
from training.runs.runs import Run

__all__ = ["app"]  # a fixture
SCORES: dict[str, Any] = {
    "unigram": {"perplexity": 1400.0, "log_likelihood": -7.24, "masked_accuracy": 0.05},
    "before": {"perplexity": 8000.0, "log_likelihood": -8.99, "masked_accuracy": 0.0},
    "after": {"perplexity": 512.4, "log_likelihood": -6.24, "masked_accuracy": 0.17},
    "intervals": {"after": {"masked_accuracy": [0.15, 0.19], "perplexity": [480.0, 540.0]}},
    "gain": {"measure": "masked_accuracy", "difference": 0.17, "interval": [0.15, 0.19]},
    "training_sample": {"before": {"masked_accuracy": 0.0}, "after": {"masked_accuracy": 0.2}, "questions": 40}
    | {"gain": {"measure": "masked_accuracy", "difference": 0.2, "interval": [0.1, 0.3]}},
    "measured_on": "validation",
    "rows": 500,
    "hidden": 9600,
    "kept_step": 20,
}


def done() -> Run:
    made = made_run(State.DONE, LANGUAGE_MODEL, "guesses", seconds=9.2, total_steps=30)
    (made.folder / "scores.json").write_text(json.dumps(SCORES), encoding="utf-8")
    made.model_folder.mkdir()
    (made.model_folder / "config.json").write_text("{}", encoding="utf-8")
    return made


def test_figures_are_told_as_those_of_text(app: AppTest) -> None:
    done()
    shown = texts(run(app))
    assert not app.exception
    assert "**512** after training, 8,000 before, 1,400 by frequency alone" in shown
    assert EN["train.measured_on_text"].format(hidden="9,600", rows="500") in shown
    assert EN["train.kept_step_perplexity"].format(step="20", total="30") in shown
    assert "questions it learned from" not in shown
    (table,) = (one.value for one in app.dataframe if "masked_accuracy" in one.value)
    assert table["row"].tolist() == ["Frequency alone", "Before training", "After training"]
    assert table["masked_accuracy"].tolist() == pytest.approx([5, 0, 17])
    assert "next_accuracy" not in table


def test_it_is_looked_into_where_others_are_compared(app: AppTest) -> None:
    made = done()
    run(app)
    labels = [one.label for one in app.button if str(one.key).endswith(made.id)]
    assert EN["train.use_language"] in labels
    assert EN["train.use"] not in labels


def test_a_checkpoint_chosen_by_what_was_guessed_is_told_so(app: AppTest) -> None:
    made = done()
    plan = json.loads((made.folder / "run.json").read_text(encoding="utf-8"))
    plan["options"]["best_by"] = LanguageBestBy.ACCURACY.value
    (made.folder / "run.json").write_text(json.dumps(plan), encoding="utf-8")
    named = {"step": "20", "total": "30", "measure": EN["measure.masked_accuracy"]}
    assert EN["train.kept_step_text"].format(**named) in texts(run(app))
