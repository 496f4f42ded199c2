"""The Train page as a person uses it: what starts, what is shown meanwhile, and what is left at the end."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from streamlit.testing.v1 import AppTest

from data.processes import this_process
from data.records import QuestionSet
from data.split import SplitOptions
from data.store import StoredSet, keep
from retrieval.models import DEFAULT_BI_ENCODER, STARTER
from tests.doubles import small_set
from training.options import BiEncoderOptions, CrossEncoderOptions, Kind, default_options
from training.runs import Phase, Run, State, Status, all_runs, create_run, new_plan
from views import resources, train_form
from views.words import catalog

EN = catalog("en")
SCORES: dict[str, Any] = {
    "before": {"recall@1": 0.5, "recall@5": 0.6, "recall@10": 0.7, "mrr@10": 0.55, "ndcg@10": 0.6},
    "after": {"recall@1": 0.6, "recall@5": 0.7, "recall@10": 0.8, "mrr@10": 0.65, "ndcg@10": 0.7},
    "bm25": {"recall@1": 0.7, "recall@5": 0.65, "recall@10": 0.75, "mrr@10": 0.6, "ndcg@10": 0.65},
    "questions": 48,
    "seconds": 9.2,
}


def page() -> None:
    from views import sidebar, train_page

    sidebar.draw()
    train_page.draw()


@pytest.fixture
def app() -> Iterator[AppTest]:
    resources.hub_answer.clear()
    test = AppTest.from_function(page, default_timeout=30)
    test.query_params["lang"] = "en"
    yield test
    resources.hub_answer.clear()


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Runs the page has launched; instead of a training each has this very process."""
    runs: list[Run] = []

    def launch(run: Run) -> None:
        runs.append(run)
        pid, started = this_process()
        run.write_status(Status(pid=pid, pid_started=started))

    monkeypatch.setattr(train_form, "launch", launch)
    return runs


def run(app: AppTest) -> AppTest:
    app.run()
    assert not app.exception
    return app


def made_run(state: State, kind: Kind = Kind.BI_ENCODER, name: str = "first", **status: Any) -> Run:
    kept = kept_set()
    plan = new_plan(kind, name, (kept.key, kept.name, kept.fingerprint), SplitOptions(), default_options(kind))
    made = create_run(plan)
    pid, started = this_process()
    made.write_status(Status(state, pid=pid, pid_started=started, **status))
    return made


def kept_set(question_set: QuestionSet | None = None) -> StoredSet:
    return keep(question_set or small_set())


def done_run(kind: Kind = Kind.BI_ENCODER, name: str = "first", **changed: Any) -> Run:
    made = made_run(State.DONE, kind, name)
    (made.folder / "scores.json").write_text(json.dumps(SCORES | changed), encoding="utf-8")
    made.model_folder.mkdir()
    (made.model_folder / "config.json").write_text("{}", encoding="utf-8")
    return made


def option(app: AppTest, name: str, base: str = STARTER, kind: Kind = Kind.BI_ENCODER) -> Any:
    return app.number_input(key=f"train_{kind.value}_{base}_{name}")


def start_button(app: AppTest) -> Any:
    return next(button for button in app.button if button.label == EN["train.start"])


def texts(app: AppTest) -> str:
    shown = [*app.markdown, *app.caption, *app.info, *app.error, *app.warning, *app.title, *app.subheader]
    return "\n".join(str(element.value) for element in shown)


# what is offered


def test_a_first_visit_offers_the_starter_and_says_what_to_do(app: AppTest) -> None:
    run(app)
    assert app.selectbox(key="train_base_bi-encoder").value == STARTER
    assert [option(app, name).value for name in ("epochs", "batch_size", "learning_rate")] == [3.0, 256, 0.001]
    assert not start_button(app).disabled
    assert EN["train.list_empty"] in texts(app)


