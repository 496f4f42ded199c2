"""The headline of Compare: which retriever to use, what a training brought, of what too little is judged."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet, keep
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.workspace import workspace
from mrc_workbench.retrieval.analysis.evidence import evidence
from mrc_workbench.retrieval.comparison.compare import Result
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.measures import DEFAULT_KS, Measure, evaluate
from mrc_workbench.retrieval.report.words import catalog as report_words
from mrc_workbench.retrieval.report.words import headline_words, markdown_style, recommend, retriever_name
from mrc_workbench.retrieval.significance import question_groups
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.workbench.views import choices as choices_module
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.compare import overview
from mrc_workbench.workbench.views.compare.page import _files
from mrc_workbench.workbench.views.compare.scores import ComparisonView
from mrc_workbench.workbench.views.resources.retrieval import open_comparison
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui.words import LANGUAGES, catalog
from tests.doubles import small_set
from tests.retrieval.compared import LATE, RIGHT, comparison_of, judged_apart, many_questions, rankings_of
from tests.workbench.views.compare.worlds import kept, page, press, said, texts
from tests.workbench.views.driving import opened
from tests.workbench.views.test_choices import finished

Found = Mapping[str, Sequence[Sequence[int]]]
COPIES = 8  # of six questions: enough that right and late are surely apart


def compared(data: StoredSet, found: Found) -> None:
    """Keep the comparison that the page asks for: of these passages, for every question or for each of a copy's six."""
    asked = question_set(data.key)
    experiment = choices_for(data).experiment(data, list(found), Part.ALL)
    results = []
    for name, rows in found.items():
        copies = len(asked.questions) // len(rows)
        rankings = rankings_of([[5 * copy + row for row in of] for copy in range(copies) for of in rows], 100)
        results.append(Result(name, rankings, evaluate(rankings, asked, experiment.ks)))
    needed = {spec.name for spec in experiment.retriever} - found.keys()
    results += [Result(name, error=RuntimeError("not asked")) for name in needed]
    kept(data, found, asked, results)


@pytest.fixture
def data() -> StoredSet:
    return keep(many_questions(COPIES)[0])


def looked_at(*names: str, **more: str) -> AppTest:
    return opened(page, retrievers="|".join(names), part="all", **more)


def told(data: StoredSet, found: Found) -> str:
    compared(data, found)
    return said(looked_at(*found, measure="recall", k="1", data=data.key))


EVERY = [[5 * copy + row for row in of] for copy in range(COPIES) for of in RIGHT]


TRAINED = {"BM25": LATE, "Dense": LATE, "Dense · mine": RIGHT}
SURELY = (
    r"On Recall@1, the trained **Dense · mine** is 83.3 points above the untrained **Dense**",
    "and is 83.3 points above **BM25** (95%: ",
    "over 48 questions",
    "Use **Dense · mine**: Recall@1 91.7; 83.3 points above BM25 (95%: ",
)
MAYBE = "is 2.1 points above the untrained **Dense**, which may be chance"
SAME = "and gives the same result as **BM25** on every question"
BELOW = "the trained **Dense · mine** is 83.3 points below **BM25**"


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (TRAINED, SURELY),
        ({"BM25": EVERY, "Dense": [[3, 0], *EVERY[1:]], "Dense · mine": EVERY}, (MAYBE, SAME)),  # one of 48 is lost
        ({"BM25": RIGHT, "Dense · mine": LATE}, (BELOW, "Select the untrained **Dense** too")),
    ],
    ids=["surely", "by chance", "without what it was"],
)
def test_of_a_training_it_says_what_it_brought_and_what_it_has_over_bm25(
    data: StoredSet, found: Found, says: tuple[str, ...]
) -> None:
    finished(BI_ENCODER, "mine", data)
    text = told(data, found)
    assert [one for one in says if one not in text] == []


