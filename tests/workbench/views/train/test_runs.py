"""Trainings on the Train page: the queue, details, downloads and pushes of models, and stopped trainings."""

import json

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.jobs.processes import this_process
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.training.engine.checkpoints import seal
from mrc_workbench.training.jobs import QUEUE, BestModelJob, all_jobs, finished_run_id
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER
from mrc_workbench.training.results import PushError
from mrc_workbench.training.runs import Run
from mrc_workbench.workbench.views.train import runs as run_list
from mrc_workbench.workbench.views.train.cards import latest_stopped
from tests.workbench.views.driving import run
from tests.workbench.views.train import worlds
from tests.workbench.views.train.worlds import EN, click, create_test_run, done_run, labels, start_button, texts

TOKEN = "hf_very_secret"  # noqa: S105 - not a real token
LOADERS = {BI_ENCODER: "load_bi_encoder", CROSS_ENCODER: "load_cross_encoder"}  # for starters


@pytest.fixture
def waiting(no_worker: None) -> list[Run]:
    """Return three queued runs in the order of the queue."""
    third = create_test_run(State.QUEUED, name="third", queued=300.0)
    second = create_test_run(State.QUEUED, name="*2*", queued=200.0)
    first = create_test_run(State.QUEUED, CROSS_ENCODER, "first", queued=100.0)
    return [first, second, third]


@pytest.mark.usefixtures("no_worker")
def test_displays_no_empty_queue(app: AppTest) -> None:
    create_test_run(State.RUNNING)
    assert not [heading for heading in run(app).subheader if "queue" in str(heading.value)]


def test_lists_queued_trainings_in_order_and_removes_them(app: AppTest, waiting: list[Run]) -> None:
    first, second, third = waiting
    run(app)
    assert EN["train.queue"].format(count=3) in [heading.value for heading in app.subheader]
    rows = [str(text.value) for text in app.markdown if str(text.value).startswith(("**1", "**2", "**3"))]
    next_badge = f" :blue-badge[{EN['train.queue_next']}]"
    assert rows == [f"**1\\. first**{next_badge}", "**2\\. \\*2\\***", "**3\\. third**"]
    about = next(str(text.value) for text in app.caption if "waiting since" in str(text.value))
    assert "Cross-encoder · base Starter · data small" in about
    assert "1970\\-01\\-01 00\\:01" in about
    assert start_button(app).label == EN["train.enqueue"]
    click(app, f"take_out_{second.id}")
    assert QUEUE.queued() == [first, third]
    assert second.status().state is State.STOPPED
    assert EN["train.came_nowhere"] in texts(app)
    click(app, f"resume_{second.id}")
    assert QUEUE.queued() == [first, third, second]
    click(app, f"delete_{first.id}")
    assert first.folder.exists()
    click(app, "delete_yes")
    assert not first.folder.exists()
    assert QUEUE.queued() == [third, second]


def test_follows_queue_changes_of_other_sessions(app: AppTest, waiting: list[Run]) -> None:
    create_test_run(State.STOPPED, name="fourth")
    run(app)
    for waiting_run in waiting:
        waiting_run.delete() if waiting_run.stop_requested else waiting_run.request_stop()
        waiting_run.delete()
    run(app)
    assert not [button for button in app.button if str(button.key).startswith("take_out_")]
    assert start_button(app).label == EN["train.start"]


def with_curves(training_run: Run, loss: float, measured: float) -> Run:
    training_run.add_measures("bm25", {"ndcg@10": 0.8})
    training_run.add_progress({"step": 5, "loss": loss})
    training_run.add_progress({"step": 10, "loss": loss / 2, "eval_validation_ndcg@10": measured})
    return training_run


def opened(app: AppTest, training_run: Run) -> AppTest:
    return click(run(app), f"details_{training_run.id}")


def tables(app: AppTest, column: str) -> list[dict[str, str]]:
    """Return the two-column tables with this first column."""
    matching_tables = [table.value for table in app.dataframe if table.value.columns[0] == column]
    return [dict(table.to_numpy().tolist()) for table in matching_tables]


def test_displays_settings_and_log(app: AppTest) -> None:
    training_run = done_run()
    (training_run.folder / "log.txt").write_text("\n".join(f"line {n}" for n in range(1000)), encoding="utf-8")
    (rows,) = tables(opened(app, training_run), EN["train.row_option"])
    assert EN["train.no_provenance"] in texts(app)
    assert (rows["Learning rate"], rows["Split seed"], rows["Base model"]) == ("0.001", "0", "Starter")
    assert rows["Objective"] == "mega-batch-margin"
    assert app.code[-1].value.splitlines() == [f"line {n}" for n in range(800, 1000)]


