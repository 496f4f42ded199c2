"""The Where tab: slices, lost questions, ceilings, and links from their numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.data.workspace import workspace
from mrc_workbench.retrieval.analysis.questions import Slice, SliceProperty, slice_labels
from mrc_workbench.retrieval.comparison.compare import Comparison, Result
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.store import save_comparison as keep_comparison
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.workbench.views.compare import where
from mrc_workbench.workbench.views.compare.scores import ComparisonView
from mrc_workbench.workbench.views.resources.retrieval import open_comparison
from mrc_workbench.workbench.views.ui.words import catalog
from tests.retrieval.compared import rankings_at
from tests.workbench.views.compare.worlds import press
from tests.workbench.views.driving import run

EN = catalog("en")
KS = (1, 5, 10)
COUNT = 40
KINDS = ["easy"] * 20 + ["hard"] * 20
BM25 = {"name": "BM25", "kind": "bm25"}
DENSE = {"name": "Dense *1*", "kind": "dense"}
HYBRID = {"name": "Hybrid", "kind": "hybrid", "retrievers": ("BM25", "Dense *1*"), "top_k": 5}
RERANKED = {"name": "Reranked", "kind": "rerank", "first_stage": "BM25", "rerank_top_k": 5}
ALL = (BM25, DENSE, HYBRID, RERANKED)
# ranks of each question's passage, 0 if missing: dense loses the hard questions, BM25 ten of all
RANKS = {"BM25": [1] * 15 + [2] * 5 + [1] * 15 + [7] * 3 + [0] * 2, "Dense *1*": [1] * 20 + [3] * 20}
RANKS |= {"Hybrid": [1] * 20 + [2] * 20, "Reranked": [1] * 33 + [3] * 2 + [7] * 3 + [0] * 2}


def questions_of(titles: Sequence[str] = (), kinds: Sequence[str] = ()) -> QuestionSet:
    passages = tuple(Passage(f"p{row}", f"passage {row}", titles[row] if titles else "") for row in range(COUNT))
    kinds = kinds or KINDS
    questions = [Question(f"q{row}", f"question {row}", (), (f"p{row}",), kinds[row]) for row in range(COUNT)]
    return QuestionSet("forty", passages, tuple(questions))


def forty(
    specs: Sequence[Mapping[str, Any]] = ALL, ranks: Mapping[str, Sequence[int]] = RANKS, of: QuestionSet | None = None
) -> StoredSet:
    """Store the forty questions and a comparison."""
    of = of or questions_of()
    data = save_question_set(of)
    results = []
    for spec in specs:
        rankings = rankings_at(ranks[spec["name"]], 10)
        results.append(Result(spec["name"], rankings, evaluate(rankings, of, KS)))
    experiment = Experiment.model_validate({"data": data.key, "ks": KS, "retriever": specs})
    keep_comparison(Comparison(experiment, of, tuple(results)), workspace() / "comparisons" / "0123456789abcdef")
    return data


def page() -> None:
    import streamlit as st

    from mrc_workbench.workbench.views.compare import where as compare_where
    from tests.workbench.views.compare.test_where import comparison_view

    compare_where.draw(comparison_view(st.session_state["data"], st.session_state["k"], st.session_state["picked"]))


def comparison_view(data: StoredSet, k: int, selected: Sequence[str]) -> ComparisonView:
    folder = workspace() / "comparisons" / "0123456789abcdef"
    opened = open_comparison(data.key, folder)
    assert opened is not None
    names = tuple(result.name for result in opened.comparison.results)
    results = tuple(result for result in opened.comparison.results if result.name in (selected or names))
    return ComparisonView(data, opened, results, names, "recall", k, names[0])


@pytest.fixture
def data() -> StoredSet:
    return forty()


@pytest.fixture(scope="module")
def slices_app(tmp_path_factory: pytest.TempPathFactory) -> AppTest:
    """The initial tab of that comparison, shared by tests that only read it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(tmp_path_factory.mktemp("slices")))
        return opened(forty())


def opened(data: StoredSet, *, k: int = 1, selected: Sequence[str] = (), **address: str) -> AppTest:
    app = AppTest.from_function(page, default_timeout=60)
    app.session_state["data"] = data
    app.session_state["k"] = k
    app.session_state["picked"] = list(selected)
    app.query_params.update({"lang": "en", **address})
    return run(app)


def texts(app: AppTest) -> list[str]:
    return [element.value for element in (*app.markdown, *app.caption, *app.info, *app.success)]


def overall_sentences(app: AppTest) -> str:
    """Return the sentences about all slices."""
    (sentence,) = [text for text in texts(app) if "tested together" in text]
    return sentence


def numbers(app: AppTest) -> dict[str, str]:
    """Return the clickable numbers by key."""
    buttons = {button.key or "": button.label for button in app.button}
    return {key: label[len(":primary[") : -1] for key, label in buttons.items() if key.startswith("fate_")}


