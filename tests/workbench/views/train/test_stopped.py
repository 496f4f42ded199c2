"""A training that stopped stands at the top of the page, and its best checkpoint can be used."""

import json

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.jobs.processes import this_process
from mrc_workbench.training.engine.checkpoints import seal
from mrc_workbench.training.jobs import BestModelJob, all_jobs, made_id
from mrc_workbench.training.runs import Run
from mrc_workbench.workbench.views.train.cards import latest_stopped
from tests.workbench.views.driving import run
from tests.workbench.views.train.worlds import EN, click, done_run, labels, made_run, texts


def with_checkpoint(made: Run, step: int = 4) -> Run:
    folder = made.folder / "checkpoints" / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text(json.dumps({"best_global_step": step}), encoding="utf-8")
    seal(folder)
    return made


def test_the_training_stopped_last_is_told_of_before_the_form(app: AppTest) -> None:
    made = with_checkpoint(made_run(State.STOPPED, step=4, total_steps=30))
    run(app)
    told = EN["train.stopped_at"].format(step=4, total=30)
    assert told in [warning.value for warning in app.warning]
    assert labels(app).index(EN["train.resume"]) < labels(app).index(EN["train.ask_estimate"])
    assert labels(app).count(EN["train.resume"]) == 1  # it does not stand below a second time
    assert app.button(key=f"use_best_{made.id}").label == EN["train.use_best"].format(step=4)


def test_before_the_first_checkpoint_there_is_nothing_to_use(app: AppTest) -> None:
    made_run(State.STOPPED)
    run(app)
    assert EN["train.stopped"] in [warning.value for warning in app.warning]
    assert not [button for button in app.button if str(button.key).startswith("use_best_")]


@pytest.mark.usefixtures("no_worker")
def test_it_is_not_told_of_once_another_ended_or_runs(app: AppTest) -> None:
    stopped = made_run(State.STOPPED, name="halted")
    assert latest_stopped(all_jobs()) == stopped
    done_run(name="later")
    assert latest_stopped(all_jobs()) is None
    assert EN["train.stopped"] not in texts(run(app))
    assert EN["train.resume"] in labels(app)  # in the list


@pytest.mark.parametrize("state", [State.STOPPED, State.INTERRUPTED, State.FAILED])
def test_whatever_ended_it_it_is_seen_at_once(state: State) -> None:
    made = made_run(state, code="memory" if state is State.FAILED else "")
    assert latest_stopped(all_jobs()) == made


def test_the_best_checkpoint_is_made_a_model_by_one_press(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_checkpoint(made_run(State.STOPPED, step=4, total_steps=30))
    pid, started = this_process()
    job = BestModelJob.of(made)

    def start(self: BestModelJob) -> None:
        self.folder.mkdir()
        self.write_status(Status(State.RUNNING, pid=pid, pid_started=started))

    monkeypatch.setattr(BestModelJob, "start", start)
    click(run(app), "use_best_")
    assert job.running
    assert EN["train.making_best"] in texts(app)
    assert app.button(key=f"use_best_{made.id}").disabled
    job.write_status(Status(State.FAILED, code="disk", message="full"))
    assert EN["failure.disk"] in [error.value for error in run(app).error]
    assert not app.button(key=f"use_best_{made.id}").disabled
    finished = done_run(name="halted (4)")
    finished.write("provenance.json", {"checkpoint": {"run": made.id, "step": 4}})
    finished.folder.rename(finished.folder.with_name(made_id(made, made.folder / "checkpoints" / "checkpoint-4")))
    assert job.done
    assert any("halted" in success.value for success in run(app).success)
