"""The Evaluate tab over an evaluation by a reader without a network, its charts, and stored weights."""

import io
import json
import os
import zipfile

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.cache import load_arrays
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.data.workspace import workspace, write_json
from mrc_workbench.labs.reading.evaluate import ReaderSpec, ReadingExperiment
from mrc_workbench.labs.reading.extractive import AnswerOutcome
from mrc_workbench.labs.reading.pages import evaluation, results
from mrc_workbench.labs.reading.scores import ScoringRules, read_predictions
from mrc_workbench.labs.reading.study import STUDY
from mrc_workbench.retrieval.report.charts import colour_of
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.ui.words import catalog
from tests.labs.reading.pages import worlds
from tests.labs.reading.pages.worlds import QUESTIONS, page
from tests.workbench.views.driving import layers, opened, press, run, table_with, texts

EN = catalog("en")
BOTH = "BM25 words|BM25"
NAMES = ("one", "two", "three")


@pytest.fixture
def data() -> StoredSet:
    return save_question_set(worlds.DISPUTED)


@pytest.fixture(autouse=True)
def _without_network(started: list[ReadingExperiment], monkeypatch: pytest.MonkeyPatch) -> None:
    worlds.replace_readers(monkeypatch)


def experiment_of(data: StoredSet) -> ReadingExperiment:
    """Return the experiment of `open_tab`, with a trained reader."""
    reader = ReaderSpec(name="Mine", model=worlds.create_finished_run(data).id)
    specs = tuple(choices_for(data).needed(BOTH.split("|")))
    return ReadingExperiment(data=data.key, retriever=specs, reader=(reader,))


@pytest.fixture
def view(data: StoredSet) -> evaluation.ReadingView:
    experiment = experiment_of(data)
    worlds.store_evaluation(experiment, data)
    folder = STUDY.job(experiment, data.fingerprint).folder
    stored = evaluation.open_reading(data.key, folder)
    assert stored
    return evaluation.ReadingView(data, folder, stored, BOTH.split("|"), BOTH.split("|"), "em", 5)


def open_tab(**address: str) -> AppTest:
    return opened(page, answers="evaluate", retrievers=BOTH, answered_part="all", **address)


def test_starts_job_only_after_button_press(data: StoredSet, started: list[ReadingExperiment]) -> None:
    assert EN["answers.needs_reader"] in texts(open_tab())
    expected = experiment_of(data)
    app = open_tab()
    assert started == []
    assert "for each of 4 questions" in texts(app)
    assert "at most 160 pairs" in texts(app)
    next(button for button in app.button if (button.key or "").startswith("start_")).click()
    run(app)
    assert started == [expected]
    assert (expected.split, expected.rules) == (Part.ALL, ScoringRules.KORQUAD)
    assert [spec.name for spec in expected.retriever] == ["BM25", "BM25 words"]


def test_shows_answer_metrics_and_outcomes(view: evaluation.ReadingView) -> None:
    app = open_tab()
    page_text = texts(app)
    assert "reading the top 5 passages answers **50 of 100** questions exactly" in page_text
    assert "With the answer passage given, it would be 75." in page_text
    first, second = (item.by_depth.exact for item in view.reader.by_retriever.values())
    assert (first == second).all()
    assert "gives identical results" in page_text
    assert "not sure" not in page_text, "identical retrievers are not uncertain"
    assert "Mine was trained on some of these questions" in page_text
    metric_table = table_with(app, "20")
    outcome_table = table_with(app, "misread")
    assert set(metric_table["retriever"]) == {"BM25 words", "BM25"}
    assert metric_table["5"].tolist() == [50.0, 50.0]
    assert outcome_table["not_found"].tolist() == ["0.0% (0)"] * 2
    assert outcome_table["outranked"].tolist() == ["25.0% (1)"] * 2
    assert outcome_table["misread"].tolist() == ["25.0% (1)"] * 2  # another flower in the dataset
    assert len(app.get("vega_lite_chart")) == 2
    labels = {item.proto.label for item in app.get("download_button")}
    assert {EN["answers.csv"], EN["answers.json"], EN["answers.predictions"]} <= labels


