"""The training of a run: load, evaluate, train, evaluate, save. A resumed run continues from its checkpoint."""

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any, Self, TypeVar

import pandas as pd

from mrc_workbench.data.cache import seal
from mrc_workbench.data.jobs.folder import State, Status, StopRequested, run_job
from mrc_workbench.data.jobs.processes import hardware, versions
from mrc_workbench.data.problems import DataError, Failure
from mrc_workbench.data.text.languages import language_of
from mrc_workbench.data.workspace import is_disk_error, replacing, write_json, write_text
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.packaged import packaged_base
from mrc_workbench.models.sources import ModelSource, find_model, model_identity
from mrc_workbench.training.base import VALIDATION, Measurement, OnProgress, Recipe, Task, processes
from mrc_workbench.training.engine.adaptation import merge_adapters
from mrc_workbench.training.engine.checkpoints import get_step, load_weights, newest_checkpoint
from mrc_workbench.training.jobs import QUEUE, BestModelJob, best_checkpoint, finished_run_id
from mrc_workbench.training.options import (
    OptionError,
    RankerOptions,
    Report,
    TrainingError,
    TrainingOptions,
    uses_bfloat16,
)
from mrc_workbench.training.recipes import get_recipe
from mrc_workbench.training.results import write_card
from mrc_workbench.training.runs import Phase, Run, TrainingPlan, count_rounds, find_run

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_WRITES = 0.5  # of the progress
# messages of libraries and of torch on GPU and CPU
_DISK_MESSAGES = ("no space left on device", "i/o error", "disk quota exceeded", "file too large")
_MEMORY_MESSAGES = ("out of memory", "can't allocate memory")
R = TypeVar("R", bound=Run)
TaskWatcher = Callable[[Task], tuple[Task, list[Any]]]  # may wrap the task's evaluation, and adds trainer callbacks


class _Helper(Run):
    """The run in the other processes of `torchrun`: only the first one writes."""

    def write_status(self, status: Status) -> None: ...
    def add_progress(self, entry: dict[str, Any]) -> None: ...
    def write(self, name: str, content: object) -> None: ...
    def drop_progress_after(self, step: int) -> None: ...


def train(run: Run, *, sent_by_worker: bool = False) -> Status:
    """Wait for the queue, execute or resume a run in this process and return its status, which holds errors."""
    if int(os.environ.get("RANK", "0")) > 0:
        while run.status().state is not State.RUNNING:
            time.sleep(0.2)
        return execute(_Helper(run.folder))
    run.plan()
    return run_in_queue(run, execute, sent_by_worker=sent_by_worker)


def run_in_queue(run: R, work: Callable[[R], Status], *, sent_by_worker: bool = False) -> Status:
    """Wait for the run's turn in the queue, do its work, and return its status."""
    with QUEUE.turn(run, sent_by_worker=sent_by_worker) as has_turn:
        if has_turn:
            return work(run)
    if run.stop_requested and run.status().state is State.QUEUED:
        run.write_status(replace(run.status(), state=State.STOPPED))
    return run.status()


def execute(run: Run, watch: TaskWatcher | None = None) -> Status:
    """Execute a run in this process, without waiting for the queue, and return its status; see `train`."""

    def work(status: Status) -> None:
        scores = _run_training(run, status, watch)
        if not isinstance(run, _Helper):
            run.write("scores.json", scores | {"seconds": status.seconds + time.time() - status.started})
            write_card(run)

    return run_job(run, work, describe_error)


@dataclass(frozen=True)
class LoadedTraining:
    """A plan with its training data, its recipe and its base."""

    plan: TrainingPlan
    data: Any
    recipe: Recipe[Any, Any]
    source: ModelSource

    @classmethod
    def from_plan(cls, plan: TrainingPlan, on_progress: OnProgress | None = None, data: Any = None) -> Self:
        """Load the data and find the base; raises the errors of `load_training_data`, and `ModelError`."""
        training_data = load_training_data(plan, on_progress, data)
        recipe = get_recipe(plan.kind)(plan.options, training_data)
        return cls(plan, training_data, recipe, find_model(plan.options.base))

    def measure_base_once(self, run: Run) -> Measurement[Any]:
        """Evaluate the base, or read the stored measurement of a resumed run."""
        measurement: Measurement[Any] | None = self.data.read_measurement(run.base_measurement())
        if measurement is None:
            measurement = self.recipe.evaluate(self.source)
            run.write("before.json", measurement.to_dict())
        return measurement

    def build_task(self) -> Task:
        """Load and adapt the base with the seed of the plan; raises the errors of `Recipe.build_task`."""
        from transformers import set_seed

        set_seed(self.plan.options.seed)
        return self.recipe.build_task(self.source)


