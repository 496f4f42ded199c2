"""The Evaluate tab over an evaluation that was carried out by a reader without a network; what its charts encode, and
the weights that evaluations in the workspace chose."""

import io
import json
import os
import zipfile
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.cache import load_arrays
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet, keep
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.data.workspace import workspace, write_json
from mrc_workbench.labs.reading.evaluate import ReaderSpec, ReadingExperiment
from mrc_workbench.labs.reading.extractive import Fate
from mrc_workbench.labs.reading.pages import evaluation, results
from mrc_workbench.labs.reading.pages.evaluate import predictions
from mrc_workbench.labs.reading.scores import Rules, read_predictions
from mrc_workbench.labs.reading.study import STUDY
from mrc_workbench.retrieval.report.charts import colour_of
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.ui.words import catalog
from tests.labs.reading.pages.worlds import DISPUTED, QUESTIONS, carried_out, page, read_by_next_word, trained
from tests.workbench.views.driving import opened, press, run, texts

EN = catalog("en")
BOTH = "BM25 words|BM25"


@pytest.fixture
def data() -> StoredSet:
    return keep(DISPUTED)


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[ReadingExperiment]:
    """What the page asks for; a process would outlive the test."""
    read_by_next_word(monkeypatch)
    asked: list[ReadingExperiment] = []
    monkeypatch.setattr(StudyJob, "start", lambda _, experiment: asked.append(experiment))
    return asked


def experiment_of(data: StoredSet) -> ReadingExperiment:
    """What the page asks for at `tab`, with a reader that was trained."""
    reader = ReaderSpec(name="Mine", model=trained(data).id)
    return ReadingExperiment(
        data=data.key, retriever=tuple(choices_for(data).needed(BOTH.split("|"))), reader=(reader,)
    )


@pytest.fixture
def view(data: StoredSet) -> evaluation.ReadingView:
    """That, carried out."""
    experiment = experiment_of(data)
    carried_out(experiment, data)
    folder = STUDY.job(experiment, data.fingerprint).folder
    kept = evaluation.open_reading(data.key, folder)
    assert kept
    return evaluation.ReadingView(data, folder, kept, BOTH.split("|"), BOTH.split("|"), "em", 5)


def tab(**address: str) -> AppTest:
    return opened(page, answers="evaluate", retrievers=BOTH, answered_part="all", **address)


def table_with(app: AppTest, column: str) -> pd.DataFrame:
    return next(one.value for one in app.dataframe if column in one.value)


def test_nothing_is_read_before_a_button_is_pressed(data: StoredSet, started: list[ReadingExperiment]) -> None:
    expected = experiment_of(data)
    app = tab()
    assert started == []
    assert "for each of 4 questions" in texts(app)
    assert "at most 160 pairs" in texts(app)
    next(one for one in app.button if (one.key or "").startswith("start_")).click()
    run(app)
    assert started == [expected]
    assert (expected.split, expected.rules) == (Part.ALL, Rules.KORQUAD)
    assert [spec.name for spec in expected.retriever] == ["BM25", "BM25 words"]


def test_without_a_reader_it_says_how_to_get_one(data: StoredSet) -> None:
    assert EN["answers.needs_reader"] in texts(tab())


def test_the_answer_stands_first_and_figures_and_fates_have_their_tables(view: evaluation.ReadingView) -> None:
    app = tab()
    said = texts(app)
    assert "reading the top 5 passages answers **50 of 100** questions exactly" in said
    assert "With the answer passage given, it would be 75." in said
    first, second = (one.depth.exact for one in view.reader.by_retriever.values())
    assert (first == second).all()
    assert "gives identical results" in said
    assert "not sure" not in said, "two that answer alike are not called unsure"
    assert "Mine was trained on some of these questions" in said
    figures, fates = table_with(app, "20"), table_with(app, "misread")
    assert set(figures["retriever"]) == {"BM25 words", "BM25"}
    assert figures["5"].tolist() == [50.0, 50.0]
    assert fates["not_found"].tolist() == ["0.0% (0)"] * 2
    assert fates["outranked"].tolist() == ["25.0% (1)"] * 2
    assert fates["misread"].tolist() == ["25.0% (1)"] * 2  # the data says that the flower is another one
    assert len(app.get("vega_lite_chart")) == 2
    labels = {one.proto.label for one in app.get("download_button")}
    assert {EN["answers.csv"], EN["answers.json"], EN["answers.predictions"]} <= labels


