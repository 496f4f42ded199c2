"""What starts a comparison and what does not; what stays of one that a user stopped, that failed or was cut off."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.jobs.processes import process_of
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet, keep, remove
from mrc_workbench.data.workspace import workspace, write_json
from mrc_workbench.retrieval.comparison.compare import Result
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.comparison.pace import reader_of
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.ui.words import catalog, plain
from tests.doubles import small_set
from tests.retrieval.compared import comparison_of
from tests.workbench.views.compare.worlds import FOUND, KS, kept, page, press, said, whole_page
from tests.workbench.views.driving import keys, opened, run

EN = catalog("en")
NAMES = ("BM25", "Dense")
ADDRESS = {"part": "all", "retrievers": "|".join(NAMES)}


def job_of(data: StoredSet, *names: str) -> tuple[ComparisonJob, Experiment]:
    experiment = choices_for(data).experiment(data, [*names], Part.ALL)
    return ComparisonJob.of(experiment, data.fingerprint), experiment


def begun(data: StoredSet, *names: str, finished: tuple[str, ...] = ("BM25",)) -> ComparisonJob:
    """Return the job of a comparison that has searched the retrievers `finished`, without a process."""
    job, experiment = job_of(data, *names)
    job.folder.mkdir(parents=True)
    job.write_spec(experiment)
    for name in finished:
        job.note(found(name))
    return job


def found(name: str) -> Result:
    (result,) = comparison_of({name: FOUND}, small_set(), KS, depth=100).results
    return result


def compared(started: list[Experiment]) -> set[tuple[str, ...]]:
    """The retrievers of what was started: a double that starts nothing is asked again when the page is drawn again."""
    return {tuple(experiment.specs) for experiment in started}


@contextmanager
def running(data: StoredSet, *names: str) -> Iterator[ComparisonJob]:
    """A comparison at work in a process that does nothing, at its last retriever."""
    job = begun(data, *names)
    process = subprocess.Popen(["sleep", "300"])
    now = process_of(process.pid)
    job.write_status(Status(State.RUNNING, names[-1], started=time.time(), pid=now.pid, pid_started=now.started))
    try:
        yield job
    finally:
        process.kill()
        process.wait()


def ended(data: StoredSet, state: State, *finished: str) -> ComparisonJob:
    job = begun(data, *NAMES, finished=finished)
    job.write_status(Status(state, "Dense", started=time.time()))
    if state is State.STOPPED:
        job.ask_to_stop()
    return job


def shown(app: AppTest) -> list[str]:
    return list(app.dataframe[0].value["retriever"]) if app.dataframe else []


def test_counts_the_retrievers_of_a_running_comparison(data: StoredSet) -> None:
    for names, text in {("BM25",): "Evaluating one retriever on", NAMES: "Comparing 2 retrievers on"}.items():
        with running(data, *names):
            assert text in said(opened(page, part="all", retrievers="|".join(names)))


def test_the_first_press_of_stop_holds_in_a_session_that_found_it_running(
    data: StoredSet, started: list[Experiment]
) -> None:
    with running(data, *NAMES) as job:
        app = opened(page, **ADDRESS)
        press(app, f"stop_{job.id}")
        assert job.is_stopped
        assert started == []
        run(app)
        opened(page, **ADDRESS)  # a reload, or another tab
    assert started == []


def test_neither_a_reload_nor_a_link_starts_what_a_user_stopped(data: StoredSet, started: list[Experiment]) -> None:
    ended(data, State.STOPPED, "BM25")
    for more in ({}, {"run": "now"}):
        app = opened(page, **ADDRESS, **more)
        assert "run" not in app.query_params
        run(app)
    assert started == []


@pytest.mark.parametrize("state", [State.FAILED, State.INTERRUPTED])
def test_what_failed_or_was_cut_off_waits_for_the_user(
    state: State, data: StoredSet, started: list[Experiment]
) -> None:
    ended(data, state, "BM25")
    app = opened(page, **ADDRESS)
    assert started == []
    assert EN[f"compare.partial_{state}"].format(names="BM25") in said(app)
    assert shown(app) == ["BM25"]


def test_a_selection_with_a_stopped_retriever_does_not_start_by_itself(
    data: StoredSet, started: list[Experiment]
) -> None:
    ended(data, State.STOPPED, "BM25")
    app = opened(page, part="all", retrievers="Dense")
    assert started == []
    assert EN["compare.waits_stopped"].format(names="Dense") in said(app)
    press(app, "run")
    assert [[*one.specs] for one in started] == [["Dense"]]
    opened(page, part="all", retrievers="BM25")  # what had been searched may start
    assert [*started[-1].specs] == ["BM25"]


def test_the_finished_retrievers_of_a_stopped_comparison_stay(data: StoredSet, started: list[Experiment]) -> None:
    ended(data, State.STOPPED, "BM25")
    app = opened(page, **ADDRESS)
    assert "**Partial result** · BM25 only · the rest was stopped" in said(app)
    table = app.dataframe[0].value.set_index("retriever")
    assert list(table.index) == ["BM25"]
    assert table.loc["BM25", "recall@1"] == pytest.approx(100 * 5.5 / 6)
    assert {"resume", "only_finished"} <= keys(app)
    assert "run" not in keys(app)
    assert "BM25만 완료 · 나머지는 중지됨" in said(opened(page, lang="ko", **ADDRESS))
    assert started == []
    press(app, "resume")
    assert [[*one.specs] for one in started] == [[*NAMES]]


def test_before_any_retriever_ended_it_says_what_was_stopped(data: StoredSet, started: list[Experiment]) -> None:
    job = ended(data, State.STOPPED)
    app = opened(page, **ADDRESS)
    assert "Stopped before finishing: BM25, Dense" in said(app)
    assert "only_finished" not in keys(app)
    assert started == []
    job.note(Result("BM25", error=RuntimeError("no words")))  # a failed one is not among the finished ones
    run(app)
    assert shown(app) == []
    assert "only_finished" not in keys(app)


def test_a_damaged_note_of_a_finished_retriever_is_passed_over(data: StoredSet) -> None:
    job = ended(data, State.STOPPED)
    for line in ('{"finished": 3}', '{"finished": "BM25", "figures": [1]}', "[]", '{"finished": "x'):
        (job.folder / "progress.jsonl").write_text(line + "\n", encoding="utf-8")
        assert job.finished() == {}, line
        assert "Stopped before finishing" in said(opened(page, **ADDRESS)), line


def test_the_finished_ones_are_compared_alone(data: StoredSet, started: list[Experiment]) -> None:
    ended(data, State.STOPPED, "BM25")
    app = press(opened(page, **ADDRESS), "only_finished")
    assert compared(started) == {("BM25",)}
    assert app.query_params["retrievers"] == "BM25"
    assert app.pills[0].value == ["BM25"]
    assert (started[0].split, app.query_params["part"]) == (Part.ALL, "all")


def test_while_it_runs_the_finished_ones_can_be_compared_alone(data: StoredSet, started: list[Experiment]) -> None:
    with running(data, *NAMES) as job:
        app = opened(page, **ADDRESS)
        assert "**Partial result** · BM25 only · the rest is still running" in said(app)
        press(app, "only_finished")
        assert job.is_stopped
    assert compared(started) == {("BM25",)}


def test_an_earlier_result_that_holds_all_finished_ones_stays(data: StoredSet, started: list[Experiment]) -> None:
    kept(data, ["BM25"], small_set(), comparison_of({"BM25": FOUND}, small_set(), KS, depth=100).results)
    job = ended(data, State.STOPPED, "BM25")
    app = opened(page, **ADDRESS)
    assert "Stopped before finishing: Dense" in said(app)
    assert "Earlier comparison · 6 questions · " in said(app)
    assert any("interval" in frame.value for frame in app.dataframe)  # the whole result, not the partial one
    assert "only_finished" not in keys(app)
    press(app, "resume")
    assert [[*one.specs] for one in started] == [[*NAMES]]
    job.note(found("Dense"))
    app = opened(page, part="all", retrievers="|".join(NAMES))
    assert shown(app) == [*NAMES]  # the earlier one has no metrics of Dense
    assert {"resume", "only_finished"} <= keys(app)


def slow_dense(monkeypatch: pytest.MonkeyPatch, data: StoredSet, seconds: float) -> None:
    """Have the dense retriever read with a transformer, measured to take so many seconds on this set."""
    model = "packaged:multilingual-e5-small"
    monkeypatch.setattr("mrc_workbench.retrieval.comparison.multistage.default_model", lambda: model)
    spec = choices_for(data).specs["Dense"]
    assert isinstance(spec, DenseSpec)
    write_json(workspace() / "cache" / "pace.json", {reader_of(spec): {"setup": seconds, "each": 0.0}})


def test_a_slow_retriever_shows_its_time_and_is_not_selected(
    data: StoredSet, started: list[Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_dense(monkeypatch, data, 1560.0)
    app = opened(page)
    assert compared(started) == {("BM25", "Reranked")}  # a starter reranks these few passages in no time
    (pills,) = app.pills
    assert {"BM25", "Dense · about 26 min", "Hybrid · up to 26 min", "Reranked"} <= set(pills.options)
    assert pills.value == ["BM25", "Reranked"]
    assert EN["compare.slow_unselected"] in said(app)


def test_a_link_to_a_slow_comparison_waits_and_a_retriever_compared_before_is_selected(
    data: StoredSet, started: list[Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_dense(monkeypatch, data, 1560.0)
    app = opened(page, **ADDRESS)
    assert started == []
    assert EN["compare.waits_slow"].format(names="Dense") in said(app)
    press(app, "run")
    assert [[*one.specs] for one in started] == [[*NAMES]]
    started.clear()
    results = comparison_of(dict.fromkeys(NAMES, FOUND), small_set(), KS, depth=100).results
    kept(data, NAMES, small_set(), results)
    (pills,) = opened(page, part="all").pills
    assert set(NAMES) <= set(pills.value)
    assert "Dense" in pills.options
    assert started == []


def test_a_quick_retriever_starts_by_itself(
    data: StoredSet, started: list[Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_dense(monkeypatch, data, 20.0)
    (pills,) = opened(page).pills
    assert {"Dense", "Hybrid"} <= set(pills.value)
    assert {"Dense", "Hybrid"} <= started[0].specs.keys()


def test_a_result_of_another_selection_has_a_badge_and_one_s_own_has_none(
    data: StoredSet, started: list[Experiment]
) -> None:
    kept(data, ["BM25"], small_set(), comparison_of({"BM25": FOUND}, small_set(), KS, depth=100).results)
    assert "Earlier comparison · 6 questions · " in said(opened(page, **ADDRESS))
    assert "Earlier comparison" not in said(opened(page, part="all", retrievers="BM25"))
    assert started == []


def test_a_deleted_set_is_reported_and_nothing_else_is_opened(data: StoredSet, started: list[Experiment]) -> None:
    kept(data, ["BM25"], small_set(), comparison_of({"BM25": FOUND}, small_set(), KS, depth=100).results)
    app = opened(whole_page, data=data.key, part="all", retrievers="BM25")
    other = keep(replace(small_set("other"), passages=small_set().passages[:4], questions=small_set().questions[:4]))
    remove(data.key)
    run(app)
    assert EN["missing_set.deleted"].format(name="small") in said(app)
    assert not app.title
    assert not app.dataframe
    assert app.query_params["data"] == data.key
    assert started == []
    again = opened(whole_page, data=data.key)  # a reload, in a session that never displayed it
    assert EN["missing_set.deleted"].format(name="small") in said(again)
    press(app, f"open_set_{other.key}")
    assert app.query_params["data"] == other.key
    assert EN["missing_set.choose"] not in said(app)


def test_an_address_of_a_set_that_never_was_is_reported(data: StoredSet, started: list[Experiment]) -> None:
    name = "does*not*exist"
    app = opened(whole_page, data=name)
    assert EN["missing_set.unknown"].format(key=plain(name)) in said(app)
    assert started == []
    app.sidebar.selectbox[0].select(data.key)
    run(app)
    assert app.query_params["data"] == data.key
    assert EN["missing_set.choose"] not in said(app)
