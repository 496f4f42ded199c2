"""Columns of the Search page: drawn one by one, fast retrievers by default, named in the address."""

import re

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.cache import save_arrays
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.store import StoredSet, keep
from mrc_workbench.models.encoders import BiEncoder, vectors_path
from mrc_workbench.models.packaged import DEFAULT, PackagedBase
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.comparison.spec import CachedRetriever
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.search import page as search_page
from mrc_workbench.workbench.views.search.answer import expected_waits
from mrc_workbench.workbench.views.ui.words import catalog
from tests.doubles import QUESTIONS
from tests.workbench.views.driving import opened, run
from tests.workbench.views.search.test_page import ask, columns, html, page, selected_columns
from tests.workbench.views.test_choices import finished

pytestmark = pytest.mark.usefixtures("data")
EN = catalog("en")
QUESTION = QUESTIONS[0].text
SLOW = {"BM25": 0.1, "Dense": 400.0, "Hybrid": 400.1, "Reranked": 50.0, "BM25 words": 0.1}


@pytest.fixture
def slow_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_page, "expected_waits", lambda *_: SLOW)


def labels(app: AppTest) -> list[str]:
    pills = next(pills for pills in app.get("button_group") if pills.label == EN["compare.retrievers"])
    return [re.sub(r"\\(.)", r"\1", option.content) for option in pills.proto.options]


@pytest.mark.usefixtures("slow_dense")
def test_selects_quick_retrievers_and_shows_time_of_slow_ones() -> None:
    app = opened(page)
    assert selected_columns(app) == ["BM25"]
    assert labels(app) == ["BM25", "Dense · 7 min", "Hybrid · 7 min", "Reranked · 50 s", "BM25 words"]


def test_selects_first_retriever_if_none_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_page, "expected_waits", lambda *_: dict.fromkeys(SLOW, 100.0))
    assert selected_columns(opened(page)) == ["BM25"]


def test_estimates_no_wait_for_stored_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [Passage(f"p{row}", f"{row}번 지문입니다. " * 40, "") for row in range(600)]
    data = keep(QuestionSet("many", many, (Question("q", "몇 번?", (), ("p1",)),)))
    choices = choices_for(data)
    dense = DenseSpec(name="Dense", model=str(DEFAULT.reference), windows=True)
    monkeypatch.setitem(choices.specs, "Dense", dense)
    monkeypatch.setattr(PackagedBase, "require", lambda _: None)
    before = expected_waits(data, choices)
    assert before["Dense"] > 30
    assert before["Hybrid"] == pytest.approx(before["Dense"] + before["BM25"])
    texts = question_set(data.key).passages.indexed_texts(title=True)
    key = BiEncoder(find_model(dense.model), texts).key_of("passage", texts)
    save_arrays(vectors_path(key), {"vectors": np.zeros(1)})
    st.cache_resource.clear()
    after = expected_waits(data, choices)
    assert after["Dense"] == 0
    assert after["Hybrid"] == after["BM25"] == before["BM25"]


@pytest.mark.usefixtures("slow_dense")
def test_address_keeps_columns_of_a_question_after_training(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    app = ask(opened(page), QUESTION)
    assert app.query_params["columns"] in ("BM25", ["BM25"])
    assert "stored_columns" not in app.session_state  # the user has not selected the default columns
    monkeypatch.setattr(search_page, "expected_waits", lambda *_: {**SLOW, "Dense": 0.0, "Dense · new": 0.0})
    finished(BI_ENCODER, "new", data)
    assert selected_columns(opened(page)) == ["BM25", "Dense", "Dense · new"]
    bookmarked = opened(page, q=QUESTION, columns="BM25")
    assert selected_columns(bookmarked) == ["BM25"]
    assert bookmarked.session_state["stored_columns"] == "BM25"
    assert len(columns(bookmarked)) == 1


def headers_with_results(app: AppTest) -> list[str]:
    return [text for text in html(app) if 'class="results"' in text]


def test_displays_column_before_slower_retriever_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the run while the second retriever is built; the page has the results of the first."""

    prepare = CachedRetriever.prepare

    def never_ready(self: CachedRetriever) -> None:
        if self.name == "BM25 words":
            st.stop()
        prepare(self)

    monkeypatch.setattr(CachedRetriever, "prepare", never_ready)
    app = opened(page, columns="BM25|BM25 words", q=QUESTION)
    assert len(headers_with_results(app)) >= 1
    assert "세종" in "".join(headers_with_results(app))
    assert any(EN["search.pending"] in caption.value for caption in app.caption)
    assert any(button.label == EN["search.stop"] for button in app.button)
    (building,) = [caption for caption in app.caption if "Preparing BM25 words" in caption.value.replace("\\", "")]
    assert "of 2" in building.value


def test_displays_all_column_headers_in_a_row() -> None:
    app = ask(opened(page, columns="BM25|BM25 words"), QUESTION)
    cards = [text for text in html(app) if 'class="results-head"' in text or 'class="results" role' in text]
    assert len(cards) > 2
    assert [index for index, text in enumerate(cards) if "results-head" in text] == [0, 1]
    assert run(app).query_params["columns"] in ("BM25|BM25 words", ["BM25|BM25 words"])