@pytest.mark.usefixtures("view")
@pytest.mark.parametrize("look", ["summary", "slices", "questions"])
def test_displays_default_retrievers_in_the_language_of_the_page(look: str) -> None:
    app = tab(lang="ko", answers_look=look)
    columns = [column.get("label") for table in app.dataframe for column in json.loads(table.proto.columns).values()]
    options = [option for choice in (*app.selectbox, *app.pills) for option in choice.options]
    charts = [chart.proto.spec + str(chart.proto.datasets) for chart in app.get("vega_lite_chart")]
    assert "BM25 어절" in options
    assert "BM25 words" not in "\n".join([texts(app), *options, *map(str, columns), *charts])
    if look == "summary":
        assert set(table_with(app, "misread")["retriever"]) == {"BM25 어절", "BM25"}
    if look == "questions":
        assert "BM25 어절" in columns


def test_every_number_agrees_with_the_answers_it_is_of(view: evaluation.ReadingView) -> None:
    for k in (1, 5):
        at_k = evaluation.ReadingView(view.data, view.folder, view.kept, view.picked, view.names, "em", k)
        for name, answered in at_k.answered.items():
            right = [said in one.answers for said, one in zip(answered.answers(at_k.place), QUESTIONS, strict=True)]
            curves = evaluation.curve_table(at_k).set_index(["retriever", "k"])
            assert curves.loc[(name, k), "value"] == sum(right) / 4
            fates = evaluation.fate_table(at_k).set_index(["retriever", "fate"])
            assert fates.loc[(name, "right"), "count"] == sum(right)
            assert fates.loc[name]["share"].sum() == 1
            assert (answered.depth.fate[:, at_k.place] == Fate.RIGHT).tolist() == right


@pytest.mark.usefixtures("view")
def test_questions_are_filtered_by_fate_and_slice_opened_and_asked() -> None:
    app = tab(answers_look="questions", read_fate="misread", read_of="BM25")
    assert table_with(app, "right")["question"].tolist() == ["나라의 꽃"]
    assert "**1** of 4 questions" in texts(app)
    app = tab(answers_look="questions", read_question="q4")
    assert "Answer: **진달래**" in texts(app)
    assert texts(app).count("**무궁화** · misread") == 2
    press(app, "read_back")
    assert len(table_with(app, "right")) == 4
    app.query_params["read_question"] = "q4"
    press(run(app), "read_ask")
    assert app.query_params["q"] == QUESTIONS[3].text
    assert "### 무궁화" in texts(app)
    assert EN["why.none_listed"] not in texts(tab(answers_look="questions", read_by="answer_length", read_label="4–6"))


@pytest.mark.usefixtures("view")
def test_why_a_passage_was_taken_and_that_slices_are_too_small_is_told() -> None:
    won = "“백두산” in passage 1 has a reading score of −3.00"
    lost = "at least as high as “한라산” in the answer passage 2 (−3.00)"
    assert f"{won}, {lost}" in texts(tab(answers_look="questions", read_question="q3"))
    assert "No group has 5 questions" in texts(tab(answers_look="slices"))


def test_answers_are_exported_in_the_published_form_and_stored_as_numbers(view: evaluation.ReadingView) -> None:
    with zipfile.ZipFile(io.BytesIO(predictions(view))) as files:
        assert len(files.namelist()) == 2 * len(view.ks)
        path = workspace() / "one.json"
        path.write_bytes(files.read("01-bm25-words-5.json"))
    said = dict(zip((one.id for one in QUESTIONS), view.answered["BM25 words"].answers(view.place), strict=True))
    assert read_predictions(path) == said
    arrays = load_arrays(view.folder / "judged.npz")
    assert arrays
    assert all(values.dtype.kind in "bif" for values in arrays.values())


