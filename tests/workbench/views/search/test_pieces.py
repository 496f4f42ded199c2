"""Token matches of late interaction on the Search page."""

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.store import save_question_set
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.loading import load_token_encoder
from mrc_workbench.models.sources import ModelSource
from mrc_workbench.retrieval.comparison.experiment import add_retriever
from mrc_workbench.retrieval.comparison.first_stage import LateSpec
from mrc_workbench.workbench.views.ui.words import catalog
from tests.doubles import PASSAGES, QUESTIONS, small_set
from tests.tiny_models import build_bi_encoder
from tests.workbench.views.compare.worlds import press, tables
from tests.workbench.views.driving import opened, run
from tests.workbench.views.search.test_page import HOSTILE, html, page

EN = catalog("en")
QUESTION = QUESTIONS[1].text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_bi_encoder(tmp_path_factory.mktemp("model") / "tiny")


def search_page(question_set: QuestionSet, question: str, spec: LateSpec) -> AppTest:
    data = save_question_set(question_set)
    add_retriever(data.fingerprint, spec)
    return opened(page, data=data.key, columns=f"{spec.name}|BM25", q=question)


def pressed(app: AppTest) -> AppTest:
    return press(app, "ask_why_model_Own")


def pairs(app: AppTest) -> list[str]:
    return [text for text in html(app) if "results pairs" in text]


def test_displays_token_matches_in_equal_colours_on_request(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[ModelSource] = []

    def counted(source: ModelSource, *more: Any) -> Any:
        loaded.append(source)
        return load_token_encoder(source, *more)

    monkeypatch.setattr("mrc_workbench.models.token_encoder.load_token_encoder", counted)
    app = search_page(small_set(), QUESTION, LateSpec(name="Own", model=str(folder), precision=Precision.FLOAT32))
    assert EN["search.pieces"].format(name="Own") in [element.label for element in app.expander]
    assert not pairs(app)
    app = pressed(app)
    assert len(loaded) == 1  # the searched model explains
    (box,) = [element for element in app.selectbox if element.label == EN["search.pieces_of"]]
    (table,) = tables(app, "answered_cosine")
    assert "".join(table["question"]) == QUESTION.replace(" ", "")
    assert table["number"].tolist() == [*range(1, len(table) + 1)]
    answer_passage = PASSAGES[box.value]
    assert all(piece in f"{answer_passage.title}\n{answer_passage.text}" for piece in table["answered"])
    (match_html,) = pairs(app)
    question, _, passage = match_html.partition("</p>")
    colour = "color-mix(in srgb, #0072B2"  # of the first token
    assert colour in question
    if table["answered"][0]:
        assert colour in passage
    other = next(row for row in range(len(PASSAGES)) if row != box.value)
    box.set_value(other)
    app = run(app)
    (table,) = tables(app, "answered_cosine")
    assert all(piece in f"{PASSAGES[other].title}\n{PASSAGES[other].text}" for piece in table["answered"])


def test_escapes_user_text_in_token_matches(folder: Path) -> None:
    passages = (Passage("<i>id</i>", HOSTILE, HOSTILE), *PASSAGES)
    hostile = QuestionSet("hostile", passages, (Question("q", HOSTILE, (), ("<i>id</i>",)),))
    app = pressed(search_page(hostile, HOSTILE, LateSpec(name="Own", model=str(folder))))
    (match_html,) = pairs(app)
    assert not any(never in match_html for never in ("<img", "<script", "<i>"))
    assert "&lt;" in match_html


def test_displays_no_token_matches_for_uncompared_passages(folder: Path) -> None:
    """It reranks only the first passages of another retriever."""
    spec = LateSpec(name="Own", model=str(folder), first_stage="BM25", rerank_top_k=1)
    app = search_page(small_set(), QUESTION, spec)
    (box,) = [element for element in app.selectbox if element.label == EN["search.pieces_of"]]
    assert len(box.options) == 1


def test_reports_missing_model_once() -> None:
    app = search_page(small_set(), QUESTION, LateSpec(name="Own", model="no/such/model"))
    assert app.error
    assert not any(EN["search.pieces"].format(name="Own") == element.label for element in app.expander)
