"""Retrievers added on the Compare page: models and runs, selected at once, shared by all browsers, removable."""

from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import StoredSet
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.retrieval.comparison.experiment import Experiment, RunSpec, added_retrievers
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec, MilvusSpec, SparseSpec
from mrc_workbench.retrieval.comparison.multistage import BM25_NAME, RerankSpec
from mrc_workbench.retrieval.milvus import MilvusSearchMode
from mrc_workbench.retrieval.trec import read_run
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderOptions
from mrc_workbench.training.runs import create_run, new_plan
from mrc_workbench.workbench.views import choices
from mrc_workbench.workbench.views.ui.words import catalog, plain
from tests.doubles import small_set
from tests.workbench.views.compare.worlds import page, press
from tests.workbench.views.driving import opened, run


def trained(name: str) -> str:
    """Store a finished training of a bi-encoder on another dataset; returns its id."""
    of = ("0" * 16, "another dataset", "0" * 64)
    training_run = create_run(new_plan(BI_ENCODER, name, of, SplitOptions(), BiEncoderOptions()))
    training_run.write_status(replace(training_run.status(), state=State.DONE))
    return training_run.id


def press_add(app: AppTest) -> AppTest:
    return press(app, catalog("en")["compare.add_this"])


def type_model(app: AppTest, kind: str, model: str) -> AppTest:
    """Enter a model that is no option, as a browser can; `AppTest` accepts only options."""
    box = app.selectbox(key=f"add_{kind}_model")
    box.options.append(model)
    box.set_value(model)
    return run(app)


def add_model(app: AppTest, kind: str, model: str) -> AppTest:
    app.selectbox(key="add_kind").set_value(kind)
    run(app)
    type_model(app, kind, model)
    return press_add(app)


def add_run(app: AppTest, name: str, content: str) -> AppTest:
    app.selectbox(key="add_kind").set_value("run")
    run(app)
    app.file_uploader[0].upload(name, content.encode())
    run(app)
    return press_add(app)


def test_adds_selects_and_shares_models(data: StoredSet, started: list[Experiment]) -> None:
    app = add_model(opened(page, retrievers="BM25"), "dense", "some/model")
    app = add_model(app, "rerank", "/folders/some/model")
    app = add_model(app, "sparse", "some/splade")
    expected_names = [
        DenseSpec(name="Dense · model", model="some/model", windows=True),
        RerankSpec(name="Reranked · model", first_stage=BM25_NAME, model="/folders/some/model", windows=True),
        SparseSpec(name="Sparse · splade", model="some/splade"),
    ]
    assert added_retrievers(data.fingerprint) == expected_names
    names = ["BM25", "Dense · model", "Reranked · model", "Sparse · splade"]
    assert app.query_params["retrievers"] == "|".join(names)
    assert list(app.pills[0].value) == names
    assert [spec.name for spec in started[-1].retriever] == names
    other = opened(page)
    unknown = catalog("en")["compare.time_unknown"]  # other models need a download
    assert other.pills[0].options[-3:] == [f"{name} · {unknown}" for name in names[1:]]


def test_selects_window_lengths(data: StoredSet) -> None:
    app = run(opened(page, retrievers="BM25"))
    app.number_input(key="add_window_tokens").set_value(100)
    app.number_input(key="add_stride").set_value(200)
    run(app)
    assert catalog("en")["compare.stride_too_long"] in [error.value for error in app.error]
    app.number_input(key="add_stride").set_value(50)
    add_model(app, "dense", "some/model")
    (spec,) = added_retrievers(data.fingerprint)
    assert spec == DenseSpec(name="Dense · model", model="some/model", windows=True, window_tokens=100, stride=50)
    app.checkbox(key="add_windows").set_value(False)
    app = add_model(run(app), "rerank", "some/model")
    expected = RerankSpec(name="Reranked · model", first_stage=BM25_NAME, model="some/model")
    assert added_retrievers(data.fingerprint)[1] == expected


