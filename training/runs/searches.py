"""Searches for settings: jobs beside the trainings, in `workspace/runs/<id>/`, that try several settings out.

Besides what every job's folder holds: `run.json` (a training with the settings to begin from), `search.json` (what is
tried, and how long) and `settings.json` (what came out; `so_far.json` until then). Each trial is a run of its own.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from data.workspace import number_in
from training.options.common import TrainingOptions
from training.runs.parts import Whole
from training.runs.runs import Plan, Run, Trial, create_run, planned_runs

DEFAULTS = 1  # the number of the trial with the settings to begin from


class Stage(StrEnum):
    """What a search is doing; of its trials it says the round, too: `trying_1`, from 1."""

    LOADING = "loading"
    ESTIMATING = "estimating"
    TRYING = "trying"


@dataclass(frozen=True)
class Tried:
    """What a trial came to on the validation questions, at the last point where it was measured.

    `value` is the mean of the measure with its interval `low` to `high`; `difference` that to the defaults after the
    same share of their training. Its interval and `p_family` allow for all trials being tested together.
    """

    number: int
    changed: dict[str, Any]  # options that differ from the defaults
    share: float  # of the longest trial's length
    epochs: float
    steps: int
    value: float
    low: float
    high: float
    difference: float
    difference_low: float
    difference_high: float
    p_family: float
    loss: float | None  # over the last steps logged


@dataclass(frozen=True)
class Findings:
    """What a search found: `best` is the number of the trial that came to most, `chosen` the one to be used.

    The defaults are chosen unless the best trial can be told apart from them.
    """

    measure: str
    questions: int  # of validation
    untrained: float  # what the base reaches
    best: int
    chosen: int
    tried: tuple[Tried, ...]
    failed: tuple[int, ...] = ()  # trials that ended with an error
    untried: tuple[int, ...] = ()  # those that time was too short for

    @property
    def changes(self) -> dict[str, Any]:
        """The options to change; none where the defaults stay."""
        return next(one.changed for one in self.tried if one.number == self.chosen)


_FINDINGS = TypeAdapter(Findings)


@dataclass(frozen=True, order=True)
class Search(Whole):
    """The job of one search."""

    @property
    def result(self) -> Path:
        """What came out."""
        return self.folder / "settings.json"

    @property
    def found(self) -> Findings | None:
        """What came out, or what is known so far; None before anything is, and where it cannot be read."""
        try:
            return _FINDINGS.validate_python(self.read("settings.json") or self.read("so_far.json"))
        except ValidationError:
            return None

    @property
    def minutes_needed(self) -> int:
        """How many minutes the shortest trials would take, where those given were too few; else 0."""
        return int(number_in(self.read("search.json"), "minutes"))

    def trial(self, number: int) -> Run:
        """Return the run of a trial; it may not have been begun, or be deleted."""
        return self.part(str(number))

    def create_trial(self, number: int, options: TrainingOptions, count: int) -> Run:
        """Make the run folder of a trial, for this process to carry out."""
        trial = Trial(self.id, number, count)
        plan = replace(self.plan(), name=f"settings {number} of {count}", options=options, minutes=0.0, trial=trial)
        return create_run(plan, self.trial(number).folder, attended=True)


def create_search(plan: Plan, minutes: float, *, attended: bool = False) -> Search:
    """Make the folder of a search around a plan's options; it stands in line at once, see `create_run`."""
    return Search(create_run(replace(plan, minutes=minutes), attended=attended).folder)


def all_searches() -> list[Search]:
    """Searches of the workspace, newest first."""
    return [Search(run.folder) for run, plan in planned_runs() if plan.minutes]
