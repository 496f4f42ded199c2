"""A training from its run folder: load, measure, train, measure, save. A resumed one continues from its checkpoint.

A finished training can also be made of a stopped one's best checkpoint.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import pandas as pd

from mrc_workbench.data.cache import seal
from mrc_workbench.data.jobs.folder import AskedToStop, State, Status, carry_out
from mrc_workbench.data.jobs.processes import hardware, versions
from mrc_workbench.data.problems import DataError, Failure
from mrc_workbench.data.text.languages import language_of
from mrc_workbench.data.workspace import is_of_the_disk, replacing, write_json, write_text
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.packaged import packaged_base
from mrc_workbench.models.sources import ModelSource, find_model, identity
from mrc_workbench.training.base import VALIDATION, Measurement, Recipe, Task, processes
from mrc_workbench.training.engine.adaptation import settle
from mrc_workbench.training.engine.checkpoints import load_weights, newest_checkpoint, step_of
from mrc_workbench.training.jobs import QUEUE, BestModelJob, best_checkpoint, made_id
from mrc_workbench.training.options import (
    OptionError,
    RankerOptions,
    Report,
    TrainingError,
    TrainingOptions,
    uses_bfloat16,
)
from mrc_workbench.training.recipes import recipe_of
from mrc_workbench.training.results import write_card
from mrc_workbench.training.runs import Phase, Plan, Run, find_run, rounds_of

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_WRITES = 0.5  # of how far a phase is
# what those that raise their own say, and what torch says of a GPU, and of a CPU
_DISK_WORDS = ("no space left on device", "i/o error", "disk quota exceeded", "file too large")
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory")
R = TypeVar("R", bound=Run)
Watch = Callable[[Task], tuple[Task, list[Any]]]  # may listen to the task's measure, and adds callbacks of the trainer


class _Helper(Run):
    """The run as seen by the other processes of `torchrun`: only the first one writes."""

    def write_status(self, status: Status) -> None: ...
    def add_progress(self, entry: dict[str, Any]) -> None: ...
    def write(self, name: str, content: object) -> None: ...
    def forget_progress_after(self, step: int) -> None: ...


def train(run: Run, *, sent_by_worker: bool = False) -> Status:
    """Wait for the machine, carry out a run in this process and return how it ended; its status holds errors.

    A run with a complete checkpoint continues from there. Raises `OSError` or `ValueError` if the folder is no run.
    """
    if int(os.environ.get("RANK", "0")) > 0:
        while run.status().state is not State.RUNNING:
            time.sleep(0.2)
        return execute(_Helper(run.folder))
    run.plan()
    return in_turn(run, execute, sent_by_worker=sent_by_worker)


def in_turn(run: R, work: Callable[[R], Status], *, sent_by_worker: bool = False) -> Status:
    """Wait for the machine, hold it while the run's work is done, and return how that ended."""
    with QUEUE.turn(run, sent_by_worker=sent_by_worker) as is_ours:
        if is_ours:
            return work(run)
    if run.asked_to_stop and run.status().state is State.QUEUED:
        run.write_status(replace(run.status(), state=State.STOPPED))
    return run.status()


def execute(run: Run, watch: Watch | None = None) -> Status:
    """Carry a run out in this process, which holds the machine, and return how it ended; see `train`."""

    def work(status: Status) -> None:
        scores = _trained(run, status, watch)
        if not isinstance(run, _Helper):
            run.write("scores.json", scores | {"seconds": status.seconds + time.time() - status.started})
            write_card(run)

    return carry_out(run, work, problem_of)


def load_material(plan: Plan, on_progress: Callable[[float], None] | None = None, data: Any = None) -> Any:
    """Return what a plan works on. Raises `DataError` or `TrainingError` if the data is missing or has changed."""
    family = recipe_of(plan.kind).family
    data = family.find(plan.data) if data is None else data
    if data.fingerprint != plan.fingerprint:
        raise TrainingError("data_changed", f"{plan.data_name} is not what it was when this training was planned")
    family.check(data, plan.options)
    return family.material(data, plan, on_progress)


def problem_of(error: BaseException) -> tuple[str, str]:
    """Return the code (`failure.<code>` in the locale files) and the words of what went wrong."""
    message = str(error) or type(error).__name__
    if isinstance(error, Failure):
        return {DataError: "data", OptionError: "option"}.get(type(error), error.code), message
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", message
    lowered = message.lower()
    if is_of_the_disk(error) or any(words in lowered for words in _DISK_WORDS):
        return "disk", f"the disk is full, or cannot be written to: make room, and resume ({message})"
    if isinstance(error, MemoryError) or any(words in lowered for words in _OUT_OF_MEMORY):
        return "memory", message
    return "unexpected", message


