"""Jobs around trainings, and their queue.

Searches for settings and ablations consist of several trainings. A dry run estimates a training's time and memory, or
mines its hard negatives, before it starts; its result is in `workspace/cache/dry_runs/<key>/`. Another job turns the
best checkpoint of a stopped training into a finished one; the stopped one can still be resumed.
"""

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

import pandas as pd
import pyarrow.parquet as pq
from pydantic import BeforeValidator, TypeAdapter, ValidationError

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.files import accept_earlier_names
from mrc_workbench.data.jobs.folder import Job
from mrc_workbench.data.jobs.queue import Queue
from mrc_workbench.data.text.analyzers import VERSION as ANALYZER_VERSION
from mrc_workbench.data.text.languages import VERSION as LANGUAGES_VERSION
from mrc_workbench.data.workspace import read_json, read_number, workspace, write_text
from mrc_workbench.retrieval.significance import Interval
from mrc_workbench.training.engine.checkpoints import get_step, is_complete, newest_checkpoint
from mrc_workbench.training.options import TrainingOptions, with_current_names
from mrc_workbench.training.runs import Run, TrainingPlan, Trial, create_run, find_run, planned_runs

Outcome = TypeVar("Outcome")
ChangedOptions = Annotated[dict[str, Any], BeforeValidator(with_current_names)]


@dataclass(frozen=True, order=True)
class CompositeRun(Run):
    """A search for settings or an ablation, and the runs that are its parts, `workspace/runs/<id>-<name>/`."""

    result_name: ClassVar[str] = ""

    @property
    def result(self) -> Path:
        return self.folder / self.result_name

    def save_outcome(self, outcome: Any, *, is_partial: bool = False) -> None:
        self.write("partial.json" if is_partial else self.result_name, asdict(outcome))

    def _outcome(self, kind: type[Outcome]) -> Outcome | None:
        """Return the final or partial result; None if it is missing or damaged."""
        try:
            stored = self.read(self.result_name) or self.read("partial.json") or self.read("so_far.json")
            return TypeAdapter(kind).validate_python(stored)
        except ValidationError:
            return None

    def get_part(self, name: str) -> Run:
        return Run(self.folder.parent / f"{self.id}-{name}")

    def parts(self) -> list[Run]:
        """Return the parts that have started, by number."""
        begun = (find_run(path.parent.name) for path in self.folder.parent.glob(f"{self.id}-*/run.json"))

        def number(run: Run) -> int:
            trial = run.plan().trial
            return trial.number if trial else 0

        return sorted(filter(None, begun), key=lambda run: (number(run), run.id))

    def request_stop(self) -> None:
        super().request_stop()
        for part in self.parts():
            if part.status().is_running:
                part.request_stop()

    def delete(self) -> None:
        """Delete the folder and those of the parts. Raises `ValueError` while a part is running."""
        parts = self.parts()
        if any(part.status().is_running for part in parts):
            raise ValueError("a running part must be stopped before the whole is deleted")
        super().delete()
        for part in parts:
            part.delete()


DEFAULTS = 1  # the number of the trial with the default settings
ROUNDS = "rounds.json"  # of a trial, by fraction of the steps: the measures of each validation question


class SearchStage(StrEnum):
    """The current step of a search; with the number of the round, from 1: `trying_1`."""

    LOADING = "loading"
    ESTIMATING = "estimating"
    TRYING = "trying"


@dataclass(frozen=True)
class TrialResult:
    """A trial's last evaluation; the difference to the defaults is corrected for testing all trials together."""

    _earlier = accept_earlier_names({"changed": "changed_options", "share": "fraction"})
    number: int
    changed_options: ChangedOptions  # options that differ from the defaults
    fraction: float  # of the longest trial's length
    epochs: float
    steps: int
    value: float
    low: float
    high: float
    difference: float = 0.0  # that of the defaults to themselves
    difference_low: float = 0.0
    difference_high: float = 0.0
    p_family: float = 1.0
    loss: float | None = None  # over the last steps logged


