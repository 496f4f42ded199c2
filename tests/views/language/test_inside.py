"""The Inside tab as a person uses it, over a tiny BERT drawn at random."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from data.pairs.records import PairKind, PairSet
from data.pairs.store import keep
from models.sources import ModelSource
from tests.language.tiny_bert import PEAR, SHIP, written
from tests.views.driving import opened, run
from views.words import catalog

pytestmark = pytest.mark.slow
EN = catalog("en")
HOSTILE = "<img src=x onerror=alert(1)> **배** 나는 배"


def page() -> None:
    from views.language import inside

    inside.draw()


@pytest.fixture
def model(tmp_path: Path) -> str:
    written(tmp_path / "tiny")
    return str(tmp_path / "tiny")


def texts(app: AppTest) -> str:
    kinds = (app.markdown, app.caption, app.error, app.warning, app.info)
    return "\n".join(one.value.replace("\\", "") for kind in kinds for one in kind)


def test_where_nothing_is_at_hand_a_hub_model_is_offered_and_fetched_by_a_click_alone() -> None:
    app = opened(page)
    assert app.selectbox(key="network_en").value == "klue/roberta-base"
    assert "fetched once" in texts(app)
    assert not app.error
    app.button(key="fetch_network").click()
    run(app)
    assert "hub cannot be reached" in texts(app)


def test_a_word_in_its_sentences_is_one_point_in_the_table_and_apart_in_the_layers(model: str) -> None:
    app = opened(page, network=model)
    assert "mean cosine **1.00**" in texts(app)
    assert "3 occurrences" in texts(app)
    by_layer = app.dataframe[2].value
    assert by_layer["layer"].tolist() == ["table", "0", "1", "2"]
    assert by_layer["value"][0] == pytest.approx(1)
    assert by_layer["value"][2] < 0.99
    lowest = by_layer["layer"][by_layer["value"].idxmin()]
    assert app.select_slider(key="layer_en").value == lowest
    cosines = app.dataframe[0].value.to_numpy()
    assert (cosines.sum() - 3) / 6 == pytest.approx(by_layer["value"].min())


def test_sentences_are_typed_and_lie_in_the_address(model: str) -> None:
    app = opened(page, network=model)
    app.text_area(key="typed_contexts").set_value(f"{SHIP}\n나는 담배를 탔다")
    run(app)
    assert app.query_params["contexts"] == f"{SHIP}\n나는 담배를 탔다"
    assert app.dataframe[1].value["pieces"].tolist() == ["배", "담배"]
    assert "part of a longer piece (‘담배’)" in texts(app)
    app.text_area(key="typed_contexts").set_value(f"{SHIP}\n사과를 먹었다")
    run(app)
    assert "“배” is not in this sentence: “사과를 먹었다”" in texts(app)


def test_a_sentence_is_never_html_nor_markdown(model: str) -> None:
    app = opened(page, network=model, contexts=HOSTILE, word="**배**")
    assert "“**배**” occurs once" in texts(app)
    (answer,) = [one.value for one in app.markdown if "occurs once" in one.value]
    assert "\\*\\*배" in answer
    assert not app.get("html")


def test_the_head_that_looks_most_at_the_target_is_chosen(model: str) -> None:
    app = opened(page, network=model, inside="attention", attended=f"{SHIP}\n{PEAR}", target="next")
    heads = app.dataframe[-1].value
    assert heads["next"].is_monotonic_decreasing
    first = heads.iloc[0]
    assert app.selectbox(key="attention_layer_en").value == str(int(first["layer"]))
    assert app.selectbox(key="attention_head_en").value == str(int(first["head"]))
    assert f"**{first['next'] / 100:.0%}** of its attention" in texts(app)
    weights = app.dataframe[0].value
    assert [*weights.columns][:3] == ["1 [CLS]", "2 항구", "3 에서"]
    assert weights.sum(axis=1).tolist() == pytest.approx([1] * 8, abs=1e-5)


def test_two_models_fill_the_same_gap_side_by_side(model: str, tmp_path: Path) -> None:
    written(tmp_path / "other", seed=1)
    app = opened(page, network=str(tmp_path / "other"))
    app.query_params.update({"network": model, "inside": "fill_mask", "masked": "항구에서 [MASK]를 탔다"})
    run(app)
    (pills,) = app.get("button_group")
    pills.set_value([str(tmp_path / "other")])
    run(app)
    tables = [one.value for one in app.dataframe]
    assert [len(one) for one in tables] == [10, 10]
    assert tables[0]["piece"].tolist() != tables[1]["piece"].tolist()
    assert tables[0]["probability"].is_monotonic_decreasing
    assert "fills the gap with" in texts(app)


def test_a_model_without_the_head_says_so_in_the_persons_language(tmp_path: Path) -> None:
    bare: ModelSource = written(tmp_path / "bare", head=False)
    app = opened(page, network=bare.reference, inside="fill_mask")
    assert "has no head that tells masked pieces" in texts(app)
    app.query_params["lang"] = "ko"
    run(app)
    assert "출력층이 없습니다" in texts(app)


def test_layers_are_measured_by_a_click_alone(model: str) -> None:
    sides = [[SHIP, PEAR, "나는 배"], [PEAR, "사과를 먹었다", SHIP]]
    keep(PairSet.of("few", PairKind.SCORED, sides, [1, 4, 2], published=[2] * 3, scale=(0, 5)))
    app = opened(page, network=model, inside="layers")
    assert not app.dataframe
    app.button(key="measure_layers").click()
    run(app)
    (table,) = [one.value for one in app.dataframe]
    assert table.shape == (3, 4)
    assert "3 pairs" in texts(app)


def test_a_model_that_is_nowhere_is_told() -> None:
    app = opened(page, network="no/such/model/at/all")
    assert "There is no folder, finished training or hub model called “no/such/model/at/all”" in texts(app)
