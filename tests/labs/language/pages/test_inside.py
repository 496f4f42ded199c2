"""The Inside tab over a random tiny BERT."""

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.pairs import PairKind, PairSet
from mrc_workbench.data.pairs.store import save_pairs
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import save_question_set
from mrc_workbench.labs.language.layers import LayerSearch, PoolingMode
from mrc_workbench.labs.language.network import predict_by_checkpoint
from mrc_workbench.labs.language.pages.predictions import format_probability, layer_table, split_words
from mrc_workbench.labs.language.pages.resources import LayerFindings
from mrc_workbench.models.sources import STARTER, ModelSource
from mrc_workbench.training.runs import Run, create_run, new_plan
from mrc_workbench.training.text_options import LANGUAGE_MODEL, LanguageOptions
from mrc_workbench.workbench.views.ui.words import catalog
from tests.labs.language.tiny_bert import PEAR, SHIP, write_model
from tests.workbench.views.driving import opened, press, run, texts

pytestmark = pytest.mark.slow
EN = catalog("en")
HOSTILE = "<img src=x onerror=alert(1)> **배** 나는 배"


def page() -> None:
    from mrc_workbench.labs.language.pages.page import draw_inside

    draw_inside()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_model(tmp_path_factory.mktemp("models") / "tiny").reference


def create_finished_run(name: str, base: str = STARTER, steps: Iterable[int] = ()) -> Run:
    """Create a finished run of a language model, with a different checkpoint for each of these steps."""
    plan = new_plan(LANGUAGE_MODEL, name, ("text.txt", "text", "f" * 64), SplitOptions(), LanguageOptions(base=base))
    finished_run = create_run(plan)
    write_model(finished_run.model_folder)
    for step in steps:
        write_model(finished_run.folder / "snapshots" / f"step-{step}", seed=step)
    finished_run.write("scores.json", {"best_step": max(steps, default=0)})
    finished_run.write_status(replace(finished_run.status(), state=State.DONE))
    return finished_run


def make_question_set() -> QuestionSet:
    passages = [Passage(f"p{index}", text) for index, text in enumerate((SHIP, PEAR, "배가 고프다", "서울", "한강"))]
    questions = [("나는 배", "p0"), ("사과를 먹다", "p1"), ("서울에서", "p3"), ("한강이", "p4")]
    records = [Question(f"q{index}", text, (), (passage_id,)) for index, (text, passage_id) in enumerate(questions)]
    return QuestionSet("few", passages, tuple(records))


def test_offers_hub_model_and_downloads_after_click() -> None:
    app = opened(page)
    assert app.selectbox(key="network_en").value == "klue/roberta-base"
    assert "downloaded once" in texts(app)
    assert not app.error
    press(app, "fetch_network")
    assert "hub is unreachable" in texts(app)


def test_shows_word_cosines_by_layer_of_typed_sentences(model: str) -> None:
    app = opened(page, network=model)
    assert "mean cosine **1.00**" in texts(app)
    assert "3 occurrences" in texts(app)
    by_layer = app.dataframe[2].value
    assert by_layer["layer"].tolist() == ["Embedding table", "0", "1", "2"]
    assert by_layer["value"][0] == pytest.approx(1)
    assert by_layer["value"][2] < 0.99
    lowest = by_layer["layer"][by_layer["value"].idxmin()]
    assert app.select_slider(key="layer_en").value == lowest
    cosines = app.dataframe[0].value.to_numpy()
    assert (cosines.sum() - 3) / 6 == pytest.approx(by_layer["value"].min())
    app.text_area(key="typed_contexts").set_value(f"{SHIP}\n나는 담배를 탔다")
    run(app)
    assert app.query_params["contexts"] == f"{SHIP}\n나는 담배를 탔다"
    assert app.dataframe[1].value["pieces"].tolist() == ["배", "담배"]
    assert "part of a longer token (‘담배’)" in texts(app)
    assert "its vectors differ already in the embedding table" in texts(app)
    assert app.select_slider(key="layer_en").value in ("0", "1", "2")
    app.text_area(key="typed_contexts").set_value(f"{SHIP}\n사과를 먹었다")
    run(app)
    assert "“배” is not in this sentence: “사과를 먹었다”" in texts(app)


def test_escapes_sentences(model: str) -> None:
    app = opened(page, network=model, contexts=HOSTILE, word="**배**")
    assert "“**배**” occurs only once" in texts(app)
    (answer,) = [element.value for element in app.markdown if "occurs only once" in element.value]
    assert "\\*\\*배" in answer
    assert not app.get("html")


def test_selects_head_with_most_attention_to_target(model: str) -> None:
    app = opened(page, network=model, inside="attention", attended=f"{SHIP}\n{PEAR}", target="next")
    head_table = app.dataframe[-1].value
    assert head_table["next"].is_monotonic_decreasing
    first = head_table.iloc[0]
    assert app.selectbox(key="attention_layer_en").value == str(int(first["layer"]))
    assert app.selectbox(key="attention_head_en").value == str(int(first["head"]))
    assert f"**{first['next'] / 100:.0%}** of its attention" in texts(app)
    weights = app.dataframe[0].value
    assert [*weights.columns][:3] == ["1 [CLS]", "2 항구", "3 에서"]
    assert weights.sum(axis=1).tolist() == pytest.approx([1] * 8, abs=1e-5)


