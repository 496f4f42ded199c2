"""The training form for sentence pairs: objectives by kind of pairs, and started runs."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.pairs import Label, PairKind, PairSet
from mrc_workbench.data.pairs.store import StoredPairs, save_pairs
from mrc_workbench.training.runs import Run
from mrc_workbench.training.text_options import SENTENCE_CROSS_ENCODER, SENTENCES, SentenceObjective, SentenceOptions
from tests.workbench.views.driving import run
from tests.workbench.views.train.worlds import EN, click, enter, field, field_names, unopened

pytestmark = pytest.mark.slow  # torch creates the base
ROWS = 30
FIRST, SECOND = ([f"{word} {row}" for row in range(ROWS)] for word in ("sentence", "another"))


def page() -> None:
    import streamlit as st

    from mrc_workbench.workbench.views.train.base import pick_base, pick_objective
    from mrc_workbench.workbench.views.train.page import draw_form, pick_pairs

    kind = st.query_params["train"]
    data = pick_pairs()
    base = pick_base(kind)
    draw_form(kind, base, pick_objective(kind, base, data), data)


def scored() -> StoredPairs:
    scores = [row % 6 for row in range(ROWS)]
    return save_pairs(PairSet.from_columns("likeness", PairKind.SCORED, [FIRST, SECOND], scores, scale=(0, 5)))


def labelled() -> StoredPairs:
    labels = [row % 3 for row in range(ROWS)]
    return save_pairs(PairSet.from_columns("inference", PairKind.LABELLED, [FIRST, SECOND], labels))


@pytest.fixture
def app(folder: Path) -> AppTest:
    return unopened(page, train=SENTENCES, base=str(folder))


def test_trains_on_scores_with_entered_values(app: AppTest, submitted: list[Run]) -> None:
    pairs_set = scored()
    run(app)
    assert not app.exception
    assert not app.error
    assert field(app, "objective", SENTENCES).value == SentenceObjective.COSENT
    assert {"scale", "pooling", "evaluation_set"} <= field_names(app, SENTENCES)
    assert not {"concatenation", "deletion", "negatives", "title", "temperature"} & field_names(app, SENTENCES)
    click(enter(app, SENTENCES, scale=10.0), "train_start")
    (started,) = submitted
    plan = started.plan()
    assert (plan.kind, plan.data, plan.data_name, plan.fingerprint) == (
        SENTENCES, pairs_set.key, "likeness", pairs_set.fingerprint,
    )  # fmt: skip
    assert isinstance(plan.options, SentenceOptions)
    assert (plan.options.objective, plan.options.scale) == (SentenceObjective.COSENT, 10.0)


def test_offers_objectives_for_labels_with_published_settings(app: AppTest) -> None:
    labelled()
    run(app)
    objective = field(app, "objective", SENTENCES)
    assert objective.value == SentenceObjective.SIMCSE_SUPERVISED
    offered = [SentenceObjective.NLI_SOFTMAX, SentenceObjective.TRIPLET, SentenceObjective.SIMCSE_UNSUPERVISED]
    offered += [SentenceObjective.SIMCSE_SUPERVISED, SentenceObjective.TSDAE]
    assert objective.options == [EN[f"objective.{objective_name}"] for objective_name in offered]
    assert field(app, "batch_size", SENTENCES).value == 128
    enter(app, SENTENCES, objective=SentenceObjective.NLI_SOFTMAX.value)
    assert "concatenation" in field_names(app, SENTENCES)
    assert "temperature" not in field_names(app, SENTENCES)


def test_evaluates_unscored_pairs_on_another_set(app: AppTest, submitted: list[Run]) -> None:
    judge = scored()
    save_pairs(PairSet.from_columns("plain", PairKind.SENTENCES, [FIRST]))
    run(app)
    assert field(app, "objective", SENTENCES).value == SentenceObjective.SIMCSE_UNSUPERVISED
    click(enter(app, SENTENCES, evaluation_set=judge.key), "train_start")
    assert submitted[0].plan().options.evaluation_set == judge.key  # type: ignore[attr-defined]


def test_cross_encoder_of_sentences_offers_no_triplets(app: AppTest) -> None:
    third = [f"third {row}" for row in range(ROWS)]
    save_pairs(PairSet.from_columns("three", PairKind.TRIPLETS, [FIRST, SECOND, third]))
    app.query_params["train"] = SENTENCE_CROSS_ENCODER
    run(app)
    assert [info.value for info in app.info] == [EN["train.no_objective"]]


def test_displays_metrics_of_labelled_pairs() -> None:
    assert [label.value for label in Label] == [0, 1, 2]
