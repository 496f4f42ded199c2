"""The best checkpoint of a stopped training becomes a finished training beside it, which can still be resumed."""

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
from mrc_workbench.training.jobs import BestModelJob, best_checkpoint, made_id
from mrc_workbench.training.options import TrainingError
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.training.recipes import ranking_kinds
from mrc_workbench.training.runs import Run, all_runs
from mrc_workbench.training.train import conclude, conclude_as_job, train
from mrc_workbench.workbench.cli import main
from mrc_workbench.workbench.views.choices import finished_runs
from tests.tiny_models import build_bi_encoder
from tests.training.test_resume import OFTEN, again, do_at_step
from tests.training.worlds import misleading_set, planned, shuffled

pytestmark = pytest.mark.slow


def stopped(kind: str = BI_ENCODER, step: int = 4, question_set: Any = None, **options: Any) -> Run:
    """A training that measured every second step and was stopped at this one."""
    often = OFTEN | {"epochs": 3.0, "batch_size": 4, "evaluation_steps": 2, "save_steps": 2} | options
    run = planned(kind, question_set or misleading_set(questions_a_passage=2), **often)
    with pytest.MonkeyPatch.context() as patch:
        do_at_step(patch, step, run.ask_to_stop)
        assert train(run).state is State.STOPPED
    return run


def checkpoint_at(run: Run, step: int, best: int = 0) -> Path:
    folder = run.folder / "checkpoints" / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text(json.dumps({"best_global_step": best or None}), encoding="utf-8")
    seal(folder)
    return folder


def test_the_best_checkpoint_is_the_one_the_newest_names() -> None:
    run = planned(BI_ENCODER, misleading_set())
    assert best_checkpoint(run) is None
    first = checkpoint_at(run, 2)
    assert best_checkpoint(run) == first  # measured or not, there is no other
    second = checkpoint_at(run, 4, best=2)
    assert best_checkpoint(run) == first
    third = checkpoint_at(run, 6, best=4)
    assert best_checkpoint(run) == second
    (second / "trainer_state.json").write_text("torn", encoding="utf-8")  # no longer what was sealed
    assert best_checkpoint(run) == third


@pytest.mark.parametrize("kind", ranking_kinds())
def test_every_kind_becomes_a_finished_training_and_can_still_be_resumed(kind: str) -> None:
    run = stopped(kind)
    checkpoint = best_checkpoint(run)
    assert checkpoint is not None
    before = {path: path.read_bytes() for path in run.folder.rglob("*.json")}
    made = conclude(run)
    assert made.id == made_id(run, checkpoint)
    assert made.status().state is State.DONE
    assert made.done
    assert made.plan().name == f"{run.plan().name} · {made.status().step}"
    scores = made.scores()
    assert scores["before"]
    assert scores["after"]
    assert scores["gain"]["interval"]
    assert made.provenance()["checkpoint"] == {"run": run.id, "step": made.status().step}
    assert made in finished_runs()  # this is where Compare looks
    assert {path: path.read_bytes() for path in before} == before
    assert run.status().state is State.STOPPED
    assert conclude(run) == made  # it is not made twice
    again(run)
    assert train(run).state is State.DONE


def test_the_model_has_the_weights_of_the_checkpoint_and_the_command_prints_its_id(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = stopped()
    checkpoint = best_checkpoint(run)
    assert checkpoint is not None
    capsys.readouterr()
    assert main(["runs", "use-best", run.id]) == 0
    assert capsys.readouterr().out.split()[-1] == made_id(run, checkpoint)
    assert main(["internal", "best-checkpoint", str(run.folder)]) == 0
    saved = load_file(checkpoint / "weights.safetensors")
    (file,) = run.folder.with_name(made_id(run, checkpoint)).joinpath("model").rglob("*.safetensors")
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


def test_adapters_are_merged(tmp_path: Path) -> None:
    base = str(build_bi_encoder(tmp_path / "base"))
    made = conclude(stopped(question_set=shuffled(40, 40), base=base, lora_rank=2))
    names = [name for path in made.model_folder.rglob("*.safetensors") for name in load_file(path)]
    assert names
    assert not [name for name in names if "lora" in name]


def test_what_breaks_off_leaves_nothing_that_looks_like_a_training() -> None:
    run = stopped()

    def broken(made: Run) -> None:
        raise OSError("no space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "write_card", broken)
        status = conclude_as_job(run)
    assert (status.state, status.code) == (State.FAILED, "disk")
    assert BestModelJob.of(run).failed
    assert all_runs() == [run]
    assert [path.name for path in (workspace() / "runs").iterdir()] == [run.id]
    assert conclude_as_job(run).state is State.DONE
    assert BestModelJob.of(run).done
    assert BestModelJob.of(run).made in all_runs()


def test_without_a_checkpoint_there_is_no_model(capsys: pytest.CaptureFixture[str]) -> None:
    run = planned(BI_ENCODER, misleading_set())
    assert newest_checkpoint(run.folder) is None
    with pytest.raises(TrainingError) as refused:
        conclude(run)
    assert refused.value.code == "no_checkpoint"
    assert main(["runs", "use-best", run.id]) == 2
    assert "no checkpoint" in capsys.readouterr().err
