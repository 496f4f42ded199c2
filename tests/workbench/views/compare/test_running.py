"""The start of comparisons, and the results of those that a user stopped, that failed or that were interrupted."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.jobs.processes import process_of
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet, remove, save_question_set
from mrc_workbench.retrieval.comparison.compare import Result
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.ui.words import catalog, plain
from tests.retrieval.compared import RIGHT, many_questions
from tests.workbench.views.compare import worlds
from tests.workbench.views.driving import keys, opened, run

EN = catalog("en")
NAMES = ("BM25", "Dense")
ADDRESS = {"part": "all", "retrievers": "|".join(NAMES)}


def started_job(data: StoredSet, *names: str, finished: tuple[str, ...] = ("BM25",)) -> ComparisonJob:
    """Return the job of a comparison that has searched the retrievers `finished`, without a process."""
    experiment = choices_for(data).experiment(data, [*names], Part.ALL)
    job = ComparisonJob.of(experiment, data.fingerprint)
    job.folder.mkdir(parents=True)
    job.write_spec(experiment)
    for name in finished:
        job.log_result(finished_result(name))
    return job


def finished_result(name: str) -> Result:
    return worlds.results_of({name: RIGHT})[0]


def compared(started: list[Experiment]) -> set[tuple[str, ...]]:
    """Return the retrievers of the last start: the fake job starts again with every run of the page."""
    return {tuple(experiment.specs) for experiment in started}


@contextmanager
def running(data: StoredSet, *names: str) -> Iterator[ComparisonJob]:
    """A running comparison with an idle process, at its last retriever."""
    job = started_job(data, *names)
    process = subprocess.Popen(["sleep", "300"])
    now = process_of(process.pid)
    job.write_status(Status(State.RUNNING, names[-1], started=time.time(), pid=now.pid, pid_started=now.started))
    try:
        yield job
    finally:
        process.kill()
        process.wait()


def ended_job(data: StoredSet, state: State, *finished: str) -> ComparisonJob:
    job = started_job(data, *NAMES, finished=finished)
    job.write_status(Status(state, "Dense", started=time.time()))
    if state is State.STOPPED:
        job.request_stop()
    return job


def displayed_names(app: AppTest) -> list[str]:
    return list(app.dataframe[0].value["retriever"]) if app.dataframe else []


def test_counts_retrievers_of_running_comparison(data: StoredSet) -> None:
    for names, text in {("BM25",): "Evaluating one retriever on", NAMES: "Comparing 2 retrievers on"}.items():
        with running(data, *names):
            assert text in worlds.page_text(opened(worlds.page, part="all", retrievers="|".join(names)))


def test_stop_holds_in_a_session_that_opened_it_running(data: StoredSet, started: list[Experiment]) -> None:
    with running(data, *NAMES) as job:
        app = opened(worlds.page, **ADDRESS)
        worlds.press(app, f"stop_{job.id}")
        assert job.is_stopped
        assert started == []
        run(app)
        opened(worlds.page, **ADDRESS)  # a reload, or another tab
    assert started == []


def test_starts_no_stopped_comparison_on_reload_or_link(data: StoredSet, started: list[Experiment]) -> None:
    ended_job(data, State.STOPPED, "BM25")
    for more in ({}, {"run": "now"}):
        app = opened(worlds.page, **ADDRESS, **more)
        assert "run" not in app.query_params
        run(app)
    assert started == []


@pytest.mark.parametrize("state", [State.FAILED, State.INTERRUPTED])
def test_unfinished_comparison_waits_for_user(state: State, data: StoredSet, started: list[Experiment]) -> None:
    ended_job(data, state, "BM25")
    app = opened(worlds.page, **ADDRESS)
    assert started == []
    assert EN[f"compare.partial_{state}"].format(names="BM25") in worlds.page_text(app)
    assert displayed_names(app) == ["BM25"]


def test_selection_with_stopped_retriever_does_not_start(data: StoredSet, started: list[Experiment]) -> None:
    ended_job(data, State.STOPPED, "BM25")
    app = opened(worlds.page, part="all", retrievers="Dense")
    assert started == []
    assert EN["compare.waits_stopped"].format(names="Dense") in worlds.page_text(app)
    worlds.press(app, "run")
    assert [[*experiment.specs] for experiment in started] == [["Dense"]]
    opened(worlds.page, part="all", retrievers="BM25")  # searched retrievers may start
    assert [*started[-1].specs] == ["BM25"]


def test_keeps_finished_retrievers_of_stopped_comparison(data: StoredSet, started: list[Experiment]) -> None:
    ended_job(data, State.STOPPED, "BM25")
    app = opened(worlds.page, **ADDRESS)
    assert "**Partial result** · BM25 only · the rest was stopped" in worlds.page_text(app)
    table = app.dataframe[0].value.set_index("retriever")
    assert list(table.index) == ["BM25"]
    assert table.loc["BM25", "recall@1"] == pytest.approx(100 * 5.5 / 6)
    assert {"resume", "only_finished"} <= keys(app)
    assert "run" not in keys(app)
    assert "BM25만 완료 · 나머지는 중지됨" in worlds.page_text(opened(worlds.page, lang="ko", **ADDRESS))
    assert started == []
    worlds.press(app, "resume")
    assert [[*experiment.specs] for experiment in started] == [[*NAMES]]


def test_names_stopped_retrievers_before_the_first_ended(data: StoredSet, started: list[Experiment]) -> None:
    job = ended_job(data, State.STOPPED)
    app = opened(worlds.page, **ADDRESS)
    assert "Stopped before finishing: BM25, Dense" in worlds.page_text(app)
    assert "only_finished" not in keys(app)
    assert started == []
    job.log_result(Result("BM25", error=RuntimeError("no words")))  # failed retrievers are not finished
    run(app)
    assert displayed_names(app) == []
    assert "only_finished" not in keys(app)


def test_skips_damaged_notes_of_finished_retrievers(data: StoredSet) -> None:
    job = ended_job(data, State.STOPPED)
    notes = ('{"finished": 3}', '{"finished": "BM25", "metrics": [1]}', "[]", '{"finished": "x')
    (job.folder / "progress.jsonl").write_text("\n".join(notes), encoding="utf-8")
    assert job.finished_retrievers() == {}
    assert "Stopped before finishing" in worlds.page_text(opened(worlds.page, **ADDRESS))


def test_compares_only_finished_retrievers(data: StoredSet, started: list[Experiment]) -> None:
    ended_job(data, State.STOPPED, "BM25")
    app = worlds.press(opened(worlds.page, **ADDRESS), "only_finished")
    assert compared(started) == {("BM25",)}
    assert app.query_params["retrievers"] == "BM25"
    assert app.pills[0].value == ["BM25"]
    assert (started[0].split, app.query_params["part"]) == (Part.ALL, "all")


def test_compares_finished_retrievers_while_running(data: StoredSet, started: list[Experiment]) -> None:
    with running(data, *NAMES) as job:
        app = opened(worlds.page, **ADDRESS)
        assert "**Partial result** · BM25 only · the rest is still running" in worlds.page_text(app)
        worlds.press(app, "only_finished")
        assert job.is_stopped
    assert compared(started) == {("BM25",)}


def test_keeps_earlier_result_that_has_all_finished_retrievers(data: StoredSet, started: list[Experiment]) -> None:
    worlds.store_rows(data, {"BM25": RIGHT})
    job = ended_job(data, State.STOPPED, "BM25")
    app = opened(worlds.page, **ADDRESS)
    assert "Stopped before finishing: Dense" in worlds.page_text(app)
    assert "Earlier comparison · 6 questions · " in worlds.page_text(app)
    assert any("interval" in frame.value for frame in app.dataframe)  # the whole result, not the partial one
    assert "only_finished" not in keys(app)
    worlds.press(app, "resume")
    assert [[*experiment.specs] for experiment in started] == [[*NAMES]]
    job.log_result(finished_result("Dense"))
    app = opened(worlds.page, part="all", retrievers="|".join(NAMES))
    assert displayed_names(app) == [*NAMES]  # the earlier comparison has no metrics of Dense
    assert {"resume", "only_finished"} <= keys(app)


def slow_dense(monkeypatch: pytest.MonkeyPatch, data: StoredSet, seconds: float) -> None:
    """Use a transformer for the dense retriever, with these measured seconds on this dataset."""
    model = "packaged:multilingual-e5-small"
    monkeypatch.setattr("mrc_workbench.retrieval.comparison.multistage.default_model", lambda: model)
    worlds.store_seconds(choices_for(data).specs["Dense"], seconds)


def test_shows_time_of_slow_retriever_and_does_not_select_it(
    data: StoredSet, started: list[Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_dense(monkeypatch, data, 1560.0)
    app = opened(worlds.page)
    assert compared(started) == {("BM25", "Reranked")}  # a static model reranks these few passages at once
    (pills,) = app.pills
    assert {"BM25", "Dense · about 26 min", "Hybrid · up to 26 min", "Reranked"} <= set(pills.options)
    assert pills.value == ["BM25", "Reranked"]
    assert EN["compare.slow_unselected"] in worlds.page_text(app)


def test_link_to_slow_comparison_waits_and_selects_compared_retriever(
    data: StoredSet, started: list[Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_dense(monkeypatch, data, 1560.0)
    app = opened(worlds.page, **ADDRESS)
    assert started == []
    assert EN["compare.waits_slow"].format(names="Dense") in worlds.page_text(app)
    worlds.press(app, "run")
    assert [[*experiment.specs] for experiment in started] == [[*NAMES]]
    started.clear()
    worlds.store_rows(data, dict.fromkeys(NAMES, RIGHT))
    (pills,) = opened(worlds.page, part="all").pills
    assert set(NAMES) <= set(pills.value)
    assert "Dense" in pills.options
    assert started == []


def test_starts_quick_retriever(data: StoredSet, started: list[Experiment], monkeypatch: pytest.MonkeyPatch) -> None:
    slow_dense(monkeypatch, data, 20.0)
    (pills,) = opened(worlds.page).pills
    assert {"Dense", "Hybrid"} <= set(pills.value)
    assert {"Dense", "Hybrid"} <= started[0].specs.keys()


def test_marks_only_result_of_another_selection(data: StoredSet, started: list[Experiment]) -> None:
    worlds.store_rows(data, {"BM25": RIGHT})
    assert "Earlier comparison · 6 questions · " in worlds.page_text(opened(worlds.page, **ADDRESS))
    assert "Earlier comparison" not in worlds.page_text(opened(worlds.page, part="all", retrievers="BM25"))
    assert started == []


def test_reports_deleted_dataset_only(data: StoredSet, started: list[Experiment]) -> None:
    worlds.store_rows(data, {"BM25": RIGHT})
    app = opened(worlds.whole_page, data=data.key, part="all", retrievers="BM25")
    other = save_question_set(many_questions(2)[0])
    remove(data.key)
    run(app)
    assert EN["missing_set.deleted"].format(name="small") in worlds.page_text(app)
    assert not app.title
    assert not app.dataframe
    assert app.query_params["data"] == data.key
    assert started == []
    again = opened(worlds.whole_page, data=data.key)  # a reload in a new session
    assert EN["missing_set.deleted"].format(name="small") in worlds.page_text(again)
    worlds.press(app, f"open_set_{other.key}")
    assert app.query_params["data"] == other.key
    assert EN["missing_set.choose"] not in worlds.page_text(app)


def test_reports_unknown_dataset_of_address(data: StoredSet, started: list[Experiment]) -> None:
    name = "does*not*exist"
    app = opened(worlds.whole_page, data=name)
    assert EN["missing_set.unknown"].format(key=plain(name)) in worlds.page_text(app)
    assert started == []
    app.sidebar.selectbox[0].select(data.key)
    run(app)
    assert app.query_params["data"] == data.key
    assert EN["missing_set.choose"] not in worlds.page_text(app)
