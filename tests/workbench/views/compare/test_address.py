"""The address of a displayed comparison opens the same results later, whatever was compared since."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet, keep
from mrc_workbench.data.workspace import workspace
from mrc_workbench.retrieval.comparison.store import ComparisonJob, delete
from mrc_workbench.retrieval.comparison.store import keep as keep_comparison
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.ui.words import catalog
from tests.doubles import small_set
from tests.retrieval.compared import comparison_of, many_questions
from tests.workbench.views.compare.worlds import FOUND, KS, said
from tests.workbench.views.compare.worlds import whole_page as page
from tests.workbench.views.driving import opened, run

EN = catalog("en")
MISSED = [[4, 0], [4, 1], [4, 2], [4, 3], [0, 4], [1, 4, 2]]


@pytest.fixture(autouse=True)
def _no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.data.jobs.folder.Job.launch", lambda *_, **__: None)


def finished(data: StoredSet, *names: str) -> str:
    """Store a finished comparison of retrievers over all questions; returns its key."""
    experiment = choices_for(data).experiment(data, list(names), Part.ALL)
    found = {name: MISSED if name == "Dense" else FOUND for name in experiment.specs}
    comparison = comparison_of(found, small_set(), KS, depth=100)
    folder = ComparisonJob.of(experiment, data.fingerprint).folder
    keep_comparison(type(comparison)(experiment, comparison.question_set, comparison.results), folder)
    return folder.name


def address(app: AppTest) -> dict[str, str]:
    values = {name: app.query_params[name] for name in app.query_params}
    return {name: value if isinstance(value, str) else value[0] for name, value in values.items()}


def compared(app: AppTest) -> list[str]:
    """Names of the retrievers in the first table."""
    return sorted(app.dataframe[0].value["retriever"])


def picked(app: AppTest) -> list[str]:
    return next([*pills.value] for pills in app.get("button_group") if pills.label == EN["compare.retrievers"])


def test_the_address_names_the_displayed_comparison_its_part_and_its_retrievers(data: StoredSet) -> None:
    key = finished(data, "BM25", "Reranked")
    app = opened(page, data=data.key, retrievers="BM25|Reranked")
    shown = address(app)
    assert (shown["comparison"], shown["part"], shown["retrievers"]) == (key, "all", "BM25|Reranked")
    assert address(run(app)) == shown
    assert any(button.key == "copy_link" for button in app.button)
    assert "kept_part" not in app.session_state  # a part that no user chose still follows the retrievers
    chosen = opened(page, data=data.key, retrievers="BM25|Reranked", part="all")
    assert chosen.session_state["kept_part"] == "all"


def test_a_link_shows_the_same_after_other_comparisons(data: StoredSet) -> None:
    finished(data, "BM25", "Reranked")
    link = address(opened(page, data=data.key, retrievers="BM25|Reranked", view="overview"))
    finished(data, "BM25", "Dense")
    assert compared(opened(page, data=data.key, retrievers="BM25|Dense")) == ["BM25", "Dense"]
    app = opened(page, **link)
    assert app.title[0].value == EN["compare.purpose"]
    assert compared(app) == ["BM25", "Reranked"]
    assert address(app)["comparison"] == link["comparison"]


def test_a_link_to_a_question_opens_that_question_after_other_comparisons(data: StoredSet) -> None:
    finished(data, "BM25", "Reranked")
    link = address(opened(page, data=data.key, retrievers="BM25|Reranked", view="why", question="q2"))
    finished(data, "BM25", "Dense")
    app = opened(page, **link)
    assert "no question with the ID" not in said(app)
    assert [warning.value[:34] for warning in app.warning] == ["Too few questions are compared: 6."]
    assert "2 of 6" in said(app)


def test_a_link_to_a_comparison_that_the_page_would_make_anew_opens_the_stored_one(data: StoredSet) -> None:
    key = finished(data, "BM25", "Reranked")
    of_earlier_version = key[::-1]
    folder = workspace() / "comparisons"
    Path(folder / key).rename(folder / of_earlier_version)
    link = {"comparison": of_earlier_version, "retrievers": "BM25|Reranked", "part": "all"}
    finished(data, "BM25", "Dense")
    app = opened(page, data=data.key, **link)
    assert EN["kept.shown"].split("{")[0].strip() in said(app)
    assert compared(app) == ["BM25", "Reranked"]


def test_a_reload_with_a_retriever_unpicked_stays_on_the_page_of_the_dataset(data: StoredSet) -> None:
    key = finished(data, "BM25", "Dense", "Reranked")
    app = opened(page, data=data.key, retrievers="BM25|Dense|Reranked")
    next(pills for pills in app.get("button_group") if pills.label == EN["compare.retrievers"]).set_value(
        ["BM25", "Reranked"]
    )
    shown = address(run(app))
    assert (shown["comparison"], shown["retrievers"]) == (key, "BM25|Reranked")
    reloaded = opened(page, **shown)
    assert reloaded.title[0].value == EN["compare.purpose"]
    assert compared(reloaded) == ["BM25", "Reranked"]


def test_another_dataset_begins_with_its_own_defaults(data: StoredSet) -> None:
    finished(data, "BM25", "Reranked")
    other = keep(many_questions(2)[0])
    app = opened(page, data=data.key, retrievers="BM25|Reranked")
    app.sidebar.selectbox[0].select(other.key)
    run(app)
    assert "comparison" not in app.query_params
    assert picked(app) == [*choices_for(other).first_picked]


@pytest.mark.parametrize("more", [{}, {"retrievers": "BM25|Reranked", "part": "all"}])
def test_a_link_to_a_missing_comparison_says_so_and_starts_nothing(
    data: StoredSet, monkeypatch: pytest.MonkeyPatch, more: dict[str, str]
) -> None:
    started: list[object] = []
    monkeypatch.setattr(ComparisonJob, "start", lambda *arguments: started.append(arguments))
    key = finished(data, "BM25", "Reranked")
    delete(key)
    app = opened(page, data=data.key, comparison="0123456789abcdef", **more)
    assert EN["kept.not_here"] in said(app)
    assert not started
    assert not app.dataframe


def test_deleting_the_displayed_comparison_goes_on_with_another(data: StoredSet) -> None:
    key, other = finished(data, "BM25", "Reranked"), finished(data, "BM25", "Dense")
    app = opened(page, data=data.key, retrievers="BM25|Reranked")
    assert address(app)["comparison"] == key
    delete(key)
    assert address(run(app))["comparison"] == other
