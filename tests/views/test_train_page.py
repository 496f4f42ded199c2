"""The Train page as a person uses it: what starts, what is shown meanwhile, and what is left at the end."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from streamlit.testing.v1 import AppTest

from data.processes import this_process
from data.records import QuestionSet
from data.split import SplitOptions
from data.store import StoredSet, keep
from retrieval.models import STARTER
from tests.doubles import small_set
from training.options import Kind, default_options
from training.runs import Phase, Run, State, Status, all_runs, create_run, new_plan
from views import resources
from views.words import catalog

EN = catalog("en")
UNDER_WAY = {State.QUEUED, State.RUNNING}
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


def start_button(app: AppTest) -> Any:
    return next(button for button in app.button if str(button.key).startswith("train_start_"))


def texts(app: AppTest) -> str:
    shown = [*app.markdown, *app.caption, *app.info, *app.error, *app.warning, *app.title, *app.subheader]
    return "\n".join(str(element.value) for element in shown)


# the page


def test_the_page_itself_loads_no_model_library(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom streamlit.testing.v1 import AppTest\nfrom tests.views.test_train_page import page\n"
        "app = AppTest.from_function(page, default_timeout=60).run()\nassert not app.exception and app.title\n"
        "print([name for name in ('torch', 'transformers', 'sentence_transformers') if name in sys.modules])"
    )
    environment = {**os.environ, "MRC_WORKSPACE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("language", ["ko", "en"])
def test_every_state_and_failure_has_words(language: str) -> None:
    words = catalog(language)
    assert {f"state.{state.value}" for state in State} <= set(words)
    codes = "hub_unreachable hub_unknown model_not_found data memory disk interrupted unexpected"
    assert {f"failure.{code}" for code in codes.split()} <= set(words)


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
    assert start_button(app).label == EN["train.enqueue"]


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
    assert start_button(app).label == EN["train.start"]


def test_a_training_in_its_first_moments_is_shown_too(app: AppTest) -> None:
    made_run(State.WAITING)
    assert not run(app).dataframe
    assert start_button(app).label == EN["train.enqueue"]


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
    assert wanted in [error.value for error in app.error]
    assert [code.value for code in app.code] == (
        ["what the program said"] if code in ("memory", "disk", "unexpected") else []
    )


def test_a_killed_training_is_interrupted(app: AppTest) -> None:
    made_run(State.RUNNING).write_status(Status(State.RUNNING, pid=2**22 + 1, pid_started=1.0))
    run(app)
    assert EN["failure.interrupted"] in [error.value for error in app.error]
    assert start_button(app).label == EN["train.start"]


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
    assert started.status().state in UNDER_WAY
    deadline = time.monotonic() + 110
    while started.status().state in UNDER_WAY and time.monotonic() < deadline:
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
    assert start_button(app).label == EN["train.start"]
