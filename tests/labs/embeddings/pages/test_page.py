"""The Embeddings page as a person uses it, over evaluations written by hand: which models can be measured, which have
seen what they are measured on, and the way from models of sentences to retrievers and back."""

import json

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.pairs import PairSet
from mrc_workbench.data.pairs.store import StoredPairs, keep, stored
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.store import keep as keep_questions
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.workspace import workspace, write_json
from mrc_workbench.labs.embeddings.encoder import add
from mrc_workbench.labs.embeddings.pages.page import Models, has_seen, models_at_hand, problem_of, retriever_names
from mrc_workbench.labs.embeddings.results import EvaluationRequest, Request
from mrc_workbench.models.sources import DEFAULT_BI_ENCODER, STARTER
from mrc_workbench.retrieval.comparison import experiment as experiment_store
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.retrieval.comparison.store import keep as keep_comparison
from mrc_workbench.workbench.views import choices
from mrc_workbench.workbench.views.ui.words import catalog
from tests.doubles import small_set
from tests.labs.embeddings.pages.worlds import (
    HUB,
    LIKE_NOBODY,
    LIKE_PEOPLE,
    alone,
    failed,
    kept,
    page,
    result,
    scored,
    trained,
)
from tests.labs.embeddings.worlds import scored_pairs
from tests.retrieval.compared import LATE, RIGHT, comparison_of
from tests.workbench.views.driving import opened, run, texts

EN = catalog("en")


def two_models() -> AppTest:
    data = kept(scored(), result("starter", LIKE_NOBODY), result(HUB, LIKE_PEOPLE))
    return opened(page, pairs=data.key, models=f"starter|{HUB}")


def test_first_visit_stores_the_samples_and_measures_only_after_a_press(started: list[Request]) -> None:
    app = opened(page)
    assert [pairs.source for pairs in stored()] == ["sample-sts", "sample-nli"]
    assert app.selectbox(key="pairs_en").value == stored()[0].key
    assert started == []
    (measure,) = [button for button in app.button if button.label == EN["embeddings.start"]]
    measure.click()
    run(app)
    assert started == [EvaluationRequest(data=stored()[0].key, models=("starter",), part=Part.TEST)]


def buttons(app: AppTest, kind: str) -> list[str]:
    return [one.label for one in app.button if one.proto.type == kind and one.proto.form_id == ""]


def test_primary_button_searches_with_the_models_and_measuring_again_is_secondary() -> None:
    app = two_models()
    search = EN["embeddings.to_compare_several"].format(count=2)
    assert buttons(app, "primary") == [search, EN["compare.add_this"]]  # "Add" is inside a closed popover
    assert buttons(app, "tertiary") == [EN["embeddings.again"]]


def test_a_model_that_is_not_on_this_machine_is_told_apart() -> None:
    (pills,) = [one for one in two_models().get("button_group") if one.label == EN["embeddings.models"]]
    told = [option.content.replace("\\", "") for option in pills.proto.options]
    assert [one.endswith("to be downloaded") for one in told] == [False, True]


@pytest.mark.parametrize(("look", "tab"), [("density", "vectors"), ("cost", "further"), ("wrong", "wrong")])
def test_there_are_five_tabs_and_an_address_of_a_view_opens_the_tab_it_lies_in(look: str, tab: str) -> None:
    data = kept(scored(), result("starter", LIKE_NOBODY), result(HUB, LIKE_PEOPLE))
    app = opened(page, pairs=data.key, models=f"starter|{HUB}", look=look)
    assert len(app.tabs) == 5
    assert app.query_params["look"] in (tab, [tab])
    if look != tab:
        assert app.query_params[f"look_{tab}"] in (look, [look])


def test_the_first_table_shows_what_fits_and_holds_every_figure() -> None:
    frame = two_models().dataframe[0]
    assert [*frame.proto.column_order] == [
        "model",
        *("spearman", "spearman_interval", "pearson", "pearson_interval"),
        *("alignment", "uniformity", "seconds"),
    ]
    assert {"anisotropy_interval", "dimensions"} <= {*frame.value}


