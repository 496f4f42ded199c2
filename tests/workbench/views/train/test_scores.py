"""Scores of finished trainings: gains with their significance, curves, and links to other pages."""

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
from mrc_workbench.workbench.views.train.charts import Row, checkpoint_metric, measure_names
from mrc_workbench.workbench.views.ui.words import catalog
from tests.workbench.views.driving import run
from tests.workbench.views.train import worlds
from tests.workbench.views.train.worlds import EN, SCORES, click, create_test_run, done_run, texts, with_model

PAIRS_BEFORE = {"spearman": 0.7684, "pearson": 0.777, "alignment": 0.0745, "uniformity": -0.71}
PAIRS_AFTER = {"spearman": 0.8139, "pearson": 0.81, "alignment": 0.1085, "uniformity": -1.08}
ANSWERS_BEFORE = {"em": 0.01, "f1": 0.12}
ANSWERS_AFTER = {"em": 0.5525, "f1": 0.7}
TEXT_BEFORE = {"perplexity": 8000.0, "log_likelihood": -8.99, "masked_accuracy": 0.0}
TEXT_AFTER = {"perplexity": 512.4, "log_likelihood": -6.24, "masked_accuracy": 0.17}


def gain_of(measure: str, before: Row, after: Row, **more: Any) -> dict[str, Any]:
    """Return scores before and after a training with a significant gain."""
    gain = {"measure": measure, "difference": after[measure] - before[measure], "interval": [0.01, 0.9]}
    return {"before": before, "after": after, "gain": gain, **more}


OF_PAIRS = gain_of("spearman", PAIRS_BEFORE, PAIRS_AFTER, pairs=1500, best_by="spearman", best_step=10)
OF_PAIRS["intervals"] = {"after": {"spearman": [0.79, 0.83]}}
OF_PAIRS["training_sample"] = gain_of("spearman", PAIRS_BEFORE, PAIRS_AFTER, questions=500)
OF_ANSWERS = gain_of("f1", ANSWERS_BEFORE, ANSWERS_AFTER, questions=300, normalization="klue", best_step=20)
OF_ANSWERS["intervals"] = {"after": {"em": [0.5, 0.6], "f1": [0.65, 0.75]}}
OF_ANSWERS["training_sample"] = gain_of("f1", ANSWERS_BEFORE, {"em": 0.9, "f1": 0.95}, questions=100)
OF_TEXT = gain_of("masked_accuracy", TEXT_BEFORE, TEXT_AFTER, rows=500, hidden=9600, best_step=20)
OF_TEXT["unigram"] = {"perplexity": 1400.0, "log_likelihood": -7.24, "masked_accuracy": 0.05}
OF_TEXT["intervals"] = {"after": {"masked_accuracy": [0.15, 0.19], "perplexity": [480.0, 540.0]}}
OF_TEXT["training_sample"] = gain_of("masked_accuracy", TEXT_BEFORE, {"masked_accuracy": 0.2}, questions=40)
TESTED: dict[str, Any] = {
    **{name: {of: value - 0.05 for of, value in SCORES[name].items()} for name in ("before", "after", "bm25")},
    "intervals": {"after": {"recall@1": [0.5, 0.6]}},
    "gain": {"measure": "ndcg@10", "difference": 0.1, "interval": [0.02, 0.18]},
    "questions": 96,
}


def test_displays_gain_and_offers_test_questions(app: AppTest) -> None:
    training_run = done_run(name="*mine*")
    run(app)
    table = app.dataframe[0].value
    assert table["row"].tolist() == ["Before training", "After training", "BM25"]
    assert table["recall@10"].round(1).tolist() == [70.0, 80.0, 75.0]
    assert "Recall@10 **rose by 10.0 points**, from 70.0% to 80.0%" in texts(app)
    assert "\\*mine\\*" in texts(app)
    assert "took 9 s" in texts(app)
    assert EN["train.not_tested"].format(use=EN["train.use"]) in texts(app)
    assert app.button(key=f"use_{training_run.id}").help == EN["train.use_help"]