def load_training_data(plan: TrainingPlan, on_progress: OnProgress | None = None, data: Any = None) -> Any:
    """Return the training data of a plan. Raises `DataError` or `TrainingError` if it is missing or has changed."""
    family = get_recipe(plan.kind).family
    data = family.find(plan.data) if data is None else data
    if data.fingerprint != plan.fingerprint:
        raise TrainingError("data_changed", f"{plan.data_name} has changed since this training was planned")
    family.check(data, plan.options)
    return family.prepare_training_data(data, plan, on_progress)


def describe_error(error: BaseException) -> tuple[str, str]:
    """Return an error's code (`failure.<code>` in the locale files) and message."""
    message = str(error) or type(error).__name__
    if isinstance(error, Failure):
        return {DataError: "data", OptionError: "option"}.get(type(error), error.code), message
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", message
    lowered = message.lower()
    if is_disk_error(error) or any(phrases in lowered for phrases in _DISK_MESSAGES):
        return "disk", f"the disk is full or not writable: free space, and resume ({message})"
    if isinstance(error, MemoryError) or any(phrases in lowered for phrases in _MEMORY_MESSAGES):
        return "memory", message
    return "unexpected", message


def _run_training(run: Run, status: Status, watch: TaskWatcher | None) -> dict[str, Any]:
    """Load, evaluate, train, evaluate; returns the content of `scores.json`. Raises `StopRequested`."""

    def enter(phase: Phase) -> Status:
        if run.stop_requested:
            raise StopRequested
        previous = run.status()
        progress = previous.progress if previous.total_steps else 0.0  # of the steps, not of the previous phase
        current = replace(status, phase=phase, progress=progress, step=previous.step, total_steps=previous.total_steps)
        run.write_status(current)
        return current

    _write_base_in_background(run.plan().options.base)
    report_progress = _progress_writer(run, enter(Phase.LOADING))
    plan = run.plan()
    checkpoint = newest_checkpoint(run.folder)
    _check_plan(plan)
    data = get_recipe(plan.kind).family.find(plan.data)
    loaded = LoadedTraining.from_plan(plan, report_progress, data)
    run.drop_progress_after(get_step(checkpoint) if checkpoint else -1)
    measurements = loaded.data.baselines()
    enter(Phase.MEASURING_BEFORE)
    measurements["before"] = loaded.measure_base_once(run)
    if not checkpoint:
        for name, measurement in measurements.items():
            run.add_measures(name, measurement.means()["validation"])
            run.add_measures(f"{name}_training", measurement.means()["training"])
        run.write("provenance.json", provenance(plan, loaded.source, data) | _processes(plan))
    del data  # frees memory
    enter(Phase.MINING if plan.options.mines_negatives else Phase.PREPARING)
    task = loaded.build_task()
    run.write("provenance.json", run.provenance() | {"resolved_options": task.resolved_options} | task.metadata)
    if task.teacher:
        report_progress = _progress_writer(run, enter(Phase.LABELLING))
        task = task.with_labels(lambda teacher: teacher.labels(report_progress))
    watched_task, callbacks = watch(task) if watch else (task, [])
    best_step = _fit(run, watched_task, checkpoint, enter(Phase.TRAINING), callbacks)
    enter(Phase.MEASURING_AFTER)
    if isinstance(run, _Helper):
        return {}
    with replacing(run.model_folder) as new:
        _save_model(task.model, new)
    final_measurements, more_scores = loaded.recipe.evaluate_finished(run.model_folder)
    seal(run.model_folder)  # before the card, which is not part of the model
    measurements |= final_measurements
    _complete_curves(run, measurements["after"], best_step)
    scores: dict[str, Any] = loaded.data.summarize(measurements, plan.options)
    return scores | {"best_step": best_step} | more_scores