@pytest.mark.usefixtures("view")
@pytest.mark.parametrize("look", ["summary", "slices", "questions"])
def test_displays_default_retrievers_in_the_language_of_the_page(look: str) -> None:
    app = open_tab(lang="ko", answers_look=look)
    columns = [column.get("label") for table in app.dataframe for column in json.loads(table.proto.columns).values()]
    options = [option for choice in (*app.selectbox, *app.pills) for option in choice.options]
    charts = [chart.proto.spec + str(chart.proto.datasets) for chart in app.get("vega_lite_chart")]
    assert "BM25 어절" in options
    assert "BM25 words" not in "\n".join([texts(app), *options, *map(str, columns), *charts])
    if look == "summary":
        assert set(table_with(app, "misread")["retriever"]) == {"BM25 어절", "BM25"}
    if look == "questions":
        assert "BM25 어절" in columns


def test_tables_match_answers(view: evaluation.ReadingView) -> None:
    for k in (1, 5):
        at_k = evaluation.ReadingView(view.data, view.folder, view.stored, view.retrievers, view.names, "em", k)
        for name, answered in at_k.answers_by_retriever.items():
            pairs = zip(answered.answers(at_k.depth_index), QUESTIONS, strict=True)
            right = [answer in question.answers for answer, question in pairs]
            curves = evaluation.curve_table(at_k).set_index(["retriever", "k"])
            assert curves.loc[(name, k), "value"] == sum(right) / 4
            outcomes = evaluation.outcome_table(at_k).set_index(["retriever", "outcome"])
            assert outcomes.loc[(name, "right"), "count"] == sum(right)
            assert outcomes.loc[name]["fraction"].sum() == 1
            assert (answered.by_depth.outcome[:, at_k.depth_index] == AnswerOutcome.RIGHT).tolist() == right


@pytest.mark.usefixtures("view")
def test_filters_opens_and_asks_questions() -> None:
    app = open_tab(answers_look="questions", read_outcome="misread", read_of="BM25")
    assert table_with(app, "right")["question"].tolist() == ["나라의 꽃"]
    assert "**1** of 4 questions" in texts(app)
    app = open_tab(answers_look="questions", read_question="q4")
    assert "Answer: **진달래**" in texts(app)
    assert texts(app).count("**무궁화** · misread") == 2
    press(app, "read_back")
    assert len(table_with(app, "right")) == 4
    app.query_params["read_question"] = "q4"
    press(run(app), "read_ask")
    assert app.query_params["q"] == QUESTIONS[3].text
    assert "### 무궁화" in texts(app)
    app = open_tab(answers_look="questions", read_by="answer_length", read_label="4–6")
    assert EN["why.none_listed"] not in texts(app)


@pytest.mark.usefixtures("view")
def test_explains_selected_passage_and_small_slices() -> None:
    won = "“백두산” in passage 1 has a reading score of −3.00"
    lost = "at least as high as “한라산” in the answer passage 2 (−3.00)"
    assert f"{won}, {lost}" in texts(open_tab(answers_look="questions", read_question="q3"))
    assert "No group has 5 questions" in texts(open_tab(answers_look="slices"))


def test_exports_predictions_and_stores_arrays(view: evaluation.ReadingView) -> None:
    with zipfile.ZipFile(io.BytesIO(results.zip_predictions(view))) as files:
        assert len(files.namelist()) == 2 * len(view.ks)
        path = workspace() / "one.json"
        path.write_bytes(files.read("01-bm25-words-5.json"))
    answers = view.answers_by_retriever["BM25 words"].answers(view.depth_index)
    assert read_predictions(path) == dict(zip([question.id for question in QUESTIONS], answers, strict=True))
    arrays = load_arrays(view.folder / "judged.npz")
    assert arrays
    assert all(values.dtype.kind in "bif" for values in arrays.values())


