"""The pieces that answered each other, as Search shows them of a retriever of late interaction."""

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.store import keep
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.loading import load_token_encoder
from mrc_workbench.models.sources import ModelSource
from mrc_workbench.retrieval.comparison.experiment import add
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


def asked(question_set: QuestionSet, question: str, spec: LateSpec) -> AppTest:
    data = keep(question_set)
    add(data.fingerprint, spec)
    return opened(page, data=data.key, columns=f"{spec.name}|BM25", q=question)


def pressed(app: AppTest) -> AppTest:
    return press(app, "ask_why_model_Own")


def pairs(app: AppTest) -> list[str]:
    return [text for text in html(app) if "found pairs" in text]


def test_once_asked_it_shows_in_one_colour_what_answered_each_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[ModelSource] = []

    def counted(source: ModelSource, *more: Any) -> Any:
        loaded.append(source)
        return load_token_encoder(source, *more)

    monkeypatch.setattr("mrc_workbench.models.token_encoder.load_token_encoder", counted)
    app = asked(small_set(), QUESTION, LateSpec(name="Own", model=str(folder), precision=Precision.FLOAT32))
    assert EN["search.pieces"].format(name="Own") in [one.label for one in app.expander]
    assert not pairs(app)
    app = pressed(app)
    assert len(loaded) == 1  # what was searched with explains
    (box,) = [one for one in app.selectbox if one.label == EN["search.pieces_of"]]
    (table,) = tables(app, "answered_cosine")
    assert "".join(table["asked"]) == QUESTION.replace(" ", "")
    assert table["number"].tolist() == [*range(1, len(table) + 1)]
    shown = PASSAGES[box.value]
    assert all(piece in f"{shown.title}\n{shown.text}" for piece in table["answered"])
    (drawn,) = pairs(app)
    question, _, passage = drawn.partition("</p>")
    colour = "color-mix(in srgb, #0072B2"  # of the first piece
    assert colour in question
    if table["answered"][0]:
        assert colour in passage
    other = next(row for row in range(len(PASSAGES)) if row != box.value)
    box.set_value(other)
    app = run(app)
    (table,) = tables(app, "answered_cosine")
    assert all(piece in f"{PASSAGES[other].title}\n{PASSAGES[other].text}" for piece in table["answered"])


def test_what_a_person_wrote_is_shown_as_text(folder: Path) -> None:
    passages = (Passage("<i>id</i>", HOSTILE, HOSTILE), *PASSAGES)
    hostile = QuestionSet("hostile", passages, (Question("q", HOSTILE, (), ("<i>id</i>",)),))
    app = pressed(asked(hostile, HOSTILE, LateSpec(name="Own", model=str(folder))))
    (drawn,) = pairs(app)
    assert not any(never in drawn for never in ("<img", "<script", "<i>"))
    assert "&lt;" in drawn


def test_what_was_not_compared_has_no_pieces(folder: Path) -> None:
    """Of the passages that another retriever brings, the first alone are read."""
    app = asked(small_set(), QUESTION, LateSpec(name="Own", model=str(folder), first="BM25", depth=1))
    (box,) = [one for one in app.selectbox if one.label == EN["search.pieces_of"]]
    assert len(box.options) == 1


def test_a_model_that_is_gone_is_told_and_nothing_else_is_asked() -> None:
    app = asked(small_set(), QUESTION, LateSpec(name="Own", model="no/such/model"))
    assert app.error
    assert not any(EN["search.pieces"].format(name="Own") == one.label for one in app.expander)