def test_the_answer_says_who_follows_people_best_and_how_sure_that_is() -> None:
    app = two_models()
    (answer,) = [one.value for one in app.markdown if "agrees best with human ratings" in one.value]
    assert "KR" in answer
    assert "Spearman 98.8" in answer
    assert "starter" not in answer.split("against")[0]
    assert "not sure" not in answer


def test_an_interval_that_holds_0_is_not_sure() -> None:
    nearly = LIKE_PEOPLE.copy()
    nearly[[5, 6]] = nearly[[6, 5]]
    data = kept(scored(), result("starter", nearly), result(HUB, LIKE_PEOPLE))
    app = opened(page, pairs=data.key, models=f"starter|{HUB}")
    assert "could be chance" in texts(app)


def test_every_figure_stands_in_the_table_with_its_interval_the_best_model_first() -> None:
    table = two_models().dataframe[0].value
    assert [*table["model"]] == [HUB, EN["train.starter"]]
    assert table["spearman"][0] == pytest.approx(100 * (1 - 6 * 2 / (10 * 99)))  # two neighbours change places
    low, high = map(float, table["spearman_interval"][0].split(" – "))
    assert low < table["spearman"][0] < high
    assert table["alignment_interval"][0] == "0.100 – 0.300"
    assert table["dimensions"].tolist() == [4, 4]


def test_the_figures_can_be_taken_away() -> None:
    labels = {one.proto.label for one in two_models().get("download_button")}
    assert {EN["embeddings.csv"], EN["embeddings.json"]} <= labels


def test_a_model_that_failed_is_told_by_name_and_has_no_figure() -> None:
    data = kept(scored(), result("starter", LIKE_PEOPLE), failed(HUB))
    app = opened(page, pairs=data.key, models=f"starter|{HUB}")
    (told,) = [one.value for one in app.error]
    assert "KR\\-SBERT" in told
    assert "hub is unreachable" in told
    table = app.dataframe[0].value
    assert table["spearman"].isna().tolist() == [False, True]


def test_a_model_that_is_gone_is_told_and_the_others_are_measured() -> None:
    data = kept(scored(), result("starter", LIKE_PEOPLE))
    write_json(workspace() / "embeddings" / "models.json", {"models": ["no/such/model/at all"]})
    app = opened(page, pairs=data.key, models="starter|no/such/model/at all")
    assert "failed, so it has no scores" in app.error[0].value
    assert "Spearman" in texts(app)


def test_sentences_alone_have_uniformity_and_no_answer_who_is_better() -> None:
    data = kept(alone(), result("starter", LIKE_PEOPLE[:0]), part=Part.ALL)
    app = opened(page, pairs=data.key, pairs_part="all", models="starter")
    assert EN["embeddings.answer_none"] in texts(app)
    table = app.dataframe[0].value
    assert "spearman" not in table
    assert table["uniformity"][0] == -1


def test_the_measure_lies_in_the_address() -> None:
    app = two_models()
    app.query_params["figure"] = "pearson"
    run(app)
    assert "Pearson" in next(one.value for one in app.markdown if "agrees best with human ratings" in one.value)


def test_a_kept_evaluation_that_cannot_be_read_is_measured_anew() -> None:
    data = kept(scored(), result("starter", LIKE_PEOPLE))
    (path,) = (workspace() / "embeddings").glob("*/scores.json")
    path.write_text(json.dumps({"models": 1}), encoding="utf-8")
    app = opened(page, pairs=data.key, models="starter")
    assert not app.dataframe


@pytest.fixture
def drawn() -> StoredPairs:
    """A set of which nothing is published: its parts are drawn."""
    pairs: PairSet = scored_pairs()
    return keep(PairSet.of("drawn", pairs.kind, [[*column] for column in pairs.texts], pairs.values, scale=pairs.scale))


