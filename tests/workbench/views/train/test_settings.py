"""Settings searches on the Train page: start, progress, results, and use of the best settings."""

from dataclasses import asdict, replace

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.jobs.processes import this_process
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import save_question_set
from mrc_workbench.models.sources import STARTER
from mrc_workbench.training.jobs import SettingsSearch, SettingsSearchResult, TrialResult, create_search
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER, BiEncoderOptions, CrossEncoderOptions
from mrc_workbench.training.runs import all_runs, new_plan
from mrc_workbench.workbench.views.choices import finished_runs
from tests.doubles import small_set
from tests.training.worlds import all_searches
from tests.workbench.views.driving import run
from tests.workbench.views.train.worlds import EN, click, field, page, progress_texts, texts, unopened

CHANGES = [{}, {"learning_rate": 0.003}, {"objective": "multiple-negatives", "temperature": 0.05}]


def tried(number: int, difference: float, p: float, share: float = 1.0) -> TrialResult:
    values = {"value": 0.7 + difference, "low": 0.6, "high": 0.8, "difference": difference}
    values |= {"difference_low": difference - 0.02, "difference_high": difference + 0.02, "p_family": p, "loss": 0.5}
    return TrialResult(number, CHANGES[number - 1], share, 2 * share, int(8 * share), **values)


FIRST = tried(1, 0.0, 1.0)
ALIKE = SettingsSearchResult("ndcg@10", 48, 0.65, 2, 1, (FIRST, tried(2, 0.004, 0.4), tried(3, -0.1, 0.001, 0.25)))
BETTER = SettingsSearchResult("ndcg@10", 48, 0.65, 3, 3, (FIRST, tried(2, 0.0, 1.0, 0.25), tried(3, 0.1, 0.001)))
NONE = SettingsSearchResult("ndcg@10", 48, 0.65, 1, 1, (FIRST, tried(2, -0.01, 0.4)), failed=(3,))


def finished_search(
    findings: SettingsSearchResult,
    state: State = State.DONE,
    *,
    kind: str = BI_ENCODER,
    trials: int = 3,
    **status: object,
) -> SettingsSearch:
    dataset = save_question_set(small_set())
    options = BiEncoderOptions.defaults_for() if kind == BI_ENCODER else CrossEncoderOptions.defaults_for()
    plan = new_plan(kind, "mine", (dataset.key, dataset.name, dataset.fingerprint), SplitOptions(), options)
    search = create_search(plan, 10.0)
    search.write("search.json", {"changes": CHANGES, "epochs": 2.0, "seconds": 100.0, "cost": {}})
    for number in range(1, trials + 1):
        trial = search.create_trial(number, replace(options, epochs=2.0), len(CHANGES))
        ended, step = (State.DONE, 8) if number < 3 else (State.STOPPED, 2)
        trial.write_status(Status(ended, step=step, total_steps=8))
        trial.add_progress({"step": 1, "loss": 0.7, "eval_validation_ndcg@10": 0.7})
    search.write("settings.json" if state is State.DONE else "partial.json", asdict(findings))
    pid, started = this_process()
    search.write_status(Status(state, pid=pid, pid_started=started, **status))  # type: ignore[arg-type]
    return search


@pytest.fixture
def app(no_worker: None) -> AppTest:
    return unopened(page)


def test_starts_search_with_entered_minutes(app: AppTest) -> None:
    run(app)
    assert "Test questions are not used" in texts(app)
    assert "1. Learning rate: 0.003" in texts(app)
    app.number_input(key="train_settings_minutes").set_value(3)
    run(app)
    labels = [element.label for element in app.button if str(element.key).startswith("train_find_")]
    assert "Search for up to 3 minutes" in labels
    click(app, "train_find_")
    (search,) = all_searches()
    assert search.plan().minutes == 3
    assert search.status().state is State.QUEUED
    assert f"Settings search for {search.plan().name}".replace("-", "\\-") in texts(app)
    assert all_runs() == []