@dataclass(frozen=True)
class SettingsSearchResult:
    """The `best` trial, and the `selected` one: the defaults unless the best is significantly better."""

    _earlier = accept_earlier_names({"chosen": "selected", "tried": "trials", "untried": "skipped"})
    measure: str
    questions: int  # validation questions
    untrained: float  # score of the base
    best: int
    selected: int
    trials: tuple[TrialResult, ...]
    failed: tuple[int, ...] = ()  # trials that ended with an error
    skipped: tuple[int, ...] = ()  # trials for which time was too short

    @property
    def changes(self) -> dict[str, Any]:
        """The options to change; empty if the defaults are selected."""
        return next(trial.changed_options for trial in self.trials if trial.number == self.selected)


@dataclass(frozen=True, order=True)
class SettingsSearch(CompositeRun):
    """The job of one search."""

    result_name = "settings.json"

    @property
    def outcome(self) -> SettingsSearchResult | None:
        return self._outcome(SettingsSearchResult)

    @property
    def minutes_needed(self) -> int:
        """Minutes that the shortest trials need, if the search had too few; else 0."""
        return int(read_number(self.read("search.json"), "minutes"))

    def trial(self, number: int) -> Run:
        return self.get_part(str(number))

    def create_trial(self, number: int, options: TrainingOptions, count: int) -> Run:
        trial = Trial(self.id, number, count)
        plan = replace(self.plan(), name=f"settings {number} of {count}", options=options, minutes=0.0, trial=trial)
        return create_run(plan, self.trial(number).folder, attended=True)


def create_search(plan: TrainingPlan, minutes: float, *, attended: bool = False) -> SettingsSearch:
    """Create and queue a search around a plan's options; see `create_run`."""
    return SettingsSearch(create_run(replace(plan, minutes=minutes), attended=attended).folder)


MEASURES = ("perplexity", "masked_accuracy", "next_accuracy", "spearman_before", "spearman", "ndcg@10")  # in order
REFERENCE = 1  # the number of the variant with which the others are compared
UNTRAINED = 0  # the number of the untrained base


class AblationStage(StrEnum):
    """The current step of an ablation, with the variant's number: `learning_1`."""

    LOADING = "loading"
    LEARNING = "learning"  # a language model
    TUNING = "tuning"  # fine-tuning a bi-encoder from the language model
    MEASURING = "measuring"


class VariantDifference(NamedTuple):
    """A difference to the reference; `low`, `high` and `p` are corrected for testing all variants together."""

    value: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Variant:
    """A variant's result. `is_comparable`: its perplexity is of the same masked tokens as the reference's."""

    _earlier = accept_earlier_names(
        {"alike": "is_comparable", "changed": "changed_options", "figures": "metrics", "tuned": "fine_tuned_run"}
    )
    number: int
    changed_options: ChangedOptions  # options that differ from the reference
    model: str = ""
    fine_tuned_run: str = ""
    is_comparable: bool = True
    metrics: dict[str, Interval] | None = None  # by measure; fractions except perplexity
    differences: dict[str, VariantDifference] | None = None
    code: str = ""  # of the error, and its message
    message: str = ""


@dataclass(frozen=True)
class AblationTable:
    """The variants in order, and the numbers of evaluated questions and pairs."""

    variants: tuple[Variant, ...]
    questions: int = 0
    pairs: int = 0

    @property
    def measures(self) -> list[str]:
        return [name for name in MEASURES if any(name in (variant.metrics or ()) for variant in self.variants)]


@dataclass(frozen=True, order=True)
class Ablation(CompositeRun):
    """The job of one ablation."""

    result_name = "table.json"

    @property
    def table(self) -> AblationTable | None:
        return self._outcome(AblationTable)


def create_ablation(plan: TrainingPlan, experiment: dict[str, Any], *, attended: bool = False) -> Ablation:
    """Create and queue an ablation around a plan; see `create_run`."""
    return Ablation(create_run(replace(plan, ablation=experiment), attended=attended).folder)


def all_jobs() -> list[Run]:
    """Return searches and ablations, then trainings, newest first."""
    return [_as_job(run, plan) for run, plan in sorted(planned_runs(), key=lambda planned: planned[1].is_training)]


def load_job(folder: Path) -> Run:
    """Return the job in a folder. Raises `OSError` or `ValueError` if the folder holds no job."""
    return _as_job(Run(folder), Run(folder).plan())


def find_job(job_id: str) -> Run | None:
    """Return the workspace's job with this id, or None."""
    run = find_run(job_id)
    return load_job(run.folder) if run else None


def _as_job(run: Run, plan: TrainingPlan) -> Run:
    if plan.is_training:
        return run
    return Ablation(run.folder) if plan.ablation else SettingsSearch(run.folder)