def _trained(run: Run, status: Status, watch: Watch | None) -> dict[str, Any]:
    """Load, measure, train, measure; returns the content of `scores.json`. Raises `AskedToStop`."""

    def enter(phase: Phase) -> Status:
        if run.asked_to_stop:
            raise AskedToStop
        before = run.status()
        share = before.share if before.total_steps else 0.0  # of the steps: that of a phase ends with it
        now = replace(status, phase=phase, share=share, step=before.step, total_steps=before.total_steps)
        run.write_status(now)
        return now

    _write_early(run.plan().options.base)
    tell = _progress_writer(run, enter(Phase.LOADING))
    plan, checkpoint = run.plan(), newest_checkpoint(run.folder)
    _check(plan)
    data = recipe_of(plan.kind).family.find(plan.data)
    material = load_material(plan, tell, data)
    recipe, source = recipe_of(plan.kind)(plan.options, material), find_model(plan.options.base)
    run.forget_progress_after(step_of(checkpoint) if checkpoint else -1)
    measured = material.baselines()
    enter(Phase.MEASURING_BEFORE)
    measured["before"] = measured_once(run, recipe, source, material)
    if not checkpoint:
        for name, reached in measured.items():
            run.add_measures(name, reached.means()["validation"])
            run.add_measures(f"{name}_training", reached.means()["training"])
        run.write("provenance.json", provenance(plan, source, data) | _processes(plan))
    del data  # training needs the room
    enter(Phase.MINING if plan.options.mines else Phase.PREPARING)
    from transformers import set_seed

    set_seed(plan.options.seed)
    task = recipe.task(source)
    run.write("provenance.json", run.provenance() | {"settled": task.settled} | task.metadata)
    if task.teacher:
        tell = _progress_writer(run, enter(Phase.TEACHING))
        task = task.labelled(lambda teacher: teacher.labels(tell))
    watched, callbacks = watch(task) if watch else (task, [])
    kept_step = _fit(run, watched, checkpoint, enter(Phase.TRAINING), callbacks)
    enter(Phase.MEASURING_AFTER)
    if isinstance(run, _Helper):
        return {}
    settle(task.model)
    with replacing(run.model_folder) as new:
        task.model.save_pretrained(str(new), create_model_card=False)
    concluded, more = recipe.concluded(run.model_folder)
    seal(run.model_folder)  # after all its files are written; the card, which is no part of the model, follows
    measured |= concluded
    if not any(name.startswith(f"eval_{VALIDATION}") for entry in run.progress() for name in entry):
        # no step was measured before: the finished model is the last point of the curves
        after = measured["after"].figures()
        run.add_progress({"step": kept_step, **{f"eval_{name}": value for name, value in after.items()}})
    scores: dict[str, Any] = material.summary(measured, plan.options)
    return scores | {"kept_step": kept_step} | more


def _write_early(base: str) -> Thread:
    """Write a packaged base to disk while the questions are read and the libraries imported.

    The thread imports no transformers, which replaces its own module at the end of its first import: imports of another
    thread that began before fail.
    """

    def write() -> None:
        with suppress(ModelError, OSError):  # the training meets it, too, and reports it
            if packaged := packaged_base(base):
                packaged.write()

    thread = Thread(target=write, daemon=True)
    thread.start()
    return thread


def _progress_writer(run: Run, status: Status) -> Callable[[float], None]:
    """Return a function that writes the progress of a phase, and raises `AskedToStop`."""
    written = -_SECONDS_BETWEEN_WRITES

    def write(share: float) -> None:
        nonlocal written
        if run.asked_to_stop:
            raise AskedToStop
        if share == 1 or time.monotonic() - written >= _SECONDS_BETWEEN_WRITES:
            written = time.monotonic()
            run.write_status(replace(status, share=share))

    return write


def _check(plan: Plan) -> None:
    report, reference = plan.options.report_to, plan.options.base
    if report is not Report.NONE and find_spec(report.value) is None:
        message = f"{report.value} is not installed: `pip install {report.value}`, or report to none"
        raise TrainingError("no_reporter", message)
    if plan.round > 1 and not (find_run(reference) or Run(Path(reference))).model_folder.is_dir():
        raise TrainingError("round_before", f"the round before, {reference}, has no model: resume it, then this one")


def _processes(plan: Plan) -> dict[str, Any]:
    if processes() == 1:
        return {}
    from mrc_workbench.training.recipes.losses import negatives_of_processes  # imports torch

    negatives = negatives_of_processes(plan.options)
    if negatives == "own":
        logger.warning("each process takes negatives of its own part of the batch: a smaller batch's loss, not one's")
    return {"processes": {"count": processes(), "negatives": negatives}}


