"""What is worth knowing before a training starts: its time and memory, and the hard negatives it would use.

Both need models, so each is a job in `workspace/cache/rehearsals/<key>/`; what was worked out once is there the next
time.
"""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from data.cache import key_of
from data.workspace import workspace, write_text
from jobs.folder import Job
from text.analyzers import VERSION as ANALYZER_VERSION
from training.runs.runs import Plan

_DRAWN_BY = ("title", "seed")  # what decides which negatives are drawn, besides the options named so


class RehearsalTask(StrEnum):
    """What is worked out."""

    ESTIMATE = "estimate"
    NEGATIVES = "negatives"


@dataclass(frozen=True)
class Estimate:
    """What a training would take on this machine, measured by a few of its own steps.

    Seconds are of loading, teaching, training and measuring together; bytes are the most that the process holds at a
    time, and those it could have. `fits` says whether they suffice; where not, `instead` holds options that would do,
    empty where none were found.
    """

    steps: int
    seconds_a_step: float
    seconds_measuring: float
    seconds: float
    memory: int
    memory_available: int
    device: str
    fits: bool
    instead: dict[str, Any]
    seconds_teaching: float = 0.0  # that a teacher takes to score the examples
    seconds_loading: float = 0.0  # reading and mining


_ESTIMATE = TypeAdapter(Estimate)


@dataclass(frozen=True)
class Rehearsal(Job):
    """The job of one question about a planned training."""

    task: RehearsalTask

    @classmethod
    def of(cls, plan: Plan, task: RehearsalTask) -> "Rehearsal":
        """Return the rehearsal of a plan; it may not have been started yet."""
        options = asdict(plan.options)
        if task is RehearsalTask.NEGATIVES:
            options = {
                name: value for name, value in options.items() if name.startswith("negatives") or name in _DRAWN_BY
            }
        decides = [plan.kind, plan.fingerprint, asdict(plan.split), options, plan.marked_negatives]
        key = key_of(task, ANALYZER_VERSION, json.dumps(decides, sort_keys=True))[:24]
        return cls(workspace() / "cache" / "rehearsals" / key, task)

    @property
    def result(self) -> Path:
        return self.folder / ("estimate.json" if self.task is RehearsalTask.ESTIMATE else "negatives.parquet")

    @property
    def done(self) -> bool:
        """Whether its answer is there and can be read."""
        try:
            _ = self.estimate() if self.task is RehearsalTask.ESTIMATE else pq.read_metadata(self.result)
        except (OSError, ValueError):
            return False
        return True

    def estimate(self) -> Estimate:
        """Read the estimate. Raises `OSError` or `ValueError` where there is none that can be read."""
        return _ESTIMATE.validate_json(self.result.read_bytes())

    def negatives(self) -> pd.DataFrame:
        return pd.read_parquet(self.result)

    def problem(self) -> tuple[str, str]:
        """Return the code (a key of the locale files, `failure.<code>`) and the message of what went wrong."""
        status = self.status()
        return status.code or "unexpected", status.message or self.log()

    def start(self, plan: Plan) -> None:
        """Start the process. Raises `OSError` where the disk is full, and `LimitError` as `admit` does."""
        self.admit()
        write_text(self.folder / "run.json", plan.as_json())
        self.launch("training", "rehearse", self.task.value, self.folder)