def test_describes_most_different_slice(slices_app: AppTest) -> None:
    # of the hard questions, BM25 ranks 15 first, the others none
    (sentence,) = [text for text in texts(slices_app) if "points **lower**" in text]
    start = "On “hard” questions, **Dense \\*1\\*** is 75.0 points **lower** than BM25 (95% interval "
    assert sentence.startswith(start)
    assert sentence.endswith("the largest significant difference; all 6 were tested together.")


def test_names_no_slice_if_none_is_significant() -> None:
    # 3 of 20 easy and 4 of 20 hard questions: significant only together
    stored = forty((BM25, DENSE), {"BM25": [1] * 40, "Dense *1*": [2] * 3 + [1] * 17 + [2] * 4 + [1] * 16})
    start = "Over all questions, even the closest retriever, **Dense \\*1\\***, is 17.5 points **lower** than BM25."
    assert overall_sentences(opened(stored)).startswith(start)
    ranks = {"BM25": [1] * 40, "Dense *1*": [2] + [1] * 39, "Hybrid": [1] * 39 + [2]}
    stored = forty((BM25, DENSE, HYBRID), ranks)
    sentence = overall_sentences(opened(stored))
    assert sentence.startswith("No group shows a significant difference from **BM25**")
    others = EN["where.telling_others"].format(first="BM25")  # each is compared only with the baseline
    assert sentence.endswith(f"tested together). {others}")
    assert others not in overall_sentences(opened(stored, selected=("BM25", "Hybrid")))


def test_table_has_every_retriever_on_every_slice(slices_app: AppTest) -> None:
    table = slices_app.dataframe[0].value
    assert list(table["slice"]) == ["easy"] * 4 + ["hard"] * 4
    best_first = ["Reranked", "BM25", "Dense *1*", "Hybrid"]
    assert list(table["retriever"]) == best_first * 2
    assert table["mean"].tolist() == [100, 75, 100, 100, 65, 75, 0, 0]
    assert table["difference"].dropna().tolist() == [25, 25, 25, -10, -75, -75]
    assert table.loc[table["retriever"] == "BM25", "difference"].isna().all()
    assert (table["low"] <= table["mean"]).all()
    assert (table["questions"] == 20).all()


def test_offers_known_properties_and_remembers_choice(data: StoredSet) -> None:
    app = opened(data)
    choice = app.selectbox[0]
    names = ("kind", "question_length", "passage_length", "overlap", "terms_found")
    assert choice.options == [EN[f"where.by_{name}"] for name in names]
    assert (choice.value, app.query_params["slice"]) == ("kind", "kind")
    choice.set_value("question_length")
    run(app)
    assert app.query_params["slice"] == "question_length"
    assert set(app.dataframe[0].value["slice"]) == {"10", "11"}  # question 0 to 9, question 10 to 39
    for unknown in ("article", "nonsense"):
        assert opened(data, slice=unknown).selectbox[0].value == "kind"


def test_defaults_to_word_overlap_without_kinds() -> None:
    app = opened(forty(of=questions_of(kinds=[""] * COUNT)))
    assert app.selectbox[0].value == "overlap"
    assert EN["where.by_kind"] not in app.selectbox[0].options


def test_charts_contested_articles_and_lists_all() -> None:
    stored = forty(of=questions_of(titles=[f"article {row // 2}" for row in range(COUNT)]))
    app = opened(stored, slice="article")
    assert EN["where.charted_differ"].format(charted=12, count=20) in texts(app)
    assert app.dataframe[0].value["slice"].nunique() == 20
    alone = opened(stored, slice="article", selected=["BM25"])
    assert EN["where.charted_largest"].format(charted=12, count=20) in texts(alone)


def test_single_retriever_has_no_difference_and_no_candidates(data: StoredSet) -> None:
    assert EN["where.no_wrapping"] in texts(opened(data, selected=["BM25", "Dense *1*"]))
    app = opened(data, selected=["BM25"])
    assert not [text for text in texts(app) if "tested together" in text or "Difference from" in text]
    assert app.dataframe[0].value["retriever"].tolist() == ["BM25", "BM25"]


def test_range_labels_have_enough_decimals() -> None:
    rows = np.arange(1)
    lengths = [Slice(rows, low=5, high=1200), Slice(rows, low=1201, high=1201)]
    assert slice_labels(lengths, SliceProperty.PASSAGE_LENGTH) == ["5–1,200", "1,201"]
    shares = [Slice(rows, low=0, high=0.5), Slice(rows, low=0.501, high=1)]
    assert slice_labels(shares, SliceProperty.OVERLAP) == ["0–50%", "50–100%"]
    close = [Slice(rows, low=0.501, high=0.502), Slice(rows, low=0.503, high=0.504)]
    assert slice_labels(close, SliceProperty.OVERLAP) == ["50.1–50.2%", "50.3–50.4%"]
    assert slice_labels([Slice(rows, "kind")], SliceProperty.KIND) == ["kind"]


