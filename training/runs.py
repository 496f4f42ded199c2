"""Plans and runs: jobs that train, each in a folder `workspace/runs/<id>/`.

Besides the files of every job, the folder holds `run.json` (the plan), `provenance.json` (base, revision, versions,
hardware), `checkpoints/`, `model/` and `scores.json` (before and after). Searches for settings and ablations have
folders in the same place.

In a training in rounds, each round starts from the model of the previous one, which also mines its hard negatives: the
simple form of ANCE (Xiong et al. 2021). Each round is a separate run in the queue.
"""

import json
import logging
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, FiniteFloat, ValidationError

from mrc_workbench.data.files import current_names
from mrc_workbench.data.jobs.folder import Job, State, Status
from mrc_workbench.data.jobs.processes import this_process
from mrc_workbench.data.problems import require_library
from mrc_workbench.data.questions.judgements import load_remarks
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.workspace import read_only_workspace, workspace, write_text
from mrc_workbench.training.options import EARLIER_NAMES, NegativesFrom, TrainingOptions, current_options
from mrc_workbench.training.ranker_options import BiEncoderObjective, BiEncoderOptions
from mrc_workbench.training.recipes import default_base, get_recipe

logger = logging.getLogger(__name__)


class Phase(StrEnum):
    """The current phase of a running training."""

    LOADING = "loading"
    PREPARING = "preparing"
    MINING = "mining"  # replaces PREPARING if hard negatives are mined
    LABELLING = "labelling"
    MEASURING_BEFORE = "measuring_before"
    TRAINING = "training"
    MEASURING_AFTER = "measuring_after"


@dataclass(frozen=True)
class Trial:
    """A training's position in a search, which cuts it short, or in an ablation; number 1 is the reference."""

    parent_id: str  # of the search or the ablation
    number: int
    count: int
    is_complete: bool = False


@dataclass(frozen=True)
class TrainingPlan:
    """Everything that determines the result of a training, and its name."""

    kind: str  # a key of `training.recipes.RECIPES`
    name: str
    data: str  # a stored set's key, or a file
    data_name: str
    fingerprint: str
    split: SplitOptions
    options: TrainingOptions
    created: str
    marked_negatives: tuple[tuple[str, str], ...] = ()  # ids of question and passage, marked at planning time
    round: int = 1  # number of the round, from 1
    minutes: float = 0.0  # time limit of a search for settings; 0: a training
    trial: Trial | None = None
    ablation: dict[str, Any] | None = None  # the experiment file of an ablation

    @property
    def is_training(self) -> bool:
        return not (self.minutes or self.ablation)

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, indent=2) + "\n"


# keys of stored JSON files by their names in earlier versions
_EARLIER_SCORES = {
    "judged_by": "best_by",
    "judged_on": "evaluation_set",
    "kept_step": "best_step",
    "made_questions": "synthetic_questions",
    "mixed_gain": "interpolated_gain",
    "rules": "normalization",
}
_EARLIER_PROVENANCE = {
    "": {"made": "created", "settled": "resolved_options"},
    "answers": {"mended": "corrected", "lost": "missing"},
    "data": {
        "judged_on": "evaluation_set",
        "judged_on_fingerprint": "evaluation_set_fingerprint",
        "made_questions": "synthetic_questions",
        "rules": "normalization",
    },
    "options": EARLIER_NAMES,
}
_EARLIER_TRIAL = {"search": "parent_id", "whole": "is_complete"}


class _StoredGain(BaseModel):
    measure: str
    interval: tuple[FiniteFloat, FiniteFloat]


class _StoredSample(BaseModel):
    before: dict[str, FiniteFloat]
    after: dict[str, FiniteFloat]
    gain: _StoredGain
    questions: int


class _StoredScores(BaseModel):
    """The parts of `scores.json` that pages read; earlier versions lack some."""

    before: dict[str, FiniteFloat] = {}
    after: dict[str, FiniteFloat] = {}
    interpolated: dict[str, FiniteFloat] = {}
    bm25: dict[str, FiniteFloat] = {}
    intervals: dict[str, dict[str, tuple[FiniteFloat, FiniteFloat]]] = {}
    gain: _StoredGain | None = None
    interpolated_gain: _StoredGain | None = None
    weight: FiniteFloat = 0.0
    questions: int = 0
    seconds: FiniteFloat = 0.0
    training_sample: _StoredSample | None = None
    best_step: int = 0