@pytest.mark.slow
def test_keeps_defaults_if_not_significant_and_opens_trial_curves(app: AppTest) -> None:
    search = finished_search(ALIKE)
    run(app)
    assert "Your starting settings are as good as any tried" in texts(app)
    assert "“Learning rate\\: 0\\.003” is +0.4 points of nDCG@10 higher" in texts(app)
    table = app.dataframe[0].value
    assert table["chosen"].tolist() == ["✓", "", ""]
    assert table["setting"].tolist()[0] == EN["settings.defaults"]
    assert table["steps"].tolist() == [8, 8, 2]
    parts = [element.key for element in app.button if str(element.key).startswith("part_")]
    assert parts == [f"part_{search.id}_{search.id}-{number}" for number in (1, 2, 3)]
    assert not [element for element in app.button if str(element.key).startswith(("use_2", "resume_2"))]
    assert finished_runs() == {}  # no page offers a trial as a model
    click(app, f"part_{search.id}_{search.id}-2")
    assert app.session_state["run_dialog"] == ("details", f"{search.id}-2")
    assert EN["train.loss"] in texts(app)


def test_reports_no_better_setting_and_failed_trial(app: AppTest) -> None:
    finished_search(NONE)
    run(app)
    assert EN["settings.defaults_best"].format(measure="nDCG@10") in texts(app)
    assert "Ended with an error: settings 3." in texts(app)


@pytest.mark.slow
def test_applies_better_settings_to_form(app: AppTest) -> None:
    search = finished_search(BETTER)
    run(app)
    assert "is better**: +10.0 points of nDCG@10" in texts(app)
    app.selectbox(key="base_en").set_value(STARTER)
    click(run(app), f"use_settings_{search.id}")
    values = [field(app, name).value for name in ("objective", "temperature", "learning_rate")]
    assert values == ["multiple-negatives", 0.05, 0.001]  # the other learning rate is not the best
    assert len(all_runs()) == 3  # no new run
    assert all_searches() == [search]


def test_switches_to_kind_of_the_search(app: AppTest) -> None:
    search = finished_search(replace(NONE, failed=()), kind=CROSS_ENCODER)
    click(run(app), f"use_settings_{search.id}")
    assert app.query_params["train"] in ("cross-encoder", ["cross-encoder"])
    assert field(app, "learning_rate", CROSS_ENCODER).value == 0.01


def test_displays_progress_and_can_be_stopped(app: AppTest) -> None:
    status = {"phase": "trying_2", "step": 2, "total_steps": 3, "progress": 0.5, "seconds_left": 90.0}
    search = finished_search(ALIKE, State.RUNNING, trials=2, **status)
    run(app)
    assert any("round 2 of 3, settings 2 of 3" in text and "1 min 30 s" in text for text in progress_texts(app))
    assert "Up to 10 minutes" in texts(app)
    assert len(app.dataframe[0].value) == 3
    assert not [element for element in app.button if str(element.key).startswith("use_settings")]
    click(app, f"stop_{search.id}")
    assert search.stop_requested
    assert any(EN["settings.stopping"] in text for text in progress_texts(app))


@pytest.mark.parametrize(("code", "expected"), [("settings_minutes", "about 12 minutes"), ("settings_time", "ran out")])
def test_reports_failure_reason(app: AppTest, code: str, expected: str) -> None:
    search = finished_search(ALIKE, State.FAILED, trials=0, code=code, message="why")
    (search.folder / "partial.json").unlink()
    search.write("search.json", {"minutes": 12})
    run(app)
    assert any(expected in error.value for error in app.error)


@pytest.mark.slow
def test_resumes_and_deletes_with_its_trials(app: AppTest) -> None:
    search = finished_search(ALIKE, State.STOPPED)
    click(run(app), f"resume_{search.id}")
    assert search.status().state is State.QUEUED
    click(app, f"delete_{search.id}")
    click(app, "delete_yes")
    assert all_searches() == []
    assert all_runs() == []