def test_displays_curves_of_same_kind_together(app: AppTest) -> None:
    with_curves(create_test_run(State.STOPPED, CROSS_ENCODER, "other kind"), 9.0, 0.9)
    create_test_run(State.STOPPED, name="without curves")
    same = with_curves(create_test_run(State.STOPPED, name="first"), 3.0, 0.5)  # the same name as another run
    second = with_curves(create_test_run(State.STOPPED, name="second"), 4.0, 0.6)
    first = with_curves(create_test_run(State.STOPPED, name="first"), 2.0, 0.7)
    beside = opened(app, first).multiselect(key=f"beside_{first.id}")
    assert {name.split(" · ")[0] for name in beside.options} == {"first", "second"}
    beside.set_value([same.id])
    columns = run(app).dataframe[0].value
    assert [column.split(" · ")[0] for column in columns] == ["Step", "first", "first"]
    assert columns.to_numpy()[0].tolist() == [5.0, 2.0, 3.0]
    same.delete()
    app.multiselect(key=f"beside_{first.id}").set_value([second.id])
    loss, measured = (table.value.to_dict("list") for table in run(app).dataframe[:2])
    assert loss == {"Step": [5, 10], "first": [2.0, 1.0], "second": [4.0, 2.0]}
    assert measured == {"Step": [10], "first": [0.7], "second": [0.6], "BM25": [0.8]}
    assert EN["train.other_questions"] not in texts(app)


def test_warns_if_curves_use_other_questions(app: AppTest) -> None:
    other = create_test_run(State.STOPPED, name="other split", split=SplitOptions(seed=7))
    other.add_measures("bm25", {"ndcg@10": 0.3})
    other.add_progress({"step": 10, "eval_validation_ndcg@10": 0.2})
    first = with_curves(create_test_run(State.STOPPED), 2.0, 0.7)
    opened(app, first).multiselect(key=f"beside_{first.id}").set_value([other.id])
    assert EN["train.other_questions"] in texts(run(app))
    measured = next(table.value for table in app.dataframe if "other split" in table.value and len(table.value) == 1)
    assert list(measured.columns) == ["Step", "first", "other split"]  # each has another BM25


def test_displays_and_exports_provenance_by_group(app: AppTest) -> None:
    training_run = done_run()
    content: dict[str, object] = {"base": {"reference": "klue/roberta-base", "revision": "abc123"}}
    content |= {"split": {"validation": 0.1, "test": 0.2, "seed": 5}, "versions": {"torch": "2.9"}}
    content |= {"hardware": {"gpus": ["A", "B"], "bfloat16": False}, "made": "2026-01-02T03:04:05+00:00", "seed": 3}
    (training_run.folder / "provenance.json").write_text(json.dumps(content), encoding="utf-8")
    single, base, split, versions, hardware = tables(opened(app, training_run), EN["train.row_fact"])
    assert single == {"Created (UTC)": "2026-01-02T03:04:05+00:00", "Seed": "3"}
    assert base == {"Name or path": "klue/roberta-base", "Revision (commit)": "abc123"}
    assert split == {EN["option.validation"]: "0.1", EN["option.test"]: "0.2", EN["option.split_seed"]: "5"}
    assert versions == {"torch": "2.9"}
    assert hardware == {"GPUs": "A, B", "bfloat16": "False"}
    assert EN["train.provenance_json"] in [button.label for button in app.get("download_button")]
    (training_run.folder / "provenance.json").write_text("broken {", encoding="utf-8")
    assert EN["train.no_provenance"] in texts(run(app))


@pytest.fixture
def pretrained() -> Run:
    return worlds.with_module(done_run(), "sentence_transformers.models.Transformer")


def pushed(app: AppTest, training_run: Run, repository: str = "me/model") -> AppTest:
    if not app.get("dialog"):
        click(run(app), f"push_{training_run.id}")
    app.text_input(key=f"push_repository_{training_run.id}").set_value(repository)
    next(field for field in app.text_input if field.label == EN["train.push_token"]).set_value(TOKEN)
    next(button for button in app.button if button.label == EN["train.push_now"]).click()
    return run(app)


def test_download_includes_loading_code_for_plain_model(app: AppTest, pretrained: Run) -> None:
    (snippet,) = (code.value for code in run(app).code)
    load = 'model = SentenceTransformer("path/of/the/folder")'
    assert snippet.splitlines() == ["from sentence_transformers import SentenceTransformer", load]
    assert EN["train.load"] in texts(app)


@pytest.mark.parametrize(("kind", "loader"), LOADERS.items())
def test_starter_cannot_be_pushed(app: AppTest, kind: str, loader: str) -> None:
    training_run = worlds.with_module(done_run(kind), "mrc_workbench.models.starter.StarterEmbedding")
    (snippet,) = (code.value for code in run(app).code)
    assert f"model = {loader}(find_model(" in snippet
    assert EN["train.load_starter"] in texts(app)
    button = app.button(key=f"push_{training_run.id}")
    assert (button.disabled, button.help) == (True, EN["train.push_starter"])


