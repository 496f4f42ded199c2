"""What trainings gained: figures, how sure they are, curves, and the ways on from them."""

import json
from typing import Any

import pytest
from streamlit.dataframe_util import convert_arrow_bytes_to_pandas_df
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER
from mrc_workbench.training.recipes import RECIPES, ranking_kinds
from mrc_workbench.training.runs import Run
from mrc_workbench.training.text_options import LANGUAGE_MODEL, READER, SENTENCES, LanguageBestBy
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.train.base import base_choices
from mrc_workbench.workbench.views.train.charts import best_by, measure_names
from mrc_workbench.workbench.views.ui.words import catalog
from tests.workbench.views.driving import run
from tests.workbench.views.train.worlds import EN, SCORES, click, done_run, kept_set, made_run, texts, with_model

PAIRS_BEFORE = {"spearman": 0.7684, "pearson": 0.777, "alignment": 0.0745, "uniformity": -0.71}
PAIRS_AFTER = {"spearman": 0.8139, "pearson": 0.81, "alignment": 0.1085, "uniformity": -1.08}
OF_PAIRS: dict[str, Any] = {
    "before": PAIRS_BEFORE,
    "after": PAIRS_AFTER,
    "intervals": {"after": {"spearman": [0.79, 0.83]}},
    "gain": {"measure": "spearman", "difference": 0.0455, "interval": [0.03, 0.06]},
    "training_sample": {"before": PAIRS_BEFORE, "after": PAIRS_AFTER, "questions": 500}
    | {"gain": {"measure": "spearman", "interval": [0, 1]}},
    "measured_on": "validation",
    "pairs": 1500,
    "judged_by": "spearman",
    "kept_step": 10,
}
ANSWERS_BEFORE, ANSWERS_AFTER = {"em": 0.01, "f1": 0.12}, {"em": 0.5525, "f1": 0.7}
OF_ANSWERS: dict[str, Any] = {
    "before": ANSWERS_BEFORE,
    "after": ANSWERS_AFTER,
    "intervals": {"after": {"em": [0.5, 0.6], "f1": [0.65, 0.75]}},
    "gain": {"measure": "f1", "difference": 0.58, "interval": [0.5, 0.66]},
    "training_sample": {"before": ANSWERS_BEFORE, "after": {"em": 0.9, "f1": 0.95}, "questions": 100}
    | {"gain": {"measure": "f1", "difference": 0.83, "interval": [0.7, 0.9]}},
    "measured_on": "validation",
    "questions": 300,
    "rules": "klue",
    "kept_step": 20,
}
OF_TEXT: dict[str, Any] = {
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


TESTED: dict[str, Any] = {
    **{name: {of: value - 0.05 for of, value in SCORES[name].items()} for name in ("before", "after", "bm25")},
    "intervals": {"after": {"recall@1": [0.5, 0.6]}},
    "gain": {"measure": "ndcg@10", "difference": 0.1, "interval": [0.02, 0.18]},
    "questions": 96,
}


# of search models and rerankers


def test_a_finished_training_shows_what_it_gained_and_who_asks_test_questions(app: AppTest) -> None:
    made = done_run(name="*mine*")
    run(app)
    table = app.dataframe[0].value
    assert table["row"].tolist() == ["Before training", "After training", "BM25"]
    assert table["recall@10"].round(1).tolist() == [70.0, 80.0, 75.0]
    assert "Recall@10 **rose by 10.0 points**, from 70.0% to 80.0%" in texts(app)
    assert "\\*mine\\*" in texts(app)
    assert "took 9 s" in texts(app)
    assert EN["train.not_tested"].format(use=EN["train.use"]) in texts(app)
    assert app.button(key=f"use_{made.id}").help == EN["train.use_help"]


def chance(interval: list[float], outcome: str) -> str:
    """What is said of how sure a gain is."""
    low, high = (f"{value * 100:+.1f}" if value else "0.0" for value in interval)
    return EN[f"train.{outcome}"].format(low=low, high=high)


def test_a_gain_says_whether_it_is_sure_unless_it_is_too_small_to_be_shown(app: AppTest) -> None:
    for after, measure, interval in (({}, "recall@10", [0.0, 0.0]), ({"ndcg@10": 0.6001}, "ndcg@10", [1e-5, 2e-4])):
        gain = {"measure": measure, "difference": sum(interval) / 2, "interval": interval}
        done_run(after=SCORES["before"] | after, gain=gain)
    shown = texts(run(app))
    assert "Recall@10 **stayed at 70.0%**." in shown
    assert "nDCG@10 **stayed at 60.0%**." in shown
    assert "95% interval" not in shown
    sure, unsure = [(0.01, 0.2), (-0.2, -0.01)], [(-0.01, 0.2), (0, 0.2)]
    intervals = dict.fromkeys(sure, "gain_sure") | dict.fromkeys(unsure, "gain_unsure")
    for interval, outcome in intervals.items():  # the list displays the newest runs
        done_run(gain={"measure": "ndcg@10", "difference": 0.1, "interval": interval})
        shown = texts(run(app))
        assert f"nDCG@10 **rose by 10.0 points**, from 60.0% to 70.0%. {chance([*interval], outcome)}" in shown


def test_intervals_stand_beside_the_figures_and_say_of_which_kind_they_are(app: AppTest) -> None:
    done_run(intervals={"before": {"recall@1": [0.41, 0.59]}, "after": {"recall@1": [0.5, 1.0]}})
    written = convert_arrow_bytes_to_pandas_df(run(app).dataframe[0].proto.arrow_data.styler.display_values)
    assert written["recall@1"].tolist() == ["50.00 [41.0–59.0]", "60.00 [50.0–100.0]", "70.00"]
    (told,) = [caption for caption in app.caption if EN["train.intervals"] in caption.value]
    assert told.proto.help == EN["train.intervals_help"]
    assert EN["train.intervals_at_the_end"] not in told.value
    done_run(intervals={"after": {"recall@10": [0.79, 1.0]}}, after=SCORES["after"] | {"recall@10": 1.0})
    assert EN["train.intervals_at_the_end"] in texts(run(app)), "of a figure at the end of its scale"


def test_training_questions_the_kept_step_and_advice_are_told(app: AppTest) -> None:
    gain = {"measure": "ndcg@10", "difference": 0.0, "interval": [-0.1, 0.1]}
    learned = {"measure": "ndcg@10", "difference": 0.2, "interval": [0.1, 0.3]}
    sample = {"before": {"ndcg@10": 0.5}, "after": {"ndcg@10": 0.9}, "gain": learned, "questions": 48}
    done_run(gain=gain, training_sample=sample, kept_step=7)
    shown = texts(run(app))
    assert "On training questions (a sample of 48) it rose from 50.0% to 90.0%." in shown
    assert EN["advice.starter_not_carried_over"] in shown
    assert "Best checkpoint: step 7 of" in shown


@pytest.mark.parametrize(("interval", "outcome"), [([0.01, 0.2], "gain_sure"), ([-0.01, 0.2], "gain_unsure")])
def test_a_reranker_leads_with_what_bm25_gains_by_it_and_not_with_itself(
    app: AppTest, interval: list[float], outcome: str
) -> None:
    mixed = {measure: value + 0.02 for measure, value in SCORES["bm25"].items()}
    alone = {measure: value - 0.3 for measure, value in SCORES["after"].items()}
    gain = {"measure": "ndcg@10", "difference": 0.02, "interval": interval}
    done_run(CROSS_ENCODER, interpolated=mixed, after=alone, weight=0.35, mixed_gain=gain)
    shown = texts(run(app))
    assert app.dataframe[0].value["row"].tolist() == [
        *("Combined with BM25 (weight 0.35)", "BM25", "Model alone, before", "Model alone, after")
    ]
    lead = "Combined with BM25, nDCG@10 **rises by 2.0 points**, from BM25's 65.0% to 67.0%."
    below = "The model alone scores nDCG@10 40.0%, **below BM25's 65.0%**. Before training: 60.0%."
    assert -1 < shown.index(lead) < shown.index(chance(interval, outcome)) < shown.index(below)


def test_what_test_questions_say_stands_under_what_validation_questions_say(app: AppTest) -> None:
    done_run(gain={"measure": "ndcg@10", "difference": 0.1, "interval": [0.01, 0.2]}, test=TESTED)
    shown = texts(run(app))
    validation = "On 48 validation questions, nDCG@10 **rose by 10.0 points**, from 60.0% to 70.0%."
    test = "On **96 test questions**, nDCG@10 **rose by 10.0 points**, from 55.0% to 65.0%."
    assert -1 < shown.index(validation) < shown.index(test)
    assert EN["train.gain_sure"].format(low="+2.0", high="+18.0") in shown
    assert EN["train.tested_bm25"].format(bm25="60.0") in shown
    assert EN["train.measured_on_test"].format(questions="96") in shown
    assert EN["train.not_tested"].format(use=EN["train.use"]) not in shown
    table = app.dataframe[0]
    rows = ["Before training", "After training", "BM25"]
    assert table.value["row"].tolist() == [*rows, *(f"{row} · test questions" for row in rows)]
    assert table.value["ndcg@10"].round(1).tolist() == [60, 70, 65, 55, 65, 60]
    written = convert_arrow_bytes_to_pandas_df(table.proto.arrow_data.styler.display_values)
    assert written["recall@1"].tolist()[3:] == ["45.00", "55.00 [50.0–60.0]", "65.00"]


# of sentence pairs


def similar(**changed: Any) -> Run:
    made = with_model(made_run(State.DONE, SENTENCES, "similar", seconds=9.2, total_steps=20), OF_PAIRS | changed)
    made.write("provenance.json", {"settled": {"best_by": OF_PAIRS["judged_by"]}})
    made.add_progress({"step": 0, **{f"before_{name}": value for name, value in PAIRS_BEFORE.items()}})
    made.add_progress({"step": 10, "eval_validation_spearman": 0.8})
    return made


def test_figures_of_pairs_are_told_as_such_and_their_curves_drawn(app: AppTest) -> None:
    made = similar()
    shown = texts(run(app))
    assert "Spearman **rose by 4.6 points**, from 76.8% to 81.4%." in shown
    assert EN["train.measured_on_pairs"].format(pairs="1,500") in shown
    assert EN["train.kept_step_pairs"].format(step="10", total="20", measure="Spearman") in shown
    assert "questions it learned from" not in shown
    (table,) = (one.value for one in app.dataframe if "spearman" in one.value)
    assert table[["spearman", "pearson"]].to_numpy().ravel() == pytest.approx([76.84, 77.7, 81.39, 81.0])
    assert "alignment" not in table
    click(app, f"details_{made.id}")
    assert best_by(made, made.plan()) == "spearman"
    assert list(measure_names(SENTENCES)) == ["spearman", "pearson", "accuracy", "alignment", "uniformity"]
    tables = [table.value.to_dict("list") for table in app.dataframe]
    assert {"Step": [0, 10], "Spearman": [0.7684, 0.8]} in tables


def test_without_scores_the_loss_is_named_and_the_model_is_a_base_of_search_models(app: AppTest) -> None:
    spaces = {name: {"alignment": 0.1, "uniformity": -1.0} for name in ("before", "after")}
    made = similar(**spaces, intervals={}, gain=None, training_sample=None, judged_by="loss")
    assert made.id in base_choices(BI_ENCODER)
    assert made.id in base_choices(SENTENCES)
    assert SENTENCES in RECIPES
    assert SENTENCES not in ranking_kinds()
    app.query_params.update({"base": made.id})
    assert EN["train.kept_step_loss"].format(step="10", total="20") in texts(run(app))


# of a reader


def reads(**changed: Any) -> Run:
    made = with_model(made_run(State.DONE, READER, "reads", seconds=9.2, total_steps=20), OF_ANSWERS | changed)
    made.add_measures("before", ANSWERS_BEFORE)
    for step, reached in ((10, 0.4), (20, 0.7)):
        made.add_progress({"step": step, "eval_validation_f1": reached, "eval_validation_em": reached - 0.1})
    return made


def test_figures_are_told_as_those_of_answers_and_the_way_on_is_to_these(
    app: AppTest, opened: list[dict[str, str]]
) -> None:
    made = reads()
    shown = texts(run(app))
    assert "F1 **rose by 58.0 points**, from 12.0% to 70.0%." in shown
    assert "On training questions (a sample of 100) it rose from 12.0% to 95.0%." in shown
    assert EN["train.measured_on_passages"].format(questions="300", rules="KLUE\\-MRC") in shown
    assert EN["train.kept_step"].format(step="20", total="20", measure="F1") in shown
    assert EN["advice.still_rising"] in shown
    assert "have no answer" not in shown
    (table,) = (one.value for one in app.dataframe if "em" in one.value)
    assert table[["em", "f1"]].to_numpy().ravel() == pytest.approx([1, 12, 55.25, 70])
    assert "BM25" not in table["row"].tolist()
    assert made.plan() not in choices_for(kept_set()).trained.values()  # it is no way to search
    assert f"use_{made.id}" not in {button.key for button in app.button}
    click(app, f"use_reader_{made.id}")
    assert opened == [{"data": kept_set().key, "reader": made.id, "lang": "en"}]


def test_unanswerable_questions_are_counted_and_other_questions_advised_if_nearly_all_are_right(app: AppTest) -> None:
    right = {"em": 0.99, "f1": 0.995}
    gain = {"measure": "f1", "difference": 0.0, "interval": [-0.01, 0.01]}
    reads(before=right, after=right, gain=gain, unanswerable=150)
    shown = texts(run(app))
    assert EN["train.measured_on_unanswerable"].format(count="150") in shown
    assert EN["advice.read_at_the_top"] in shown


@pytest.mark.slow
def test_curves_are_those_of_its_measures(app: AppTest) -> None:
    made = reads()
    click(run(app), f"details_{made.id}")
    assert best_by(made, made.plan()) == "f1"
    assert list(measure_names(READER)) == ["em", "f1"]
    app.segmented_control(key=f"details_measure_{made.id}").set_value("em")
    tables = [table.value for table in run(app).dataframe if "Exact match (EM)" in table.value]
    assert tables[-1].to_dict("list") == {"Step": [0, 10, 20], "Exact match (EM)": pytest.approx([0.01, 0.3, 0.6])}
    assert catalog("ko")["measure.em"] == "정확 일치 (EM)"


# of a language model


def guesses() -> Run:
    return with_model(made_run(State.DONE, LANGUAGE_MODEL, "guesses", seconds=9.2, total_steps=30), OF_TEXT)


def test_figures_are_told_as_those_of_text_and_the_way_on_is_to_look_into_it(app: AppTest) -> None:
    made = guesses()
    shown = texts(run(app))
    assert "**512** after training, 8,000 before, 1,400 by token frequency only" in shown
    assert EN["train.measured_on_text"].format(hidden="9,600", rows="500") in shown
    assert EN["train.kept_step_perplexity"].format(step="20", total="30") in shown
    assert "questions it learned from" not in shown
    (table,) = (one.value for one in app.dataframe if "masked_accuracy" in one.value)
    assert table["row"].tolist() == ["Token frequency only", "Before training", "After training"]
    assert table["masked_accuracy"].tolist() == pytest.approx([5, 0, 17])
    assert "next_accuracy" not in table
    labels = [one.label for one in app.button if str(one.key).endswith(made.id)]
    assert EN["train.use_language"] in labels
    assert EN["train.use"] not in labels
    # a checkpoint that was selected by the accuracy
    plan = json.loads((made.folder / "run.json").read_text(encoding="utf-8"))
    plan["options"]["best_by"] = LanguageBestBy.ACCURACY.value
    (made.folder / "run.json").write_text(json.dumps(plan), encoding="utf-8")
    named = {"step": "20", "total": "30", "measure": EN["measure.masked_accuracy"]}
    assert EN["train.kept_step_text"].format(**named) in texts(run(app))
