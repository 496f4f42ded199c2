"""The training form for readers: bases, questions, fields and started runs."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.labs.reading.scores import ScoringRules
from mrc_workbench.models.sources import DEFAULT_READER, STARTER
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER
from mrc_workbench.training.recipes import compatible_base_kinds, default_base
from mrc_workbench.training.runs import Run
from mrc_workbench.training.text_options import LANGUAGE_MODEL, READER, SENTENCES, ReaderBestBy, ReaderOptions
from mrc_workbench.workbench.views.train.base import base_choices
from tests.workbench.views.driving import run
from tests.workbench.views.train.worlds import (
    EN,
    base_box,
    button,
    enter,
    field,
    field_names,
    form_page,
    page,
    press,
    texts,
    trained_run,
    unopened,
    with_base,
    with_module,
)

pytestmark = pytest.mark.slow  # torch creates the base
NEVER = {"base", "title", "evaluation_batch_size", "negatives_model"}


def reader_questions(*answers: str) -> QuestionSet:
    """Return a question about each of twenty passages, with these answers."""
    passages = tuple(Passage(f"p{number}", f"topic{number} here") for number in range(20))
    questions = (Question(f"q{number}", f"Where is topic{number}?", answers, (f"p{number}",)) for number in range(20))
    return QuestionSet("topics", passages, tuple(questions))


@pytest.fixture
def data() -> StoredSet:
    return save_question_set(reader_questions("here"))


@pytest.fixture
def app(data: StoredSet, folder: Path) -> AppTest:
    return unopened(form_page, train=READER, base=str(folder), data=data.key)


def test_draws_labelled_field_for_every_relevant_option(app: AppTest) -> None:
    run(app)
    assert not app.exception
    assert not app.error
    assert field_names(app, READER) == {known.name for known in fields(ReaderOptions)} - NEVER
    assert field(app, "best_by", READER).options == ["Exact match (EM)", "F1"]
    assert field(app, "normalization", READER).options == ["KorQuAD 1.0", "SQuAD", "KLUE-MRC"]
    assert field(app, "objective", READER).options == [EN["objective.span"]]
    assert EN["objective_does.span"] in texts(app)
    assert field(app, "max_length", READER).help.startswith(EN["option_help.max_length_reader"])
    assert field(app, "negatives", READER).help.startswith(EN["option_help.negatives_reader"])
    assert EN["settings.find"] not in texts(app)


def test_starts_training_with_entered_values(app: AppTest, data: StoredSet, submitted: list[Run], folder: Path) -> None:
    entered_app = enter(run(app), READER, normalization="klue", best_by="em", max_length=64, overlap=16, validation=0.2)
    press(entered_app, "start")
    (started,) = submitted
    plan = started.plan()
    assert (plan.kind, plan.data, plan.fingerprint) == (READER, data.key, data.fingerprint)
    entered = {"normalization": ScoringRules.KLUE, "best_by": ReaderBestBy.EXACT, "max_length": 64, "overlap": 16}
    assert plan.options == replace(ReaderOptions.defaults_for(str(folder)), **entered)


def test_rejects_overlapping_windows_missing_answers_and_starter(app: AppTest) -> None:
    enter(run(app), READER, max_length=64)
    assert EN["option_problem.overlap"] in [error.value for error in app.error]
    assert button(app, "start").disabled
    app.query_params["data"] = save_question_set(reader_questions()).key
    enter(app, READER, max_length=384)
    assert [error.value for error in app.error] == [f"**{EN['option.data']}**: {EN['option_problem.no_answers']}"]
    assert button(app, "start").disabled
    assert base_box(with_base(app, STARTER)).value == default_base(READER)


def test_starts_from_transformer_models() -> None:
    started = with_module(trained_run(BI_ENCODER, "of a starter"), "mrc_workbench.models.starter.AnalyzedEmbedding")
    fitting = [trained_run(kind, kind).id for kind in (READER, BI_ENCODER, SENTENCES, LANGUAGE_MODEL)]
    trained_run(CROSS_ENCODER, "reranks")
    assert compatible_base_kinds(READER) == (READER, BI_ENCODER, SENTENCES, LANGUAGE_MODEL)
    assert READER not in compatible_base_kinds(BI_ENCODER)
    choices = base_choices(READER)
    assert choices[-4:] == fitting
    assert DEFAULT_READER in choices
    assert STARTER not in choices
    assert started.id not in base_choices(SENTENCES)
    assert started.id in base_choices(BI_ENCODER)


@pytest.mark.usefixtures("at_the_hub")
def test_accepts_bi_encoder_base_and_continues_reader_settings(app: AppTest) -> None:
    encoder = trained_run(BI_ENCODER, "an encoder", epochs=7.0)
    reader = trained_run(READER, "a reader", epochs=2.0, max_length=256)
    app.query_params["base"] = encoder.id
    assert (field(run(app), "epochs", READER).value, field(app, "max_length", READER).value) == (3.0, 384)
    base_box(app).set_value(reader.id)
    assert (field(run(app), "epochs", READER).value, field(app, "max_length", READER).value) == (2.0, 256)


def test_describes_result_of_training(data: StoredSet) -> None:
    test = run(unopened(page, train=READER, data=data.key))
    assert not test.exception
    assert EN["train.get_reader"].format(data=data.name) in [text.value for text in test.markdown]
