"""Make a finished training of a stopped one's best checkpoint: load its weights, measure the model, write its card."""

from dataclasses import replace
from pathlib import Path

from mrc_workbench.data.jobs.folder import Status
from mrc_workbench.data.jobs.work import carry_out
from mrc_workbench.data.workspace import replacing, write_json, write_text
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.engine.adaptation import settle
from mrc_workbench.training.engine.checkpoints import step_of
from mrc_workbench.training.options import TrainingError
from mrc_workbench.training.recipe import recipe_of
from mrc_workbench.training.runs.best import BestModelJob, best_checkpoint, made_id, made_status
from mrc_workbench.training.runs.model import write_card
from mrc_workbench.training.runs.runs import Run, find_run
from mrc_workbench.training.train import load_material, measured_once, problem_of


def conclude(run: Run) -> Run:
    """Return the finished training made of the run's best checkpoint; made before, it is returned as it is.

    Its folder appears in the workspace all at once. Raises `TrainingError` if there is no checkpoint, and what loading
    and measuring raise.
    """
    checkpoint = best_checkpoint(run)
    if checkpoint is None:
        raise TrainingError("no_checkpoint", f"{run.id} has saved no checkpoint yet")
    made = Run(run.folder.with_name(made_id(run, checkpoint)))
    if find_run(made.id):
        return made
    with replacing(made.folder) as folder:
        folder.mkdir()
        _write(run, checkpoint, Run(folder))
    return made


def _write(run: Run, checkpoint: Path, made: Run) -> None:
    from transformers import set_seed

    plan, step = run.plan(), step_of(checkpoint)
    material = load_material(plan)
    recipe, source = recipe_of(plan.kind)(plan.options, material), find_model(plan.options.base)
    measured = dict(recipe.family.baselines(material))
    measured["before"] = measured_once(run, recipe, source, material)
    set_seed(plan.options.seed)
    model = recipe.task(source).model
    load_weights(model, checkpoint)
    settle(model)
    model.save_pretrained(str(made.model_folder), create_model_card=False)
    concluded, more = recipe.concluded(made.model_folder)
    scores = recipe.family.summary(measured | dict(concluded), material, plan.options)
    made.write("scores.json", scores | {"kept_step": step, "seconds": run.status().spent} | more)
    made.write("provenance.json", run.provenance() | {"checkpoint": {"run": run.id, "step": step}})
    for entry in run.progress():
        made.add_progress(entry)
    write_json(made.folder / "status.json", made_status(run, checkpoint))
    write_text(made.folder / "run.json", replace(plan, name=f"{plan.name} · {step}").as_json())
    write_card(made)


def load_weights(model: object, checkpoint: Path) -> None:
    """Load what a checkpoint holds into the model it was saved from. Raises `ValueError` if it is of another model."""
    from safetensors.torch import load_file

    weights = load_file(checkpoint / "weights.safetensors")
    if unknown := model.load_state_dict(weights, strict=False).unexpected_keys:  # type: ignore[attr-defined]
        raise ValueError(f"the checkpoint holds weights that the model does not have: {unknown[:3]}")


def conclude_as_job(run: Run) -> Status:
    """Carry out the page's job for a run in this process, and return how it ended."""

    def work(_: Status) -> None:
        conclude(run)

    return carry_out(BestModelJob.of(run), work, problem_of)