@dataclass(frozen=True, order=True)
class Run(Job):
    """The job of one training."""

    can_save = True

    @property
    def result(self) -> Path:
        """The model card, which is written last."""
        return self.model_folder / "README.md"

    @property
    def model_folder(self) -> Path:
        return self.folder / "model"

    def plan(self) -> TrainingPlan:
        """Read the plan. Raises `OSError` or `ValueError` if the folder holds no run."""
        try:
            return _parse_plan(json.loads((self.folder / "run.json").read_text(encoding="utf-8")))
        except (KeyError, TypeError, AttributeError, RecursionError) as error:  # JSON, but not of a plan
            raise ValueError(f"{self.folder / 'run.json'} is damaged: {error!r}") from error

    def add_measures(self, name: str, measures: dict[str, float]) -> None:
        """Log measures before the first step as `<name>_<measure>`."""
        self.add_progress({"step": 0, **{f"{name}_{measure}": value for measure, value in measures.items()}})

    def scores(self) -> dict[str, Any]:
        """Read the metrics before and after; empty until the run is done, or if they are damaged."""
        scores = current_names(self.read("scores.json"), _EARLIER_SCORES, "scores.json")
        try:
            _StoredScores.model_validate(scores)
        except ValidationError as error:
            logger.warning("%s is damaged: %s", self.folder / "scores.json", error)
            return {}
        return scores

    def provenance(self) -> dict[str, Any]:
        """Read the base, data, options, versions and hardware of the run; empty before it starts."""
        provenance = current_names(self.read("provenance.json"), _EARLIER_PROVENANCE[""], "provenance.json")
        for section, renamed in _EARLIER_PROVENANCE.items():
            if isinstance(provenance.get(section), dict):
                provenance[section] = current_names(provenance[section], renamed, "provenance.json")
        return provenance

    def base_measurement(self) -> dict[str, Any]:
        """Read the measurement of the base; empty before it is measured."""
        return current_names(self.read("before.json"), {"judge": "evaluation_key"}, "before.json")

    def delete(self) -> None:
        """Delete the folder. Raises `ValueError` while the run is running or its process is starting."""
        status = self.status()
        if status.is_running or (status.state is State.QUEUED and status.is_process_alive and not self.stop_requested):
            raise ValueError("a running training must be stopped before it is deleted")
        # deleted first: if the process is killed here, the rest does not look like a run
        (self.folder / "run.json").unlink(missing_ok=True)
        shutil.rmtree(self.folder)


def create_run(plan: TrainingPlan, folder: Path | None = None, *, attended: bool = False) -> Run:
    """Create and queue a run in the workspace or in `folder`; if `attended`, this process executes it."""
    require_library("accelerate", "training")
    if not folder:
        moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        name = re.sub(r"[^A-Za-z0-9]+", "-", plan.name).strip("-").lower()[:30]
        run_id = "-".join(part for part in (moment, name or plan.kind, secrets.token_hex(2)) if part)
        folder = workspace() / "runs" / run_id
    run = Run(folder)
    if run.folder.is_file() or (run.folder.exists() and any(run.folder.iterdir())):
        raise ValueError(f"{run.folder} is not an empty folder; name a new one")
    run.folder.mkdir(parents=True, exist_ok=True)
    pid, pid_started = this_process() if attended else (0, 0.0)
    run.write_status(Status(queued=datetime.now(UTC).timestamp(), pid=pid, pid_started=pid_started))
    write_text(run.folder / "run.json", plan.to_json())
    return run


def all_runs() -> list[Run]:
    """Return the trainings of the workspace, newest first, including trials."""
    return [run for run, plan in planned_runs() if plan.is_training]


def planned_runs() -> list[tuple[Run, TrainingPlan]]:
    """Return all plans of the workspace, newest first: trainings, searches for settings, and ablations."""
    return [(run, plan) for run in _find_runs(workspace()) if (plan := _read_plan(run))]


def damaged_runs() -> list[Run]:
    """Return runs of the workspace with a damaged `run.json`."""
    return [run for run in _find_runs(workspace()) if not _read_plan(run)]


def find_run(run_id: str) -> Run | None:
    """Return the workspace's run with this id, or None. The id may come from a URL, so paths are rejected."""
    run = Run(workspace() / "runs" / run_id)
    return run if run.id == run_id and _read_plan(run) else None


def shared_runs() -> dict[Run, TrainingPlan]:
    """Return finished trainings of the shared workspace, newest first, which users cannot change."""
    plans = {run: plan for run in _find_runs(read_only_workspace()) if (plan := _read_plan(run))}
    return {run: plan for run, plan in plans.items() if run.status().state is State.DONE}


def find_model_run(run_id: str) -> Run | None:
    """Return the run with this id of the workspace or the shared workspace, or None."""
    return find_run(run_id) or next((run for run in shared_runs() if run.id == run_id), None)


def find_run_in_folder(folder: Path) -> Run | None:
    """Return the run in any folder, or None."""
    run = Run(folder.absolute())
    return run if _read_plan(run) else None


def new_plan(
    kind: str, name: str, data: tuple[str, str, str], split: SplitOptions, options: TrainingOptions
) -> TrainingPlan:
    """Return a plan with the current time and marked negatives; `data` is its reference, name and fingerprint."""
    reference, data_name, fingerprint = data
    created = datetime.now(UTC).isoformat(timespec="seconds")
    marked = load_remarks(fingerprint).negatives
    return TrainingPlan(kind, name, reference, data_name, fingerprint, split, options, created, marked)