def chance(interval: list[float], outcome: str) -> str:
    low, high = (f"{value * 100:+.1f}" if value else "0.0" for value in interval)
    return EN[f"train.{outcome}"].format(low=low, high=high)


def test_reports_significance_unless_gain_rounds_to_zero(app: AppTest) -> None:
    for after, measure, interval in (({}, "recall@10", [0.0, 0.0]), ({"ndcg@10": 0.6001}, "ndcg@10", [1e-5, 2e-4])):
        gain = {"measure": measure, "difference": sum(interval) / 2, "interval": interval}
        done_run(after=SCORES["before"] | after, gain=gain)
    page_text = texts(run(app))
    assert "Recall@10 **stayed at 70.0%**." in page_text
    assert "nDCG@10 **stayed at 60.0%**." in page_text
    assert "95% interval" not in page_text
    sure = [(0.01, 0.2), (-0.2, -0.01)]
    unsure = [(-0.01, 0.2), (0, 0.2)]
    intervals = dict.fromkeys(sure, "gain_sure") | dict.fromkeys(unsure, "gain_unsure")
    app.session_state["trainings_shown"] = 2 + len(intervals)  # runs of the same second have no order
    for interval, outcome in intervals.items():
        done_run(gain={"measure": "ndcg@10", "difference": 0.1, "interval": interval})
        page_text = texts(run(app))
        assert f"nDCG@10 **rose by 10.0 points**, from 60.0% to 70.0%. {chance([*interval], outcome)}" in page_text


def test_displays_intervals_with_their_kind(app: AppTest) -> None:
    done_run(intervals={"before": {"recall@1": [0.41, 0.59]}, "after": {"recall@1": [0.5, 1.0]}})
    written = convert_arrow_bytes_to_pandas_df(run(app).dataframe[0].proto.arrow_data.styler.display_values)
    assert written["recall@1"].tolist() == ["50.00 [41.0–59.0]", "60.00 [50.0–100.0]", "70.00"]
    (note,) = [caption for caption in app.caption if EN["train.intervals"] in caption.value]
    assert note.proto.help == EN["train.intervals_help"]
    assert EN["train.intervals_at_the_end"] not in note.value
    done_run(intervals={"after": {"recall@10": [0.79, 1.0]}}, after=SCORES["after"] | {"recall@10": 1.0})
    assert EN["train.intervals_at_the_end"] in texts(run(app)), "a score at the end of its scale"


def test_displays_training_questions_best_step_and_advice(app: AppTest) -> None:
    gain = {"measure": "ndcg@10", "difference": 0.0, "interval": [-0.1, 0.1]}
    learned = {"measure": "ndcg@10", "difference": 0.2, "interval": [0.1, 0.3]}
    sample = {"before": {"ndcg@10": 0.5}, "after": {"ndcg@10": 0.9}, "gain": learned, "questions": 48}
    done_run(gain=gain, training_sample=sample, best_step=7)
    page_text = texts(run(app))
    assert "On training questions (a sample of 48) it rose from 50.0% to 90.0%." in page_text
    assert EN["advice.starter_not_generalized"] in page_text
    assert "Best checkpoint: step 7 of" in page_text


@pytest.mark.parametrize(("interval", "outcome"), [([0.01, 0.2], "gain_sure"), ([-0.01, 0.2], "gain_unsure")])
def test_reranker_headline_shows_gain_of_mix_over_bm25(app: AppTest, interval: list[float], outcome: str) -> None:
    mixed = {measure: value + 0.02 for measure, value in SCORES["bm25"].items()}
    alone = {measure: value - 0.3 for measure, value in SCORES["after"].items()}
    gain = {"measure": "ndcg@10", "difference": 0.02, "interval": interval}
    done_run(CROSS_ENCODER, interpolated=mixed, after=alone, weight=0.35, interpolated_gain=gain)
    page_text = texts(run(app))
    rows = ["Combined with BM25 (weight 0.35)", "BM25", "Model alone, before", "Model alone, after"]
    assert app.dataframe[0].value["row"].tolist() == rows
    lead = "Combined with BM25, nDCG@10 **rises by 2.0 points**, from BM25's 65.0% to 67.0%."
    below = "The model alone scores nDCG@10 40.0%, **below BM25's 65.0%**. Before training: 60.0%."
    assert -1 < page_text.index(lead) < page_text.index(chance(interval, outcome)) < page_text.index(below)