def test_offers_and_adds_local_models_by_name(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "installed_base", lambda: DEFAULT)
    model = trained("My encoder")
    app = opened(page, retrievers="BM25")
    (box,) = [element for element in app.selectbox if element.key == "add_dense_model"]
    assert box.options[0].startswith(DEFAULT.name)
    assert any("My encoder" in option for option in box.options)
    assert box.proto.accept_new_options
    assert "intfloat/multilingual-e5-base" in box.proto.placeholder
    box.set_value(model)
    press_add(run(app))
    (spec,) = added_retrievers(data.fingerprint)
    assert (spec.name, dict(spec)["model"]) == ("Dense · My encoder", model)


@pytest.mark.usefixtures("data")
def test_disabled_button_explains_missing_model() -> None:
    app = opened(page, retrievers="BM25")
    for kind in ("dense", "sparse", "rerank"):
        app.selectbox(key="add_kind").set_value(kind)
        run(app)
        assert any(catalog("en")["adding.needs_model"] in element.value for element in app.caption)
        assert next(element for element in app.button if element.label == catalog("en")["compare.add_this"]).disabled
        type_model(app, kind, "some/model")
        assert not any(catalog("en")["adding.needs_model"] in element.value for element in app.caption)


def test_adds_milvus_with_and_without_model(data: StoredSet, started: list[Experiment]) -> None:
    app = opened(page, retrievers="BM25")
    app.selectbox(key="add_kind").set_value("milvus")
    press_add(run(app))
    assert [spec.name for spec in started[-1].retriever] == ["BM25", "Milvus · BM25"]
    next(box for box in app.selectbox if box.label == "Search with").set_value(MilvusSearchMode.HYBRID)
    run(app)
    press_add(app)
    press_add(type_model(app, "dense", "some/model"))
    assert added_retrievers(data.fingerprint) == [
        MilvusSpec(name="Milvus · BM25"),
        MilvusSpec(name="Milvus · Hybrid", search=MilvusSearchMode.HYBRID),
        MilvusSpec(name="Milvus · Hybrid · model", search=MilvusSearchMode.HYBRID, model="some/model"),
    ]


def test_reads_run_at_once_and_stores_it_under_another_name(data: StoredSet) -> None:
    app = add_run(opened(page, retrievers="BM25"), "나의 | 결과.trec", "q1 Q0 p1 1 2.5 x\nq9 Q0 p1 1 1 x\n")
    (spec,) = added_retrievers(data.fingerprint)
    assert isinstance(spec, RunSpec)
    assert spec.name == "Run · 나의 / 결과"
    assert "결과" not in spec.path
    assert app.query_params["retrievers"] == f"BM25|{spec.name}"
    assert not app.error
    assert read_run(Path(spec.path), small_set())[1].questions == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("q1 Q0 p1 1 2.5 x\nq1 Q0 p2 2 high x\n", "line 2 has the wrong format."),
        ("q7 Q0 p1 1 2.5 x\n", "the file has no question or no passage of this dataset."),
        ("", "this is not a UTF-8 run file."),
    ],
)
def test_rejects_invalid_run(data: StoredSet, content: str, says: str) -> None:
    app = add_run(opened(page, retrievers="BM25"), "*bad*.txt", content)
    (error,) = app.error
    assert error.value.startswith(r"**\*bad\*\.txt**: " + plain(says))
    assert added_retrievers(data.fingerprint) == []
    assert app.query_params["retrievers"] == "BM25"


def test_numbers_equal_models_and_removes_added_ones(data: StoredSet) -> None:
    app = add_model(opened(page, retrievers="BM25"), "dense", "some/model")
    add_model(app, "dense", "some/model")
    assert [spec.name for spec in added_retrievers(data.fingerprint)] == ["Dense · model", "Dense · model (2)"]
    press(app, "remove_Dense · model (2)")
    press(app, "remove_Dense · model")
    assert added_retrievers(data.fingerprint) == []
    assert "Dense · model" not in app.pills[0].options
    assert app.query_params["retrievers"] == "BM25"