def test_the_last_comparison_tells_what_was_trained_from_what_it_was_though_that_is_not_picked(
    data: StoredSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished(BI_ENCODER, "mine", data)
    compared(data, TRAINED)
    text = said(looked_at("BM25", "Dense · mine", measure="recall", k="1"))
    assert "83.3 points above the untrained **Dense**" in text
    assert "Select the untrained" not in text
    looks = dict[str, dict[str, Any]]()
    monkeypatch.setattr(overview, "draw_chart", lambda make, *_, **look: looks.update({make.__name__: look}))
    looked_at(*TRAINED, measure="recall", k="1")
    assert looks["curves"]["dashed"] == ["Dense"]


def test_what_all_find_is_left_for_the_first_k_that_tells_them_apart(data: StoredSet) -> None:
    found = {"BM25": LATE, "Dense": RIGHT}
    compared(data, found)
    app = looked_at(*found, measure="recall")
    text = said(app)
    assert "Use **Dense**: Recall@1 91.7; 83.3 points above BM25 (95%: " in text
    assert "All retrievers score above 99% on Recall@10, so this page shows Recall@1 instead." in text
    assert "k" not in app.query_params  # nobody chose it
    chosen = looked_at(*found, measure="recall", k="10")
    assert "All retrievers score above 99% on Recall@10" in said(chosen)
    chosen.button(key="finer").click()
    assert "Use **Dense**: Recall@1 91.7; 83.3 points above BM25" in said(chosen.run())


def test_ndcg_at_10_leads_until_another_metric_is_chosen(data: StoredSet) -> None:
    found = {"BM25": LATE, "Dense": RIGHT}
    compared(data, found)
    app = looked_at(*found)
    assert "Use **Dense**: nDCG@10 100.0; 32.1 points above BM25" in said(app)
    app.selectbox(key="measure_en").set_value("mrr")
    assert "Use **Dense**: MRR@10 100.0" in said(app.run())
    assert app.query_params["measure"] == "mrr"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_report_has_the_headline_of_the_page(language: str, data: StoredSet) -> None:
    found = {"BM25": LATE, "Dense": RIGHT, "Hybrid": RIGHT}
    compared(data, found)
    app = looked_at(*found, measure="mrr", lang=language)
    opened_comparison = open_comparison(data.key, next((workspace() / "comparisons").iterdir()))
    assert opened_comparison is not None
    results = tuple(one for one in opened_comparison.comparison.results if one.name in found)
    names = tuple(one.name for one in opened_comparison.comparison.results)
    view = ComparisonView(data, opened_comparison, results, names, "mrr", 10, "BM25")
    assert view.recommendation is not None
    interval = opened_comparison.intervals["Dense"]["mrr@10"]
    (answer,) = re.findall(r'<div class="answer"><p>(.*?)</p>', _files(view, language)["report"][0]())
    words = headline_words(
        view.recommendation, markdown_style(language, lambda name: retriever_name(name, language)), interval
    ).answer
    assert re.sub("</?b>", "**", answer) == words
    assert "Dense" in words
    headline = next(one.value for one in app.markdown if "MRR@10" in one.value)
    numbers = re.findall(r"[0-9]+\.[0-9]+", headline)
    assert numbers == re.findall(r"[0-9]+\.[0-9]+", words)


def test_the_difference_from_the_best_is_said_once_if_the_best_is_the_baseline() -> None:
    asked = many_questions(COPIES)[0]
    almost = [[3, 0], *EVERY[1:]]
    results = comparison_of({"BM25": EVERY, "Dense": EVERY, "LSA": almost}, asked, DEFAULT_KS, depth=100)
    seconds = {"BM25": 2.0, "Dense": 3.0, "LSA": 1.0}
    timed = tuple(replace(one, query_seconds=seconds[one.name]) for one in results.results)
    comparison = replace(results, results=timed)
    tests = evidence(comparison).tests
    for baseline, notes in (("BM25", 0), ("Dense", 1)):
        groups = question_groups(asked)
        found = recommend(comparison, Measure("ndcg", 10), tests, baseline=baseline, groups=groups)
        assert found is not None
        assert (found.name, found.best) == ("LSA", "BM25")
        words = headline_words(found, markdown_style("en", lambda name: name))
        assert len(words.notes) == notes, words


def test_bm25_of_plain_words_is_in_no_chart_and_no_pair(monkeypatch: pytest.MonkeyPatch, data: StoredSet) -> None:
    monkeypatch.setattr(choices_module, "_suited_analyzer", lambda *_: Analyzer.KIWI_BIGRAM)
    found = {"BM25": LATE, "Dense": LATE, "BM25 words": RIGHT}
    compared(data, found)
    assert isinstance(choices_for(data).specs["BM25 words"], BM25Spec)
    app = looked_at(*found, measure="recall", k="1")
    text = said(app)
    assert "Use **BM25 words**: Recall@1 91.7" in text  # the best of those selected is never passed over
    assert "BM25 words: only a starting point, so shown in the table but not in the charts." in text
    assert "BM25 words" in app.dataframe[0].value["retriever"].tolist()
    assert "the question they disagree on most" not in text  # the two leading ones agree on all of them


def test_the_question_told_of_is_one_of_bm25_and_dense_and_has_a_line_for_answers_if_any(data: StoredSet) -> None:
    found = {"BM25": LATE, "Dense": RIGHT, "Hybrid": RIGHT, "Reranked": LATE}
    text = told(data, found)
    assert "BM25 · Dense: the question they disagree on most" in text
    assert "Answer: **" in text
    small = small_set()
    asked = replace(small, questions=tuple(replace(question, answers=()) for question in small.questions))
    text = told(keep(asked), {"BM25": LATE, "Dense": RIGHT})
    assert "the question they disagree on most" in text
    assert "****" not in text
    assert "Answer:" not in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_who_is_at_a_disadvantage_is_told_and_the_figures_are_there(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, compared = judged_apart(DEFAULT_KS, depth=100)
    data, words = keep(asked), catalog(language)
    by_name = dict(zip(choices_for(data).specs, compared.results, strict=False))
    results: list[Result] = [replace(result, name=name) for name, result in by_name.items()]
    folder = kept(data, by_name, asked, results)
    app = opened(page, lang=language, comparison=folder.name, data=data.key)
    best, behind = by_name
    told = words["compare.behind"].format(names=f"{behind} (60%)", best=best, share="100", k=10)
    few = report_words(language)["split.few_compared"].format(count=12, fewest=20)
    assert [one.value.replace("\\", "") for one in app.warning] == [few, told]
    table = next(one.value for one in app.dataframe if "unjudged" in one.value).set_index("retriever")
    assert table["unjudged"].to_dict() == pytest.approx({best: 0, behind: 40})
    assert table["judged@10"].to_dict() == pytest.approx({best: 100, behind: 60})
    assert {"bpref@100", "ndcg_exp@10"} <= {*table.columns}
    assert words["compare.graded"].format(grade=1) in texts(app)
    went: list[dict[str, str]] = []
    monkeypatch.setattr(
        "mrc_workbench.workbench.views.search.judging.open_page", lambda _, **address: went.append(address)
    )
    press(app, "pool_begin")
    assert went == [{"data": data.key, "pool": folder.name, "pool_n": "12", "pool_k": "10"}]
    by_grades = opened(page, comparison=folder.name, data=data.key, measure="ndcg_exp")
    assert by_grades.query_params["measure"] == "ndcg_exp"


def test_which_grade_is_relevant_is_chosen_where_there_are_several(started: list[Experiment]) -> None:
    asked, _ = judged_apart()
    mixed = replace(asked.questions[0], grades=((asked.questions[0].relevant[0], 1),))
    data = keep(replace(asked, questions=(mixed, *asked.questions[1:])))
    app = opened(page, data=data.key, grade="2")
    assert app.selectbox(key="grade_en").options == ["1", "2"]
    assert [one.relevant_from for one in started] == [2]
    opened(page, data=data.key, grade="7")
    assert [one.relevant_from for one in started] == [2, 1], "what is no grade of the set is the usual one"
    plain = opened(page, data=keep(small_set()).key)
    assert not [one for one in plain.selectbox if one.key == "grade_en"]


def test_where_only_relevant_passages_are_known_that_is_said_in_a_line() -> None:
    asked = small_set()
    data = keep(asked)
    names = [*choices_for(data).specs][:2]
    compared = comparison_of(dict.fromkeys(names, RIGHT), asked, DEFAULT_KS, depth=100)
    folder = kept(data, names, asked, compared.results)
    app = opened(page, comparison=folder.name, data=data.key, measure="ndcg_exp")
    assert catalog("en")["compare.only_relevant"] in texts(app)
    assert not [one for one in app.dataframe if "unjudged" in one.value]
    assert app.query_params["measure"] == "ndcg", "there is no other gain without grades"
    assert app.button(key="pool_begin")