def models_beside(app: AppTest) -> Any:
    (pills,) = (group for group in app.get("button_group") if str(group.key).startswith("beside_"))
    return pills


def test_compares_predictions_of_two_models(model: str, tmp_path: Path) -> None:
    other = write_model(tmp_path / "other", seed=1).reference
    app = opened(page, network=other)
    app.query_params.update({"network": model, "inside": "fill_mask", "masked": "항구에서 [MASK]를 탔다"})
    run(app)
    pills = models_beside(app)
    pills.set_value([other])
    run(app)
    tables = [item.value for item in app.dataframe]
    assert [len(item) for item in tables] == [10, 10]
    assert tables[0]["piece"].tolist() != tables[1]["piece"].tolist()
    assert tables[0]["probability"].is_monotonic_decreasing
    assert "fills the blank with" in texts(app)


def test_compares_with_base_model_by_default(tmp_path: Path) -> None:
    other = write_model(tmp_path / "other", seed=1).reference
    finished_run = create_finished_run("went on", base=other)
    app = opened(page, network=finished_run.id, inside="fill_mask")
    pills = models_beside(app)
    assert pills.value == [other]
    assert pills.options[0].replace("\\", "") == f"Before training: {other}"
    before, after = (app.dataframe[index].value["piece"][0].removeprefix("1. ") for index in (1, 0))
    assert f"fills the blank with **{after}**" in texts(app)
    assert f"Before training: **{before}**" in texts(app)
    pills.set_value([])
    run(app)
    assert len(app.dataframe) == 1
    assert "Before its training" not in texts(app)


def test_no_base_comparison_for_model_from_scratch(model: str) -> None:
    finished_run = create_finished_run("new")
    app = opened(page, network=finished_run.id, inside="fill_mask")
    assert len(app.dataframe) == 1
    assert "before" not in texts(app).lower()


def test_reports_base_that_cannot_be_compared(tmp_path: Path) -> None:
    bare = write_model(tmp_path / "bare", head=False).reference
    app = opened(page, network=create_finished_run("from bare", base=bare).id, inside="fill_mask")
    assert f"“{bare}” has no masked-language-model head, so it cannot be compared" in texts(app)
    app = opened(page, network=create_finished_run("from nothing", base=str(tmp_path / "gone")).id, inside="fill_mask")
    assert "no longer exists" in texts(app)
    assert len(app.dataframe) == 1


def test_downloads_hub_base_after_click() -> None:
    app = opened(page, network=create_finished_run("from the hub", base="some/model").id, inside="fill_mask")
    assert len(app.dataframe) == 1
    (button,) = [candidate for candidate in app.button if "some/model" in candidate.label]
    button.click()
    run(app)
    assert "hub is unreachable" in texts(app)


def test_shows_word_probability_by_step() -> None:
    finished_run = create_finished_run("long", steps=(0, 5, 10))
    app = opened(page, network=finished_run.id, inside="over_steps", masked="항구에서 [MASK]를 탔다")
    assert "with the 3 checkpoints saved" in texts(app)
    assert not app.dataframe
    press(app, "draw_checkpoints")
    folders = [finished_run.folder / "snapshots" / f"step-{step}" for step in (0, 5, 10)]
    sources = [ModelSource("long", folder=folder) for folder in folders]
    expected = predict_by_checkpoint(sources, "항구에서 [MASK]를 탔다")
    (table,) = [item.value for item in app.dataframe]
    assert table.index.tolist() == [0, 5, 10]
    assert [*table.columns] == expected.top_words(3)
    app.text_input(key="typed_step_words").set_value("배, 서울 ,배를,배")
    run(app)
    (table,) = [item.value for item in app.dataframe]
    assert [*table.columns] == ["배", "서울"]
    assert table["배"].tolist() == pytest.approx(expected.word_probability("배").tolist())
    assert "splits “배를” into several tokens: 배 · ##를" in texts(app)
    most_changed = max(("배", "서울"), key=lambda item: abs(np.ptp(expected.word_probability(item)[[0, -1]])))
    first, last = (format_probability(expected.word_probability(most_changed)[index]) for index in (0, -1))
    answer = f"Probability of **{most_changed}** in the blank: **{first}** before training, **{last}** after 10 steps"
    assert answer in texts(app)
    assert app.query_params["step_words"] == "배, 서울 ,배를,배"
    app.text_input(key="typed_masked").set_value("항구")
    run(app)
    assert "Mark the position to predict" in texts(app)


def test_links_to_run_with_checkpoints(model: str) -> None:
    finished_run = create_finished_run("long", steps=(0, 5))
    create_finished_run("short")
    app = opened(page, network=model)
    app.query_params.update({"network": model, "inside": "over_steps"})
    run(app)
    assert "has no checkpoints from its training" in texts(app)
    (button,) = [candidate for candidate in app.button if str(candidate.key).startswith("steps_of_")]
    assert button.label == "Show “long”"
    button.click()
    run(app)
    assert app.selectbox(key="network_en").value == finished_run.id
    assert "with the 2 checkpoints saved" in texts(app)