def _complete_curves(run: Run, after: Measurement[Any], best_step: int) -> None:
    """Log the finished model as the last point of the curves if the training had no evaluation."""
    if not any(name.startswith(f"eval_{VALIDATION}") for entry in run.progress() for name in entry):
        run.add_progress({"step": best_step, **{f"eval_{name}": value for name, value in after.metrics().items()}})


def _save_model(model: Any, folder: Path) -> None:
    merge_adapters(model)
    model.save_pretrained(str(folder), create_model_card=False)


def _write_base_in_background(base: str) -> Thread:
    """Write a packaged base to disk, without importing transformers, whose concurrent first imports fail."""

    def write() -> None:
        with suppress(ModelError, OSError):  # the training reports the error
            if packaged := packaged_base(base):
                packaged.write()

    thread = Thread(target=write, daemon=True)
    thread.start()
    return thread


def _progress_writer(run: Run, status: Status) -> OnProgress:
    """Return a function that writes the progress of a phase, and raises `StopRequested`."""
    written = -_SECONDS_BETWEEN_WRITES

    def write(progress: float) -> None:
        nonlocal written
        if run.stop_requested:
            raise StopRequested
        if progress == 1 or time.monotonic() - written >= _SECONDS_BETWEEN_WRITES:
            written = time.monotonic()
            run.write_status(replace(status, progress=progress))

    return write


def _check_plan(plan: TrainingPlan) -> None:
    report = plan.options.report_to
    reference = plan.options.base
    if report is not Report.NONE and find_spec(report.value) is None:
        message = f"{report.value} is not installed: `pip install {report.value}`, or report to none"
        raise TrainingError("no_reporter", message)
    if plan.round > 1 and not (find_run(reference) or Run(Path(reference))).model_folder.is_dir():
        raise TrainingError("round_before", f"the previous round, {reference}, has no model: resume it, then this one")


def _processes(plan: TrainingPlan) -> dict[str, Any]:
    if processes() == 1:
        return {}
    from mrc_workbench.training.recipes.losses import negatives_of_processes  # imports torch

    negatives = negatives_of_processes(plan.options)
    if negatives == "own":
        logger.warning("each process uses only the negatives of its part of the batch: a loss of smaller batches")
    return {"processes": {"count": processes(), "negatives": negatives}}


def _fit(run: Run, task: Task, checkpoint: Path | None, status: Status, callbacks: list[Any]) -> int:
    """Train the remaining steps; returns the best step, whose weights the task's model has afterwards."""
    from mrc_workbench.training.engine.speed import fast_steps
    from mrc_workbench.training.trainers import RunFolderCallback, make_trainer

    options = with_initial_precision(run.plan().options, run.provenance())
    if options.report_to is Report.TENSORBOARD:
        os.environ["TENSORBOARD_LOGGING_DIR"] = str(run.folder / "tensorboard")
    callback = RunFolderCallback(run, status, options, task.max_snapshots)
    trainer = make_trainer(task, options, run.folder / "checkpoints", [*callbacks, callback])
    with fast_steps(task.model, options, task.lower_states):
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    return int(trainer.state.best_global_step or trainer.state.global_step)


def mine_plan_negatives(plan: TrainingPlan) -> tuple[pd.DataFrame, int]:
    """Return a table of the hard negatives of a training, and the number of training questions."""
    from mrc_workbench.training.recipes.examples import mine_negatives, to_table

    if not isinstance(plan.options, RankerOptions):
        raise ValueError(f"the training of a {plan.kind} uses no hard negatives")
    training_data = load_training_data(plan)
    return to_table(mine_negatives(plan.options, training_data), training_data), len(training_data.train.questions)