def _find_runs(root: Path | None) -> list[Run]:
    return [Run(path.parent) for path in sorted((root / "runs").glob("*/run.json"), reverse=True)] if root else []


def _read_plan(run: Run) -> TrainingPlan | None:
    try:
        return run.plan()
    except (OSError, ValueError):
        return None


def _parse_plan(raw: dict[str, Any]) -> TrainingPlan:
    options = get_recipe(raw["kind"]).options
    option_names = {field.name for field in fields(options)}
    stored = current_options({"windows": False} | raw["options"])  # earlier versions cut passages off
    text_fields = {name: raw[name] for name in ("kind", "name", "data", "data_name", "fingerprint", "created")}
    if invalid_fields := [name for name, value in text_fields.items() if not isinstance(value, str)]:
        raise TypeError(f"no text: {', '.join(invalid_fields)}")
    datetime.fromisoformat(text_fields["created"])
    return TrainingPlan(
        split=SplitOptions(**{"strict": True} | raw["split"]),  # all splits of earlier versions are strict
        options=options(**{name: value for name, value in stored.items() if name in option_names}),
        marked_negatives=tuple((question, passage) for question, passage in raw.get("marked_negatives", [])),
        round=int(raw.get("round", 1)),
        minutes=float(raw.get("minutes", 0.0)),
        trial=Trial(**current_names(raw["trial"], _EARLIER_TRIAL, "run.json")) if raw.get("trial") else None,
        ablation=dict(raw["ablation"]) if raw.get("ablation") else None,
        **text_fields,
    )


def count_rounds(options: TrainingOptions) -> int:
    """Return the number of rounds."""
    return options.rounds if isinstance(options, BiEncoderOptions) else 1


def create_rounds(plan: TrainingPlan, folder: Path | None = None, *, attended: bool = False) -> list[Run]:
    """Create the runs of all rounds, see `create_run`; several rounds are subfolders of `folder`."""
    options = plan.options
    rounds = count_rounds(options)
    if rounds == 1 or not isinstance(options, BiEncoderOptions):
        return [create_run(plan, folder, attended=attended)]
    runs: list[Run] = []
    for number in range(1, rounds + 1):
        round_plan = replace(plan, name=f"{plan.name} · {number}/{rounds}", options=options, round=number)
        runs.append(create_run(round_plan, folder and folder / f"round-{number}", attended=attended))
        options = options_of_next_round(str(runs[-1].folder.resolve()) if folder else runs[-1].id, options)
    return runs


def options_of_next_round(model: str, options: BiEncoderOptions) -> BiEncoderOptions:
    """Return options that continue from a model, which also mines the hard negatives (with BM25 for HYBRID)."""
    negatives_from = NegativesFrom.HYBRID if options.negatives_from is NegativesFrom.HYBRID else NegativesFrom.DENSE
    is_gist = options.objective is BiEncoderObjective.GIST
    is_mega_batch = options.objective is BiEncoderObjective.MEGA_BATCH_MARGIN
    return replace(
        options,
        base=model,
        objective=BiEncoderObjective.MULTIPLE_NEGATIVES if is_mega_batch else options.objective,
        guide=options.guide or options.base if is_gist else options.guide,  # the same in all rounds
        negatives=options.negatives or 4,
        negatives_from=negatives_from,
        negatives_model=model,
    )


def plan_training(
    kind: str, reference: str, name: str, split_options: SplitOptions, selected_options: Mapping[str, Any]
) -> TrainingPlan:
    """Return a plan; missing options get the defaults of the base. Raises `DataError` and `OptionError`."""
    selected_options = current_options(selected_options)
    recipe = get_recipe(kind)
    data = recipe.family.find(reference)
    options = recipe.options
    if evaluation_set := selected_options.get("evaluation_set"):
        selected_options = {**selected_options, "evaluation_set": absolute_reference(evaluation_set)}
    defaults = options.defaults_for(selected_options.get("base", default_base(kind)))
    objective = selected_options.get("objective", defaults.objective)
    changes = options.defaults_for_objective(objective) | {**selected_options}
    if changes.get("lora_rank"):
        changes = {"frozen_layers": 0} | changes  # LoRA freezes all weights
    planned = replace(defaults, **changes)
    recipe.family.check(data, planned)
    data_fields = (absolute_reference(reference), data.name, data.fingerprint)
    return new_plan(kind, name or kind, data_fields, split_options, planned)


def absolute_reference(reference: str) -> str:
    """Return a file's absolute path, since a worker may run elsewhere; other references are unchanged."""
    return str(Path(reference).resolve()) if Path(reference).is_file() else reference
