"""From models of sentences to retrievers, and back to a picture of both figures."""

import pytest

from data.store import StoredSet, keep
from models.sources import STARTER
from retrieval.comparison.compare import Comparison
from retrieval.comparison.experiment import Experiment, add, added
from retrieval.comparison.first_stage import BM25Spec, DenseSpec
from retrieval.comparison.store import ComparisonJob
from retrieval.comparison.store import keep as keep_comparison
from tests.doubles import small_set
from tests.retrieval.compared import LATE, RIGHT, comparison_of
from tests.views.driving import opened
from tests.views.embeddings.worlds import HUB, LIKE_NOBODY, LIKE_PEOPLE, kept, page, result, scored, words_of
from text.analyzers import Analyzer
from views import choices
from views.embeddings.page import Models, models_at_hand, retriever_names
from views.ui.words import catalog

EN = catalog("en")


@pytest.fixture(autouse=True)
def _nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ComparisonJob, "start", lambda *_: None)
    monkeypatch.setattr(choices, "_suited_analyzer", lambda *_: Analyzer.WORD)


@pytest.fixture
def questions() -> StoredSet:
    return keep(small_set())


def test_a_model_that_is_no_retriever_yet_becomes_one_and_another_keeps_its_name(questions: StoredSet) -> None:
    names = {STARTER: "Starter", HUB: "an | encoder"}
    models = Models(names, (), (), {})
    assert retriever_names([STARTER, HUB], models, questions) == ["Dense", "Dense · an / encoder"]
    (spec,) = added(questions.fingerprint)
    assert spec == DenseSpec(name="Dense · an / encoder", model=HUB, windows=True)
    assert retriever_names([HUB], models, questions) == ["Dense · an / encoder"]
    assert len(added(questions.fingerprint)) == 1


def test_models_measured_and_searched_with_stand_in_one_picture(questions: StoredSet) -> None:
    data = kept(scored(), result("starter", LIKE_NOBODY), result(HUB, LIKE_PEOPLE))
    address = {"pairs": data.key, "models": f"starter|{HUB}", "look": "retrieval"}
    assert EN["embeddings.retrieval_none"] in words_of(opened(page, **address))
    experiment = Experiment(
        data=questions.key,
        retriever=(BM25Spec(name="BM25"), DenseSpec(name="Dense"), DenseSpec(name="Mine", model=HUB)),
    )
    add(questions.fingerprint, DenseSpec(name="Mine", model=HUB))
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
    from embeddings.encoder import add as add_model

    add_model("a/starter")
    add_model("b/starter")
    names = [*models_at_hand().names.values()]
    assert len(names) == len(set(names))
