"""Saved comparisons: list, open, compare, rename and delete; an address opens the same results later."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.data.workspace import workspace
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.store import ComparisonJob, delete, list_comparisons, rename
from mrc_workbench.retrieval.comparison.store import save_comparison as keep_comparison
from mrc_workbench.retrieval.measures import DEFAULT_KS
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.ui.words import catalog
from tests.doubles import small_set
from tests.retrieval.compared import LATE, RIGHT, comparison_of, many_questions
from tests.workbench.views.compare.worlds import page_text, press, store_rows
from tests.workbench.views.compare.worlds import whole_page as page
from tests.workbench.views.driving import opened, run

EN = catalog("en")


def finished(data: StoredSet, *names: str, question_set: QuestionSet | None = None) -> str:
    """Store a finished comparison of retrievers, all unless named, over all questions; return its key."""
    choices = choices_for(data)
    experiment = choices.experiment(data, list(names or choices.specs), Part.ALL)
    rows_by_name = {name: LATE if name == "Dense" else RIGHT for name in experiment.specs}
    return store_rows(data, rows_by_name, question_set).name


def address(app: AppTest) -> dict[str, str]:
    values = {name: app.query_params[name] for name in app.query_params}
    return {name: value if isinstance(value, str) else value[0] for name, value in values.items()}


def compared(app: AppTest) -> list[str]:
    """Names of the retrievers in the first table."""
    return sorted(app.dataframe[0].value["retriever"])


def test_address_names_comparison_part_and_retrievers(data: StoredSet) -> None:
    key = finished(data, "BM25", "Reranked")
    app = opened(page, data=data.key, retrievers="BM25|Reranked")
    parameters = address(app)
    assert (parameters["comparison"], parameters["part"], parameters["retrievers"]) == (key, "all", "BM25|Reranked")
    assert address(run(app)) == parameters
    assert any(button.key == "copy_link" for button in app.button)
    assert "stored_part" not in app.session_state  # a default part follows the retrievers
    selected = opened(page, data=data.key, retrievers="BM25|Reranked", part="all")
    assert selected.session_state["stored_part"] == "all"


def test_link_shows_same_results_and_question_after_other_comparisons(data: StoredSet) -> None:
    finished(data, "BM25", "Reranked")
    link = address(opened(page, data=data.key, retrievers="BM25|Reranked", view="overview"))
    finished(data, "BM25", "Dense")
    assert compared(opened(page, data=data.key, retrievers="BM25|Dense")) == ["BM25", "Dense"]
    app = opened(page, **link)
    assert app.title[0].value == EN["compare.purpose"]
    assert compared(app) == ["BM25", "Reranked"]
    assert address(app)["comparison"] == link["comparison"]
    app = opened(page, **link | {"view": "why", "question": "q2"})
    assert "no question with the ID" not in page_text(app)
    assert [warning.value[:34] for warning in app.warning] == ["Too few questions are compared: 6."]
    assert "2 of 6" in page_text(app)


def test_link_opens_stored_comparison_instead_of_running(data: StoredSet) -> None:
    key = finished(data, "BM25", "Reranked")
    of_earlier_version = key[::-1]
    folder = workspace() / "comparisons"
    Path(folder / key).rename(folder / of_earlier_version)
    link = {"comparison": of_earlier_version, "retrievers": "BM25|Reranked", "part": "all"}
    finished(data, "BM25", "Dense")
    app = opened(page, data=data.key, **link)
    assert EN["saved.displayed"].split("{")[0].strip() in page_text(app)
    assert compared(app) == ["BM25", "Reranked"]


def test_reload_with_deselected_retriever_stays_on_dataset_page(data: StoredSet) -> None:
    key = finished(data, "BM25", "Dense", "Reranked")
    app = opened(page, data=data.key, retrievers="BM25|Dense|Reranked")
    retrievers = next(pills for pills in app.pills if pills.label == EN["compare.retrievers"])
    retrievers.set_value(["BM25", "Reranked"])
    parameters = address(run(app))
    assert (parameters["comparison"], parameters["retrievers"]) == (key, "BM25|Reranked")
    reloaded = opened(page, **parameters)
    assert reloaded.title[0].value == EN["compare.purpose"]
    assert compared(reloaded) == ["BM25", "Reranked"]


def test_another_dataset_starts_with_its_defaults(data: StoredSet) -> None:
    finished(data, "BM25", "Reranked")
    other = save_question_set(many_questions(2)[0])
    app = opened(page, data=data.key, retrievers="BM25|Reranked")
    app.sidebar.selectbox[0].select(other.key)
    run(app)
    assert "comparison" not in app.query_params
    retrievers = next(pills for pills in app.pills if pills.label == EN["compare.retrievers"])
    assert [*retrievers.value] == [*choices_for(other).default_names]


@pytest.mark.parametrize(
    "link",
    [
        {"comparison": "0123456789abcdef"},
        {"comparison": "0123456789abcdef", "retrievers": "BM25|Reranked", "part": "all"},
        {"comparison": "../../etc/passwd"},
    ],
)
def test_only_reports_missing_comparison(data: StoredSet, started: list[Experiment], link: dict[str, str]) -> None:
    delete(finished(data, "BM25", "Reranked"))
    app = opened(page, data=data.key, **link)
    assert EN["saved.not_here"] in page_text(app)
    assert not started
    assert not app.dataframe
    assert press(app, EN["saved.back"]).title[0].value == EN["compare.purpose"]


def test_deleting_displayed_comparison_displays_another(data: StoredSet) -> None:
    key = finished(data, "BM25", "Reranked")
    other = finished(data, "BM25", "Dense")
    app = opened(page, data=data.key, retrievers="BM25|Reranked")
    assert address(app)["comparison"] == key
    delete(key)
    assert address(run(app))["comparison"] == other


def choose(app: AppTest, row: int, button: str = "", *, by_cell: bool = False) -> AppTest:
    """Select a row of the list, by its box or a cell, and press a button below."""
    rows, cells = ([], [(row, "retrievers")]) if by_cell else ([row], [])
    app.session_state["saved_list"] = {"selection": {"rows": rows, "columns": [], "cells": cells}}
    return press(app, button) if button else run(app)  # `AppTest` forgets the row with every run


def test_lists_comparisons_in_page_language() -> None:
    sample = replace(small_set(), name="Korean sample")
    finished(save_question_set(sample), question_set=sample)
    app = opened(page, lang="ko", view="kept")
    table = next(frame.value for frame in app.dataframe if "created" in frame.value)
    assert table["retrievers"].tolist() == ["BM25, Dense, 하이브리드, 재정렬"]
    assert table["data"].tolist() == ["한국어 샘플"]


def test_offers_to_open_clicked_comparison_without_its_models(data: StoredSet) -> None:
    key = finished(data)
    app = opened(page, view="kept")
    assert not any(button.key == "saved_open" for button in app.button)
    assert EN["saved.choose"] in [caption.value for caption in app.caption]
    assert not app.info
    choose(app, 0, by_cell=True)
    assert app.button(key="saved_open").label == EN["saved.open"]
    choose(app, 0, "saved_open", by_cell=True)
    assert app.query_params["comparison"] == key
    assert app.title[0].value == "small"
    assert "Saved comparison of" in page_text(app)
    fresh = opened(page, comparison=key)  # only the address, in a new session
    assert "Saved comparison of" in page_text(fresh)
    assert len(fresh.dataframe[0].value) == 4


def test_displays_depths_of_imported_comparison(data: StoredSet) -> None:
    key = finished(data)
    folder = workspace() / "comparisons" / key[::-1]
    shallow = comparison_of({"BM25": RIGHT, "Dense": LATE}, small_set(), (2, 4), depth=4)
    experiment = shallow.experiment.model_copy(update={"data": data.key})
    keep_comparison(replace(shallow, experiment=experiment), folder)
    app = opened(page, comparison=folder.name, measure="recall", k="50")  # of another comparison
    assert app.query_params["k"] == "2"  # at 4 both find every passage
    table = app.dataframe[0].value
    assert sorted(column for column in table if column.startswith("recall")) == ["recall@2", "recall@4"]
    assert table.iloc[0]["recall@4"] == 100
    assert "Recall@2" in page_text(app)


def test_switches_to_dataset_of_comparison(data: StoredSet) -> None:
    key = finished(data)
    other, _ = many_questions(2)
    newer = save_question_set(other)
    app = opened(page, comparison=key, data=newer.key)
    assert app.query_params["data"] == data.key
    assert "Saved comparison of" in page_text(app)
    app.sidebar.selectbox[0].select(newer.key)  # selecting another dataset closes the comparison
    run(app)
    assert "comparison" not in app.query_params
    assert "Saved comparison of" not in page_text(app)


def test_reports_missing_dataset_of_comparison(data: StoredSet) -> None:
    key = finished(data)
    save_question_set(many_questions(2)[0])
    shutil.rmtree(workspace() / "datasets" / data.key)
    app = opened(page, comparison=key)
    assert "is no longer in the workspace" in page_text(app)


def test_renames_and_deletes_comparisons(data: StoredSet) -> None:
    key = finished(data)
    app = opened(page, view="kept")
    (named,) = app.dataframe[0].value["name"]
    assert named.removeprefix("▶ ").startswith("BM25")  # without a name
    assert "3 more" in named
    choose(app, 0)
    next(item for item in app.text_input if item.label == EN["saved.name"]).set_value("../<b>mine</b>")
    choose(app, 0, EN["saved.rename"])
    assert [item.name for item in list_comparisons()] == ["../<b>mine</b>"]
    assert [path.name for path in (workspace() / "comparisons").iterdir()] == [key]
    choose(app, 0, "saved_delete")
    assert list_comparisons() == []
    assert list((workspace() / "comparisons").glob("*/scores.json")) == []


def test_omits_labs_from_list(data: StoredSet) -> None:
    folder = workspace() / "comparisons" / finished(data)
    origin = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    origin["experiment"]["lab"] = "bm25"
    lab = folder.with_name("0" * 16)
    shutil.copytree(folder, lab)
    (lab / "provenance.json").write_text(json.dumps(origin), encoding="utf-8")
    assert len(list_comparisons()) == 2
    assert len(opened(page, view="kept").dataframe[0].value) == 1


def test_displays_two_comparisons_of_same_questions_together(data: StoredSet) -> None:
    folder = workspace() / "comparisons" / finished(data)
    earlier = folder.with_name("1" * 16)
    missed = comparison_of({"BM25": LATE}, small_set(), DEFAULT_KS, depth=100)
    experiment = choices_for(data).experiment(data, ["BM25"], Part.ALL)
    keep_comparison(replace(missed, experiment=experiment), earlier)
    rename(earlier.name, "earlier")
    app = opened(page, view="kept", measure="recall", k="1")
    names = app.dataframe[0].value["name"].tolist()
    choose(app, names.index("earlier"))
    changes = app.dataframe[-1].value
    assert changes["retriever"].tolist() == ["BM25"]
    assert changes["after"][0] == pytest.approx(100 * 5.5 / 6)
    assert changes["difference"][0] == pytest.approx(changes["after"][0] - changes["before"][0])
    assert changes["verdict"][0] == EN["saved.not_changed"]  # six questions


def test_names_best_retriever_by_leading_metric(data: StoredSet) -> None:
    finished(data)
    for address, metric in (({"measure": "recall", "k": "1"}, "Recall@1"), ({}, "nDCG@10")):
        app = opened(page, view="kept", **address)
        assert app.query_params["measure"] == address.get("measure", "ndcg")
        columns = json.loads(app.dataframe[0].proto.columns)
        assert columns["best"]["label"] == EN["compare.best_by"].format(metric=metric)
        if address:
            assert app.dataframe[0].value["best"].tolist() == ["BM25 91.7"]


def test_does_not_pair_comparisons_of_other_questions(data: StoredSet) -> None:
    finished(data)
    question_set, others = many_questions(2)
    keep_comparison(others, ComparisonJob.of(others.experiment, save_question_set(question_set).fingerprint).folder)
    app = opened(page, view="kept", data=data.key)
    names = app.dataframe[0].value["data"].tolist()
    choose(app, names.index("many"))
    assert EN["saved.other_passages"] in page_text(app)