def test_offers_new_run_for_damaged_evaluation(view: evaluation.ReadingView) -> None:
    (view.folder / "scores.json").write_text(json.dumps({"readers": 1}), encoding="utf-8")
    app = open_tab()
    assert not app.dataframe
    assert any((button.key or "").startswith("start_") for button in app.button)


def test_curve_chart_draws_dashed_ceilings_and_oracle_rule() -> None:
    rows = [("two", 1, 0.5, 0.4, 0.6, 0.7), ("two", 5, 0.6, 0.5, 0.7, 0.9)]
    table = pd.DataFrame(rows, columns=["retriever", "k", "value", "low", "high", "ceiling"])
    chart_layers = layers(results.curve_chart(table, NAMES, 0.65, selected_k=5, y="F1", label="the rule"))
    marks = [layer["mark"]["type"] for layer in chart_layers]
    assert marks == ["rule", "area", "rule", "line", "line", "point", "text"]
    dashed = chart_layers[3]
    assert dashed["mark"]["strokeDash"] == [5, 4]
    assert dashed["encoding"]["y"]["field"] == "ceiling"
    for line in (dashed, chart_layers[4]):
        assert line["encoding"]["color"]["scale"] == {"domain": ["two"], "range": [colour_of("two", NAMES)]}
    assert chart_layers[2]["encoding"]["y"]["field"] == "oracle"
    assert chart_layers[1]["encoding"]["y"]["scale"]["domain"][0] < 0.4


def test_outcome_chart_stacks_outcomes_in_order() -> None:
    labels = {"right": "right", "outranked": "outranked", "read wrong": "misread", "not found": "not_found"}
    counts = {"count": [4, 3, 2, 1], "fraction": [0.4, 0.3, 0.2, 0.1]}
    table = pd.DataFrame({"retriever": "one", "label": [*labels], **counts})
    (bars,) = layers(results.outcome_chart(table, order=["one"], outcomes=labels, x="share"))
    scale = bars["encoding"]["color"]["scale"]
    assert scale == {"domain": [*labels], "range": [*results.OUTCOME_COLOURS.values()]}
    assert bars["encoding"]["x"]["stack"] == "zero"
    assert bars["encoding"]["order"]["field"] == "position"
    assert len(set(results.OUTCOME_COLOURS.values())) == 4


def write_scores(key: str, name: str, weight: float, *, seconds: int, selected_on: str | None = "validation") -> None:
    path = workspace() / "reading" / name / "scores.json"
    content = {
        "experiment": {"data": key, "reader": [{"name": "r", "model": "a/reader"}]},
        "weights": {"r": {"BM25": {"weight": weight, "selected_on": selected_on}}},
        "units": {"r": {"BM25": 2.5}},
    }
    write_json(path, content)
    os.utime(path, (seconds, seconds))


def test_stored_weights_use_newest_selection(data: StoredSet) -> None:
    assert evaluation.latest_reading(data) is None
    assert evaluation.stored_weights(data, "a/reader") == {}
    write_scores(data.key, "old", 4.0, seconds=100)
    write_scores(data.key, "new", 0.5, seconds=200)
    write_scores(data.key, "not-chosen", 8.0, seconds=300, selected_on=None)
    write_scores("other", "other", 1.0, seconds=400)
    assert evaluation.stored_weights(data, "a/reader") == {"BM25": evaluation.Weight(0.5, 2.5)}
    assert evaluation.stored_weights(data, "another") == {}
    assert evaluation.latest_reading(data) == workspace() / "reading" / "not-chosen"


@pytest.mark.parametrize("content", [[], {"experiment": 3}, {"experiment": {"data": "KEY"}}])
def test_ignores_unreadable_scores(data: StoredSet, content: object) -> None:
    if isinstance(content, dict) and isinstance(content.get("experiment"), dict):
        content = {"experiment": {"data": data.key}}
    write_json(workspace() / "reading" / "bad" / "scores.json", content)
    write_scores(data.key, "good", 1.0, seconds=100)
    assert evaluation.stored_weights(data, "a/reader") == {"BM25": evaluation.Weight(1.0, 2.5)}