def test_links_to_training_without_language_model(tmp_path: Path) -> None:
    bare = write_model(tmp_path / "bare", head=False).reference
    assert opened(page, network=bare, inside="over_steps").button(key="to_train").label == EN["inside.to_train"]
    app = opened(page, network=bare, inside="fill_mask")
    assert app.button(key="to_train").label == EN["inside.to_train"]
    assert "has no masked-language-model head" in texts(app)
    app.query_params["lang"] = "ko"
    run(app)
    assert "출력층이 없습니다" in texts(app)
    create_finished_run("one")
    for view in ("fill_mask", "over_steps"):
        app = opened(page, network=bare, inside=view)
        assert not [button for button in app.button if button.key == "to_train"]


def test_splits_words_and_formats_probabilities() -> None:
    assert split_words(" 배,서울,, 배 ,강 산") == ["배", "서울", "강 산"]
    assert split_words("") == []
    assert len(split_words(",".join(map(str, range(20))))) == 8
    assert [format_probability(value) for value in (0.25, 0.0123, 0.000123, 0.0)] == ["25.0%", "1.2%", "0.012%", "0%"]


def test_error_uses_display_name_of_model() -> None:
    finished_run = create_finished_run("*mine*")
    shutil.rmtree(finished_run.model_folder)
    write_model(finished_run.model_folder, head=False)
    page_text = texts(opened(page, network=finished_run.id, inside="fill_mask"))
    assert "“*mine*” has no masked-language-model head" in page_text
    assert finished_run.id not in page_text


def test_measures_layers_after_click(model: str) -> None:
    sides = [[SHIP, PEAR, "나는 배"], [PEAR, "사과를 먹었다", SHIP]]
    save_pairs(PairSet.from_columns("few", PairKind.SCORED, sides, [1, 4, 2], published=[2] * 3, scale=(0, 5)))
    app = opened(page, network=model, inside="layers")
    assert not app.dataframe
    press(app, "measure_layers")
    (table,) = [element.value for element in app.dataframe]
    assert table.shape == (3, 4)
    assert "3 pairs" in texts(app)


def test_searches_layers_with_current_questions(model: str) -> None:
    data = save_question_set(make_question_set())
    app = opened(page, network=model, inside="layers", layers_by="questions", data=data.key)
    assert "Samples up to 200 questions and 300 passages from “few”" in texts(app)
    press(app, "search_layers")
    (table,) = [element.value for element in app.dataframe]
    assert table.shape == (3, 4)
    assert "4 questions of “few” (all) searched among 5 passages" in texts(app).replace("All", "all")
    assert f"**{np.nanmax(table.iloc[:, 1:].to_numpy()):.1f}** (95%" in texts(app)
    app.query_params["layers_by"] = "people"
    run(app)
    assert app.button(key="measure_layers")


def test_reports_set_without_questions(model: str) -> None:
    data = save_question_set(QuestionSet("alone", make_question_set().passages, ()))
    app = opened(page, network=model, inside="layers", layers_by="questions", data=data.key)
    assert "“alone” has no questions" in texts(app)


def test_tests_best_layer_against_default() -> None:
    """Scores of 1 for all questions compared with 0 for all, and a copy of the default."""
    values = np.zeros((2, 3, 30))
    values[0, 0] = 1.0
    values[0, 1] = np.nan
    questions = tuple(Question(f"q{index}", "?", (), (f"p{index}",)) for index in range(30))
    question_set = QuestionSet("many", [Passage(f"p{index}", f"text {index}") for index in range(30)], questions)
    findings = LayerFindings.from_search(LayerSearch(values, question_set))
    assert (1, PoolingMode.MEAN) not in findings.tests
    assert (0, PoolingMode.CLS) not in findings.intervals
    best = findings.tests[0, PoolingMode.MEAN]
    assert best.is_significant
    assert (best.difference, best.wins) == (1.0, 30)
    assert not findings.tests[1, PoolingMode.MAX].is_significant
    table = layer_table(findings).set_index(["layer", "pooling"])
    assert table["ndcg@10"].to_dict() == {(0, "mean"): 1, (0, "max"): 0, (1, "mean"): 0, (1, "cls"): 0, (1, "max"): 0}
    assert np.isnan(table["difference"][1, "mean"])


def test_stop_button_ends_work() -> None:
    def working() -> None:
        import streamlit as st

        from mrc_workbench.labs.language.pages.page import progress_bar, start_button

        if start_button("work", "this", "Work"):
            with progress_bar("work", "this") as report:
                report(0.5)
                st.stop()  # in the middle

    app = opened(working)
    assert [button.label for button in app.button] == ["Work"]
    press(app, "work")
    press(app, "stop_work")
    assert [button.label for button in app.button] == ["Work"]


def test_reports_unknown_model() -> None:
    app = opened(page, network="no/such/model/at/all")
    assert "No folder, finished training or hub model is called “no/such/model/at/all”" in texts(app)