def test_reports_missing_metric(data: StoredSet) -> None:
    app = opened(data, k=20)
    assert EN["where.no_metric"].format(metric="Recall@20") in texts(app)
    assert EN["where.no_fate"].format(k=20) in texts(app)
    assert EN["where.no_wrapping"] in texts(app)


def test_counts_every_lost_question(slices_app: AppTest) -> None:
    assert numbers(slices_app) == {
        "fate_BM25_found": "30 · 75.0%",
        "fate_BM25_below": "8 · 20.0%",
        "fate_BM25_not_found": "2 · 5.0%",
        "fate_Dense *1*_found": "20 · 50.0%",
        "fate_Dense *1*_below": "20 · 50.0%",
        "fate_Hybrid_found": "20 · 50.0%",
        "fate_Hybrid_lost_in_fusion": "20 · 50.0%",  # dense ranks them third
        "fate_Reranked_found": "33 · 82.5%",
        "fate_Reranked_not_a_candidate": "5 · 12.5%",
        "fate_Reranked_lost_in_reranking": "2 · 5.0%",
    }


def test_number_opens_its_questions_without_other_filters(data: StoredSet) -> None:
    app = opened(data, quadrant="both", words="question", question="q3", within="1")
    press(app, "fate_Reranked_lost_in_reranking")
    assert app.query_params["view"] == "why"
    assert (app.query_params["of"], app.query_params["fate"]) == ("Reranked", "lost_in_reranking")
    assert app.session_state["stored_view"] == "why"
    assert not {"quadrant", "words", "question", "within"} & app.query_params.keys()


def test_reports_if_no_question_is_lost() -> None:
    app = opened(forty((BM25,), {"BM25": [1] * 40}))
    assert EN["where.none_lost"].format(k=1) in texts(app)
    assert numbers(app) == {"fate_BM25_found": "40 · 100.0%"}


def test_describes_ceiling_of_order_and_candidates(slices_app: AppTest) -> None:
    sentence = next(text for text in texts(slices_app) if "among its candidates" in text)
    reranked, hybrid = sentence.split("\n")
    values = {"k": 1, "own": "50.0%", "depth": "5 each", "sources": "BM25, Dense \\*1\\*", "ceiling": "100.0%"}
    reached = EN["where.ceiling_reached"].format(name="Hybrid", **values)
    gains = "Better ordering could add up to 50.0 points. More candidates would not help."
    assert hybrid == f"- {reached} {gains}"
    assert "reaches Hit@1 82.5%. For 87.5% of the questions, an answer passage is among its" in reranked
    assert "candidates (5 from BM25). Better ordering could add up to 5.0 points." in reranked
    assert reranked.endswith("More or better candidates could add up to 12.5 points.")


@pytest.mark.parametrize("language", ["ko", "en"])
def test_omits_gain_that_rounds_to_zero(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.workbench.views.ui.words.language", lambda: language)
    row = {"retriever": "Mix", "sources": ("BM25", "Dense"), "depth": 100, "hit": 1.0, "ceiling": 1.0}
    sentence = where.ceiling_words(row, 10)
    words = catalog(language)
    assert sentence.endswith(f"{words['where.ceiling_no_order']} {words['where.ceiling_no_more']}")
    assert "0.0" not in sentence.replace("100.0%", "")


def test_displays_ceiling_table(slices_app: AppTest, data: StoredSet) -> None:
    table = slices_app.dataframe[1].value.set_index("retriever")
    assert table.loc["Reranked", ["depth", "hit", "ceiling"]].tolist() == [5, 82.5, 87.5]
    assert table.loc["Reranked", ["1", "2", "5", "10"]].tolist() == [75, 87.5, 87.5, 95]
    assert table.loc["Hybrid", ["1", "2", "5", "10"]].tolist() == [87.5, 87.5, 100, 100]
    deeper = opened(data, k=10).dataframe[1].value.set_index("retriever")
    assert deeper.loc["Reranked", ["depth", "hit", "ceiling"]].tolist() == [10, 95, 95]  # the first ten always count


@pytest.mark.parametrize("by", SliceProperty)
def test_names_questions_in_text_and_property_in_heading(by: SliceProperty) -> None:
    questions = EN[f"where.on_{by.value}"].format(label="x")
    assert "questions" in questions
    assert EN["where.telling_ahead"].startswith("On {questions}, ")
    heading = EN["compare.by_kind"].format(metric="nDCG@10", by=EN[f"where.grouped_{by.value}"])
    assert heading.startswith("nDCG@10 by ")
    assert heading.removeprefix("nDCG@10 by ").islower()


@pytest.mark.parametrize("by", SliceProperty)
def test_translates_and_escapes_every_slice(by: SliceProperty) -> None:
    stored = forty(of=questions_of(titles=[f"<b>{row // 20}</b>" for row in range(COUNT)]))
    app = opened(stored, lang="ko", slice=by)
    assert app.selectbox[0].value == by
    assert all("<b>" not in text.replace("\\<b\\>", "") for text in texts(app))
