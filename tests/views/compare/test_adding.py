"""Retrievers added on the Compare page: models and runs, picked at once, there for another browser, removed again."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from data.store import StoredSet
from retrieval.comparison.experiment import Experiment, added
from retrieval.comparison.first_stage import DenseSpec, MilvusSpec, RunSpec, SparseSpec
from retrieval.comparison.multistage import RerankSpec
from retrieval.milvus.retriever import Search
from retrieval.trec import read_run
from tests.doubles import small_set
from tests.views.compare.worlds import page, press
from tests.views.driving import opened, run
from views.choices import BM25_NAME
from views.ui.words import catalog, plain

pytestmark = pytest.mark.usefixtures("started")


def press_add(app: AppTest) -> AppTest:
    return press(app, catalog("en")["compare.add_this"])


def add_model(app: AppTest, kind: str, model: str) -> AppTest:
    app.selectbox(key="add_kind").set_value(kind)
    run(app)
    next(box for box in app.text_input if box.label == "Model").set_value(model)
    run(app)
    return press_add(app)


def add_run(app: AppTest, name: str, content: str) -> AppTest:
    app.selectbox(key="add_kind").set_value("run")
    run(app)
    app.file_uploader[0].upload(name, content.encode())
    run(app)
    return press_add(app)


def test_models_are_added_picked_and_there_in_another_browser(data: StoredSet, started: list[Experiment]) -> None:
    app = add_model(opened(page, retrievers="BM25"), "dense", "some/model")
    app = add_model(app, "rerank", "/folders/some/model")
    app = add_model(app, "sparse", "some/splade")
    wanted = [
        DenseSpec(name="Dense · model", model="some/model", windows=True),
        RerankSpec(name="Reranked · model", first=BM25_NAME, model="/folders/some/model", windows=True),
        SparseSpec(name="Sparse · splade", model="some/splade"),
    ]
    assert added(data.fingerprint) == wanted
    names = ["BM25", "Dense · model", "Reranked · model", "Sparse · splade"]
    assert app.query_params["retrievers"] == "|".join(names)
    assert list(app.pills[0].value) == names
    assert [spec.name for spec in started[-1].retriever] == names
    other = opened(page)
    unknown = catalog("en")["compare.time_unknown"]  # their models are not on this machine
    assert other.pills[0].options[-3:] == [f"{name} · {unknown}" for name in names[1:]]


def test_how_long_passages_are_read_is_chosen(data: StoredSet) -> None:
    app = run(opened(page, retrievers="BM25"))
    app.number_input(key="add_window_tokens").set_value(100)
    app.number_input(key="add_stride").set_value(200)
    run(app)
    assert catalog("en")["compare.stride_too_long"] in [error.value for error in app.error]
    app.number_input(key="add_stride").set_value(50)
    add_model(app, "dense", "some/model")
    (spec,) = added(data.fingerprint)
    assert spec == DenseSpec(name="Dense · model", model="some/model", windows=True, window_tokens=100, stride=50)
    app.checkbox(key="add_windows").set_value(False)
    app = add_model(run(app), "rerank", "some/model")
    assert added(data.fingerprint)[1] == RerankSpec(name="Reranked · model", first=BM25_NAME, model="some/model")


def test_the_same_model_twice_gets_a_name_of_its_own(data: StoredSet) -> None:
    app = add_model(opened(page), "dense", "some/model")
    add_model(app, "dense", "some/model")
    assert [spec.name for spec in added(data.fingerprint)] == ["Dense · model", "Dense · model (2)"]


def test_milvus_is_added_with_one_press_and_with_a_model(data: StoredSet, started: list[Experiment]) -> None:
    app = opened(page, retrievers="BM25")
    app.selectbox(key="add_kind").set_value("milvus")
    press_add(run(app))
    assert [spec.name for spec in started[-1].retriever] == ["BM25", "Milvus · BM25"]
    next(box for box in app.selectbox if box.label == "What to search with").set_value(Search.HYBRID)
    run(app)
    press_add(app)
    next(box for box in app.text_input if box.label.startswith("Model (")).set_value("some/model")
    press_add(run(app))
    assert added(data.fingerprint) == [
        MilvusSpec(name="Milvus · BM25"),
        MilvusSpec(name="Milvus · Hybrid", search=Search.HYBRID),
        MilvusSpec(name="Milvus · Hybrid · model", search=Search.HYBRID, model="some/model"),
    ]


def test_a_run_is_read_at_once_and_kept_under_another_name(data: StoredSet) -> None:
    app = add_run(opened(page, retrievers="BM25"), "나의 | 결과.trec", "q1 Q0 p1 1 2.5 x\nq9 Q0 p1 1 1 x\n")
    (spec,) = added(data.fingerprint)
    assert isinstance(spec, RunSpec)
    assert spec.name == "Run · 나의 / 결과"
    assert "결과" not in spec.path
    assert app.query_params["retrievers"] == f"BM25|{spec.name}"
    assert not app.error

    assert read_run(Path(spec.path), small_set())[1].questions == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("q1 Q0 p1 1 2.5 x\nq1 Q0 p2 2 high x\n", "line 2 is not in the format of a run."),
        ("q7 Q0 p1 1 2.5 x\n", "the run names no question or no passage of this data."),
        ("", "this is no run in UTF-8."),
    ],
)
def test_a_bad_run_is_told_and_not_added(data: StoredSet, content: str, says: str) -> None:
    app = add_run(opened(page, retrievers="BM25"), "*bad*.txt", content)
    (error,) = app.error
    assert error.value.startswith(r"**\*bad\*\.txt**: " + plain(says))
    assert added(data.fingerprint) == []
    assert app.query_params["retrievers"] == "BM25"


def test_what_was_added_is_removed(data: StoredSet) -> None:
    app = add_model(opened(page, retrievers="BM25"), "dense", "some/model")
    press(app, "remove_Dense · model")
    assert added(data.fingerprint) == []
    assert "Dense · model" not in app.pills[0].options
    assert app.query_params["retrievers"] == "BM25"
