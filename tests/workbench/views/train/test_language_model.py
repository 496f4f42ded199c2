"""The training form for language models: fields, translations and started runs."""

from dataclasses import fields
from io import BytesIO

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.text.corpora import save_text
from mrc_workbench.models.language.masking import Size
from mrc_workbench.models.sources import STARTER
from mrc_workbench.training.recipes import get_recipe
from mrc_workbench.training.runs import Run
from mrc_workbench.training.text_options import LANGUAGE_MODEL, LanguageOptions
from tests.workbench.views.driving import opened, run
from tests.workbench.views.train.worlds import EN, enter, form_page, page, press, texts, unopened, widgets


@pytest.fixture
def app(data: StoredSet) -> AppTest:
    return unopened(form_page, train=LANGUAGE_MODEL, base=STARTER, data=data.key)


def test_offers_new_language_model_with_its_own_labels(app: AppTest) -> None:
    run(app)
    assert not app.exception
    assert not app.error
    assert EN["train.base_new"] in next(box for box in app.selectbox if box.key == "base_en").options
    assert EN["train.about_new_model"] in texts(app)
    widget_by_name = {str(item.key).removeprefix(f"train_{LANGUAGE_MODEL}_"): item for item in widgets(app)}
    own = {
        "size",
        "tokenizer_kind",
        "vocabulary",
        "mask_fraction",
        "mask_token_fraction",
        "random_token_fraction",
        "whole_words",
    }
    own |= {"max_length", "precision", "gradient_checkpointing", "attention_dropout"}
    assert not {"frozen_layers", "lora_rank", "embedding_table"} & widget_by_name.keys()
    assert own <= widget_by_name.keys() & {item.name for item in fields(LanguageOptions)}
    for name in own:
        assert widget_by_name[name].label == EN[f"option.{name}"]
        of_kind = f"option_help.{name}_{LANGUAGE_MODEL}"
        assert widget_by_name[name].help.startswith(EN[of_kind if of_kind in EN else f"option_help.{name}"])
    choices = [EN[f"choice.whole_words_{item}"] for item in ("off", "spaces", "morphemes")]
    assert widget_by_name["whole_words"].options == choices


def test_started_training_finds_its_text(app: AppTest, data: StoredSet, submitted: list[Run]) -> None:
    press(enter(run(app), LANGUAGE_MODEL, size="tiny"), "start")
    (plan,) = (submission.plan() for submission in submitted)
    assert (plan.kind, plan.data, plan.name) == (LANGUAGE_MODEL, data.key, "Language model 1")
    assert plan.options.size is Size.TINY
    assert get_recipe(plan.kind).family.find(plan.data).fingerprint == plan.fingerprint


def test_trains_on_stored_text(submitted: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    text = save_text(BytesIO("배가 고프다\n배를 탔다\n".encode()), "*낱말*")

    app = opened(page, train=LANGUAGE_MODEL, base=STARTER, corpus=text.reference)
    assert "on the text of **\\*낱말\\***" in texts(app)
    press(app, "start")
    (plan,) = (submission.plan() for submission in submitted)
    assert (plan.data, plan.data_name, plan.fingerprint) == (text.reference, "*낱말*", text.fingerprint)
    assert get_recipe(plan.kind).family.find(plan.data).fingerprint == plan.fingerprint


def test_other_kinds_offer_no_text(data: StoredSet) -> None:
    text = save_text(BytesIO(b"one\n"), "one")

    app = opened(page, train="bi-encoder", base=STARTER, corpus=text.reference, data=data.key)
    assert not [box for box in app.selectbox if str(box.key).startswith("corpus_")]
