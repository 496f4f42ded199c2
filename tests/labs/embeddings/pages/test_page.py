"""The Embeddings page over handmade evaluations: models, training data, and the way from models to retrievers."""

import json

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.pairs import PairSet
from mrc_workbench.data.pairs.store import StoredPairs, save_pairs, stored
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.workspace import workspace, write_json
from mrc_workbench.labs.embeddings.encoder import add_model
from mrc_workbench.labs.embeddings.pages import page as page_module
from mrc_workbench.labs.embeddings.results import EmbeddingRequest, EvaluationRequest
from mrc_workbench.models.sources import DEFAULT_BI_ENCODER, STARTER
from mrc_workbench.retrieval.comparison import experiment as experiment_store
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec
from mrc_workbench.retrieval.comparison.store import ComparisonJob, save_comparison
from mrc_workbench.workbench.views import choices
from mrc_workbench.workbench.views.ui.words import catalog
from tests.doubles import small_set
from tests.labs.embeddings.pages import worlds
from tests.labs.embeddings.pages.worlds import HUB, LIKE_NOBODY, LIKE_PEOPLE, page, result, store_evaluation
from tests.labs.embeddings.worlds import scored_pairs
from tests.retrieval.compared import LATE, RIGHT, comparison_of
from tests.workbench.views.driving import opened, run, table_with, texts

pytestmark = pytest.mark.usefixtures("started")
EN = catalog("en")


def test_first_visit_stores_samples_and_waits_for_button(started: list[EmbeddingRequest]) -> None:
    app = opened(page)
    assert [pairs.source for pairs in stored()] == ["sample-sts", "sample-nli"]
    assert app.selectbox(key="pairs_en").value == stored()[0].key
    assert started == []
    (measure,) = [button for button in app.button if button.label == EN["embeddings.start"]]
    measure.click()
    run(app)
    assert started == [EvaluationRequest(data=stored()[0].key, models=("starter",), part=Part.TEST)]


def open_with_two_models(starter: np.ndarray = LIKE_NOBODY, **address: str) -> AppTest:
    data = store_evaluation(worlds.scored_set(), result("starter", starter), result(HUB, LIKE_PEOPLE))
    return opened(page, pairs=data.key, models=f"starter|{HUB}", **address)


def test_answer_shows_best_model_and_buttons() -> None:
    app = open_with_two_models()
    (answer,) = [element.value for element in app.markdown if "agrees best with human ratings" in element.value]
    assert "KR" in answer
    assert "Spearman 98.8" in answer
    assert "starter" not in answer.split("against")[0]
    assert "not sure" not in answer
    buttons = [(button.proto.type, button.label) for button in app.button if button.proto.form_id == ""]
    search = EN["embeddings.to_compare_several"].format(count=2)
    primary = [label for kind, label in buttons if kind == "primary"]
    assert primary == [search, EN["compare.add_this"]]  # "Add" is inside a closed popover
    assert [label for kind, label in buttons if kind == "tertiary"] == [EN["embeddings.again"]]
    (pills,) = [item for item in app.get("button_group") if item.label == EN["embeddings.models"]]
    names = [option.content.replace("\\", "") for option in pills.proto.options]
    assert [item.endswith("to be downloaded") for item in names] == [False, True]
    downloads = {element.proto.label for element in app.get("download_button")}
    assert {EN["embeddings.csv"], EN["embeddings.json"]} <= downloads


def test_table_has_metrics_with_intervals_best_first_and_hides_some_columns() -> None:
    frame = open_with_two_models().dataframe[0]
    correlations = ["spearman", "spearman_interval", "pearson", "pearson_interval"]
    assert [*frame.proto.column_order] == ["model", *correlations, "alignment", "uniformity", "seconds"]
    assert {"anisotropy_interval", "dimensions"} <= {*frame.value}
    table = frame.value
    assert [*table["model"]] == [HUB, EN["train.starter"]]
    assert table["spearman"][0] == pytest.approx(100 * (1 - 6 * 2 / (10 * 99)))  # two neighbours change places
    low, high = map(float, table["spearman_interval"][0].split(" – "))
    assert low < table["spearman"][0] < high
    assert table["alignment_interval"][0] == "0.100 – 0.300"
    assert table["dimensions"].tolist() == [4, 4]


@pytest.mark.parametrize(("look", "tab"), [("density", "vectors"), ("cost", "further"), ("wrong", "wrong")])
def test_view_address_opens_its_tab(look: str, tab: str) -> None:
    app = open_with_two_models(look=look)
    assert len(app.tabs) == 5
    assert app.query_params["look"] in (tab, [tab])
    if look != tab:
        assert app.query_params[f"look_{tab}"] in (look, [look])


def test_interval_with_0_is_not_significant() -> None:
    nearly = LIKE_PEOPLE.copy()
    nearly[[5, 6]] = nearly[[6, 5]]
    assert "could be chance" in texts(open_with_two_models(nearly))


def test_reports_failed_model_without_metrics() -> None:
    data = store_evaluation(worlds.scored_set(), result("starter", LIKE_PEOPLE), worlds.failed_result(HUB))
    app = opened(page, pairs=data.key, models=f"starter|{HUB}")
    (message,) = [element.value for element in app.error]
    assert "KR\\-SBERT" in message
    assert "hub is unreachable" in message
    table = app.dataframe[0].value
    assert table["spearman"].isna().tolist() == [False, True]


def test_reports_missing_model_and_shows_others() -> None:
    data = store_evaluation(worlds.scored_set(), result("starter", LIKE_PEOPLE))
    write_json(workspace() / "embeddings" / "models.json", {"models": ["no/such/model/at all"]})
    app = opened(page, pairs=data.key, models="starter|no/such/model/at all")
    assert "failed, so it has no scores" in app.error[0].value
    assert "Spearman" in texts(app)