def test_displays_test_results_below_validation_results(app: AppTest) -> None:
    done_run(gain={"measure": "ndcg@10", "difference": 0.1, "interval": [0.01, 0.2]}, test=TESTED)
    page_text = texts(run(app))
    validation = "On 48 validation questions, nDCG@10 **rose by 10.0 points**, from 60.0% to 70.0%."
    test = "On **96 test questions**, nDCG@10 **rose by 10.0 points**, from 55.0% to 65.0%."
    assert -1 < page_text.index(validation) < page_text.index(test)
    assert EN["train.gain_sure"].format(low="+2.0", high="+18.0") in page_text
    assert EN["train.tested_bm25"].format(bm25="60.0") in page_text
    assert EN["train.measured_on_test"].format(questions="96") in page_text
    assert EN["train.not_tested"].format(use=EN["train.use"]) not in page_text
    table = app.dataframe[0]
    rows = ["Before training", "After training", "BM25"]
    assert table.value["row"].tolist() == [*rows, *(f"{row} · test questions" for row in rows)]
    assert table.value["ndcg@10"].round(1).tolist() == [60, 70, 65, 55, 65, 60]
    written = convert_arrow_bytes_to_pandas_df(table.proto.arrow_data.styler.display_values)
    assert written["recall@1"].tolist()[3:] == ["45.00", "55.00 [50.0–60.0]", "65.00"]


def similar(**changed: Any) -> Run:
    training_run = create_test_run(State.DONE, SENTENCES, "similar", seconds=9.2, total_steps=20)
    with_model(training_run, OF_PAIRS | changed)
    training_run.write("provenance.json", {"settled": {"best_by": OF_PAIRS["best_by"]}})
    training_run.add_progress({"step": 0, **{f"before_{name}": value for name, value in PAIRS_BEFORE.items()}})
    training_run.add_progress({"step": 10, "eval_validation_spearman": 0.8})
    return training_run


def test_displays_pair_metrics_and_their_curves(app: AppTest) -> None:
    training_run = similar()
    page_text = texts(run(app))
    assert "Spearman **rose by 4.6 points**, from 76.8% to 81.4%." in page_text
    assert EN["train.measured_on_pairs"].format(pairs="1,500") in page_text
    assert EN["train.best_step_pairs"].format(step="10", total="20", measure="Spearman") in page_text
    assert "questions it learned from" not in page_text
    (table,) = (element.value for element in app.dataframe if "spearman" in element.value)
    assert table[["spearman", "pearson"]].to_numpy().ravel() == pytest.approx([76.84, 77.7, 81.39, 81.0])
    assert "alignment" not in table
    click(app, f"details_{training_run.id}")
    assert checkpoint_metric(training_run, training_run.plan()) == "spearman"
    assert list(measure_names(SENTENCES)) == ["spearman", "pearson", "accuracy", "alignment", "uniformity"]
    tables = [table.value.to_dict("list") for table in app.dataframe]
    assert {"Step": [0, 10], "Spearman": [0.7684, 0.8]} in tables


def test_names_loss_if_unscored_and_offers_model_as_base(app: AppTest) -> None:
    spaces = {name: {"alignment": 0.1, "uniformity": -1.0} for name in ("before", "after")}
    training_run = similar(**spaces, intervals={}, gain=None, training_sample=None, best_by="loss")
    assert training_run.id in base_choices(BI_ENCODER)
    assert training_run.id in base_choices(SENTENCES)
    assert SENTENCES in RECIPES
    assert SENTENCES not in ranking_kinds()
    app.query_params.update({"base": training_run.id})
    assert EN["train.best_step_loss"].format(step="10", total="20") in texts(run(app))


def reads(**changed: Any) -> Run:
    training_run = create_test_run(State.DONE, READER, "reads", seconds=9.2, total_steps=20)
    with_model(training_run, OF_ANSWERS | changed)
    training_run.add_measures("before", ANSWERS_BEFORE)
    for step, reached in ((10, 0.4), (20, 0.7)):
        training_run.add_progress({"step": step, "eval_validation_f1": reached, "eval_validation_em": reached - 0.1})
    return training_run