def test_pushes_entered_values_and_forgets_token(
    app: AppTest, pretrained: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[tuple[Run, str, str, bool]] = []

    def push(training_run: Run, repository: str, token: str, *, private: bool) -> str:
        calls.append((training_run, repository, token, private))
        return "https://hub.example/me/model"

    monkeypatch.setattr(run_list, "push", push)
    with caplog.at_level("DEBUG"):
        pushed(app, pretrained)
    assert calls == [(pretrained, "me/model", TOKEN, True)]
    assert EN["train.pushed"] in [box.value for box in app.success]
    assert "https://hub.example/me/model" in [code.value for code in app.code]
    assert TOKEN not in repr(app.session_state)
    assert [field.value for field in app.text_input if field.label == EN["train.push_token"]] == [""]
    assert TOKEN not in caplog.text
    assert not [path for path in pretrained.folder.rglob("*") if path.is_file() and TOKEN in path.read_text()]


def test_reports_reason_of_failed_push(app: AppTest, pretrained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def push(training_run: Run, repository: str, token: str, *, private: bool) -> str:
        raise PushError("no_permission", "no")

    pushed(app, pretrained)
    assert EN["push.unreachable"] in [box.value for box in app.error]
    monkeypatch.setattr(run_list, "push", push)
    pushed(app, pretrained, "*them*/model")
    assert EN["push.no_permission"].format(repository="\\*them\\*/model") in [box.value for box in app.error]
    assert TOKEN not in repr(app.session_state)


def with_checkpoint(training_run: Run, step: int = 4) -> Run:
    folder = training_run.folder / "checkpoints" / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text(json.dumps({"best_global_step": step}), encoding="utf-8")
    seal(folder)
    return training_run


def test_displays_last_stopped_training_above_form(app: AppTest) -> None:
    training_run = with_checkpoint(create_test_run(State.STOPPED, step=4, total_steps=30))
    run(app)
    message = EN["train.stopped_at"].format(step=4, total=30)
    assert message in [warning.value for warning in app.warning]
    assert labels(app).index(EN["train.resume"]) < labels(app).index(EN["train.ask_estimate"])
    assert labels(app).count(EN["train.resume"]) == 1  # not in the list too
    assert app.button(key=f"use_best_{training_run.id}").label == EN["train.use_best"].format(step=4)


def test_offers_no_checkpoint_before_the_first(app: AppTest) -> None:
    create_test_run(State.STOPPED)
    run(app)
    assert EN["train.stopped"] in [warning.value for warning in app.warning]
    assert not [button for button in app.button if str(button.key).startswith("use_best_")]


@pytest.mark.usefixtures("no_worker")
def test_hides_stopped_training_after_another_ended_or_started(app: AppTest) -> None:
    stopped = create_test_run(State.STOPPED, name="halted")
    assert latest_stopped(all_jobs()) == stopped
    done_run(name="later")
    assert latest_stopped(all_jobs()) is None
    assert EN["train.stopped"] not in texts(run(app))
    assert EN["train.resume"] in labels(app)  # in the list


@pytest.mark.parametrize("state", [State.STOPPED, State.INTERRUPTED, State.FAILED])
def test_displays_ended_training_whatever_the_reason(state: State) -> None:
    training_run = create_test_run(state, code="memory" if state is State.FAILED else "")
    assert latest_stopped(all_jobs()) == training_run


def test_creates_model_from_best_checkpoint(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    training_run = with_checkpoint(create_test_run(State.STOPPED, step=4, total_steps=30))
    pid, started = this_process()
    job = BestModelJob.for_run(training_run)

    def start(self: BestModelJob) -> None:
        self.folder.mkdir()
        self.write_status(Status(State.RUNNING, pid=pid, pid_started=started))

    monkeypatch.setattr(BestModelJob, "start", start)
    click(run(app), "use_best_")
    assert job.running
    assert EN["train.making_best"] in texts(app)
    assert app.button(key=f"use_best_{training_run.id}").disabled
    job.write_status(Status(State.FAILED, code="disk", message="full"))
    assert EN["failure.disk"] in [error.value for error in run(app).error]
    assert not app.button(key=f"use_best_{training_run.id}").disabled
    finished = done_run(name="halted (4)")
    finished.write("provenance.json", {"checkpoint": {"run": training_run.id, "step": 4}})
    checkpoint = training_run.folder / "checkpoints" / "checkpoint-4"
    finished.folder.rename(finished.folder.with_name(finished_run_id(training_run, checkpoint)))
    assert job.done
    assert any("halted" in success.value for success in run(app).success)