def test_bi_encoders_are_offered_and_rerankers_are_not(drawn: StoredPairs) -> None:
    run = trained(drawn)
    trained(drawn, kind="cross-encoder")
    add("a/model")
    models = models_at_hand()
    assert [*models.names] == [STARTER, DEFAULT_BI_ENCODER, run.id, "a/model"]
    assert models.names[run.id] == "Mine"
    assert models.first_picked == (STARTER, run.id)
    assert models.added == ("a/model",)


def test_a_training_has_seen_its_part_and_may_have_seen_others_of_another_split(drawn: StoredPairs) -> None:
    run = trained(drawn)
    assert has_seen(run, drawn, Part.TRAIN)
    assert has_seen(run, drawn, Part.ALL)
    assert not has_seen(run, drawn, Part.TEST)
    assert not has_seen(run, keep(scored()), Part.TRAIN)
    assert has_seen(trained(drawn, SplitOptions(seed=1)), drawn, Part.TEST)
    published = keep(scored())  # all of it published for testing
    assert not has_seen(trained(published, SplitOptions(seed=1)), published, Part.TEST)


def test_what_is_gone_is_a_problem_and_the_hub_is_asked_by_nobody() -> None:
    assert problem_of("no/such/folder") is not None
    assert problem_of(DEFAULT_BI_ENCODER) is None


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> StoredSet:
    """A question set in use; no comparison of it starts."""
    monkeypatch.setattr(ComparisonJob, "start", lambda *_: None)
    monkeypatch.setattr(choices, "_suited_analyzer", lambda *_: Analyzer.WORD)
    return keep_questions(small_set())


def test_a_model_that_is_no_retriever_yet_becomes_one_and_another_keeps_its_name(questions: StoredSet) -> None:
    names = {STARTER: "Starter", HUB: "an | encoder"}
    models = Models(names, (), (), {})
    assert retriever_names([STARTER, HUB], models, questions) == ["Dense", "Dense · an / encoder"]
    (spec,) = experiment_store.added(questions.fingerprint)
    assert spec == DenseSpec(name="Dense · an / encoder", model=HUB, windows=True)
    assert retriever_names([HUB], models, questions) == ["Dense · an / encoder"]
    assert len(experiment_store.added(questions.fingerprint)) == 1


def test_models_measured_and_searched_with_stand_in_one_picture(questions: StoredSet) -> None:
    data = kept(scored(), result("starter", LIKE_NOBODY), result(HUB, LIKE_PEOPLE))
    address = {"pairs": data.key, "models": f"starter|{HUB}", "look": "retrieval"}
    assert EN["embeddings.retrieval_none"] in texts(opened(page, **address))
    experiment = Experiment(
        data=questions.key,
        retriever=(BM25Spec(name="BM25"), DenseSpec(name="Dense"), DenseSpec(name="Mine", model=HUB)),
    )
    experiment_store.add(questions.fingerprint, DenseSpec(name="Mine", model=HUB))
    by_hand = comparison_of({"BM25": RIGHT, "Dense": LATE, "Mine": RIGHT}, small_set(), experiment.ks)
    comparison = Comparison(experiment, by_hand.question_set, by_hand.results)
    keep_comparison(comparison, ComparisonJob.of(experiment, questions.fingerprint).folder)
    app = opened(page, **address)
    table = next(one.value for one in app.dataframe if "value" in one.value)
    assert set(table["model"]) == {HUB, EN["train.starter"]}
    found = [100 * comparison.scores[name].means()["ndcg@10"] for name in ("Mine", "Dense")]
    assert table["value"].tolist() == pytest.approx(found)  # the best by Spearman first
    assert found[0] == 100


def test_models_of_one_name_are_told_apart() -> None:
    add("a/starter")
    add("b/starter")
    names = [*models_at_hand().names.values()]
    assert len(names) == len(set(names))