def finish_from_best_checkpoint(run: Run) -> Run:
    """Turn the best checkpoint into a finished training, or return it if it exists. Raises `TrainingError`."""
    checkpoint = best_checkpoint(run)
    if checkpoint is None:
        raise TrainingError("no_checkpoint", f"{run.id} has no checkpoint yet")
    finished_run = Run(run.folder.with_name(finished_run_id(run, checkpoint)))
    if find_run(finished_run.id):
        return finished_run
    with replacing(finished_run.folder) as folder:
        folder.mkdir()
        _write_finished_run(run, checkpoint, Run(folder))
    return finished_run


def _write_finished_run(run: Run, checkpoint: Path, finished_run: Run) -> None:
    plan = run.plan()
    step = get_step(checkpoint)
    loaded = LoadedTraining.from_plan(plan)
    measurements = loaded.data.baselines() | {"before": loaded.measure_base_once(run)}
    model = loaded.build_task().model
    load_weights(model, checkpoint)
    _save_model(model, finished_run.model_folder)
    final_measurements, more_scores = loaded.recipe.evaluate_finished(finished_run.model_folder)
    scores = loaded.data.summarize(measurements | final_measurements, plan.options)
    finished_run.write("scores.json", scores | {"best_step": step, "seconds": run.status().total_seconds} | more_scores)
    finished_run.write("provenance.json", run.provenance() | {"checkpoint": {"run": run.id, "step": step}})
    for entry in run.progress():
        finished_run.add_progress(entry)
    status = replace(run.status(), state=State.DONE, step=step, seconds_left=None, phase="")
    status = replace(status, seconds=status.total_seconds, started=0.0, pid=0, pid_started=0.0, code="", message="")
    write_json(finished_run.folder / "status.json", asdict(status))
    write_text(finished_run.folder / "run.json", replace(plan, name=f"{plan.name} · {step}").to_json())
    write_card(finished_run)


def finish_as_job(run: Run) -> Status:
    """Execute a `BestModelJob` in this process, and return its status."""

    def work(_: Status) -> None:
        finish_from_best_checkpoint(run)

    return run_job(BestModelJob.for_run(run), work, describe_error)


# libraries that affect results; those that are not installed are omitted
_MODEL_LIBRARIES = ("torch", "transformers", "sentence-transformers", "accelerate", "tokenizers", "datasets", "peft")
LIBRARIES = (*_MODEL_LIBRARIES, "numba", "kiwipiepy", "numpy")


Options = TypeVar("Options", bound=TrainingOptions)


def provenance(plan: TrainingPlan, source: ModelSource, data: Any) -> dict[str, Any]:
    """Return base, data, split, options, versions, hardware and time as JSON. Raises `ModelError`."""
    family = get_recipe(plan.kind).family
    texts = family.texts(data, plan.options)
    rounds = count_rounds(plan.options)
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "base": {"reference": source.reference, **model_identity(source, texts)},
        "data": {
            "name": plan.data_name,
            "fingerprint": plan.fingerprint,
            "language": language_of(texts),  # empty if unknown
            **family.describe(data, plan.split, plan.options),
        },
        "split": asdict(plan.split),
        "options": asdict(plan.options),
        "seed": plan.options.seed,
        **{
            name: {"reference": reference, **model_identity(find_model(reference), texts)}
            for name, reference in plan.options.auxiliary_models.items()
        },
        **({"round": f"{plan.round}/{rounds}"} if rounds > 1 else {}),
        "marked_negatives": [list(pair) for pair in plan.marked_negatives],
        "versions": versions(LIBRARIES),
        "hardware": {**hardware(), "device": _device(), "bfloat16": uses_bfloat16(plan.options)},
    }


def with_initial_precision(options: Options, run_provenance: Mapping[str, Any]) -> Options:
    """Return the options with the precision at the start of the run, unless the device has changed."""
    initial_hardware = run_provenance.get("hardware", {})
    current_hardware = hardware() | {"device": _device()}
    has_moved = any(initial_hardware.get(name) != current_hardware[name] for name in ("device", "gpus"))
    if options.precision is not Precision.AUTO or has_moved:
        return options
    return replace(options, precision=Precision.BFLOAT16 if initial_hardware["bfloat16"] else Precision.FLOAT32)


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