def test_plain_sentences_have_no_ranking() -> None:
    data = store_evaluation(worlds.sentence_set(), result("starter", LIKE_PEOPLE[:0]), part=Part.ALL)
    app = opened(page, pairs=data.key, pairs_part="all", models="starter")
    assert EN["embeddings.answer_none"] in texts(app)
    table = app.dataframe[0].value
    assert "spearman" not in table
    assert table["uniformity"][0] == -1


def test_selected_metric_is_in_address() -> None:
    app = open_with_two_models(**{"figure": "pearson"})  # an address of an earlier version
    assert app.query_params["metric"] in ("pearson", ["pearson"])
    (answer,) = [element.value for element in app.markdown if "agrees best with human ratings" in element.value]
    assert "Pearson" in answer


def test_ignores_unreadable_evaluation() -> None:
    data = store_evaluation(worlds.scored_set(), result("starter", LIKE_PEOPLE))
    (path,) = (workspace() / "embeddings").glob("*/scores.json")
    path.write_text(json.dumps({"models": 1}), encoding="utf-8")
    app = opened(page, pairs=data.key, models="starter")
    assert not app.dataframe


@pytest.fixture
def unpublished_set() -> StoredPairs:
    """A set without a published split."""
    pairs = scored_pairs()
    texts = [[*column] for column in pairs.texts]
    return save_pairs(PairSet.from_columns("unpublished", pairs.kind, texts, pairs.values, scale=pairs.scale))


def test_offers_existing_bi_encoders_with_distinct_names(unpublished_set: StoredPairs) -> None:
    run = worlds.create_finished_run(unpublished_set)
    worlds.create_finished_run(unpublished_set, kind="cross-encoder")
    add_model("a/model")
    models = page_module.available_models()
    assert [*models.names] == [STARTER, DEFAULT_BI_ENCODER, run.id, "a/model"]
    assert models.names[run.id] == "Mine"
    assert models.default_selection == (STARTER, run.id)
    assert models.added == ("a/model",)
    add_model("a/starter")
    add_model("b/starter")
    names = [*page_module.available_models().names.values()]
    assert len(names) == len(set(names))
    assert page_module.model_error("no/such/folder") is not None
    assert page_module.model_error(DEFAULT_BI_ENCODER) is None


def test_has_seen_training_part_and_other_splits(unpublished_set: StoredPairs) -> None:
    run = worlds.create_finished_run(unpublished_set)
    assert page_module.has_seen(run, unpublished_set, Part.TRAIN)
    assert page_module.has_seen(run, unpublished_set, Part.ALL)
    assert not page_module.has_seen(run, unpublished_set, Part.TEST)
    assert not page_module.has_seen(run, save_pairs(worlds.scored_set()), Part.TRAIN)
    other_split = worlds.create_finished_run(unpublished_set, SplitOptions(seed=1))
    assert page_module.has_seen(other_split, unpublished_set, Part.TEST)
    published = save_pairs(worlds.scored_set())  # all of it published for testing
    assert not page_module.has_seen(worlds.create_finished_run(published, SplitOptions(seed=1)), published, Part.TEST)


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> StoredSet:
    """A question set in use; no comparison of it starts."""
    monkeypatch.setattr(ComparisonJob, "start", lambda *_: None)
    monkeypatch.setattr(choices, "_suited_analyzer", lambda *_: Analyzer.WORD)
    return save_question_set(small_set())


def test_adds_missing_dense_retrievers(questions: StoredSet) -> None:
    names = {STARTER: "Starter", HUB: "an | encoder"}
    models = page_module.AvailableModels(names, (), (), {})
    assert page_module.retriever_names([STARTER, HUB], models, questions) == ["Dense", "Dense · an / encoder"]
    (spec,) = experiment_store.added_retrievers(questions.fingerprint)
    assert spec == DenseSpec(name="Dense · an / encoder", model=HUB, windows=True)
    assert page_module.retriever_names([HUB], models, questions) == ["Dense · an / encoder"]
    assert len(experiment_store.added_retrievers(questions.fingerprint)) == 1


def test_compares_correlation_with_retrieval(questions: StoredSet) -> None:
    data = store_evaluation(worlds.scored_set(), result("starter", LIKE_NOBODY), result(HUB, LIKE_PEOPLE))
    address = {"pairs": data.key, "models": f"starter|{HUB}", "look": "retrieval"}
    assert EN["embeddings.retrieval_none"] in texts(opened(page, **address))
    specs = (BM25Spec(name="BM25"), DenseSpec(name="Dense"), DenseSpec(name="Mine", model=HUB))
    experiment = Experiment(data=questions.key, retriever=specs)
    experiment_store.add_retriever(questions.fingerprint, DenseSpec(name="Mine", model=HUB))
    by_hand = comparison_of({"BM25": RIGHT, "Dense": LATE, "Mine": RIGHT}, small_set(), experiment.ks)
    comparison = Comparison(experiment, by_hand.question_set, by_hand.results)
    save_comparison(comparison, ComparisonJob.of(experiment, questions.fingerprint).folder)
    app = opened(page, **address)
    table = table_with(app, "value")
    assert set(table["model"]) == {HUB, EN["train.starter"]}
    expected = [100 * comparison.scores[name].means()["ndcg@10"] for name in ("Mine", "Dense")]
    assert table["value"].tolist() == pytest.approx(expected)  # the best by Spearman first
    assert expected[0] == 100