QUEUE = Queue("runs", all_jobs)


class DryRunTask(StrEnum):
    """The result of a dry run."""

    ESTIMATE = "estimate"
    NEGATIVES = "negatives"


@dataclass(frozen=True)
class Estimate:
    """Time and memory of a training on this machine, estimated from a few of its steps.

    Seconds cover loading, labelling, training and evaluation under the load of the machine at that time. Memory is the
    peak of the process and the available bytes. If it does not fit, `suggested_options` holds changes that make it fit,
    or is empty. `is_rough`: no whole batch was timed.
    """

    steps: int
    seconds_per_step: float
    seconds_evaluating: float
    seconds: float
    memory: int
    memory_available: int
    device: str
    fits: bool
    suggested_options: dict[str, Any]
    seconds_labelling: float = 0.0  # of the teacher
    seconds_loading: float = 0.0  # with mining
    is_rough: bool = False
    other_load: float = 0.0  # fraction of the processors that other programs used meanwhile
    seconds_alone: float = 0.0  # expected on an idle machine


@dataclass(frozen=True)
class DryRunJob(Job):
    """The job of one dry run of a planned training."""

    task: DryRunTask

    @classmethod
    def for_plan(cls, plan: TrainingPlan, task: DryRunTask) -> "DryRunJob":
        options = asdict(plan.options)
        if task is DryRunTask.NEGATIVES:
            used = {"title", "seed"}
            options = {name: value for name, value in options.items() if name.startswith("negatives") or name in used}
        inputs = [plan.kind, plan.fingerprint, asdict(plan.split), options, plan.marked_negatives]
        key = key_of(task, ANALYZER_VERSION, LANGUAGES_VERSION, json.dumps(inputs, sort_keys=True))[:24]
        return cls(workspace() / "cache" / "dry_runs" / key, task)

    @property
    def result(self) -> Path:
        return self.folder / ("estimate.json" if self.task is DryRunTask.ESTIMATE else "negatives.parquet")

    @property
    def done(self) -> bool:
        try:
            if self.task is DryRunTask.ESTIMATE:
                self.estimate()
            else:
                pq.read_metadata(self.result)
        except (OSError, ValueError):
            return False
        return True

    def estimate(self) -> Estimate:
        """Read the estimate. Raises `OSError` or `ValueError` if it is missing or damaged."""
        return TypeAdapter(Estimate).validate_json(self.result.read_bytes())

    def negatives(self) -> pd.DataFrame:
        return pd.read_parquet(self.result)

    def problem(self) -> tuple[str, str]:
        """Return the error's code (`failure.<code>` in the locale files) and message."""
        status = self.status()
        return status.code or "unexpected", status.message or self.log()

    def start(self, plan: TrainingPlan) -> None:
        self.admit()
        write_text(self.folder / "run.json", plan.to_json())
        self.launch("internal", "dry-run", self.task.value, self.folder)


def best_checkpoint(run: Run) -> Path | None:
    """Return the complete checkpoint with the best evaluation, or the newest if none was evaluated."""
    newest = newest_checkpoint(run.folder)
    if newest is None:
        return None
    step = int(read_number(read_json(newest / "trainer_state.json"), "best_global_step"))  # of all steps so far
    best = newest.with_name(f"checkpoint-{step}")
    return best if step and is_complete(best) else newest


@dataclass(frozen=True, order=True)
class BestModelJob(Job):
    """The job that turns a run's best checkpoint so far into a finished training; its folder is in the run's."""

    @classmethod
    def for_run(cls, run: Run) -> "BestModelJob":
        return cls(run.folder / "best_checkpoint")

    @property
    def run(self) -> Run:
        return Run(self.folder.parent)

    @property
    def result(self) -> Path:
        checkpoint = best_checkpoint(self.run)
        return self.run.folder.with_name(finished_run_id(self.run, checkpoint) if checkpoint else "none") / "run.json"

    @property
    def finished_run(self) -> Run | None:
        return find_run(self.result.parent.name)

    def start(self) -> None:
        self.admit()
        self.launch("internal", "best-checkpoint", self.run.folder)


def finished_run_id(run: Run, checkpoint: Path) -> str:
    """Return the id of the finished training of a checkpoint."""
    return f"{run.id}-step-{get_step(checkpoint)}"
