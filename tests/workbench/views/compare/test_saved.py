"""Saved comparisons: listed, opened, compared, renamed and deleted; an address opens the same results later."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet, keep
from mrc_workbench.data.workspace import workspace
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.store import ComparisonJob, delete, kept_comparisons, rename
from mrc_workbench.retrieval.comparison.store import keep as keep_comparison
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.ui.words import catalog
from tests.doubles import small_set
from tests.retrieval.compared import comparison_of, many_questions
from tests.workbench.views.compare.worlds import FOUND, KS, kept, press, said
from tests.workbench.views.compare.worlds import whole_page as page
from tests.workbench.views.driving import opened, run

EN = catalog("en")
MISSED = [[4, 0], [4, 1], [4, 2], [4, 3], [0, 4], [1, 4, 2]]


def finished(data: StoredSet, *names: str, asked: QuestionSet | None = None) -> str:
    """Store a finished comparison of retrievers, all unless named, over all questions; return its key."""
    choices, asked = choices_for(data), asked or small_set()
    experiment = choices.experiment(data, list(names or choices.specs), Part.ALL)
    found = {name: MISSED if name == "Dense" else FOUND for name in experiment.specs}
    return kept(data, experiment.specs, asked, comparison_of(found, asked, KS, depth=100).results).name


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


@pytest.mark.parametrize(
    "link",
    [
        {"comparison": "0123456789abcdef"},
        {"comparison": "0123456789abcdef", "retrievers": "BM25|Reranked", "part": "all"},
        {"comparison": "../../etc/passwd"},
    ],
)
def test_a_link_to_a_missing_comparison_says_so_and_starts_nothing(
    data: StoredSet, started: list[Experiment], link: dict[str, str]
) -> None:
    delete(finished(data, "BM25", "Reranked"))
    app = opened(page, data=data.key, **link)
    assert EN["kept.not_here"] in said(app)
    assert not started
    assert not app.dataframe
    assert press(app, EN["kept.back"]).title[0].value == EN["compare.purpose"]


def test_deleting_the_displayed_comparison_goes_on_with_another(data: StoredSet) -> None:
    key, other = finished(data, "BM25", "Reranked"), finished(data, "BM25", "Dense")
    app = opened(page, data=data.key, retrievers="BM25|Reranked")
    assert address(app)["comparison"] == key
    delete(key)
    assert address(run(app))["comparison"] == other


def choose(app: AppTest, row: int, button: str = "", *, by_cell: bool = False) -> AppTest:
    """Select a row of the list, by its box or by a cell, and press a button that is drawn for it."""
    rows, cells = ([], [(row, "retrievers")]) if by_cell else ([row], [])
    app.session_state["kept_list"] = {"selection": {"rows": rows, "columns": [], "cells": cells}}
    return press(app, button) if button else run(app)  # the test's app forgets the row with every run


def test_the_list_is_in_the_language_of_the_page() -> None:
    sample = replace(small_set(), name="Korean sample")
    finished(keep(sample), asked=sample)
    app = opened(page, lang="ko", view="kept")
    table = next(frame.value for frame in app.dataframe if "made" in frame.value)
    assert table["retrievers"].tolist() == ["BM25, Dense, 하이브리드, 재정렬"]
    assert table["data"].tolist() == ["한국어 샘플"]


def test_a_click_on_any_cell_offers_to_open_a_comparison_without_its_models(data: StoredSet) -> None:
    key = finished(data)
    app = opened(page, view="kept")
    assert not any(button.key == "kept_open" for button in app.button)
    assert EN["kept.choose"] in [caption.value for caption in app.caption]
    assert not app.info
    choose(app, 0, by_cell=True)
    assert app.button(key="kept_open").label == EN["kept.open"]
    choose(app, 0, "kept_open", by_cell=True)
    assert app.query_params["comparison"] == key
    assert app.title[0].value == "small"
    assert "Saved comparison of" in said(app)
    fresh = opened(page, comparison=key)  # the address alone, in a session that knows nothing
    assert "Saved comparison of" in said(fresh)
    assert len(fresh.dataframe[0].value) == 4


def test_a_comparison_made_elsewhere_shows_the_depths_it_was_measured_at(data: StoredSet) -> None:
    key = finished(data)
    folder = workspace() / "comparisons" / key[::-1]
    shallow = comparison_of({"BM25": FOUND, "Dense": MISSED}, small_set(), (2, 4), depth=4)
    experiment = shallow.experiment.model_copy(update={"data": data.key})
    keep_comparison(replace(shallow, experiment=experiment), folder)
    app = opened(page, comparison=folder.name, measure="recall", k="50")  # as of another comparison
    assert app.query_params["k"] == "2"  # by four both find everything
    shown = app.dataframe[0].value
    assert sorted(column for column in shown if column.startswith("recall")) == ["recall@2", "recall@4"]
    assert shown.iloc[0]["recall@4"] == 100
    assert "Recall@2" in said(app)


def test_an_address_switches_to_the_question_set_of_its_comparison(data: StoredSet) -> None:
    key = finished(data)
    other, _ = many_questions(2)
    newer = keep(other)
    app = opened(page, comparison=key, data=newer.key)
    assert app.query_params["data"] == data.key
    assert "Saved comparison of" in said(app)
    app.sidebar.selectbox[0].select(newer.key)  # who picks another set leaves the comparison
    run(app)
    assert "comparison" not in app.query_params
    assert "Saved comparison of" not in said(app)


def test_a_comparison_whose_set_is_gone_is_told(data: StoredSet) -> None:
    key = finished(data)
    keep(many_questions(2)[0])
    shutil.rmtree(workspace() / "datasets" / data.key)
    app = opened(page, comparison=key)
    assert "is no longer in the workspace" in said(app)


def test_names_are_given_and_comparisons_deleted(data: StoredSet) -> None:
    key = finished(data)
    app = opened(page, view="kept")
    (named,) = app.dataframe[0].value["name"]
    assert named.removeprefix("▶ ").startswith("BM25")  # until somebody names it
    assert "3 more" in named
    choose(app, 0)
    next(one for one in app.text_input if one.label == EN["kept.name"]).set_value("../<b>mine</b>")
    choose(app, 0, EN["kept.rename"])
    assert [one.name for one in kept_comparisons()] == ["../<b>mine</b>"]
    assert [path.name for path in (workspace() / "comparisons").iterdir()] == [key]
    choose(app, 0, "kept_delete")
    assert kept_comparisons() == []
    assert list((workspace() / "comparisons").glob("*/scores.json")) == []


def test_labs_are_not_in_the_list(data: StoredSet) -> None:
    folder = workspace() / "comparisons" / finished(data)
    origin = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    origin["experiment"]["lab"] = "bm25"
    lab = folder.with_name("0" * 16)
    shutil.copytree(folder, lab)
    (lab / "provenance.json").write_text(json.dumps(origin), encoding="utf-8")
    assert len(kept_comparisons()) == 2
    assert len(opened(page, view="kept").dataframe[0].value) == 1


def test_two_comparisons_of_the_same_questions_are_set_side_by_side(data: StoredSet) -> None:
    folder = workspace() / "comparisons" / finished(data)
    earlier = folder.with_name("1" * 16)
    missed = comparison_of({"BM25": MISSED}, small_set(), KS, depth=100)
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
    assert changes["verdict"][0] == EN["kept.not_changed"]  # six questions


def test_saved_names_the_best_by_the_leading_metric(data: StoredSet) -> None:
    finished(data)
    for address, figure in (({"measure": "recall", "k": "1"}, "Recall@1"), ({}, "nDCG@10")):
        app = opened(page, view="kept", **address)
        assert app.query_params["measure"] == address.get("measure", "ndcg")
        columns = json.loads(app.dataframe[0].proto.columns)
        assert columns["best"]["label"] == EN["compare.best_by"].format(figure=figure)
        if address:
            assert app.dataframe[0].value["best"].tolist() == ["BM25 91.7"]


def test_other_questions_are_not_set_side_by_side(data: StoredSet) -> None:
    finished(data)
    asked, others = many_questions(2)
    keep_comparison(others, ComparisonJob.of(others.experiment, keep(asked).fingerprint).folder)
    app = opened(page, view="kept", data=data.key)
    names = app.dataframe[0].value["data"].tolist()
    choose(app, names.index("many"))
    assert EN["kept.other_passages"] in said(app)