def test_a_damaged_evaluation_is_offered_anew(view: evaluation.ReadingView) -> None:
    (view.folder / "scores.json").write_text(json.dumps({"readers": 1}), encoding="utf-8")
    app = tab()
    assert not app.dataframe
    assert any((one.key or "").startswith("start_") for one in app.button)


NAMES = ("one", "two", "three")


def layers(chart: Any) -> list[dict[str, Any]]:
    spec = chart.to_dict()
    return [*spec.get("layer", [spec])]


def test_ceilings_are_dashed_in_the_colour_of_their_line_and_the_oracle_is_a_rule() -> None:
    rows = [("two", 1, 0.5, 0.4, 0.6, 0.7), ("two", 5, 0.6, 0.5, 0.7, 0.9)]
    table = pd.DataFrame(rows, columns=["retriever", "k", "value", "low", "high", "ceiling"])
    found = layers(results.curves(table, NAMES, 0.65, chosen=5, y="F1", label="the rule"))
    assert [one["mark"]["type"] for one in found] == ["rule", "area", "rule", "line", "line", "point", "text"]
    dashed = found[3]
    assert dashed["mark"]["strokeDash"] == [5, 4]
    assert dashed["encoding"]["y"]["field"] == "ceiling"
    for line in (dashed, found[4]):
        assert line["encoding"]["color"]["scale"] == {"domain": ["two"], "range": [colour_of("two", NAMES)]}
    assert found[2]["encoding"]["y"]["field"] == "oracle"
    assert found[1]["encoding"]["y"]["scale"]["domain"][0] < 0.4


def test_a_bar_is_cut_into_the_four_fates_in_their_order() -> None:
    labels = {"right": "right", "outranked": "outranked", "read wrong": "misread", "not found": "not_found"}
    table = pd.DataFrame({"retriever": "one", "label": [*labels], "count": [4, 3, 2, 1], "share": [0.4, 0.3, 0.2, 0.1]})
    (bars,) = layers(results.lost(table, order=["one"], fates=labels, x="share"))
    scale = bars["encoding"]["color"]["scale"]
    assert scale == {"domain": [*labels], "range": [*results.FATE_COLOURS.values()]}
    assert bars["encoding"]["x"]["stack"] == "zero"
    assert bars["encoding"]["order"]["field"] == "place"
    assert len(set(results.FATE_COLOURS.values())) == 4


def kept_scores(key: str, name: str, weight: float, *, seconds: int, chosen: str | None = "validation") -> None:
    path = workspace() / "reading" / name / "scores.json"
    content = {
        "experiment": {"data": key, "reader": [{"name": "r", "model": "a/reader"}]},
        "weights": {"r": {"BM25": {"weight": weight, "chosen_on": chosen}}},
        "units": {"r": {"BM25": 2.5}},
    }
    write_json(path, content)
    os.utime(path, (seconds, seconds))


def test_the_newest_choice_of_this_reader_on_this_set_counts(data: StoredSet) -> None:
    assert evaluation.latest_reading(data) is None
    assert evaluation.stored_weights(data, "a/reader") == {}
    kept_scores(data.key, "old", 4.0, seconds=100)
    kept_scores(data.key, "new", 0.5, seconds=200)
    kept_scores(data.key, "not-chosen", 8.0, seconds=300, chosen=None)
    kept_scores("other", "other", 1.0, seconds=400)
    assert evaluation.stored_weights(data, "a/reader") == {"BM25": evaluation.Weight(0.5, 2.5)}
    assert evaluation.stored_weights(data, "another") == {}
    assert evaluation.latest_reading(data) == workspace() / "reading" / "not-chosen"


@pytest.mark.parametrize("content", [[], {"experiment": 3}, {"experiment": {"data": "KEY"}}])
def test_what_cannot_be_read_is_passed_over(data: StoredSet, content: object) -> None:
    if isinstance(content, dict) and isinstance(content.get("experiment"), dict):
        content = {"experiment": {"data": data.key}}
    write_json(workspace() / "reading" / "bad" / "scores.json", content)
    kept_scores(data.key, "good", 1.0, seconds=100)
    assert evaluation.stored_weights(data, "a/reader") == {"BM25": evaluation.Weight(1.0, 2.5)}
