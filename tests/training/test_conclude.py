"""The best checkpoint of a stopped training becomes a finished training; the stopped one can be resumed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.workspace import workspace
from mrc_workbench.training import train as training
from mrc_workbench.training.engine.checkpoints import newest_checkpoint, seal
from mrc_workbench.training.jobs import BestModelJob, best_checkpoint, finished_run_id
from mrc_workbench.training.options import TrainingError
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.training.recipes import ranking_kinds
from mrc_workbench.training.runs import Run, all_runs
from mrc_workbench.training.train import finish_as_job, finish_from_best_checkpoint, train
from mrc_workbench.workbench.cli import main
from mrc_workbench.workbench.views.choices import finished_runs
from tests.tiny_models import build_bi_encoder
from tests.training.test_resume import OFTEN, again, do_at_step
from tests.training.worlds import create_planned_run, misleading_set, shuffled

pytestmark = pytest.mark.slow


def stopped(kind: str = BI_ENCODER, step: int = 4, question_set: Any = None, **options: Any) -> Run:
    often = OFTEN | {"epochs": 3.0, "batch_size": 4, "evaluation_steps": 2, "save_steps": 2} | options
    run = create_planned_run(kind, question_set or misleading_set(questions_a_passage=2), **often)
    with pytest.MonkeyPatch.context() as patch:
        do_at_step(patch, step, run.request_stop)
        assert train(run).state is State.STOPPED
    return run


def checkpoint_at(run: Run, step: int, best: int = 0) -> Path:
    folder = run.folder / "checkpoints" / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text(json.dumps({"best_global_step": best or None}), encoding="utf-8")
    seal(folder)
    return folder


def test_best_checkpoint_is_named_by_newest() -> None:
    run = create_planned_run(BI_ENCODER, misleading_set())
    assert best_checkpoint(run) is None
    first = checkpoint_at(run, 2)
    assert best_checkpoint(run) == first  # the only checkpoint, even without evaluation
    second = checkpoint_at(run, 4, best=2)
    assert best_checkpoint(run) == first
    third = checkpoint_at(run, 6, best=4)
    assert best_checkpoint(run) == second
    (second / "trainer_state.json").write_text("torn", encoding="utf-8")  # differs from the seal
    assert best_checkpoint(run) == third


@pytest.mark.parametrize("kind", ranking_kinds())
def test_finishes_every_kind_and_keeps_it_resumable(kind: str) -> None:
    run = stopped(kind)
    checkpoint = best_checkpoint(run)
    assert checkpoint is not None
    before = {path: path.read_bytes() for path in run.folder.rglob("*.json")}
    finished_run = finish_from_best_checkpoint(run)
    assert finished_run.id == finished_run_id(run, checkpoint)
    assert finished_run.status().state is State.DONE
    assert finished_run.done
    assert finished_run.plan().name == f"{run.plan().name} · {finished_run.status().step}"
    scores = finished_run.scores()
    assert scores["before"]
    assert scores["after"]
    assert scores["gain"]["interval"]
    assert finished_run.provenance()["checkpoint"] == {"run": run.id, "step": finished_run.status().step}
    assert finished_run in finished_runs()  # pages read it from there
    assert {path: path.read_bytes() for path in before} == before
    assert run.status().state is State.STOPPED
    assert finish_from_best_checkpoint(run) == finished_run  # it is not created twice
    again(run)
    assert train(run).state is State.DONE


def test_command_saves_checkpoint_weights_and_prints_id(capsys: pytest.CaptureFixture[str]) -> None:
    run = stopped()
    checkpoint = best_checkpoint(run)
    assert checkpoint is not None
    capsys.readouterr()
    assert main(["runs", "use-best", run.id]) == 0
    assert capsys.readouterr().out.split()[-1] == finished_run_id(run, checkpoint)
    assert main(["internal", "best-checkpoint", str(run.folder)]) == 0
    saved = load_file(checkpoint / "weights.safetensors")
    (file,) = run.folder.with_name(finished_run_id(run, checkpoint)).joinpath("model").rglob("*.safetensors")
    model = load_file(file)
    names = {name: next(of for of in saved if of.endswith(name)) for name in model}
    for name, of in names.items():
        np.testing.assert_array_equal(model[name], saved[of])

    class Model:
        def load_state_dict(self, weights: Any, *, strict: bool) -> Any:
            del strict
            return type("Keys", (), {"unexpected_keys": list(weights)})

    with pytest.raises(ValueError, match="does not have"):
        training.load_weights(Model(), checkpoint)


def test_merges_adapters(tmp_path: Path) -> None:
    base = str(build_bi_encoder(tmp_path / "base"))
    finished_run = finish_from_best_checkpoint(stopped(question_set=shuffled(40, 40), base=base, lora_rank=2))
    names = [name for path in finished_run.model_folder.rglob("*.safetensors") for name in load_file(path)]
    assert names
    assert not [name for name in names if "lora" in name]


def test_interruption_leaves_no_run() -> None:
    run = stopped()

    def broken(finished_run: Run) -> None:
        raise OSError("no space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "write_card", broken)
        status = finish_as_job(run)
    assert (status.state, status.code) == (State.FAILED, "disk")
    assert BestModelJob.for_run(run).failed
    assert all_runs() == [run]
    assert [path.name for path in (workspace() / "runs").iterdir()] == [run.id]
    assert finish_as_job(run).state is State.DONE
    assert BestModelJob.for_run(run).done
    assert BestModelJob.for_run(run).finished_run in all_runs()


def test_requires_a_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    run = create_planned_run(BI_ENCODER, misleading_set())
    assert newest_checkpoint(run.folder) is None
    with pytest.raises(TrainingError) as refused:
        finish_from_best_checkpoint(run)
    assert refused.value.code == "no_checkpoint"
    assert main(["runs", "use-best", run.id]) == 2
    assert "no checkpoint" in capsys.readouterr().err
