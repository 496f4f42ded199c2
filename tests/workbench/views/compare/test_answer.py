"""The headline of the Compare page: the recommended retriever, the gain of a training, missing judgements."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.workspace import workspace
from mrc_workbench.retrieval.analysis.evidence import evidence
from mrc_workbench.retrieval.comparison.compare import Result
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.measures import DEFAULT_KS, Measure
from mrc_workbench.retrieval.report import charts as report_charts
from mrc_workbench.retrieval.report.words import catalog as report_words
from mrc_workbench.retrieval.report.words import display_name, markdown_style, recommend, write_headline
from mrc_workbench.retrieval.significance import question_groups
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.workbench.views import choices as choices_module
from mrc_workbench.workbench.views.compare import overview
from mrc_workbench.workbench.views.compare.page import _files
from mrc_workbench.workbench.views.compare.scores import ComparisonView
from mrc_workbench.workbench.views.resources.retrieval import open_comparison
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.search import judging
from mrc_workbench.workbench.views.ui.words import LANGUAGES, catalog
from tests.doubles import small_set
from tests.retrieval.compared import LATE, RIGHT, comparison_of, many_questions, partly_judged, repeated
from tests.workbench.views.compare.worlds import page, page_text, press, store_results, store_rows
from tests.workbench.views.driving import opened, texts
from tests.workbench.views.test_choices import finished

RowsByRetriever = Mapping[str, Sequence[Sequence[int]]]
COPIES = 8  # with six questions, the difference of both rankings is significant
MAYBE = "is 2.1 points above the untrained **Dense**, which may be chance"
SAME = "and gives the same result as **BM25** on every question"
BELOW = "the trained **Dense · mine** is 83.3 points below **BM25**"


def compared(data: StoredSet, rows_by_name: RowsByRetriever) -> None:
    """Store the comparison that the page opens: these rows for every question, or for each of six questions."""
    dataset_questions = question_set(data.key)
    experiment = choices_module.choices_for(data).experiment(data, list(rows_by_name), Part.ALL)
    count = len(dataset_questions.questions)
    needed = dict.fromkeys(spec.name for spec in experiment.retriever if spec.name not in rows_by_name)
    rows = {name: repeated(rows, count // len(rows)) for name, rows in rows_by_name.items()}
    store_rows(data, rows | needed, dataset_questions)


@pytest.fixture
def data() -> StoredSet:
    return save_question_set(many_questions(COPIES)[0])


def open_comparison_page(*names: str, **more: str) -> AppTest:
    return opened(page, retrievers="|".join(names), part="all", **more)


def comparison_page_text(data: StoredSet, rows_by_name: RowsByRetriever) -> str:
    compared(data, rows_by_name)
    return page_text(open_comparison_page(*rows_by_name, measure="recall", k="1", data=data.key))


EVERY = repeated(RIGHT, COPIES)
ALMOST = [[3, 0], *EVERY[1:]]  # one of 48 questions is lost

TRAINED = {"BM25": LATE, "Dense": LATE, "Dense · mine": RIGHT}
SURELY = (
    r"On Recall@1, the trained **Dense · mine** is 83.3 points above the untrained **Dense**",
    "and is 83.3 points above **BM25** (95%: ",
    "over 48 questions",
    "Use **Dense · mine**: Recall@1 91.7; 83.3 points above BM25 (95%: ",
)


@pytest.mark.parametrize(
    ("rows_by_name", "says"),
    [
        (TRAINED, SURELY),
        ({"BM25": EVERY, "Dense": ALMOST, "Dense · mine": EVERY}, (MAYBE, SAME)),
        ({"BM25": RIGHT, "Dense · mine": LATE}, (BELOW, "Select the untrained **Dense** too")),
    ],
    ids=["surely", "by chance", "without what it was"],
)
def test_reports_gain_and_lead_over_bm25(data: StoredSet, rows_by_name: RowsByRetriever, says: tuple[str, ...]) -> None:
    finished(BI_ENCODER, "mine", data)
    text = comparison_page_text(data, rows_by_name)
    assert [sentence for sentence in says if sentence not in text] == []


def test_reports_gain_over_unselected_base_model(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(BI_ENCODER, "mine", data)
    compared(data, TRAINED)
    text = page_text(open_comparison_page("BM25", "Dense · mine", measure="recall", k="1"))
    assert "83.3 points above the untrained **Dense**" in text
    assert "Select the untrained" not in text
    looks = dict[str, dict[str, Any]]()
    monkeypatch.setattr(overview.charts, "draw_chart", lambda make, *_, **look: looks.update({make.__name__: look}))
    open_comparison_page(*TRAINED, measure="recall", k="1")
    assert looks["curves"]["dashed"] == ["Dense"]


def test_suggests_first_k_that_separates_retrievers(data: StoredSet) -> None:
    rows_by_name = {"BM25": LATE, "Dense": RIGHT}
    compared(data, rows_by_name)
    app = open_comparison_page(*rows_by_name, measure="recall")
    text = page_text(app)
    assert "Use **Dense**: Recall@1 91.7; 83.3 points above BM25 (95%: " in text
    assert "All retrievers score above 99% on Recall@10, so this page shows Recall@1 instead." in text
    assert "k" not in app.query_params  # not selected by default
    selected = open_comparison_page(*rows_by_name, measure="recall", k="10")
    assert "All retrievers score above 99% on Recall@10" in page_text(selected)
    selected.button(key="finer").click()
    assert "Use **Dense**: Recall@1 91.7; 83.3 points above BM25" in page_text(selected.run())


def test_ndcg_at_10_leads_until_another_metric_is_selected(data: StoredSet) -> None:
    rows_by_name = {"BM25": LATE, "Dense": RIGHT}
    compared(data, rows_by_name)
    app = open_comparison_page(*rows_by_name)
    assert "Use **Dense**: nDCG@10 100.0; 32.1 points above BM25" in page_text(app)
    app.selectbox(key="measure_en").set_value("mrr")
    assert "Use **Dense**: MRR@10 100.0" in page_text(app.run())
    assert app.query_params["measure"] == "mrr"


@pytest.mark.parametrize("language", LANGUAGES)
def test_report_and_page_have_equal_headline(language: str, data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_charts, "can_render", lambda: False)
    rows_by_name = {"BM25": LATE, "Dense": RIGHT, "Hybrid": RIGHT}
    compared(data, rows_by_name)
    app = open_comparison_page(*rows_by_name, measure="mrr", lang=language)
    opened_comparison = open_comparison(data.key, next((workspace() / "comparisons").iterdir()))
    assert opened_comparison is not None
    results = tuple(item for item in opened_comparison.comparison.results if item.name in rows_by_name)
    names = tuple(item.name for item in opened_comparison.comparison.results)
    view = ComparisonView(data, opened_comparison, results, names, "mrr", 10, "BM25")
    assert view.recommendation is not None
    interval = opened_comparison.intervals["Dense"]["mrr@10"]
    (answer,) = re.findall(r'<div class="answer"><p>(.*?)</p>', _files(view, language)["report"][0]())
    style = markdown_style(language, lambda name: display_name(name, language))
    words = write_headline(view.recommendation, style, interval).answer
    assert re.sub("</?b>", "**", answer) == words
    assert "Dense" in words
    headline = next(item.value for item in app.markdown if "MRR@10" in item.value)
    numbers = re.findall(r"[0-9]+\.[0-9]+", headline)
    assert numbers == re.findall(r"[0-9]+\.[0-9]+", words)


def test_states_difference_from_best_once() -> None:
    question_set = many_questions(COPIES)[0]
    results = comparison_of({"BM25": EVERY, "Dense": EVERY, "LSA": ALMOST}, question_set, DEFAULT_KS, depth=100)
    seconds = {"BM25": 2.0, "Dense": 3.0, "LSA": 1.0}
    timed = tuple(replace(result, query_seconds=seconds[result.name]) for result in results.results)
    comparison = replace(results, results=timed)
    tests = evidence(comparison).tests
    for baseline, notes in (("BM25", 0), ("Dense", 1)):
        groups = question_groups(question_set)
        recommendation = recommend(comparison, Measure("ndcg", 10), tests, baseline=baseline, groups=groups)
        assert recommendation is not None
        assert (recommendation.name, recommendation.best) == ("LSA", "BM25")
        words = write_headline(recommendation, markdown_style("en", lambda name: name))
        assert len(words.notes) == notes, words


def test_omits_word_bm25_from_charts_and_pairs(monkeypatch: pytest.MonkeyPatch, data: StoredSet) -> None:
    monkeypatch.setattr(choices_module, "_suited_analyzer", lambda *_: Analyzer.KIWI_BIGRAM)
    rows_by_name = {"BM25": LATE, "Dense": LATE, "BM25 words": RIGHT}
    compared(data, rows_by_name)
    assert isinstance(choices_module.choices_for(data).specs["BM25 words"], BM25Spec)
    app = open_comparison_page(*rows_by_name, measure="recall", k="1")
    text = page_text(app)
    assert "Use **BM25 words**: Recall@1 91.7" in text  # the best selected retriever is always named
    assert "BM25 words: only a starting point, so shown in the table but not in the charts." in text
    assert "BM25 words" in app.dataframe[0].value["retriever"].tolist()
    assert "the question they disagree on most" not in text  # the two best agree on all questions


def test_displays_disputed_question_of_bm25_and_dense_with_answers(data: StoredSet) -> None:
    rows_by_name = {"BM25": LATE, "Dense": RIGHT, "Hybrid": RIGHT, "Reranked": LATE}
    text = comparison_page_text(data, rows_by_name)
    assert "BM25 · Dense: the question they disagree on most" in text
    assert "Answer: **" in text
    small = small_set()
    question_set = replace(small, questions=tuple(replace(question, answers=()) for question in small.questions))
    text = comparison_page_text(save_question_set(question_set), {"BM25": LATE, "Dense": RIGHT})
    assert "the question they disagree on most" in text
    assert "****" not in text
    assert "Answer:" not in text


def test_reports_disadvantaged_retriever_with_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    question_set, compared = partly_judged(DEFAULT_KS, depth=100)
    data = save_question_set(question_set)
    words = catalog("ko")
    by_name = dict(zip(choices_module.choices_for(data).specs, compared.results, strict=False))
    results: list[Result] = [replace(result, name=name) for name, result in by_name.items()]
    folder = store_results(data, by_name, question_set, results)
    app = opened(page, lang="ko", comparison=folder.name, data=data.key)
    best, behind = by_name
    warning = words["compare.behind"].format(names=f"{behind} (60%)", best=best, share="100", k=10)
    few = report_words("ko")["split.few_compared"].format(count=12, fewest=20)
    assert [element.value.replace("\\", "") for element in app.warning] == [few, warning]
    table = next(element.value for element in app.dataframe if "unjudged" in element.value).set_index("retriever")
    assert table["unjudged"].to_dict() == pytest.approx({best: 0, behind: 40})
    assert table["judged@10"].to_dict() == pytest.approx({best: 100, behind: 60})
    assert {"bpref@100", "ndcg_exp@10"} <= {*table.columns}
    assert words["compare.graded"].format(grade=1) in texts(app)
    went: list[dict[str, str]] = []
    monkeypatch.setattr(judging, "open_page", lambda _, **address: went.append(address))
    press(app, "pool_begin")
    assert went == [{"data": data.key, "pool": folder.name, "pool_n": "12", "pool_k": "10"}]
    by_grades = opened(page, comparison=folder.name, data=data.key, measure="ndcg_exp")
    assert by_grades.query_params["measure"] == "ndcg_exp"


def test_offers_relevance_grades_if_several_exist(started: list[Experiment]) -> None:
    question_set, _ = partly_judged()
    mixed = replace(question_set.questions[0], grades=((question_set.questions[0].relevant[0], 1),))
    data = save_question_set(replace(question_set, questions=(mixed, *question_set.questions[1:])))
    app = opened(page, data=data.key, grade="2")
    assert app.selectbox(key="grade_en").options == ["1", "2"]
    assert [item.relevance_level for item in started] == [2]
    opened(page, data=data.key, grade="7")
    assert [item.relevance_level for item in started] == [2, 1], "what is no grade of the set is the usual one"
    plain = opened(page, data=save_question_set(small_set()).key)
    assert not [item for item in plain.selectbox if item.key == "grade_en"]


def test_reports_judgements_of_only_relevant_passages() -> None:
    data = save_question_set(small_set())
    names = [*choices_module.choices_for(data).specs][:2]
    folder = store_rows(data, dict.fromkeys(names, RIGHT))
    app = opened(page, comparison=folder.name, data=data.key, measure="ndcg_exp")
    assert catalog("en")["compare.only_relevant"] in texts(app)
    assert not [element for element in app.dataframe if "unjudged" in element.value]
    assert app.query_params["measure"] == "ndcg", "there is no other gain without grades"
    assert app.button(key="pool_begin")