def _fit(run: Run, task: Task, checkpoint: Path | None, status: Status, callbacks: list[Any]) -> int:
    """Train the steps that are left; returns the best step, whose model the task's model is afterwards."""
    from mrc_workbench.training.engine.speed import cached_lower_layers, short_passes, tokenized_once
    from mrc_workbench.training.trainers import RunFolderCallback, make_trainer

    options = in_precision_begun(run.plan().options, run.provenance())
    if options.report_to is Report.TENSORBOARD:
        os.environ["TENSORBOARD_LOGGING_DIR"] = str(run.folder / "tensorboard")
    callback = RunFolderCallback(run, status, options, task.kept_models)
    trainer = make_trainer(task, options, run.folder / "checkpoints", [*callbacks, callback])
    cached = cached_lower_layers(task.model, options.frozen_layers, task.lower_states)
    with tokenized_once(task.model), cached, short_passes(task.model, twice=options.recompute):
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    return int(trainer.state.best_global_step or trainer.state.global_step)


def measured_once(run: Run, recipe: Recipe[Any, Any], source: ModelSource, material: Any) -> Measurement[Any]:
    """Measure the base; a resumed run has stored this before."""
    path = run.folder / "before.json"
    stored = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    measurement: Measurement[Any] | None = material.measurement(stored)
    if measurement is None:
        measurement = recipe.measured(source)
        run.write(path.name, measurement.kept())
    return measurement


def mined(plan: Plan) -> tuple[pd.DataFrame, int]:
    """Return the hard negatives a training would use, a row each, and how many training questions there are."""
    from mrc_workbench.training.recipes.examples import as_table, mine

    if not isinstance(plan.options, RankerOptions):
        raise ValueError(f"the training of a {plan.kind} takes no hard negatives")
    material = load_material(plan)
    return as_table(mine(plan.options, material), material), len(material.train.questions)


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
    measured = material.baselines()
    measured["before"] = measured_once(run, recipe, source, material)
    set_seed(plan.options.seed)
    model = recipe.task(source).model
    load_weights(model, checkpoint)
    settle(model)
    model.save_pretrained(str(made.model_folder), create_model_card=False)
    concluded, more = recipe.concluded(made.model_folder)
    scores = material.summary(measured | concluded, plan.options)
    made.write("scores.json", scores | {"kept_step": step, "seconds": run.status().spent} | more)
    made.write("provenance.json", run.provenance() | {"checkpoint": {"run": run.id, "step": step}})
    for entry in run.progress():
        made.add_progress(entry)
    status = replace(run.status(), state=State.DONE, step=step, seconds_left=None, phase="")
    status = replace(status, seconds=status.spent, started=0.0, pid=0, pid_started=0.0, code="", message="")
    write_json(made.folder / "status.json", asdict(status))
    write_text(made.folder / "run.json", replace(plan, name=f"{plan.name} · {step}").as_json())
    write_card(made)


def conclude_as_job(run: Run) -> Status:
    """Carry out the page's job for a run in this process, and return how it ended."""

    def work(_: Status) -> None:
        conclude(run)

    return carry_out(BestModelJob.of(run), work, problem_of)


# the libraries whose versions decide numbers; those that are not installed are left out
LIBRARIES = (
    *("torch", "transformers", "sentence-transformers", "accelerate", "tokenizers", "datasets", "peft"),
    *("numba", "kiwipiepy", "numpy"),
)


Options = TypeVar("Options", bound=TrainingOptions)


def provenance(plan: Plan, source: ModelSource, data: Any) -> dict[str, Any]:
    """Return as JSON: base and revision, data, split, options, versions, hardware, and the UTC time it was made.

    `source` is the base as it was resolved. Raises `ModelError` if the base is missing.
    """
    family = recipe_of(plan.kind).family
    texts = family.texts(data, plan.options)
    rounds = rounds_of(plan.options)
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "base": {"reference": source.reference, **identity(source, texts)},
        "data": {
            "name": plan.data_name,
            "fingerprint": plan.fingerprint,
            "language": language_of(texts),  # empty: not known
            **family.about(data, plan.split, plan.options),
        },
        "split": asdict(plan.split),
        "options": asdict(plan.options),
        "seed": plan.options.seed,
        **{
            name: {"reference": reference, **identity(find_model(reference), texts)}
            for name, reference in plan.options.helpers.items()
        },
        **({"round": f"{plan.round}/{rounds}"} if rounds > 1 else {}),
        "marked_negatives": [list(pair) for pair in plan.marked_negatives],
        "versions": versions(LIBRARIES),
        "hardware": {**hardware(), "device": _device(), "bfloat16": uses_bfloat16(plan.options)},
    }


def in_precision_begun(options: Options, made: Mapping[str, Any]) -> Options:
    """Return the options with the precision that a run began in, unless it began on another device."""
    began, here = made.get("hardware", {}), hardware() | {"device": _device()}
    if options.precision is not Precision.AUTO or any(began.get(of) != here[of] for of in ("device", "gpus")):
        return options
    return replace(options, precision=Precision.BFLOAT16 if began["bfloat16"] else Precision.FLOAT32)


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