def test_displays_answer_metrics_and_links_to_answers(app: AppTest, opened: list[dict[str, str]]) -> None:
    training_run = reads()
    page_text = texts(run(app))
    assert "F1 **rose by 58.0 points**, from 12.0% to 70.0%." in page_text
    assert "On training questions (a sample of 100) it rose from 12.0% to 95.0%." in page_text
    assert EN["train.measured_on_passages"].format(questions="300", rules="KLUE\\-MRC") in page_text
    assert EN["train.best_step"].format(step="20", total="20", measure="F1") in page_text
    assert EN["advice.still_rising"] in page_text
    assert "have no answer" not in page_text
    (table,) = (element.value for element in app.dataframe if "em" in element.value)
    assert table[["em", "f1"]].to_numpy().ravel() == pytest.approx([1, 12, 55.25, 70])
    assert "BM25" not in table["row"].tolist()
    assert training_run.plan() not in choices_for(worlds.stored_dataset()).trained.values()  # it cannot search
    assert f"use_{training_run.id}" not in {button.key for button in app.button}
    click(app, f"use_reader_{training_run.id}")
    assert opened == [{"data": worlds.stored_dataset().key, "reader": training_run.id, "lang": "en"}]


def test_counts_unanswerable_questions_and_advises_harder_ones(app: AppTest) -> None:
    right = {"em": 0.99, "f1": 0.995}
    gain = {"measure": "f1", "difference": 0.0, "interval": [-0.01, 0.01]}
    reads(before=right, after=right, gain=gain, unanswerable=150)
    page_text = texts(run(app))
    assert EN["train.measured_on_unanswerable"].format(count="150") in page_text
    assert EN["advice.reader_saturated"] in page_text


def test_draws_curves_of_its_own_metrics(app: AppTest) -> None:
    training_run = reads()
    click(run(app), f"details_{training_run.id}")
    assert checkpoint_metric(training_run, training_run.plan()) == "f1"
    assert list(measure_names(READER)) == ["em", "f1"]
    app.segmented_control(key=f"details_measure_{training_run.id}").set_value("em")
    tables = [table.value for table in run(app).dataframe if "Exact match (EM)" in table.value]
    assert tables[-1].to_dict("list") == {"Step": [0, 10, 20], "Exact match (EM)": pytest.approx([0.01, 0.3, 0.6])}
    assert catalog("ko")["measure.em"] == "정확 일치 (EM)"


def guesses() -> Run:
    return with_model(create_test_run(State.DONE, LANGUAGE_MODEL, "guesses", seconds=9.2, total_steps=30), OF_TEXT)


def test_displays_language_model_metrics_and_links_to_inspection(app: AppTest) -> None:
    training_run = guesses()
    page_text = texts(run(app))
    assert "**512** after training, 8,000 before, 1,400 by token frequency only" in page_text
    assert EN["train.measured_on_text"].format(hidden="9,600", rows="500") in page_text
    assert EN["train.best_step_perplexity"].format(step="20", total="30") in page_text
    assert "questions it learned from" not in page_text
    (table,) = (element.value for element in app.dataframe if "masked_accuracy" in element.value)
    assert table["row"].tolist() == ["Token frequency only", "Before training", "After training"]
    assert table["masked_accuracy"].tolist() == pytest.approx([5, 0, 17])
    assert "next_accuracy" not in table
    labels = [element.label for element in app.button if str(element.key).endswith(training_run.id)]
    assert EN["train.use_language"] in labels
    assert EN["train.use"] not in labels
    # a checkpoint selected by accuracy
    plan = json.loads((training_run.folder / "run.json").read_text(encoding="utf-8"))
    plan["options"]["best_by"] = LanguageBestBy.ACCURACY.value
    (training_run.folder / "run.json").write_text(json.dumps(plan), encoding="utf-8")
    named = {"step": "20", "total": "30", "measure": EN["measure.masked_accuracy"]}
    assert EN["train.best_step_text"].format(**named) in texts(run(app))