def test_the_page_itself_loads_no_model_library(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom streamlit.testing.v1 import AppTest\nfrom tests.views.test_train_page import page\n"
        "app = AppTest.from_function(page, default_timeout=60).run()\nassert not app.exception and app.title\n"
        "print([name for name in ('torch', 'transformers', 'sentence_transformers') if name in sys.modules])"
    )
    environment = {**os.environ, "MRC_WORKSPACE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("kind", list(Kind))
def test_every_option_has_a_field_with_the_default_of_its_kind(app: AppTest, kind: Kind) -> None:
    app.query_params["train"] = kind.value
    run(app)
    wanted = default_options(kind)
    for field in fields(wanted):
        value = getattr(wanted, field.name)
        if isinstance(value, bool):
            assert app.checkbox(key=f"train_{kind.value}_{STARTER}_{field.name}").value is value
        elif field.name != "base":
            assert option(app, field.name, kind=kind).value == value


@pytest.mark.parametrize("language", ["ko", "en"])
def test_every_option_state_and_failure_has_words(language: str) -> None:
    words = catalog(language)
    for options in (BiEncoderOptions, CrossEncoderOptions):
        for field in fields(options):
            assert field.name == "base" or {f"option.{field.name}", f"option_help.{field.name}"} <= set(words)
    assert {f"state.{state.value}" for state in State} <= set(words)
    codes = "hub_unreachable hub_unknown model_not_found data memory disk interrupted unexpected"
    assert {f"failure.{code}" for code in codes.split()} <= set(words)


def test_the_defaults_follow_the_base_and_what_was_entered_stays(app: AppTest, launched: list[Run]) -> None:
    run(app)
    option(app, "epochs").set_value(7.0)
    option(app, "save_steps").set_value(3)
    start_button(app).click()
    run(app)
    assert not launched
    app.selectbox(key="train_base_bi-encoder").set_value(DEFAULT_BI_ENCODER)
    run(app)
    hub = [option(app, name, DEFAULT_BI_ENCODER).value for name in ("epochs", "batch_size", "learning_rate")]
    assert hub == [3.0, 64, 2e-5]
    app.selectbox(key="train_base_bi-encoder").set_value(STARTER)
    assert option(run(app), "epochs").value == 7.0


def test_a_finished_run_is_a_base_with_its_own_options(app: AppTest) -> None:
    done_run(Kind.CROSS_ENCODER, "other kind")
    base = done_run()
    run(app)
    select = app.selectbox(key="train_base_bi-encoder")
    assert len(select.options) == 4
    select.set_value(base.id)
    run(app)
    assert option(app, "learning_rate", base.id).value == 1e-3
    assert EN["train.about_folder"] in texts(app)


# the hub


def answered(app: AppTest) -> AppTest:
    for _ in range(100):
        run(app)
        if EN["train.hub_asking"] not in texts(app):
            return app
        time.sleep(0.1)
    raise TimeoutError


def test_a_hub_that_cannot_be_reached_is_told_and_the_starter_is_one_press_away(app: AppTest) -> None:
    app.query_params["base"] = DEFAULT_BI_ENCODER
    assert "cannot be reached" in answered(app).warning[0].value
    next(button for button in app.button if button.label == EN["train.use_starter"]).click()
    run(app)
    assert app.selectbox(key="train_base_bi-encoder").value == STARTER
    assert app.query_params["base"] in (STARTER, [STARTER])


def test_the_page_does_not_wait_for_the_hub(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, release = threading.Event(), threading.Event()

    def slow(hub_id: str) -> None:
        asked.set()
        release.wait(30)

    monkeypatch.setattr(resources, "hub_revision", slow)
    app.query_params["base"] = DEFAULT_BI_ENCODER
    run(app)
    assert asked.wait(10)
    assert EN["train.hub_asking"] in texts(app)
    assert not start_button(app).disabled
    release.set()


def test_another_model_must_be_somewhere(app: AppTest, tmp_path: Path) -> None:
    app.query_params["base"] = "other"
    run(app)
    assert start_button(app).disabled
    app.text_input(key="train_other_bi-encoder").set_value("no such **folder**")
    run(app)
    assert start_button(app).disabled
    assert "no such \\*\\*folder\\*\\*" in app.error[0].value
    app.text_input(key="train_other_bi-encoder").set_value("가" * 300 + "?")
    assert start_button(run(app)).disabled
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    app.text_input(key="train_other_bi-encoder").set_value(str(tmp_path))
    run(app)
    assert EN["train.about_folder"] in texts(app)
    assert not start_button(app).disabled


# starting


def test_what_was_entered_is_what_is_started(app: AppTest, launched: list[Run]) -> None:
    kept = kept_set()
    run(app)
    option(app, "epochs").set_value(5.0)
    option(app, "save_limit").set_value(4)
    option(app, "validation").set_value(0.2)
    app.text_input(key=f"train_bi-encoder_{STARTER}_name_0").set_value("../<b>mine</b>")
    start_button(app).click()
    run(app)
    (started,) = launched
    plan = started.plan()
    assert plan.options == replace(default_options(Kind.BI_ENCODER), epochs=5.0, save_limit=4)
    assert (plan.name, plan.split, plan.fingerprint) == ("../<b>mine</b>", SplitOptions(0.2, 0.2, 0), kept.fingerprint)
    assert started.folder.parent.name == "runs"
    assert start_button(app).disabled
    assert "one training runs at a time" in texts(app)


@pytest.mark.parametrize(
    ("entered", "field", "problem"),
    [
        ({"save_steps": 7}, "save_steps", "save_steps"),
        ({"validation": 0.6, "test": 0.6}, "validation", "validation"),
        ({"validation": 0.0}, "validation", "validation_empty"),
    ],
)
def test_what_does_not_fit_is_told_and_stays(
    app: AppTest, launched: list[Run], entered: dict[str, float], field: str, problem: str
) -> None:
    run(app)
    for name, value in entered.items():
        option(app, name).set_value(value)
    start_button(app).click()
    run(app)
    beside, by_the_button = (error.value for error in app.error)
    assert beside == EN[f"option_problem.{problem}"]
    assert by_the_button == f"**{EN[f'option.{field}']}**: {beside}"
    assert all(option(app, name).value == value for name, value in entered.items())
    assert (launched, all_runs()) == ([], [])


# running


@pytest.fixture
def running() -> Run:
    made = made_run(State.RUNNING, phase=Phase.TRAINING, step=30, total_steps=120, seconds_left=100.0)
    made.add_measures("bm25", {"recall@10": 0.9})
    made.add_measures("before", {"recall@10": 0.5})
    for step in range(1, 31):
        made.add_progress({"step": step, "loss": 1 / step})
    made.add_progress({"step": 30, "eval_validation_cosine_recall@10": 0.625})
    return made


def test_a_running_training_shows_how_far_it_is(app: AppTest, running: Run) -> None:
    run(app)
    assert [metric.value for metric in app.metric] == ["30 / 120", "0.8 / 3", "1 min 40 s", "0.0333"]
    loss, measured = (table.value for table in app.dataframe)
    assert loss.to_numpy()[[0, -1]].tolist() == [[1, 1.0], [30, 1 / 30]]
    assert measured.to_dict("list") == {"Step": [0, 30], "Recall@10": [0.5, 0.625], "BM25": [0.9, 0.9]}
    assert start_button(app).disabled


def test_stop_asks_and_then_offers_to_end_at_once(app: AppTest, running: Run) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    started = psutil.Process(process.pid).create_time()
    running.write_status(replace(running.status(), pid=process.pid, pid_started=started))
    run(app).button(key=f"stop_{running.id}").click()
    run(app)
    assert running.asked_to_stop
    app.button(key=f"end_{running.id}").click()
    run(app)
    process.wait(10)
    run(app)
    assert running.status().state is State.STOPPED
    assert not start_button(app).disabled


def test_a_training_in_its_first_moments_is_shown_too(app: AppTest) -> None:
    made_run(State.WAITING)
    assert not run(app).dataframe
    assert start_button(app).disabled


# what is left


def test_a_finished_training_shows_what_it_gained(app: AppTest) -> None:
    done_run(name="*mine*")
    run(app)
    table = app.dataframe[0].value
    assert table["row"].tolist() == ["Before training", "After training", "BM25"]
    assert table["recall@10"].round(1).tolist() == [70.0, 80.0, 75.0]
    assert "Recall@10 **rose by 10.0 points**, from 70.0 % to 80.0 %" in texts(app)
    assert "\\*mine\\*" in texts(app)
    assert "took 9 s" in texts(app)


def test_a_training_that_changed_nothing_says_so(app: AppTest) -> None:
    done_run(after=SCORES["before"])
    assert f"Recall@10 **stayed at 70.0 %**. {EN['train.nothing_learned']}" in texts(run(app))


def test_a_reranker_shows_what_mixing_gives(app: AppTest) -> None:
    done_run(Kind.CROSS_ENCODER, interpolated=SCORES["bm25"], weight=0.35)
    run(app)
    assert app.dataframe[0].value["row"].tolist()[2] == "Mixed with BM25 (weight 0.35)"
    assert "from 60.0 % to 70.0 %" in texts(app)  # nDCG@10


@pytest.mark.parametrize("code", ["hub_unreachable", "model_not_found", "memory", "disk", "unexpected", "no such code"])
def test_a_failure_is_told_in_words(app: AppTest, code: str) -> None:
    made_run(State.FAILED, code=code, message="what the program said")
    run(app)
    wanted = EN.get(f"failure.{code}", EN["failure.unexpected"]).format(base=STARTER)
    assert [error.value for error in app.error] == [wanted]
    assert [code.value for code in app.code] == (
        ["what the program said"] if code in ("memory", "disk", "unexpected") else []
    )


def test_a_killed_training_is_interrupted(app: AppTest) -> None:
    made_run(State.RUNNING).write_status(Status(State.RUNNING, pid=2**22 + 1, pid_started=1.0))
    run(app)
    assert [error.value for error in app.error] == [EN["failure.interrupted"]]
    assert not start_button(app).disabled


def test_details_show_options_and_log(app: AppTest) -> None:
    made = done_run()
    (made.folder / "log.txt").write_text("\n".join(f"line {n}" for n in range(1000)), encoding="utf-8")
    run(app).button(key=f"details_{made.id}").click()
    run(app)
    settings = next(table.value for table in app.dataframe if EN["train.row_option"] in table.value)
    rows = dict(settings.to_numpy().tolist())
    assert (rows["Learning rate"], rows["Split seed"], rows["Base model"]) == ("0.001", "0", "Starter")
    assert app.code[0].value.splitlines() == [f"line {n}" for n in range(800, 1000)]


def test_deleting_asks_first(app: AppTest) -> None:
    made = done_run()
    run(app).button(key=f"delete_{made.id}").click()
    run(app)
    assert made.folder.exists()
    assert EN["train.delete_question"].format(name="first") in texts(app)

    def question() -> None:
        import streamlit as st

        from training.runs import find_run
        from views.run_list import ask_to_delete

        if found := find_run(st.session_state["id"]):
            ask_to_delete(found)

    dialog = AppTest.from_function(question)  # the test's app runs whole, so it loses sight of an open dialog
    dialog.session_state["id"] = made.id
    run(dialog).button(key="delete_no").click()
    run(dialog)
    assert made.folder.exists()
    dialog.button(key="delete_yes").click()
    run(dialog)
    assert not made.folder.exists()


def test_use_in_compare_opens_it_with_the_model_picked(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[dict[str, str]] = []
    monkeypatch.setattr("streamlit.switch_page", lambda _, query_params: opened.append(query_params))
    made = done_run(name="mine")
    kept_set(QuestionSet("another", small_set().passages[:2], small_set().questions[:2]))
    run(app).button(key=f"use_{made.id}").click()
    run(app)
    wanted = {"data": kept_set().key, "retrievers": "BM25|Dense · mine|Hybrid · mine", "part": "test", "lang": "en"}
    assert opened == [wanted]


def test_old_trainings_are_shown_on_request(app: AppTest) -> None:
    for number in range(7):
        made_run(State.STOPPED, name=f"run {number}")
    run(app)
    assert len([button for button in app.button if button.label == EN["train.details"]]) == 5
    next(button for button in app.button if button.label == "Show 2 older trainings").click()
    run(app)
    assert len([button for button in app.button if button.label == EN["train.details"]]) == 7


# the whole way


@pytest.mark.slow
def test_a_starter_is_trained_on_the_sample_from_the_page(app: AppTest) -> None:
    run(app)
    start_button(app).click()
    run(app)
    (started,) = all_runs()
    assert started.status().at_work
    deadline = time.monotonic() + 110
    while started.status().at_work and time.monotonic() < deadline:
        time.sleep(0.3)
    assert started.status().state is State.DONE, started.log()
    run(app)
    rows = app.dataframe[0].value.set_index("row")
    scores = started.scores()
    assert rows.loc["BM25", "recall@10"] == pytest.approx(scores["bm25"]["recall@10"] * 100)
    assert rows.loc["After training", "ndcg@10"] == pytest.approx(scores["after"]["ndcg@10"] * 100)
    assert any(
        option.startswith("Starter 1 (trained here") for option in app.selectbox(key="train_base_bi-encoder").options
    )
    assert not start_button(app).disabled
